"""A store that fails when it is told to, for testing what is built on one.

::

    store = FaultyStore(SqliteStore(folder))
    store.fail("during")                   # the next write fails with its transaction rolled back
    store.fail("after", nth=3)             # the third from now is made durable, and its answer is lost
    store.fail("before", error=OSError(28, "No space left on device"), call="save_blob")
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from functools import wraps

from leftoff.errors import StoreUnavailable
from leftoff.model.fields import Fields
from leftoff.store.base import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Literal, TypeVar

    from leftoff.store.base import Save, Tx, View
    from leftoff.store.rows import BlobRow

    T = TypeVar("T")
    When = Literal["before", "during", "after"]
    Call = Literal["write", "read", "save_blob"]


class _Fault(Fields):
    call: str
    when: str
    nth: int
    error: BaseException


def _passed_on(name: str) -> Any:
    """A method that is counted, and otherwise the inner store's."""

    @wraps(getattr(Store, name))
    def call(self: FaultyStore, *args: Any, **named: Any) -> Any:
        self._count(name)
        return getattr(self.store, name)(*args, **named)

    return call


class FaultyStore(Store):
    """A store around a store, with the same interface. Every write goes through it, those of its upkeep too."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name
        self.location, self.folder = store.location, store.folder
        self.shared, self.far, self.late = store.shared, store.far, store.late
        self.calls: dict[str, int] = {}  # how often each method was called
        self.delay_s = 0.0  # before each write
        self._faults: list[_Fault] = []
        self._lock = allocate_lock()
        self._write = store.write
        # Pruning and the like write by themselves, in batches: they meet the same faults.
        store.write = lambda fn, *, durable=True: self.write(fn, durable=durable)  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        """What only that kind of store has."""
        return getattr(self.store, name)

    def fail(
        self,
        when: When = "before",
        *,
        nth: int = 1,
        error: BaseException | None = None,
        call: Call = "write",
    ) -> None:
        """Let the nth call from now fail: before anything happened, inside its transaction, or once it is durable."""
        if when not in ("before", "during", "after") or nth < 1:
            raise ValueError(f"no call can fail {when} {nth}")
        if when == "during" and call == "save_blob":
            raise ValueError("a blob is saved outside of any transaction")
        error = error or StoreUnavailable(f"{self.name} fails on purpose, {when} the {call}.")
        with self._lock:
            self._faults.append(_Fault(call, when, self.calls.get(call, 0) + nth, error))

    def heal(self) -> None:
        """Forget the faults that have not struck yet."""
        with self._lock:
            self._faults.clear()

    def _count(self, call: str) -> _Fault | None:
        """The fault that strikes this call, if any."""
        with self._lock:
            number = self.calls[call] = self.calls.get(call, 0) + 1
            for fault in self._faults:
                if fault.call == call and fault.nth == number:
                    self._faults.remove(fault)
                    return fault
        return None

    def _call(self, call: str, work: Callable[[Any], Any], fn: Callable[[Any], Any]) -> Any:
        fault = self._count(call)
        when = fault.when if fault is not None else None
        if fault is not None and when == "before":
            raise fault.error
        result = work(_then_raise(fn, fault.error) if fault is not None and when == "during" else fn)
        if fault is not None and when == "after":
            raise fault.error
        return result

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        if self.delay_s:
            time.sleep(self.delay_s)
        done: T = self._call("write", lambda work: self._write(work, durable=durable), fn)
        self.wrote = True
        return done

    def read(self, fn: Callable[[View], T]) -> T:
        found: T = self._call("read", self.store.read, fn)
        return found

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        return self.save_together(lambda save: save(chunks))

    def save_together(self, work: Callable[[Save], T]) -> T:
        return self.store.save_together(lambda save: work(self._counted(save)))

    def _counted(self, save: Save) -> Save:
        def counted(chunks: Iterable[bytes]) -> BlobRow:
            fault = self._count("save_blob")
            if fault is not None and fault.when == "before":
                raise fault.error
            row = save(chunks)
            if fault is not None:
                raise fault.error
            return row

        return counted

    exists = _passed_on("exists")
    load_blob = _passed_on("load_blob")
    prune = _passed_on("prune")
    remove = _passed_on("remove")
    sweep = _passed_on("sweep")
    watch = _passed_on("watch")
    writable = _passed_on("writable")
    siblings = _passed_on("siblings")
    backup = _passed_on("backup")
    check = _passed_on("check")
    about = _passed_on("about")
    migrate = _passed_on("migrate")
    close = _passed_on("close")


def _then_raise(fn: Callable[[Any], Any], error: BaseException) -> Callable[[Any], Any]:
    def work(tx: Any) -> Any:
        fn(tx)
        raise error

    return work
