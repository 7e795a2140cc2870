"""The heartbeat: while a run is driven, a thread says so. In a burst of short steps it also tells their starts."""

from __future__ import annotations

import threading
import weakref
from time import monotonic

from leftoff.api.bursts import TELL_S, tell_starts
from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.api.run import Run

INTERVAL_S = 30.0


class Heart:
    """One thread per driven run. It holds the run weakly: a run that nobody uses any more stops beating."""

    def __init__(self, run: Run, interval: float = INTERVAL_S) -> None:
        self._run = weakref.ref(run)
        self._interval = interval
        self._stopped = False
        self._watching = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"leftoff-{run.id}", daemon=True)
        self._thread.start()

    def watch(self) -> None:
        """A start waits to be told: look soon, and go on looking while the burst lasts."""
        if not self._watching:
            self._watching = True
            self._wake.set()

    def _loop(self) -> None:
        next_beat = monotonic() + self._interval
        while True:
            self._wake.wait(TELL_S if self._watching else max(0.0, next_beat - monotonic()))
            self._wake.clear()
            run = self._run()
            if self._stopped or run is None:
                return
            if self._watching:
                self._watching = tell_starts(run)
            if monotonic() >= next_beat:
                next_beat = monotonic() + self._interval
                if not self._beat(run):
                    return
            del run

    @staticmethod
    def _beat(run: Run) -> bool:
        try:
            run.beat()
        except LeftoffError as error:
            return error.retry  # where not, the run was taken over or removed: its next commit says so
        return True

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
