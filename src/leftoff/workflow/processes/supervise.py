"""The course of one command, from its start until nothing of it is left: output, time, the end of it all."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from time import monotonic

from leftoff.workflow.processes.groups import just_made, members, recent, signal_all
from leftoff.workflow.processes.job import NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.workflow.processes.job import Order
    from leftoff.workflow.processes.shim import Log
    from leftoff.workflow.processes.signals import Bell

CHUNK = 1 << 16
MOST_LEFT = 1 << 20  # what may be in a pipe at the end; a daemon that goes on writing is not waited for
MOMENT_S = 1.0  # in so short a time, pids cannot have come round
LOOK_S = 0.05  # how often those are looked for that end without notice
UNKILLABLE_S = 5.0
TERM, KILL, CONT = int(signal.SIGTERM), int(signal.SIGKILL), int(signal.SIGCONT)


class Course:
    """Made and run in the shim, whose session it fills."""

    def __init__(self, order: Order, log: Log, bell: Bell) -> None:
        self._order = order
        self._log = log
        self._bell = bell
        self._me = os.getpid()
        self._pid = self._output = 0
        self._status: int | None = None  # of the command, once it ended
        self._began = 0.0
        self._deadline: float | None = None  # of its timeout; then of the time between SIGTERM and SIGKILL
        self._look = 0.0
        self._counted = self._ending = self._timed_out = self._stopped = False
        self._killed_at: float | None = None
        self.left: list[int] = []  # who could not be ended

    def run(self) -> Exit:
        if self._bell.stop:
            return Exit(128 + TERM, TERM, at=now(), stopped=True)
        self._output, there = os.pipe()
        os.set_blocking(self._output, False)
        self._began = monotonic()
        if self._order.timeout is not None:
            self._deadline = self._began + self._order.timeout
        try:
            self._pid = spawn(self._order, there)
        except Refused as refused:
            self._log.note(refused.why)
            return Exit(refused.code, at=now(), error=refused.why)
        finally:
            os.close(there)
            os.chdir("/")
        self._counted = just_made(self._pid)  # a made-up /proc would be behind
        self._follow()
        self._drain()
        return self._exit()

    def _follow(self) -> None:
        """Until the command has ended, and with it everything that it started."""
        output, bell = self._output, self._bell.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while True:
            for fd, _ in poll.poll(self._patience()):
                if fd == bell:
                    self._bell.quiet()
                    self._reap()
                elif not self._read():
                    poll.unregister(output)
            if self._log.due is not None and monotonic() >= self._log.due:
                self._log.flush()
            if self._status is not None and self._over():
                return
            self._keep_time()

    def _patience(self) -> float | None:
        """Milliseconds until there is something to do by the clock."""
        first = self._deadline
        if self._log.due is not None and (first is None or self._log.due < first):
            first = self._log.due
        if self._status is not None:  # those who are left end without notice
            self._look = min(LOOK_S, self._look * 2 or 0.001)
            look = monotonic() + self._look
            first = look if first is None else min(first, look)
        return None if first is None else max(0.0, first - monotonic()) * 1000

    def _read(self) -> bool:
        """False at the end of the pipe."""
        try:
            data = os.read(self._output, CHUNK)
        except BlockingIOError:
            return True
        if data:
            self._log.add(data)
        return bool(data)

    def _drain(self) -> None:
        """What is in the pipe, and not what a daemon may still write."""
        for _ in range(MOST_LEFT // CHUNK):
            try:
                data = os.read(self._output, CHUNK)
            except BlockingIOError:
                break
            if not data:
                break
            self._log.add(data)
        os.close(self._output)

    def _reap(self) -> None:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = status

    def _others(self) -> list[int]:
        """Who is left beside the shim."""
        if self._counted and monotonic() - self._began < MOMENT_S:
            return recent(self._pid, self._me)
        return [pid for pid in members(self._me) if pid != self._me]

    def _over(self) -> bool:
        """Whether, the command having ended, nobody is left; those who are get SIGTERM."""
        others = self._others()
        if self._killed_at is not None and monotonic() > self._killed_at + UNKILLABLE_S:
            self.left = others
            return True
        if others and not self._ending:
            self._terminate(others)
        return not others

    def _keep_time(self) -> None:
        """Send the signals that are due."""
        if self._bell.stop and not self._ending and self._status is None:
            self._stopped = True
            self._terminate(self._others())
        if self._deadline is None or monotonic() < self._deadline:
            return
        if self._ending:
            self._kill()
        elif self._status is None:
            self._timed_out = True
            self._terminate(self._others())

    def _terminate(self, others: list[int]) -> None:
        """SIGTERM to everybody; to those who are stopped it comes once they go on."""
        self._ending = True
        self._deadline = monotonic() + self._order.grace
        elsewhere = [pid for pid in others if _group(pid) != self._me]
        for number in (TERM, CONT):
            os.killpg(self._me, number)  # at once, so that nobody forks out of it; the shim does not mind
            signal_all(elsewhere, number)

    def _kill(self) -> None:
        signal_all(self._others(), KILL)
        self._killed_at = self._killed_at or monotonic()
        self._deadline = monotonic() + LOOK_S  # again, for what was forked meanwhile

    def _exit(self) -> Exit:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        number = -code if code < 0 else TERM if self._stopped else None
        if self._timed_out:
            code = TIMED_OUT
        elif code <= 0 and number is not None:
            code = 128 + number
        return Exit(code, number, self._timed_out, now(), None, self._stopped)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def now() -> int:
    return time.time_ns() // 1_000_000


# Whatever the shim ignores, and whoever started the driver ignored, the command must not.
_DEFAULT = sorted({int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP})
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


class Refused(Exception):
    """The command could not be executed: the exit code for that, and why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


def spawn(order: Order, output: int) -> int:
    """The pid of the command, in the caller's process group, with stdout and stderr going to ``output``."""
    _enter(order.cwd)
    name = order.argv[0] if order.argv else b""
    refused = Refused(NOT_FOUND, f"{_shown(name)}: command not found")
    for path in _candidates(name, order.env.get(b"PATH", os.defpath.encode())):
        try:
            return os.posix_spawn(
                path,
                order.argv,
                order.env,
                file_actions=(
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ),
                setsigmask=(),
                setsigdef=_DEFAULT,
            )
        except OSError as error:
            if error.errno not in _ABSENT or os.path.exists(path):
                refused = Refused(NOT_EXECUTABLE, _why_not(path, error))
        except ValueError as error:  # a NUL, or a name of a variable with = in it
            raise Refused(NOT_EXECUTABLE, f"{_shown(name)}: cannot be executed: {error}") from None
    raise refused


def _enter(folder: bytes) -> None:
    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        why = os.strerror(number) if number else str(error)
        code = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
        raise Refused(code, f"the working folder {_shown(folder)} cannot be entered: {why}") from None


def _candidates(name: bytes, path: bytes) -> list[bytes]:
    if b"/" in name:
        return [name]
    places = (os.path.join(place or b".", name) for place in path.split(b":"))
    return [place for place in places if name and os.path.isfile(place)]


def _why_not(path: bytes, error: OSError) -> str:
    why = os.strerror(error.errno or 0)
    if error.errno in _ABSENT:
        why = "the interpreter in its first line does not exist"
    elif error.errno == errno.ENOEXEC:
        why = "it is no program, and has no first line (#!) that names an interpreter"
    elif error.errno == errno.EACCES:
        why = "it is a folder" if os.path.isdir(path) else "permission denied (is it executable?)"
    return f"{_shown(path)}: cannot be executed: {why}"


def _shown(name: bytes) -> str:
    return name[:200].decode("utf-8", "replace")
