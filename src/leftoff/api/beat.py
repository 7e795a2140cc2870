"""The heartbeat: while a run is driven, a background thread says so, and truncates the log when all is quiet."""

from __future__ import annotations

import threading
import weakref

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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"leftoff-{run.id}", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            run = self._run()
            if run is None:
                return
            try:
                run.beat()
            except LeftoffError as error:
                if not error.retry:  # the run was taken over or removed: its next commit says so
                    return
            del run

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
