"""A driver that nobody hears stops what it started, before another machine may follow it.

Other machines go by its beats, as the store heard them. The driver itself may hang in the very store that does not
answer, so a thread looks at a clock that nobody sets, and that goes on while the machine sleeps.
"""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from leftoff.store.rows import LIMIT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

ALONE_S = LIMIT_MS / 1000 * 0.75  # without a beat that arrived, where only beats tell that we live
LOOK_S = 1.0


def boot_time() -> float:
    """Seconds that only grow, those in which the machine slept included where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Fence:
    """``end``: what stops everything, called once by a thread, after so long without a beat that arrived."""

    def __init__(
        self, end: Callable[[], None], alone: float = ALONE_S, now: Callable[[], float] = boot_time
    ) -> None:
        self.now = now
        self.fell = False
        self._end = end
        self._alone = alone
        self._heard = now()
        self._closed = Event()

    def start(self) -> None:
        Thread(target=self._watch, daemon=True).start()

    def heard(self, sent: float) -> None:
        """A beat arrived that was sent then."""
        self._heard = sent

    def is_alone(self) -> bool:
        return self.now() - self._heard > self._alone

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(min(LOOK_S, max(0.01, self._heard + self._alone - self.now()))):
            if self.is_alone():
                self.fell = True
                self._end()
                return
