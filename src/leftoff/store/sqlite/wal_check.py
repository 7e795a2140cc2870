"""A damaged WAL is silent: SQLite reads up to the first bad frame and forgets the rest. This looks behind it.

A torn tail is no damage: what was not synced when the power went was never acknowledged. Damage is certain where

- one wrong byte explains the bad frame: no torn write looks like that;
- the shared-memory index, written since this machine was started, knows the bad frame as committed;
- more commits lie behind it than are ever made without a sync in between (starts of steps and beats are not synced),
  and the database itself does not have them already.
"""

from __future__ import annotations

import os
import struct
import time

import apsw

from leftoff.store.sqlite.pages import USABLE, PageFile
from leftoff.store.sqlite.wal import HEADER, STEP, Log

TRIES = 3  # a writer may restart the log while it is being read
UNSYNCED = 16  # more commits than are ever made without a sync


class WalReport:
    """What was found in a WAL file."""

    __slots__ = ("bad_frame", "frames", "offset", "valid")

    def __init__(self, log: Log) -> None:
        self.frames = log.frames  # of this generation of the log, good or bad
        self.valid = log.valid  # before the first bad one
        self.bad_frame = 0  # its number, from 1; 0 where there is none
        self.offset = 0

    @property
    def damaged(self) -> bool:
        return self.bad_frame > 0


def inspect(path: str) -> WalReport:
    """Read ``path`` (a ``-wal`` file) without SQLite. Opening it drops no lock: those are on other files."""
    for _ in range(TRIES):
        report = _inspect(path)
        if not report.damaged:
            break
    return report


def _inspect(path: str) -> WalReport:
    index = _index_head(path[: -len("-wal")] + "-shm")  # before the log: what it knows of must be there
    log = Log(read(path))
    report = WalReport(log)
    if not log.header_sound:
        if len(log.data) >= HEADER and any(log.data):
            report.bad_frame, report.frames = 1, (len(log.data) - HEADER) // STEP
        return report
    indexed = _indexed(index, log.salts)
    if (
        log.flipped()
        or indexed > log.valid
        or (log.commits_behind > UNSYNCED and not _begins_again(path, log))
    ):
        report.bad_frame = log.valid + 1
        report.offset = HEADER + log.valid * STEP
        report.frames = max(log.frames, indexed)
    return report


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


def _indexed(head: bytes, salts: bytes) -> int:
    """The number of committed frames that the shared-memory index knows of, for this generation of the log."""
    if len(head) < 96 or head[:48] != head[48:96] or head[32:40] != salts:
        return 0
    return int(struct.unpack("=I", head[16:20])[0])


_kept: dict[tuple[int, int], int] = {}


def _may_be_on(db: apsw.Connection, path: str) -> bool:
    """Whether a connection of this process is on that database; one that is busy in another thread does not say."""
    try:
        return db.filename == path
    except apsw.ThreadingViolationError:
        return True


def _index_head(shm: str) -> bytes:
    """The start of the index, if it is of this machine's present life.

    SQLite's locks are on that file, and a process that closes any descriptor of a file loses all its locks on it: while
    a connection of ours is open, so stays the descriptor.
    """
    try:
        facts = os.stat(shm)
        if facts.st_mtime < _started():
            return b""
        key = (facts.st_dev, facts.st_ino)
        fd = _kept.pop(key) if key in _kept else os.open(shm, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, 96, 0)
    finally:
        if any(_may_be_on(db, shm[: -len("-shm")]) for db in apsw.connections()):
            _kept[key] = fd
        else:
            os.close(fd)


def _started() -> float:
    """When this machine was started; a little too late where sleeping does not count."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.time() - time.clock_gettime(clock)
