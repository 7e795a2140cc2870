"""The process between a driver and a command: it waits to be told, runs it, and writes down how it ended.

The order is what keeps the promises. It leads a session of its own before anybody hears of it, so what ends the driver
does not end it. It says who it is, and waits: for the driver's one byte, or for the end of the channel, which means
that nobody has recorded it and that it must not run. ``exit`` is written when nothing of the attempt runs any more but
the shim, so whoever reads it may start the next one.

A driver that hears of the end commits it, synced. So the exit code is synced here only where there is no driver, or
where it dies before it can have committed: it gives a shim the word to go again only after that.

Forked from the launcher and never replaced by another program: everything it needs was imported there. What costs in
such a process is every page of memory that it is the first to touch, so it does little, with plain system calls.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from time import monotonic

from leftoff.files import sync, sync_folder
from leftoff.workflow.processes.job import (
    ENDED,
    FREE,
    GO,
    LEAVING,
    NOT_EXECUTABLE,
    READY,
    UNWRITTEN,
    VOUCHED,
    WRITTEN,
    Exit,
    Order,
    left_in,
    receive,
)
from leftoff.workflow.processes.redacting_stream import Censor
from leftoff.workflow.processes.supervise import Course, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leftoff.workflow.processes.redacting_stream import Masks
    from leftoff.workflow.processes.signals import Bell

RETRY_S = 1.0
KEEP_TRYING_S = 60.0  # to write the exit code, once the driver is gone


def live(channel: int, bell: Bell, redactor: Masks | None) -> None:
    """A shim's whole life, in a process that was forked for it: one job after the other, while all ends in order."""
    os.setsid()
    bell.arm()
    last: str | None = None  # the folder of an attempt whose end the driver may not have committed
    while True:
        packed = receive(channel)
        if packed is None:
            break
        say(channel, b"%s %d\n" % (READY, os.getpid()))
        if not wait_for_go(channel):
            break
        bell.idle = False
        order = Order(packed)
        last = os.fsdecode(order.folder)
        if not attempt(order, channel, bell, redactor):
            return
        bell.idle = True
        if bell.stop:
            break
    if last is not None:
        sync_exit(last)


def wait_for_go(channel: int) -> bool:
    """Whether the driver said so; not where it died first, or changed its mind."""
    try:
        return os.read(channel, 1) == GO
    except OSError:  # the driver died without having read what it was told
        return False


def attempt(order: Order, channel: int, bell: Bell, redactor: Masks | None) -> bool:
    """Run one job and report it. Whether this process is as good as new after it."""
    folder = os.fsdecode(order.folder)
    try:
        begin(folder)
    except OSError as error:
        exit = Exit(NOT_EXECUTABLE, at=now(), error=f"{folder} cannot be written to: {error.strerror}")
        record(exit, folder, channel, free=False)
        return False
    log = Log(f"{folder}/log", redactor, order.secrets)
    course = Course(order, log, bell)
    try:
        exit = course.run()
    finally:
        log.close()
    free = not bell.stop and not course.left
    record(exit, folder, channel, free)
    if course.left:
        os.killpg(0, signal.SIGKILL)
    return free


def begin(folder: str) -> None:
    """Make the file for the exit, and take away the mark that nothing has begun: whoever finds that mark and no file
    concludes that the command never ran, so it must not."""
    os.close(os.open(f"{folder}/exit", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        os.chmod(folder, 0o700)
    except OSError:
        pass  # a disk without permissions has no such mark either


def record(exit: Exit, folder: str, channel: int, free: bool) -> None:
    """Write it down and tell the driver; for good, if there is none or if this process has no more to do."""
    exit.left = left_in(folder)
    line = exit.line(os.path.basename(folder))
    failure = write(line, folder)
    failure = failure or (0 if free and not gone(channel) else sync_exit(folder))
    heard = say(channel, b"%s%s %s" % (ENDED, UNWRITTEN if failure else FREE if free else LEAVING, line))
    if free and not heard and not failure:
        failure = sync_exit(folder)
    until = None
    while failure and failure != errno.ENOENT:  # without the folder there is no use in trying again
        time.sleep(RETRY_S)
        failure = write(line, folder) or sync_exit(folder)
        if not failure:
            say(channel, b"%s%s\n" % (WRITTEN, FREE if free else LEAVING))
        elif gone(channel):
            until = until or monotonic() + KEEP_TRYING_S
            if monotonic() > until:
                return


def write(line: bytes, folder: str) -> int:
    """0 once the exit is written; else the error."""
    try:
        fd = os.open(f"{folder}/exit", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return 0 if os.write(fd, line) == len(line) else errno.ENOSPC
        finally:
            os.close(fd)
    except OSError as error:
        return error.errno or errno.EIO


def sync_exit(folder: str) -> int:
    """0 once the exit is on the disk, with what it vouches for and the names that lead there; else the error."""
    try:
        for name in (*VOUCHED, "exit"):
            keep(f"{folder}/{name}")
        sync_folder(folder)
        sync_folder(f"{folder}/..")
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def keep(path: str) -> None:
    """Make a file durable, where there is one."""
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a pipe would be waited for without end
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        sync(fd)
    finally:
        os.close(fd)


def say(channel: int, line: bytes) -> bool:
    """Whether it could be said; not where the driver is gone."""
    try:
        os.write(channel, line)
    except OSError:
        return False
    return True


def gone(channel: int) -> bool:
    """Whether the driver closed its side, or died."""
    poll = select.poll()
    poll.register(channel, 0)
    return bool(poll.poll(0))


SILENCE_S = 1.0  # so long an unfinished line waits for its end


class Log:
    """Appends to a file, which is made for the first line of it.

    What cannot be written is counted, and said at the end where that is possible.
    """

    def __init__(self, path: str, redactor: Masks | None, secrets: Iterable[bytes]) -> None:
        self._censor = Censor(redactor, secrets)
        self._lost = 0
        self._why = ""
        self.due: float | None = None  # when what is held back is to be written
        self._path = path
        self._fd = -1

    def add(self, data: bytes) -> None:
        out = self._censored(self._censor.feed, data)
        if out:
            self._write(out)
        if not self._censor.pending:
            self.due = None
        elif out or self.due is None:
            self.due = monotonic() + SILENCE_S

    def flush(self) -> None:
        """Write what there is of an unfinished line."""
        self.due = None
        self._write(self._censored(self._censor.pause))

    def note(self, line: str) -> None:
        """A line of our own."""
        self._write(self._censored(self._censor.end))
        self._write(f"leftoff: {line}\n".encode("utf-8", "replace"))

    def close(self) -> None:
        self._write(self._censored(self._censor.end))
        if self._lost:
            self.note(f"{self._lost} bytes of output are missing here: {self._why}")
        if self._fd >= 0:
            os.close(self._fd)

    def _censored(self, step: Callable[..., bytes], *data: bytes) -> bytes:
        """Nothing is shown that could not be looked at; and what goes wrong with that is not the command's fault."""
        try:
            return step(*data)
        except Exception as error:
            self._censor.clear()
            return f"leftoff: output is withheld here, it could not be redacted: {error!r}\n".encode()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            if view and self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._why = error.strerror or str(error)
        self._lost += len(view)
