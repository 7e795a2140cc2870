"""One writer at a time, fairly, and one fsync for all threads that wait.

The first thread to come leads: it waits its turn among the processes, opens the transaction, does its own work and
that of every thread that has queued up meanwhile, and syncs once. Whoever queues while it syncs is led by the next.
"""

from __future__ import annotations

import fcntl
import os
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST = 64  # in one transaction


class Ticket:
    """A piece of work and, afterwards, its outcome."""

    __slots__ = ("done", "error", "fn", "gate", "leads", "result")

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False
        self.gate: Any = None  # held until the work is done or the lead is passed on


class WriteQueue:
    """Threads of one process, led one batch at a time."""

    def __init__(self, lead: Callable[[list[Ticket]], None]) -> None:
        self._lead = lead
        self._mutex = allocate_lock()
        self._queue: list[Ticket] = []
        self._busy = False

    def run(self, fn: Callable[[Any], Any]) -> Any:
        ticket = Ticket(fn)
        batch = [ticket]
        try:  # Ctrl-C may strike anywhere below: whoever leads must hand over, whoever waits must leave the queue
            with self._mutex:
                if self._busy:
                    ticket.gate = allocate_lock()
                    ticket.gate.acquire()
                    self._queue.append(ticket)
                else:
                    ticket.leads = self._busy = True
            if not ticket.leads:
                ticket.gate.acquire()  # until the work is done, or this thread must lead
            if ticket.leads:
                if self._queue:
                    batch += self._take()
                self._lead(batch)
        finally:
            if ticket.leads:
                self._hand_over(batch)
            elif not ticket.done:
                self._leave(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def _leave(self, ticket: Ticket) -> None:
        with self._mutex:
            if ticket in self._queue:
                self._queue.remove(ticket)

    def _take(self) -> list[Ticket]:
        with self._mutex:
            taken = self._queue[: MOST - 1]
            del self._queue[: MOST - 1]
        return taken

    def _hand_over(self, batch: list[Ticket]) -> None:
        """Wake those whose work is done; let the next one lead."""
        again = [ticket for ticket in batch[1:] if not ticket.done]  # the leader was interrupted: they try again
        for ticket in batch[1:]:
            if ticket.done:
                ticket.gate.release()
        with self._mutex:
            self._queue[:0] = again
            if self._queue:
                following = self._queue.pop(0)
                following.leads = True
                following.gate.release()
            else:
                self._busy = False


class Turn:
    """A process's turn to write: an flock, taken before SQLite's own lock, whose waiting starves."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def open(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self) -> None:
        if self._fd < 0:
            self.open()
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def give(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def forget(self) -> None:
        """After a fork: the parent's descriptor shares the parent's lock, so it must not be used here."""
        self.close()
