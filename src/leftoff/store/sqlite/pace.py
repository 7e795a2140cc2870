"""Long jobs work in batches: others wait for one at most a moment, and 50 ms is the promise."""

from __future__ import annotations

from leftoff.clock import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.store.base import Store

AIM_S = 0.015
SMALLEST, LARGEST = 8, 4096


class Pace:
    """How many rows fit into a batch, learned from the last one."""

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
