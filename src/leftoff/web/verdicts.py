"""Whether runs that stand still could go on: a verdict looks at files and git, so no page waits for one.

Whoever asks gets what is known; what is not known, or not any more, is looked at by one thread, run by run.
"""

from __future__ import annotations

import threading
import time

from leftoff.engine.resume.request import ResumeRequest
from leftoff.errors import LeftoffError
from leftoff.operations import Caller
from leftoff.operations.resume.verdict import verify
from leftoff.operations.runs import target
from leftoff.web.projects import Served

HOLDS_S = 60.0  # the world may have changed since
MOST = 1000  # runs of which a verdict is kept
MOST_STEPS = 5000  # of a run that is looked at unasked


class Verdicts:
    """The verdicts on runs of all that is served, as they were last looked at."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, float, str]] = {}  # seq, when, verdict
        self._wanted: dict[tuple[str, str], tuple[Served, int]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def of(self, served: Served, run_id: str, seq: int) -> str | None:
        """The verdict on a run at that version; ``None`` until it is known."""
        address = (served.key, run_id)
        with self._lock:
            known = self._known.get(address)
            fits = known is not None and known[0] == seq
            if not fits or known is None or time.monotonic() - known[1] > HOLDS_S:
                self._wanted[address] = (served, seq)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._look, name="verdicts", daemon=True)
                    self._thread.start()
            return known[2] if fits and known is not None else None

    def _look(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                address = next(iter(self._wanted))
                served, seq = self._wanted.pop(address)
            verdict = _verdict(served, address[1])
            with self._lock:
                self._known.pop(address, None)
                self._known[address] = (seq, time.monotonic(), verdict)
                while len(self._known) > MOST:
                    self._known.pop(next(iter(self._known)))


def _verdict(served: Served, run_id: str) -> str:
    """The verdict; of a run that cannot even be looked at, that it refuses."""
    caller = Caller()
    try:
        with served.open() as project:
            found = target(project, caller, run_id)
            return verify(project, caller, ResumeRequest(found, resumes=False)).verdict
    except LeftoffError:
        return "refuse"
