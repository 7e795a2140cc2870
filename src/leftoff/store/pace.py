"""Long jobs work in batches: others wait for one at most a moment, and 50 ms is the promise."""

from __future__ import annotations

from leftoff.clock import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from leftoff.store.base import Store

    T = TypeVar("T")
    Place = TypeVar("Place")

AIM_S = 0.015
SMALLEST, LARGEST = 8, 4096


class Pace:
    """How many rows fit into a batch, learned from the last one; and the loops over batches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = getattr(store, "clock", SYSTEM)
        self.size = 128

    def batch(self, work: Callable[[Any, int], Any]) -> Any:
        """One transaction over at most ``size`` rows."""
        size, clock = self.size, self._clock
        took = 0.0

        def timed(tx: Any) -> Any:
            nonlocal took
            start = clock.monotonic()
            try:
                return work(tx, size)
            finally:
                took = clock.monotonic() - start

        result = self._store.write(timed)
        if took > 0:
            self.size = max(SMALLEST, min(LARGEST, int(size * min(4.0, max(0.25, AIM_S / took)))))
        return result

    def until_none(self, work: Callable[[Any, int], int]) -> int:
        """Batch after batch until one finds nothing; the sum of what they found."""
        total = 0
        while found := self.batch(work):
            total += found
        return total

    def over(self, items: Sequence[T], work: Callable[[Any, Sequence[T]], int]) -> int:
        """All of these, some at a time; the sum of what came of them."""
        total, at = 0, 0
        while at < len(items):
            some = items[at : at + self.size]
            at += len(some)
            total += self.batch(lambda tx, _, some=some: work(tx, some))  # type: ignore[misc]
        return total

    def walk(self, place: Place, work: Callable[[Any, Place, int], tuple[Place | None, int]]) -> int:
        """From place to place, each of which says where the next one is (``None``: that was the last); the sum of what
        was found on the way."""
        total, here = 0, place
        while True:
            found: int
            there, found = self.batch(lambda tx, size, here=here: work(tx, here, size))  # type: ignore[misc]
            total += found
            if there is None:
                return total
            here = there


class Orphans:
    """Bytes that lost a reference, looked at again before they go."""

    def __init__(self) -> None:
        self.values: set[bytes] = set()
        self.blobs: set[bytes] = set()

    def note(self, hash: bytes, outside: int, blob: bytes | None) -> None:
        if outside:
            self.values.add(hash)
        if blob is not None:
            self.blobs.add(blob)

    def drop(self, pace: Pace, work: Callable[[Any, list[bytes], list[bytes]], int]) -> int:
        """Those that are still without one, in batches: values and blobs; bytes given back."""
        kinds = [(hash, False) for hash in self.values] + [(hash, True) for hash in self.blobs]
        self.values, self.blobs = set(), set()

        def some(tx: Any, found: Sequence[tuple[bytes, bool]]) -> int:
            values, blobs = ([hash for hash, is_blob in found if is_blob is kind] for kind in (False, True))
            return work(tx, values, blobs)

        return pace.over(kinds, some)
