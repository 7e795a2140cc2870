"""What a commit asks of the kernel, read from strace."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.remote import side

CALLS = "trace=fsync,fdatasync,sync_file_range,pwrite64,pwritev,write"
MARK = re.compile(r'write\(\d+</dev/null>, "(commit|end)')
SYNC = re.compile(r"\b(fsync|fdatasync|sync_file_range)\(\d+<")
WRITE = re.compile(r"\bpwrite64\(\d+<([^>]*)>, .*, (\d+), (\d+)(?:\)| <unfinished)")


@dataclass
class Commit:
    """The syncs and WAL bytes of one commit, and whether a WAL checkpoint or restart was part of it."""

    syncs: int = 0
    wal: int = 0
    checkpointed: bool = False


def commits(target: str, folder: Path, size: int) -> list[Commit]:
    """Run a side's marked commits under strace."""
    if shutil.which("strace") is None:
        raise RuntimeError("strace is not installed; this case cannot be measured without it")
    log = folder / "strace.log"
    prefix = ["strace", "-f", "-y", "-s", "16", "-e", CALLS, "-e", "signal=none", "-o", str(log)]
    with side(target, folder, prefix) as remote:
        remote.call("marked", size=size)
    with log.open(encoding="utf-8", errors="replace") as lines:
        found = list(parse(lines))
    if len(found) != size:
        raise RuntimeError(f"{size} commits were made but the trace shows {len(found)}")
    return found


def parse(lines: Iterable[str]) -> Iterator[Commit]:
    """The commits between the marks; what happens outside them is not counted."""
    current: Commit | None = None
    for line in lines:
        if mark := MARK.search(line):
            if current is not None:
                yield current
            current = Commit() if mark[1] == "commit" else None
        elif current is not None:
            account(current, line)


def account(commit: Commit, line: str) -> None:
    """Add one call. A write to the database file is a WAL checkpoint, a write to the start of the WAL a restart.

    leftoff also writes the commit number to its lock file. That write is not synced and not counted.
    """
    if SYNC.search(line):
        commit.syncs += 1
    elif (write := WRITE.search(line)) is not None:
        path, size, offset = write[1], int(write[2]), int(write[3])
        if path.endswith("-wal"):
            commit.wal += size
            commit.checkpointed = commit.checkpointed or offset == 0
        elif path.endswith(".db"):
            commit.checkpointed = True
