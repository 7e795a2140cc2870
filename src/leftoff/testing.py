"""Helpers for tests of programs that use leftoff: a clock that you set, and a store that fails on request.

::

    store = FaultyStore(SqliteStore(folder))
    store.fail("during")                   # the next write fails, and its transaction is rolled back
    store.fail("after", nth=3)             # the third write from now is durable, but its answer is lost
    store.fail("before", error=OSError(28, "No space left on device"), call="save_blob")
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from leftoff.clock import Clock
from leftoff.errors import StoreUnavailable
from leftoff.store.base import SqlStore, Stood, Tx, View
from leftoff.store.rows import BlobRow

__all__ = ["FakeClock", "FaultyStore"]

T = TypeVar("T")
Save = Callable[[Iterable[bytes]], BlobRow]
When = Literal["before", "during", "after"]
Call = Literal["write", "read", "save_blob"]
START = 1_770_000_000_000  # 2026-02-02T02:40:00Z


class FakeClock(Clock):
    """A clock that stands still. ``advance`` lets time pass; ``set`` changes only the time of day."""

    def __init__(self, now: int = START) -> None:
        self._now = now
        self._passed = 0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._passed / 1000

    def advance(self, ms: int) -> None:
        """Let time pass on both clocks."""
        if ms < 0:
            raise ValueError("time does not run backwards; set() puts the clock back")
        self._now += ms
        self._passed += ms

    def set(self, now: int) -> None:
        """Set the time of day, as a user would. No time passes."""
        self._now = now


class _Fault(NamedTuple):
    call: str
    when: str
    nth: int
    error: BaseException


# It has no method of a store but those below, so that `__getattr__` passes on all others.
if TYPE_CHECKING:
    _Passing = SqlStore
else:
    _Passing = object


class FaultyStore(_Passing):
    """Wrap a store, and fail as told. Every write passes through it, also those of prune and sweep.

    All else is the inner store's own.
    """

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.calls: dict[str, int] = {}  # how often each method was called
        self._faults: list[_Fault] = []
        self._lock = threading.Lock()
        self._write = store.write
        # The inner store's own writes, such as those of prune, meet the same faults.
        store.write = lambda fn, *, durable=True: self.write(fn, durable=durable)  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def fail(
        self,
        when: When = "before",
        *,
        nth: int = 1,
        error: BaseException | None = None,
        call: Call = "write",
    ) -> None:
        """Let the nth call from now fail: before it does anything, inside its transaction, or after it is durable."""
        if when not in ("before", "during", "after") or nth < 1:
            raise ValueError(f"no call can fail {when} {nth}")
        if when == "during" and call == "save_blob":
            raise ValueError("a blob is saved outside of any transaction")
        error = error or StoreUnavailable(f"{self.name} fails on purpose, {when} the {call}.")
        with self._lock:
            self._faults.append(_Fault(call, when, self.calls.get(call, 0) + nth, error))

    def heal(self) -> None:
        """Forget the faults that have not happened yet."""
        with self._lock:
            self._faults.clear()

    def _count(self, call: str) -> _Fault | None:
        """Count a call, and return the fault that is due, if any."""
        with self._lock:
            number = self.calls[call] = self.calls.get(call, 0) + 1
            for fault in self._faults:
                if fault.call == call and fault.nth == number:
                    self._faults.remove(fault)
                    return fault
        return None

    def _call(self, call: str, work: Callable[[Any], Any], fn: Any) -> Any:
        fault = self._count(call)
        when = fault.when if fault is not None else None
        if fault is not None and when == "before":
            raise fault.error

        def fails(tx: Any) -> Any:
            fn(tx)
            raise fault.error if fault is not None else AssertionError

        result = work(fails if when == "during" else fn)
        if fault is not None and when == "after":
            raise fault.error
        return result

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        done: T = self._call("write", lambda work: self._write(work, durable=durable), fn)
        self.wrote = True
        return done

    def commit(self, fn: Callable[[Tx], T], stood: Stood | None, *, durable: bool = True) -> T:
        return self.write(fn, durable=durable)

    def read(self, fn: Callable[[View], T]) -> T:
        found: T = self._call("read", self.store.read, fn)
        return found

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        return self.save_together(lambda save: save(chunks))

    def save_together(self, work: Callable[[Save], T]) -> T:
        return self.store.save_together(lambda save: work(lambda each: self._call("save_blob", save, each)))
