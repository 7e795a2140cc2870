"""The heartbeat: while a run is driven, a thread says so. In a burst of short steps it also tells their starts."""

from __future__ import annotations

import threading
import weakref
from time import monotonic

from leftoff.api.bursts import TELL_S, tell_starts
from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.api.buffer import Buffer

INTERVAL_S = 30.0


class Heart:
    """One thread per driven run. It holds the run weakly: a run that nobody uses any more stops beating."""

    def __init__(self, buffer: Buffer, interval: float = INTERVAL_S) -> None:
        self._buffer = weakref.ref(buffer)
        self._interval = interval
        self._stopped = False
        self._watching = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"leftoff-{buffer.run_id}", daemon=True)
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
            buffer = self._buffer()
            if self._stopped or buffer is None:
                return
            if self._watching:
                self._watching = tell_starts(buffer)
            if monotonic() >= next_beat:
                next_beat = monotonic() + self._interval
                if not self._beat(buffer):
                    return
            del buffer

    @staticmethod
    def _beat(buffer: Buffer) -> bool:
        try:
            buffer.beat()
        except LeftoffError as error:
            return error.retry  # where not, the run was taken over or removed: its next commit says so
        return True

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
