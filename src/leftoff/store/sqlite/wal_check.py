"""A damaged WAL is silent: SQLite reads up to the first bad frame and forgets the rest. This looks behind it.

A torn tail is no damage: what was not synced when the power went was never acknowledged. Damage is certain where

- one wrong byte explains the bad frame: no torn write looks like that;
- the log's index, written since this machine was started, knows the bad frame as committed; SQLite builds it anew for
  whoever comes first, so what it knew of a damaged log is written down beside it;
- more commits lie behind it than can be torn, and the database itself does not have them already. Within one life of
  the machine only the last commit can be torn; when the power goes, also starts of steps and beats: not synced each.
"""

from __future__ import annotations

import os
import struct
import time

from leftoff.errors import Corrupt
from leftoff.store.sqlite import connection
from leftoff.store.sqlite.connection import NOTE
from leftoff.store.sqlite.pages import USABLE, PageFile
from leftoff.store.sqlite.wal import HEADER, STEP, Log

TRIES = 3  # a writer may restart the log while it is being read
AHEAD_S = 2.0  # a file's time may be that far ahead of the clock
UNSYNCED = 16  # more commits than are ever made without a sync
_COPY = (
    "Nothing was changed. Make a copy of the folder; `leftoff fsck --repair` then keeps what can be proved."
)
_NOTED = struct.Struct(">8sI")  # the log's salts, the number of frames that its index knew


class WalReport:
    """What was found in a WAL file."""

    __slots__ = ("bad_frame", "commits", "frames", "gone", "offset", "valid")

    def __init__(self, log: Log) -> None:
        self.gone = not log.data
        self.frames = log.frames  # of this generation of the log, good or bad
        self.valid = log.valid  # before the first bad one
        self.commits = log.commits_behind  # that can still be seen behind it
        self.bad_frame = 0  # its number, from 1; 0 where there is none
        self.offset = 0

    @property
    def damaged(self) -> bool:
        return self.bad_frame > 0

    def message(self) -> str:
        lost = self.frames - self.valid - 1
        if self.gone:
            return f"The log is gone, with {self.frames} frame(s) or more that were committed."
        return f"Frame {self.bad_frame} of the log is damaged; SQLite forgets it and the {lost} frame(s) behind it."


def refuse_damage(path: str, before: tuple[bytes, float]) -> None:
    """Raise where SQLite, which has just read the log of the database at ``path``, forgot commits in it."""
    for _ in range(TRIES):
        read_by_sqlite = connection.committed_frames(connection.index_now(path))
        found = _inspect(path + "-wal", read(path + "-wal"), before, read_by_sqlite)
        if not found.damaged:
            forget_note(path)
            return
    raise Corrupt(
        f"{path}-wal at byte {found.offset}: {found.message()} What was committed there would be lost.",
        where=f"{path}-wal at byte {found.offset}",
        hint=_COPY,
    )


def refuse_older(path: str, newest: int, marked: int) -> None:
    """Raise: the database at ``path``, with its log, is at one commit, and was at another. Nothing is written down of
    that: whoever puts the right one back has a whole store."""
    error = Corrupt(
        f"{path} is at commit {newest}, and was at {marked}: its log is gone or cut, an older copy was put back, or "
        "this is a copy that was made file by file while others wrote.",
        where=path,
        hint=_COPY,
    )
    error.older = True
    raise error


def inspect(path: str) -> WalReport:
    """Read ``path`` (a ``-wal`` file) without SQLite. Opening it drops no lock: those are on other files."""
    base = path[: -len("-wal")]
    for _ in range(TRIES):
        with connection.opening:
            index = (b"", 0.0) if connection.is_open(base) else connection.index_left(base)
            data = read(path)
            connection.let_go(base)
        report = _inspect(path, data, index)
        if not report.damaged:
            break
    return report


def _inspect(path: str, data: bytes, index: tuple[bytes, float], read_by_sqlite: int = 0) -> WalReport:
    log = Log(data, read_by_sqlite)
    report = WalReport(log)
    known = _known(path, index, log)
    there = max((len(log.data) - HEADER) // STEP, 0)
    if known > log.valid or (any(log.data) and _is_damaged(path, log)):
        report.bad_frame = log.valid + 1
        report.offset = HEADER + log.valid * STEP if log.header_sound else 0
        report.frames = max(known, log.frames if log.header_sound else there)
    if known > log.valid:
        note(path, log.salts, known)
    return report


def _is_damaged(path: str, log: Log) -> bool:
    if not log.header_sound:
        return len(log.data) >= HEADER
    return log.flipped() or _too_many_behind(path, log)


def _too_many_behind(path: str, log: Log) -> bool:
    most = 1 if _since_start(os.stat(path).st_mtime) else UNSYNCED
    return log.commits_behind > most and not _begins_again(path, log)


def read(path: str) -> bytes:
    """A log's bytes; none where there is no log."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _begins_again(path: str, log: Log) -> bool:
    """Whether a log was copied back and is about to begin again: its first frame may be torn, and nothing is lost."""
    if log.valid:
        return False
    with PageFile(path[: -len("-wal")]) as file:
        return is_copied_back(file, log)


def is_copied_back(file: PageFile, log: Log) -> bool:
    """Whether the database has every page of the log as the log has it last, of the bad frame apart."""
    newest = {
        f.page_number: f.page for f in log.all_frames() if f.number != log.valid + 1 and f.salts == log.salts
    }
    # A page gets its checksum only when it is copied back.
    return all(file.read(number)[:USABLE] == page[:USABLE] for number, page in newest.items())


def _known(path: str, index: tuple[bytes, float], log: Log) -> int:
    """The number of frames that the log's index knows as committed, or knew before it was built anew."""
    head, written = index
    same = log.salts in (head[32:40], b"")  # none: the log is gone
    known = [connection.needed_frames(head)] if same and _since_start(written) else []
    try:
        with open(path[: -len("-wal")] + NOTE, "rb") as file:
            salts, frames = _NOTED.unpack(file.read(_NOTED.size))
        known += [frames] if log.salts in (salts, b"") else []
    except (OSError, struct.error):
        pass
    return max(known, default=0)


def note(path: str, salts: bytes, known: int) -> None:
    """Write down what the index knew, before it is forgotten; where nothing can be written, nothing is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        fd = os.open(path[: -len("-wal")] + NOTE, flags, 0o600)
        try:
            os.write(fd, _NOTED.pack(salts, known))
        finally:
            os.close(fd)
    except OSError:
        pass


def forget_note(path: str) -> None:
    """The log of the database at ``path`` was repaired, or is another one by now. Most often there is no note; and a
    folder that takes nothing, which says that first, can be read all the same."""
    try:
        os.unlink(path + NOTE)
    except OSError:
        pass


def _since_start(moment: float) -> bool:
    """Whether that was since this machine was started; a little too late where sleeping does not count."""
    clock, now = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC), time.time()
    return now - time.clock_gettime(clock) <= moment <= now + AHEAD_S
