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
    from collections.abc import Callable

    from leftoff.workflow.functions.handles import Handle


def start(work: Callable[[], None], name: str) -> None:
    """A thread that sees what its maker's context holds."""
    Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()


def check_size(size: object) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise Usage(f"max_parallel={size!r} is no number of 1 or more.", hint="max_parallel=8")
    return size


def in_parallel(
    work: Callable[[int], None], todo: list[int], size: int, name: str, stop: Callable[[], bool] | None = None
) -> None:
    """Do the work for each number, ``size`` at a time, in order of their start.

    After an error (or once ``stop`` says so) nothing new is begun; what runs goes on to its end, then the error of the
    lowest number is raised.
    """
    lock, wanted = allocate_lock(), iter(todo)
    errors: dict[int, BaseException] = {}
    left = min(size, len(todo))
    changed = Condition()
    stopped = False

    def one_after_another() -> None:
        nonlocal left
        try:
            while True:
                with lock:
                    over = errors or stopped or (stop is not None and stop())
                    number = None if over else next(wanted, None)
                if number is None:
                    return
                try:
                    work(number)
                except BaseException as error:
                    errors[number] = error
        finally:
            with changed:
                left -= 1
                changed.notify()

    for _ in range(left):
        start(one_after_another, name)
    try:
        with changed:
            while left:
                changed.wait()
    finally:
        stopped = True
    if errors:
        raise errors[min(errors)]


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
