"""What takes long and is watched meanwhile: one check of each store at a time, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from leftoff.errors import LeftoffError
from leftoff.operations.upkeep.stores import fsck, info
from leftoff.web.projects import Served
from leftoff.web.security import defect

EVERY_S = 0.25  # between two words of how far it is


class Check:
    """One fsck: how far it is, and what came of it."""

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
        """By the runs that it has looked at."""
        if self.report is not None:
            return 100
        return min(99, self.checked.get("runs", 0) * 100 // self.total) if self.total else 0

    def run(self) -> None:
        try:
            with self._served.open() as project:
                self.total = int(info(project).to_json().get("runs") or 0)
                self.report = fsck(project, counted=self._counted).to_json()
        except LeftoffError as error:
            self.error = error.whole
        except Exception as error:  # a defect of ours: the check is over all the same, and another can begin
            self.error = defect(error)
        self._moved(self._served.key)

    def _counted(self, checked: dict[str, int]) -> None:
        self.checked = dict(checked)
        if time.monotonic() - self._told > EVERY_S:
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


class Jobs:
    """The last check of each project. ``moved``: who is told that one went on, by the project's key."""

    def __init__(self, moved: Callable[[str], None]) -> None:
        self._moved = moved
        self._checks: dict[str, Check] = {}
        self._lock = threading.Lock()

    def check(self, served: Served) -> Check:
        """Begin a check, unless one is under way."""
        with self._lock:
            known = self._checks.get(served.key)
            if known is not None and known.to_json()["running"]:
                return known
            begun = self._checks[served.key] = Check(served, self._moved)
        threading.Thread(target=begun.run, name=f"fsck {served.key}", daemon=True).start()
        return begun

    def of(self, key: str) -> dict[str, Any] | None:
        """How far the last one is, if there was any."""
        known = self._checks.get(key)
        return known.to_json() if known is not None else None
