"""Threads for ``map`` and ``defer``: a few at a time, none left waiting for work that will not come.

They are daemons, so that a function that hangs does not keep a program from ending; Ctrl-C leaves them behind, and what
they return is not recorded any more.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from contextvars import copy_context
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from leftoff.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from leftoff.workflow.functions.handles import Handle


def start(work: Callable[[], None], name: str) -> None:
    """A thread that sees what its maker's context holds."""
    Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()


def check_size(size: object) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise Usage(f"max_parallel={size!r} must be a number of 1 or more.", hint="max_parallel=8")
    return size


class Team:
    """Threads that do a piece of work for each number, ``size`` at a time, in the order of their start.

    After an error (or once ``stop`` says so) nothing new is begun; what runs goes on to its end, then the error of the
    lowest number is raised.
    """

    __slots__ = ("_changed", "_errors", "_left", "_stop", "_stopped", "_wanted", "_work")

    def __init__(self, work: Callable[[int], None], stop: Callable[[], bool]) -> None:
        self._work = work
        self._stop = stop
        self._stopped = False
        self._changed = Condition()
        self._errors: dict[int, BaseException] = {}
        self._wanted: Iterator[int] = iter(())
        self._left = 0  # threads

    def do(self, todo: list[int], size: int, name: str) -> None:
        """All of it, or until something goes wrong."""
        self._wanted, self._left = iter(todo), min(size, len(todo))
        for _ in range(self._left):
            start(self._one_after_another, name)
        try:
            with self._changed:
                while self._left:
                    self._changed.wait()
        finally:
            self._stopped = True
        if self._errors:
            raise self._errors[min(self._errors)]

    def _next(self) -> int | None:
        with self._changed:
            over = self._errors or self._stopped or self._stop()
            return None if over else next(self._wanted, None)

    def _one_after_another(self) -> None:
        try:
            while (number := self._next()) is not None:
                try:
                    self._work(number)
                except BaseException as error:
                    self._errors[number] = error
        finally:
            with self._changed:
                self._left -= 1
                self._changed.notify()


class Crew:
    """The threads that make the deferred calls of one scope, at most ``size`` at a time."""

    __slots__ = ("_lock", "_queue", "_size", "_threads")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = allocate_lock()
        self._queue: deque[tuple[Handle[Any], Callable[[], Any]]] = deque()
        self._threads = 0

    def submit(self, handle: Handle[Any], work: Callable[[], Any]) -> None:
        with self._lock:
            self._queue.append((handle, work))
            if self._threads >= self._size:
                return
            self._threads += 1
        start(self._loop, "leftoff deferred")

    def _loop(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                handle, work = self._queue.popleft()
            handle.make(work)

    def stop(self) -> None:
        """Begin nothing new."""
        with self._lock:
            dropped, self._queue = self._queue, deque()
        for handle, _ in dropped:
            handle.drop()
