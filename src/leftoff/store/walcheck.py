"""A damaged WAL is silent: SQLite reads up to the first bad frame and forgets the rest. This looks behind it.

A torn last transaction is no damage: it was never acknowledged. Damage is certain where the shared-memory index says
that frames behind the bad one were committed, or where two or more commits lie behind it: the second of them began
only after the first was synced.
"""

from __future__ import annotations

import os
import struct

import apsw

from leftoff.store.connection import PAGE_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER, FRAME = 32, 24
TRIES = 3


class WalReport:
    """What was found in a WAL file."""

    __slots__ = ("bad_frame", "commits_behind", "frames", "offset", "valid")

    def __init__(self) -> None:
        self.frames = 0  # of this generation of the log, good or bad
        self.valid = 0  # before the first bad one
        self.bad_frame = 0  # its number, from 1; 0 where there is none
        self.offset = 0
        self.commits_behind = 0

    @property
    def damaged(self) -> bool:
        return self.bad_frame > 0


def _sum(data: bytes, order: str, state: tuple[int, int]) -> tuple[int, int]:
    a, b = state
    for x, y in struct.iter_unpack(f"{order}II", data):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return a, b


def _indexed(head: bytes, salts: bytes) -> int:
    """The number of committed frames that the shared-memory index knows of, for this generation of the log."""
    if len(head) < 96 or head[:48] != head[48:96] or head[32:40] != salts:
        return 0
    return int(struct.unpack("=I", head[16:20])[0])


_kept: dict[tuple[int, int], int] = {}


def _index_head(shm: str) -> bytes:
    """The start of the index. SQLite's locks are on that file, and a process that closes any descriptor of a file loses
    all its locks on it: while a connection of ours is open, so stays the descriptor."""
    try:
        facts = os.stat(shm)
        key = (facts.st_dev, facts.st_ino)
        fd = _kept.pop(key) if key in _kept else os.open(shm, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, 96, 0)
    finally:
        if any(db.filename == shm[: -len("-shm")] for db in apsw.connections()):
            _kept[key] = fd
        else:
            os.close(fd)


def _frames(data: bytes, size: int) -> Iterator[tuple[int, bytes, bytes]]:
    for offset in range(HEADER, len(data) - FRAME - size + 1, FRAME + size):
        yield offset, data[offset : offset + FRAME], data[offset + FRAME : offset + FRAME + size]


def inspect(path: str) -> WalReport:
    """Read ``path`` (a ``-wal`` file) without SQLite. Opening it drops no lock: those are on other files.

    A writer may restart the log while it is being read, so damage counts once it was seen more than once.
    """
    for _ in range(TRIES):
        report = _inspect(path)
        if not report.damaged:
            break
    return report


def _inspect(path: str) -> WalReport:
    report = WalReport()
    index = _index_head(_shm(path))  # before the log: what it knows of must be there
    data = _read(path)
    if len(data) < HEADER:
        return report
    start = _start(data)
    if start is None:
        report.frames = (len(data) - HEADER) // (FRAME + PAGE_SIZE)
        report.bad_frame = 1 if any(data) else 0
        return report
    size, order, state = start
    _walk(report, data, size, order, state)
    indexed = _indexed(index, data[16:24])
    first_bad = report.valid + 1
    if report.commits_behind >= 2 or indexed >= first_bad:
        report.bad_frame = first_bad
        report.offset = HEADER + report.valid * (FRAME + size)
        report.frames = max(report.frames, indexed)
    return report


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _start(data: bytes) -> tuple[int, str, tuple[int, int]] | None:
    """Page size, byte order and first sums of a log; ``None`` where its header is damaged."""
    magic, _, size, _ = struct.unpack(">IIII", data[:16])
    order = ">" if magic & 1 else "<"
    state = _sum(data[:24], order, (0, 0))
    sound = magic & 0xFFFFFFFE == 0x377F0682 and struct.pack(">II", *state) == data[24:32]
    return (size, order, state) if sound else None


def committed(path: str) -> tuple[dict[int, bytes], int]:
    """The newest committed pages of the sound part of a log, and how many pages the database has after it (0: no log)."""
    data = _read(path)
    start = _start(data) if len(data) >= HEADER else None
    pages: dict[int, bytes] = {}
    count = 0
    if start is None:
        return pages, count
    report = WalReport()
    _walk(report, data, *start)
    fresh: dict[int, bytes] = {}
    for number, (_, head, page) in enumerate(_frames(data, start[0]), 1):
        if number > report.valid:
            break
        page_number, after = struct.unpack(">II", head[:8])
        fresh[page_number] = page
        if after:
            pages.update(fresh)
            fresh, count = {}, after
    return pages, count


def _walk(report: WalReport, data: bytes, size: int, order: str, state: tuple[int, int]) -> None:
    """Count the sound frames, and what carries this generation's salts behind them."""
    salts, sound = data[16:24], True
    for number, (_, head, page) in enumerate(_frames(data, size), 1):
        ours = head[8:16] == salts
        if sound:
            state = _sum(head[:8] + page, order, state)
            sound = ours and struct.pack(">II", *state) == head[16:24]
            report.valid = number if sound else report.valid
        if ours:
            report.frames = number
            if not sound:
                report.commits_behind += head[4:8] != b"\0\0\0\0"


def _shm(path: str) -> str:
    return path[: -len("-wal")] + "-shm"
