"""What happens in a project, as it happens: for whoever shows it and does not want to ask again and again.

Commits are told by the store (``Store.watch``). What no commit says is looked at here, without a query: that the
process of a driver is gone, that a run has been quiet for too long.
"""

from __future__ import annotations

import time

from leftoff.engine.read.info import health
from leftoff.engine.write.lease import state
from leftoff.store.news import News as News

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.engine.config.project import Project
    from leftoff.store.base import View
    from leftoff.store.rows import Lease, RunRow

EVERY_S = 1.0  # between looks at processes and clocks
UNCHANGED = 0  # in the place of a version: it is none that is news
MOST = 1000  # running runs whose drivers are looked at


class Changes:
    """Made before whoever wants it looks at the project: then nothing is missed."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._watch = project.store.watch()
        self._running: list[RunRow] = []
        self._leases: dict[str, Lease] = {}
        self._states: dict[str, str] = {}
        self._look()

    def wait(self, seconds: float | None = None) -> News:
        """What happened since the last call; ``News()``: nothing did for so long. ``None``: wait until it does."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = EVERY_S if end is None else max(0.0, end - time.monotonic())
            news = self._watch.wait(min(EVERY_S, left))
            if news:
                self._look()
                return news
            aged = self._aged()
            if aged or (end is not None and time.monotonic() >= end):
                return News(dict.fromkeys(aged, UNCHANGED))

    def follow(self) -> Iterator[News]:
        """Everything that happens, until nobody wants it any more; the first is at once, for those who look then."""
        yield News(others=True)
        while True:
            yield self.wait()

    def close(self) -> None:
        self._watch.close()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def _look(self) -> None:
        """Who drives what, and the runs whose health may change by itself."""

        def look(view: View) -> tuple[list[RunRow], dict[str, Lease]]:
            return view.list_runs({"status": ["running"]}, MOST), dict(view.leases())

        store = self._project.store
        self._running, self._leases = store.read(look) if store.exists() else ([], {})
        self._states = self._states_now()

    def _states_now(self) -> dict[str, str]:
        """Of each run that is driven whether its driver is to be seen; of each that is running its health."""
        now, limits = self._project.now, self._project.limits
        states = {run_id: state(lease, now) for run_id, lease in self._leases.items()}
        for row in self._running:
            alive = health(row, self._leases.get(row.run_id), now, *limits)
            states[row.run_id] = f"{alive} {states.get(row.run_id, '')}"
        return states

    def _aged(self) -> list[str]:
        """The runs of which that is another one than at the last look, though nobody committed anything."""
        if self._states_now() == self._states:
            return []
        before = self._states
        self._look()  # a beat is not told: perhaps there was one
        return [run_id for run_id, now in self._states.items() if now != before.get(run_id)]


def watch(project: Project) -> Changes:
    """Hear of what happens in a project from now on. Costs no query while nothing does."""
    return Changes(project)
