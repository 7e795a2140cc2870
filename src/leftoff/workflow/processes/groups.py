"""Who belongs to an attempt, whether anybody of it lives, and how it is ended, by whoever has only its record.

The record is the identity of the shim, which leads a session: everything in that session is the attempt, its own
process group and those that the command made inside. The number of a session is not given to another process while a
member lives, so a session without its leader is still known by it. Session 0 is no session: that is how Linux shows
one whose leader lives outside of a container, and strangers share it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from leftoff.errors import CannotResume
from leftoff.host import ALIVE, GONE, scope, start_of, started
from leftoff.workflow.processes.job import Exit
from leftoff.workflow.processes.signals import STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.host import Process

ROUND_S, ROUNDS = 0.002, 500  # how long, at most, is waited for what was killed
NO_SESSION = 0  # whose leader cannot be seen from here
NEAR = 256  # so many pids are asked one by one; for more, all that exist are listed


def check_seen() -> None:
    """``CannotResume`` where the system does not show processes: what a step leaves behind could not be found, nor
    whether it still runs."""
    if not started(os.getpid()):
        foreign = os.path.exists("/proc/self")
        proc = "/proc is of another pid namespace" if foreign else "/proc is not mounted"
        what = proc if sys.platform == "linux" else "`ps` does not answer"
        raise CannotResume(
            f"Steps cannot be executed here: this system does not show its processes ({what}).",
            hint="Nothing was started. Mount it (`mount -t proc proc /proc`), or work outside of this sandbox.",
        )


def members(session: int) -> list[int]:
    """The live processes of a session, its leader included; zombies do not count."""
    if session == NO_SESSION:
        return []
    if sys.platform == "linux":
        pids = (int(name) for name in os.listdir("/proc") if name[0] in "123456789")
        return [pid for pid in pids if _session(pid) == session and start_of(pid) != ""]
    return [pid for pid in _listed() if _session(pid) == session]


def recent(first: int, session: int) -> list[int]:
    """The live members of a session among ``first``, started a moment ago, and those who were started since.

    Linux counts its pids up, so there are few to ask about; where it does not look like that, all are listed.
    """
    last = _last_pid()
    if session != NO_SESSION and first <= last <= first + NEAR:
        return [pid for pid in range(first, last + 1) if _session(pid) == session and start_of(pid) != ""]
    return [pid for pid in members(session) if pid != session]


def just_made(pid: int) -> bool:
    """Whether the system's count of pids is where it must be if this one was given a moment ago."""
    return pid <= _last_pid() <= pid + NEAR


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return NO_SESSION


def _last_pid() -> int:
    """The pid that was given last, or 0 where that cannot be told."""
    try:
        fd = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(fd, 200).split()[4])
        finally:
            os.close(fd)
    except (OSError, ValueError, IndexError):
        return 0


def _listed() -> list[int]:
    """Every process but zombies, where there is no /proc."""
    import subprocess

    out = subprocess.run(
        ["ps", "-axo", "pid=,stat="], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    words = [line.split() for line in out.stdout.splitlines()]
    return [int(pid) for pid, state, *_ in words if not state.startswith("Z")]


def signal_all(pids: Iterable[int], number: int, session: int | None = None) -> None:
    """Signal processes; with a session, only those that are its own still: a pid may be another's by now."""
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
    """A pidfd; -1 where the process is gone, or where there is no such thing (an old kernel), or none is left."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1


def alive(process: Process, folder: str | None = None) -> bool:
    """Whether anything of an attempt still runs; True where that cannot be seen from here.

    With the attempt's folder, one whose end is written down is over, even if its shim has taken another job.
    """
    if process.state() == GONE and not _left(process):
        return False
    return folder is None or Exit.of(folder) is None


def _left(process: Process) -> list[int]:
    """Who is left of an attempt whose shim is dead."""
    if process.scope != scope() or started(process.pid):
        return []  # another boot; or the pid is another process's by now, so nobody of the session is left
    return members(process.pid)


def terminate(process: Process) -> None:
    """Ask for the end: the shim sends SIGTERM, after the job's grace SIGKILL, and records the exit."""
    if not _send(process, STOP):
        left = _left(process)
        signal_all(left, signal.SIGTERM, process.pid)
        signal_all(left, signal.SIGCONT, process.pid)


def kill(process: Process) -> None:
    """End everything at once, the shim too: how the attempt ended will not be known."""
    for _ in range(ROUNDS):
        if process.state() == ALIVE:
            # The shim is still there, so the number is still its session's; it goes last.
            others = [pid for pid in members(process.pid) if pid != process.pid]
            signal_all(others, signal.SIGKILL, process.pid)
            _send_group(process.pid)
        else:
            signal_all(_left(process), signal.SIGKILL, process.pid)
        if process.scope != scope() or not alive(process):
            return
        time.sleep(ROUND_S)


class Rest:
    """Whoever is in an attempt beside its shim and us, who are its command: told to end, and killed if they do not.

    A program may be a launcher and a child. Where the launcher alone was killed, or minds no SIGTERM, the child goes on
    with the work, and must not while another one begins with it.
    """

    def __init__(self, first: int, grace: float) -> None:
        self._first = first  # the process that we started
        self._grace = grace
        self.told: float | None = None  # when they were told

    def end(self) -> bool:
        """Tell them, once; kill them where the grace is over. Whether nobody is left."""
        left, now = self._left(), time.monotonic()
        if left and self.told is None:
            self.told = now
            signal_all(left, signal.SIGTERM)
            signal_all(left, signal.SIGCONT)
        elif left and self.told is not None and now - self.told > self._grace:
            signal_all(left, signal.SIGKILL)
        return not left

    def wait(self) -> None:
        """End them, and come back when they have ended, or when nothing would end them."""
        last = time.monotonic() + self._grace + ROUND_S * ROUNDS
        while not self.end() and time.monotonic() < last:
            time.sleep(ROUND_S * 10)

    def _left(self) -> list[int]:
        session = os.getsid(0)
        if session == NO_SESSION or os.getpgrp() != session:  # no shim started us: the session is not ours
            return [self._first] if started(self._first) else []
        return [pid for pid in members(session) if pid not in (session, os.getpid())]


def _send_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def _send(process: Process, number: int) -> bool:
    """Signal the shim itself, if it is alive, and never another process that has its pid by now."""
    fd = handle(process)
    try:
        if fd is not None:
            signal.pidfd_send_signal(fd, number)
        elif process.state() == ALIVE:
            os.kill(process.pid, number)
        else:
            return False
    except OSError:
        return False
    finally:
        if fd is not None:
            os.close(fd)
    return True


def handle(process: Process) -> int | None:
    """A pidfd of the shim; None where it is dead, or where there is no such thing."""
    fd = _open(process.pid)
    if fd < 0:
        return None
    if process.state() == ALIVE:  # so it is the one that was opened
        return fd
    os.close(fd)
    return None


class Watch:
    """Waits for an attempt that another driver started, or whose shim was lost.

    ``fileno()`` becomes readable when the shim has ended; it is None where that cannot be waited for. Either way, ask
    ``ended()`` then and from time to time: what the shim left behind ends without notice.
    """

    def __init__(self, process: Process, folder: str) -> None:
        self.process = process
        self.folder = folder
        self._fd = handle(process)

    def fileno(self) -> int | None:
        return self._fd

    def ended(self) -> bool:
        """Whether its end is written down, or the shim is gone and nothing is left of its session."""
        return not alive(self.process, self.folder)

    def exit(self) -> Exit | None:
        """How it ended, once it has; None where nobody wrote it down."""
        return Exit.of(self.folder)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
