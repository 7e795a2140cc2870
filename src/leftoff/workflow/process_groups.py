"""Who belongs to an attempt, whether anything of it is alive, and how to end it, given only its record.

The record is the identity of the shim, which leads a session. Everything in that session belongs to the attempt: the
shim's process group and the groups that the command made inside. The number of a session is not given to another
process while a member is alive, so a session is known by it even without its leader. Session 0 is not a session: Linux
shows it if the leader lives outside of a container, and unrelated processes share it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from leftoff.errors import CannotResume
from leftoff.host import ALIVE, GONE, UNKNOWN, Process, scope, start_of, started
from leftoff.workflow.attempt_folder import STOP, AttemptFolder

if TYPE_CHECKING:
    from leftoff.store.rows import Attempt

ROUND_S, ROUNDS = 0.002, 500  # how long to wait for killed processes
LOOK_S = 0.02
NO_SESSION = 0  # the leader cannot be seen from here


def check_seen() -> None:
    """Raise ``CannotResume`` if the system does not show processes: a step that still runs could not be found."""
    if not started(os.getpid()):
        foreign = os.path.exists("/proc/self")
        proc = "/proc is of another pid namespace" if foreign else "/proc is not mounted"
        what = proc if sys.platform == "linux" else "`ps` does not answer"
        raise CannotResume(
            f"Steps cannot be executed here: this system does not show its processes ({what}).",
            hint="Nothing was started. Mount it (`mount -t proc proc /proc`), or work outside of this sandbox.",
        )


def members(session: int) -> list[int]:
    """Return the live processes of a session, its leader included, zombies excluded."""
    if session == NO_SESSION:
        return []
    if sys.platform == "linux":
        pids = (int(name) for name in os.listdir("/proc") if name[0] in "123456789")
        return [pid for pid in pids if _session(pid) == session and start_of(pid) != ""]
    return [pid for pid in _listed() if _session(pid) == session]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return NO_SESSION


def _listed() -> list[int]:
    """Return all processes but zombies, on systems without /proc."""
    import subprocess

    out = subprocess.run(
        ["ps", "-axo", "pid=,stat="], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    words = [line.split() for line in out.stdout.splitlines()]
    return [int(pid) for pid, state, *_ in words if not state.startswith("Z")]


def signal_all(pids: Iterable[int], number: int, session: int | None = None) -> None:
    """Signal processes. With a session, only those that still belong to it: a pid may have been reused."""
    for pid in pids:
        fd = -1
        try:
            fd = _open(pid) if session is not None else -1
            if session is not None and (session == NO_SESSION or _session(pid) != session):
                continue
            if fd < 0:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(fd, number)
        except OSError:  # gone meanwhile, or another user's (sudo)
            pass
        finally:
            if fd >= 0:
                os.close(fd)


def _open(pid: int) -> int:
    """Return a pidfd; -1 if the process is gone or the system has no pidfds left."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def alive(process: Process, folder: AttemptFolder | None = None) -> bool:
    """Return whether anything of an attempt still runs; True if that cannot be seen from here.

    With the attempt's folder, an attempt with a recorded exit is over, even if its shim has taken another job.
    """
    if process.state() == GONE and not _left(process):
        return False
    return folder is None or folder.exit() is None


def attempt_folder_of(attempt: Attempt, store_folder: str) -> AttemptFolder:
    """Return the folder of a recorded attempt."""
    if not attempt.log:
        from leftoff.store.rows import misplaced  # the launcher and the shims do without it

        raise misplaced(f"an attempt at {attempt.step}")
    return AttemptFolder(os.path.join(store_folder, attempt.log))


def lives(attempt: Attempt, store_folder: str) -> bool:
    """Return whether something of an attempt runs on this machine. Its shim may serve another one by now."""
    process = attempt.process
    if process is None or process.state() == UNKNOWN or attempt_folder_of(attempt, store_folder).exit():
        return False
    return alive(process)


def _left(process: Process) -> list[int]:
    """Return the processes of an attempt whose shim is dead."""
    if process.scope != scope() or started(process.pid):
        return []  # another boot, or the pid was reused, so the session is empty
    return members(process.pid)


def terminate(process: Process) -> None:
    """Ask the shim to end its command: SIGTERM, after the job's grace SIGKILL. It records the exit."""
    if not send_signal(process, STOP):
        left = _left(process)
        signal_all(left, signal.SIGTERM, process.pid)
        signal_all(left, signal.SIGCONT, process.pid)


def kill(process: Process) -> None:
    """Kill everything, the shim too. How the attempt ended will not be known."""
    for _ in range(ROUNDS):
        if process.state() == ALIVE:
            # While the shim lives, the number is its session's. So it is killed last.
            others = [pid for pid in members(process.pid) if pid != process.pid]
            signal_all(others, signal.SIGKILL, process.pid)
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            signal_all(_left(process), signal.SIGKILL, process.pid)
        if process.scope != scope() or not alive(process):
            return
        time.sleep(ROUND_S)


def end_processes(processes: list[Process], grace: float) -> None:
    """Ask them to end. Kill those that have not after the grace period."""
    left = processes
    for process in left:
        terminate(process)
    deadline = time.monotonic() + grace + LOOK_S  # the shims keep the same time, and can say how it ended
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_S)
        left = [process for process in left if alive(process)]
    for process in left:
        kill(process)


class Rest:
    """Ends the other processes of the attempt whose command this process is.

    A program may start a child for the work. If only the program was killed, the child continues, and must not while
    another attempt begins.
    """

    def __init__(self, first: int, grace: float) -> None:
        self._first = first  # the process that we started
        self._grace = grace
        self.told: float | None = None  # when they were asked to end

    def end(self) -> bool:
        """Send SIGTERM once, and SIGKILL after the grace period. Return whether none is left."""
        left, now = self._left(), time.monotonic()
        if left and self.told is None:
            self.told = now
            signal_all(left, signal.SIGTERM)
            signal_all(left, signal.SIGCONT)
        elif left and self.told is not None and now - self.told > self._grace:
            signal_all(left, signal.SIGKILL)
        return not left

    def wait(self) -> None:
        """End them, and wait until they have ended or cannot be ended."""
        last = time.monotonic() + self._grace + ROUND_S * ROUNDS
        while not self.end() and time.monotonic() < last:
            time.sleep(ROUND_S * 10)

    def _left(self) -> list[int]:
        session = os.getsid(0)
        if session == NO_SESSION or os.getpgrp() != session:  # not started by a shim: the session is not ours
            return [self._first] if started(self._first) else []
        return [pid for pid in members(session) if pid not in (session, os.getpid())]


def send_signal(process: Process, number: int) -> bool:
    """Signal a process if it is alive, never another one with its pid. Return whether that was possible."""
    fd = _open(process.pid)
    try:
        if process.state() != ALIVE:
            return False
        if fd < 0:
            os.kill(process.pid, number)
        else:  # it was opened before the look, so it is of this process
            signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True
