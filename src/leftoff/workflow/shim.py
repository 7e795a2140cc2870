"""The process between a driver and a command: it waits for the word to go, runs the command and records its end.

The order of its steps is what makes it safe. It leads its own session before anybody hears of it, so a signal that ends
the driver does not end it. It reports who it is and waits for the driver's one byte, or for the end of the channel:
then the attempt was not recorded and must not run. It writes ``exit`` when nothing of the attempt runs any more but
itself, so a reader of ``exit`` may start the next attempt.

The driver commits the end durably. So the shim syncs the exit only if there is no driver, or if the driver dies before
it can have committed: it sends a shim the next word to go only after that.

A shim is forked from the launcher and never executes another program. The launcher is one small process per driver,
without threads, so a fork of it is cheap and safe. It ends with the driver, and the shims do not need it. Each page of
memory that a shim touches first costs time, so it does little, with plain system calls.
"""

from __future__ import annotations

import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import sys
import time
from time import monotonic, sleep

from leftoff.engine.redactor import Redactor
from leftoff.files import sync, sync_folder
from leftoff.workflow.attempt_folder import (
    ENDED,
    FAILED,
    FREE,
    GO,
    LEAVING,
    NOT_EXECUTABLE,
    NOT_FOUND,
    READY,
    STOP,
    TIMED_OUT,
    VOUCHED,
    AttemptFolder,
    Exit,
    Order,
    receive,
)
from leftoff.workflow.process_groups import members, signal_all
from leftoff.workflow.redacting_stream import StepLog

CHUNK = 1 << 16
MOST_LEFT = 1 << 20  # bytes read from the pipe at the end, even if a daemon goes on writing
LOOK_S = 0.05  # how often to look for processes that end without notice
UNKILLABLE_S = 5.0
LAST_WORDS_S = 0.2  # how long the launcher waits at its end for idle shims
TERM, KILL, CONT = int(signal.SIGTERM), int(signal.SIGKILL), int(signal.SIGCONT)
# Signals that end a driver, or that are sent to a whole group, must end neither launcher nor shims.
IGNORED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM,
    signal.SIGPROF, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip


class Bell:
    """Signal handling, set up once in the launcher. There it reaps shims that ended; in a shim it can be polled."""

    def __init__(self) -> None:
        self.stop = False  # the command is to end
        self.idle = True  # there is no command, so the shim can end at once
        self._fd = -1
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, self._child)
        signal.signal(STOP, self._stop)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the driver may have inherited a mask

    def arm(self) -> None:
        """Make it pollable, in the shim, before the driver hears of the shim."""
        self._fd, write = os.pipe()
        os.set_blocking(self._fd, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._fd

    def _stop(self, *_: object) -> None:
        if self._fd < 0:
            return
        if self.idle:
            os._exit(0)
        self.stop = True

    def _child(self, *_: object) -> None:
        if self._fd < 0:
            reap()


def reap() -> bool:
    """Reap the children that ended. Return whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def live(channel: int, bell: Bell, redactor: Redactor | None) -> None:
    """Run one job after the other, as long as each ends in order. This is a shim's whole life."""
    os.setsid()
    bell.arm()
    last: str | None = None  # an attempt whose end the driver may not have committed
    while True:
        packed = receive(channel)
        if packed is None:
            break
        send_line(channel, b"%s %d\n" % (READY, os.getpid()))
        if not wait_for_go(channel):
            break
        bell.idle = False
        order = Order.unpack(packed)
        last = os.fsdecode(order.folder)
        if not attempt(order, channel, bell, redactor):
            return
        bell.idle = True
        if bell.stop:
            break
    if last is not None:
        sync_exit(last)


def wait_for_go(channel: int) -> bool:
    """Return whether the driver sent the word to go. It may have died, or changed its mind."""
    try:
        return os.read(channel, 1) == GO
    except OSError:  # the driver died before it read our last message
        return False


def attempt(order: Order, channel: int, bell: Bell, redactor: Redactor | None) -> bool:
    """Run one job and report it. Return whether this process can take another one."""
    folder = os.fsdecode(order.folder)
    try:  # an empty exit: if there is none, resume concludes that the command did not run
        os.close(os.open(f"{folder}/exit", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        exit = Exit(NOT_EXECUTABLE, at=now(), error=f"{folder} cannot be written to: {error.strerror}")
        record_exit(exit, folder, channel, free=False)
        return False
    log = StepLog(f"{folder}/log", redactor, order.secrets)
    course = Course(order, log, bell, channel)
    try:
        exit = course.run()
    finally:
        log.close()
    free = not bell.stop and not course.left
    record_exit(exit, folder, channel, free)
    if course.left:
        os.killpg(0, signal.SIGKILL)
    return free


def record_exit(exit: Exit, folder: str, channel: int, free: bool) -> None:
    """Write the exit and report it. Sync it if this process takes no other job."""
    exit = exit._replace(left=AttemptFolder(folder).hashes())
    line = exit.line(os.path.basename(folder))
    if write_exit(line, folder) and not free:
        sync_exit(folder)
    send_line(channel, b"%s%s %s" % (ENDED, FREE if free else LEAVING, line))


def write_exit(line: bytes, folder: str) -> bool:
    """Write the exit. Return whether that was possible: the disk may be full."""
    try:
        fd = os.open(f"{folder}/exit", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return os.write(fd, line) == len(line)
        finally:
            os.close(fd)
    except OSError:
        return False


def sync_exit(folder: str) -> None:
    """Sync the exit, the files that it vouches for and their folders, if the disk is not full."""
    try:
        for name in (*VOUCHED, "exit"):
            keep(f"{folder}/{name}")
        sync_folder(folder)
        sync_folder(f"{folder}/..")
    except OSError:
        pass


def keep(path: str) -> None:
    """Sync a file if it exists."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        sync(fd)
    finally:
        os.close(fd)


def send_line(channel: int, line: bytes) -> None:
    """Send a line, if the driver is still there."""
    try:
        os.write(channel, line)
    except OSError:
        pass


class Course:
    """One command, from its start until nothing of it is left: output, timeout, end. It fills the shim's session."""

    def __init__(self, order: Order, log: StepLog, bell: Bell, channel: int) -> None:
        self._order = order
        self._channel = channel
        self._log = log
        self._bell = bell
        self._me = os.getpid()
        self._pid = self._output = 0
        self._status: int | None = None  # of the command, once it ended
        self._deadline: float | None = None  # of its timeout; then of the time between SIGTERM and SIGKILL
        self._look = 0.0
        self._ending = self._timed_out = self._stopped = False
        self._killed_at: float | None = None
        self.left: list[int] = []  # processes that could not be ended

    def run(self) -> Exit:
        if not self._order.bound:
            return self._run()
        turn = os.open(os.path.dirname(self._order.folder), os.O_RDONLY)
        try:
            self._wait_for_earlier(turn)
            return self._run()
        finally:
            os.close(turn)

    def _wait_for_earlier(self, turn: int) -> None:
        """Wait until the check that a driver which died had started is over: checks of an attempt never overlap.

        That one ends soon after its driver. ``turn``: the attempt's folder, which is locked while a check runs.
        """
        last = monotonic() + self._order.grace + UNKILLABLE_S
        while not self._bell.stop and monotonic() < last:
            try:
                return fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sleep(LOOK_S)

    def _run(self) -> Exit:
        if self._bell.stop:
            return Exit(128 + TERM, TERM, at=now(), stopped=True)
        self._output, there = os.pipe()
        os.set_blocking(self._output, False)
        if self._order.timeout is not None:
            self._deadline = monotonic() + self._order.timeout
        try:
            self._pid = spawn(self._order, there)
        except Refused as refused:
            self._log.note(refused.why)
            return Exit(refused.code, at=now(), error=refused.why)
        finally:
            os.close(there)
            os.chdir("/")
        self._follow()
        for _ in range(MOST_LEFT // CHUNK):  # what is in the pipe, but not what a daemon may still write
            if not self._read():
                break
        os.close(self._output)
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        number = -code if code < 0 else TERM if self._stopped else None
        if self._timed_out:
            code = TIMED_OUT
        elif code <= 0 and number is not None:
            code = 128 + number
        return Exit(code, number, self._timed_out, now(), None, self._stopped)

    def _follow(self) -> None:
        """Wait until the command and everything that it started have ended."""
        output, bell = self._output, self._bell.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        poll.register(bell, select.POLLIN)
        if self._order.bound:
            poll.register(self._channel, select.POLLIN)
        while True:
            for fd, _ in poll.poll(self._patience()):
                if fd == bell:
                    os.read(bell, 4096)
                    if self._status is None:
                        pid, status = os.waitpid(self._pid, os.WNOHANG)
                        self._status = status if pid else None
                elif fd == self._channel:  # the driver sends nothing before the end, so it died
                    poll.unregister(fd)
                    self._bell.stop = True
                elif not self._read():
                    poll.unregister(output)
            if self._status is not None and self._over():
                return
            self._keep_time()

    def _patience(self) -> float | None:
        """Return the milliseconds until the next deadline."""
        first = self._deadline
        if self._status is not None:  # other processes of the session end without notice
            self._look = min(LOOK_S, self._look * 2 or 0.001)
            look = monotonic() + self._look
            first = look if first is None else min(first, look)
        return None if first is None else max(0.0, first - monotonic()) * 1000

    def _read(self) -> bool:
        """Log what is in the pipe. Return False at its end, or if there is nothing now."""
        try:
            data = os.read(self._output, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._log.add(data)
        return bool(data)

    def _others(self) -> list[int]:
        """Return the processes of the session other than the shim."""
        return [pid for pid in members(self._me) if pid != self._me]

    def _over(self) -> bool:
        """Return whether the session is empty after the command ended. Send SIGTERM to what is left."""
        others = self._others()
        if self._killed_at is not None and monotonic() > self._killed_at + UNKILLABLE_S:
            self.left = others
            return True
        if others and not self._ending:
            self._terminate(others)
        return not others

    def _keep_time(self) -> None:
        """Send the signals that are due: on a stop request, a timeout, or the end of the grace period."""
        if self._bell.stop and not self._ending and self._status is None:
            self._stopped = True
            self._terminate(self._others())
        if self._deadline is None or monotonic() < self._deadline:
            return
        if self._ending:
            signal_all(self._others(), KILL)
            self._killed_at = self._killed_at or monotonic()
            self._deadline = monotonic() + LOOK_S  # again, for what was forked meanwhile
        elif self._status is None:
            self._timed_out = True
            self._terminate(self._others())

    def _terminate(self, others: list[int]) -> None:
        """Send SIGTERM to all, and SIGCONT so that stopped processes receive it."""
        self._ending = True
        self._deadline = monotonic() + self._order.grace
        elsewhere = [pid for pid in others if _group(pid) != self._me]
        for number in (TERM, CONT):
            os.killpg(self._me, number)  # in one call, so that no fork escapes; the shim ignores it
            signal_all(elsewhere, number)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def now() -> int:
    return time.time_ns() // 1_000_000


# The command starts with default handlers, whatever the shim and the driver's parent ignored.
_DEFAULT = sorted({int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP})


class Refused(Exception):
    """The command could not be executed."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.why = why


def spawn(order: Order, output: int) -> int:
    """Start the command in the caller's process group with its output to ``output``. Return its pid."""
    try:
        os.chdir(order.cwd)
    except (OSError, ValueError) as error:
        raise _refused(f"the working folder {_shown(order.cwd)} cannot be entered", error) from None
    os.environb[b"PATH"] = order.env.get(b"PATH", os.defpath.encode())  # `posix_spawnp` searches it
    name = order.argv[0] if order.argv else b""
    try:
        return os.posix_spawnp(
            name,
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
    except (OSError, ValueError) as error:  # a NUL, or a name of a variable with = in it
        if isinstance(error, FileNotFoundError) and b"/" not in name:
            raise Refused(NOT_FOUND, f"{_shown(name)}: command not found") from None
        raise _refused(f"{_shown(name)}: cannot be executed", error) from None


def _refused(what: str, error: OSError | ValueError) -> Refused:
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return Refused(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE, f"{what}: {why}")


def _shown(name: bytes) -> str:
    return name[:200].decode("utf-8", "replace")


# -- the launcher


def main() -> None:
    bell = Bell()
    driver = socket.socket(fileno=int(sys.argv[2]))
    driver.set_inheritable(False)
    packed = receive(driver.fileno())
    redactor = make_redactor(marshal.loads(packed)) if packed else None
    gc.collect()
    gc.freeze()  # so that a collection does not write to shared pages
    while True:
        try:
            asked, fds, _, _ = socket.recv_fds(driver, 1, 1)
        except OSError:
            asked, fds = b"", []
        if not asked:
            break
        for channel in fds:
            launch(channel, driver.fileno(), bell, redactor)
    deadline = monotonic() + LAST_WORDS_S
    while reap() and monotonic() < deadline:  # the idle shims end now too
        time.sleep(0.002)
    os._exit(0)


def make_redactor(settings: dict[str, object]) -> Redactor | None:
    if not settings["enabled"]:
        return None
    redactor = Redactor(**settings)  # type: ignore[arg-type]
    redactor.mask("password: passed")  # loads its patterns once for all shims
    return redactor


def launch(channel: int, driver: int, bell: Bell, redactor: Redactor | None) -> None:
    os.set_inheritable(channel, False)
    try:
        if os.fork() == 0:
            shim(channel, driver, bell, redactor)
    except OSError as error:
        send_line(channel, b"%s %s\n" % (FAILED, os.strerror(error.errno or 0).encode()))
    os.close(channel)


def shim(channel: int, driver: int, bell: Bell, redactor: Redactor | None) -> None:
    """Be a shim, in the forked process. Never returns."""
    try:
        os.close(driver)  # so that the driver notices the launcher's end
        live(channel, bell, redactor)
    except BaseException as error:
        send_line(
            channel, b"%s %s\n" % (FAILED, repr(error).encode("utf-8", "replace").replace(b"\n", b" ")[:500])
        )
    finally:
        os._exit(0)
