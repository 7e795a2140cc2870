"""Who has the turn to write that another process waited for in vain: for the error that says so."""

from __future__ import annotations

import os

from leftoff.clock import SYSTEM, iso
from leftoff.errors import StoreUnavailable
from leftoff.host import shown, text_of

STOPPED = "Tt"  # states of a process that goes on only when it is told to


def held_by_another(path: str, fd: int) -> StoreUnavailable:
    """The error for the lock at ``path``, which is open at ``fd``: which process has it, doing what, since when."""
    pid, since, doing = _signed(fd)
    holder = _locked_by(fd) if shown() else None
    if holder is not None and holder != pid:  # whoever has it did not sign
        pid, since, doing = holder, None, text_of(f"/proc/{holder}/comm")
    who = f"process {pid}" + (f" (`{doing}`)" if doing else "") if pid else "another process"
    begun = f", since {iso(since)} ({(SYSTEM.now() - since) // 1000} s)" if since else ""
    seen = bool(pid) and (holder == pid or _has_open(pid, fd))  # else it is a pid of another container
    state = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] if seen else []
    return StoreUnavailable(
        f"The store {os.path.dirname(path)} is locked by {who}{begun}.",
        hint=_advice(pid, stopped=bool(state) and state[0] in STOPPED),
    )


def _advice(pid: int | None, *, stopped: bool) -> str:
    if stopped:
        return f"Nothing was changed. That process is stopped: `kill -CONT {pid}` lets it continue."
    return (
        "Nothing was changed. Try again when it is done; `lock_timeout` in leftoff.toml, or LEFTOFF_LOCK_TIMEOUT, "
        "says how long to wait."
    )


def _signed(fd: int) -> tuple[int | None, int | None, str]:
    """What the last one who took the lock wrote into it."""
    try:
        pid, since, doing = os.pread(fd, 500, 0).partition(b"\n")[0].decode("utf-8", "replace").split(" ", 2)
        return int(pid), int(since), doing
    except (OSError, ValueError):
        return None, None, ""


def _has_open(pid: int | None, fd: int) -> bool:
    """Whether a process that we see has the file at ``fd`` open."""
    try:
        ours = os.readlink(f"/proc/self/fd/{fd}")
        names = os.listdir(f"/proc/{pid}/fd") if shown() else []
        return any(os.readlink(f"/proc/{pid}/fd/{name}") == ours for name in names)
    except OSError:
        return False


def _locked_by(fd: int) -> int | None:
    """The process that has an exclusive flock on the file, where the system tells (Linux)."""
    facts = os.fstat(fd)
    place = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
    for line in text_of("/proc/locks").splitlines():
        words = line.split()
        if words[1:2] == ["FLOCK"] and words[3:4] == ["WRITE"] and words[5:6] == [place]:
            return int(words[4]) if int(words[4]) > 0 else None
    return None
