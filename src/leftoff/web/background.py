"""Work that no request waits for: checks of stores, and verdicts on paused runs. Each has a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from leftoff.engine.config.caller import Caller
from leftoff.engine.resume.request import ResumeRequest
from leftoff.errors import LeftoffError
from leftoff.operations.resume.verdict import verify
from leftoff.operations.runs import target
from leftoff.operations.store_upkeep import check_store, store_info
from leftoff.web.guard import defect
from leftoff.web.served import Served

_TELL_EVERY_S = 0.25  # how often the progress of a check is reported
_VALID_S = 60.0  # after that, files or git may have changed
_MOST_VERDICTS = 1000
MOST_STEPS = 5000  # a larger run is not judged before a user asks for it


class StoreCheck:
    """One fsck: its progress and its result."""

    def __init__(self, served: Served, moved: Callable[[str], None]) -> None:
        self.checked: dict[str, int] = {}
        self.total = 0  # runs
        self.report: dict[str, Any] | None = None
        self.error = ""
        self._served = served
        self._moved = moved
        self._told = 0.0

    @property
    def percent(self) -> int:
        if self.report is not None:
            return 100
        return min(99, self.checked.get("runs", 0) * 100 // self.total) if self.total else 0

    def run(self) -> None:
        try:
            with self._served.open() as project:
                self.total = int(store_info(project).to_json().get("runs") or 0)
                self.report = check_store(project, counted=self._counted).to_json()
        except LeftoffError as error:
            self.error = error.whole
        except Exception as error:  # the check must end, so that another one can start
            self.error = defect(error)
        self._moved(self._served.key)

    def _counted(self, checked: dict[str, int]) -> None:
        self.checked = dict(checked)
        if time.monotonic() - self._told > _TELL_EVERY_S:
            self._told = time.monotonic()
            self._moved(self._served.key)

    def to_json(self) -> dict[str, Any]:
        return {
            "running": self.report is None and not self.error,
            "percent": self.percent,
            "checked": self.checked,
            "report": self.report,
            "error": self.error or None,
        }


class StoreChecks:
    """The last check of each project. ``moved`` is called with the project's key when one has made progress."""

    def __init__(self, moved: Callable[[str], None]) -> None:
        self._moved = moved
        self._checks: dict[str, StoreCheck] = {}
        self._lock = threading.Lock()

    def start(self, served: Served) -> StoreCheck:
        """Start a check, unless one is running."""
        with self._lock:
            known = self._checks.get(served.key)
            if known is not None and known.to_json()["running"]:
                return known
            begun = self._checks[served.key] = StoreCheck(served, self._moved)
        threading.Thread(target=begun.run, name=f"fsck {served.key}", daemon=True).start()
        return begun

    def of(self, key: str) -> dict[str, Any] | None:
        known = self._checks.get(key)
        return known.to_json() if known is not None else None


class Verdicts:
    """Whether paused runs could continue, as last judged. Judging looks at files and git, so a page never waits."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, float, str]] = {}  # seq, when, verdict
        self._wanted: dict[tuple[str, str], tuple[Served, int]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def of(self, served: Served, run_id: str, seq: int) -> str | None:
        """Return the verdict on a run at that version; ``None`` until it is known."""
        address = (served.key, run_id)
        with self._lock:
            known = self._known.get(address)
            if known is not None and known[0] != seq:
                known = None
            if known is None or time.monotonic() - known[1] > _VALID_S:
                self._wanted[address] = (served, seq)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="verdicts", daemon=True)
                    self._thread.start()
            return known[2] if known is not None else None

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                address = next(iter(self._wanted))
                served, seq = self._wanted.pop(address)
            verdict = _judge(served, address[1])
            with self._lock:
                self._known.pop(address, None)
                self._known[address] = (seq, time.monotonic(), verdict)
                while len(self._known) > _MOST_VERDICTS:
                    self._known.pop(next(iter(self._known)))


def _judge(served: Served, run_id: str) -> str:
    caller = Caller()
    try:
        with served.open() as project:
            found = target(project, caller, run_id)
            return verify(project, caller, ResumeRequest(found, resumes=False)).verdict
    except LeftoffError:
        return "refuse"
