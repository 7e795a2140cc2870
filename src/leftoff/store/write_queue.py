"""One writer at a time, fairly, and one fsync for all threads that wait.

The first thread to come leads: it waits its turn among the processes, opens the transaction, does its own work and
that of every thread that has queued up meanwhile, and syncs once. Whoever queues while it syncs is led by the next.

A process may be stopped, or hang, while it has its turn. So waiting has an end, and whoever waited in vain is told who
has the turn: each writes its name into the file that is locked.
"""

from __future__ import annotations

import fcntl
import os
import time
from _thread import allocate_lock
from itertools import islice

from leftoff import host
from leftoff.errors import StoreUnavailable
from leftoff.files import lock_within
from leftoff.hints import Any, Callable

MOST = 64  # in one transaction


class Ticket:
    """A piece of work and, afterwards, its outcome."""

    result: Any = None
    error: BaseException | None = None
    done = False  # durable, or refused for good
    gate: Any = None  # held until the work is done or this thread must lead

    def __init__(self, fn: Any, durable: bool) -> None:
        self.fn = fn  # of the transaction; None: only to lead
        self.durable = durable


class WriteQueue:
    """Threads of one process, led one batch at a time.

    A ticket is in the queue until its own thread takes it out. Ctrl-C may strike the main thread after any call. So the
    lead is one variable, passed on by one assignment, and what follows from it can be done twice.
    """

    def __init__(self, lead: Callable[[list[Ticket]], None]) -> None:
        self._lead = lead
        self._mutex = allocate_lock()
        self._queue: list[Ticket] = []
        self._leader: Ticket | None = None

    @property
    def busy(self) -> bool:
        return self._leader is not None

    def run(self, fn: Callable[[Any], Any], durable: bool = True) -> Any:
        ticket = Ticket(fn, durable)
        try:
            self._join(ticket)
            if ticket.gate is not None:
                ticket.gate.acquire()
            if self._leader is ticket:
                self._lead(self._take(ticket))
        finally:
            try:
                self._settle(ticket)
            except BaseException:
                self._settle(ticket)
                raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def hold(self, timeout: float) -> Ticket | None:
        """Lead and do nothing, so that nobody writes until ``release``. ``None`` where that takes too long."""
        ticket = Ticket(None, False)
        self._join(ticket)
        if ticket.gate is not None:
            ticket.gate.acquire(timeout=timeout)
        if self._leader is ticket:
            return ticket
        self._settle(ticket)
        return None

    def release(self, ticket: Ticket) -> None:
        self._settle(ticket)

    def _join(self, ticket: Ticket) -> None:
        """Queue up, and lead if nobody does."""
        with self._mutex:
            self._queue.append(ticket)
            if self._leader is None:
                self._leader = ticket
            else:
                ticket.gate = allocate_lock()
                ticket.gate.acquire()

    def _take(self, leader: Ticket) -> list[Ticket]:
        """Return what the leader does in one transaction: its own work, and that of others in their order."""
        with self._mutex:
            others = (t for t in self._queue if t is not leader and t.fn is not None and not t.done)
            return [leader, *islice(others, MOST - 1)]

    def _settle(self, ticket: Ticket) -> None:
        """Leave the queue. Pass the lead on, and wake those whose work is done. May be cut short, and called again."""
        with self._mutex:
            if ticket in self._queue:
                self._queue.remove(ticket)
            if self._leader is ticket:
                self._leader = next((other for other in self._queue if not other.done), None)
            for other in self._queue:
                if other.gate is not None and (other.done or other is self._leader):
                    _open(other.gate)


def _open(gate: Any) -> None:
    if gate.locked():
        gate.release()


def all_done(batch: list[Ticket], error: BaseException | None = None) -> None:
    """What a batch had to do is durable; or none of it is, for this reason."""
    for ticket in batch:
        ticket.error, ticket.done = error or ticket.error, True


class Presence:
    """Whether anybody else has the store open: all who do share a lock on its folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = -1

    def show(self, patience: float = 0.0) -> None:
        """Say that this process has the store open. Wait for a process that is alone with it, such as a repair."""
        if self._fd < 0:
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not lock_within(self._fd, fcntl.LOCK_SH, patience) and patience:
            self.close()
            raise StoreUnavailable(
                f"The store in {self._folder} is being repaired.", hint="Try again when that has finished."
            )

    def alone(self) -> bool:
        """Whether nobody else has it open, until ``show``."""
        return self._fd >= 0 and lock_within(self._fd, fcntl.LOCK_EX, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


LONGEST = 100  # characters of what somebody does who has the lock
MARK, DIGITS = 1024, 20  # where in its file the number of the newest commit stands, twice, each time so long


class Turn:
    """A process's turn to write: an flock, taken before SQLite's own lock, whose waiting starves. What is written into
    its file is synced by nobody: it is late at most, never ahead."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def open(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, patience: float) -> None:
        """Wait for it, at most so many seconds; ``StoreUnavailable`` names who has it."""
        if self._fd < 0:
            self.open()
        try:
            if not lock_within(self._fd, fcntl.LOCK_EX, patience):
                from leftoff.files import held_by_another

                raise held_by_another(self._path, self._fd)
        except BaseException:
            self.close()  # a thread may still wait there
            raise
        try:
            signed = f"{os.getpid()} {time.time_ns() // 1_000_000} {host.doing[:LONGEST]}\n"
            os.pwrite(self._fd, signed.encode("utf-8", "replace"), 0)
        except OSError:  # a full disk: only a name is missing
            pass

    def mark(self, newest: int) -> None:
        """The number of the newest commit is durable: a log that is lost later is missed by it."""
        try:
            os.pwrite(self._fd, b"%0*d" % (DIGITS, newest) * 2, MARK)
        except OSError:  # a full disk: only a loss is not noticed
            pass

    def marked(self) -> int:
        """The number of the newest commit that is known to have been durable; 0 where none is. It is there twice: where
        the two differ, the file is damaged, and not the store."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = os.pread(fd, 2 * DIGITS, MARK)
            finally:
                os.close(fd)
        except OSError:
            return 0
        return int(found[:DIGITS]) if found.isdigit() and found[:DIGITS] == found[DIGITS:] else 0

    def give(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
