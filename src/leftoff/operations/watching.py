"""Hearing of what happens to a project's runs: who committed, and whose process died, which nobody commits.

A position is the number of the newest commit. Whoever knows one is told which runs have changed since, however long ago
that was, and whoever else was told meanwhile.
"""

from __future__ import annotations

import time

from leftoff.host import GONE
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.engine.config.project import Project
    from leftoff.host import Process

MOST = 200  # runs that are named; where more of them changed, all may have
LATE = 64  # commits that a shared store may show later than others that are newer
EVERY_S = 0.1


class Happened(Fields):
    """What happened up to a position: the runs that it concerns, by their ids. ``others``: more may have changed."""

    position: int
    runs: Sequence[str] = ()
    others: bool = False

    def __bool__(self) -> bool:
        return bool(self.runs) or self.others


def since(project: Project, position: int) -> Happened:
    """What happened since a position; since 0, everything."""
    store = project.store
    if not store.exists():
        return Happened(0)
    rows = store.read(lambda view: view.list_runs({}, MOST))
    newest = rows[0].n if rows else 0
    if position <= 0 or position > newest:  # nobody was told before, or of another store
        return Happened(newest, others=position != newest)
    told = position - (LATE if store.shared else 0)
    runs = [row.run_id for row in rows if row.n > told] if position < newest else []
    return Happened(newest, runs, others=len(runs) == MOST)


class Watching:
    """One who hears of all that happens to a project's runs from now on."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.position = since(project, 0).position
        self._drivers: dict[str, Process] = {}
        self._look_at_drivers()

    def wait(self, seconds: float) -> Happened:
        """What happened since the last call; waits so long for something to happen."""
        end = time.monotonic() + seconds
        while not (found := self._news()) and time.monotonic() < end:
            time.sleep(EVERY_S)
        return found

    def _news(self) -> Happened:
        died = [run_id for run_id, process in self._drivers.items() if process.state() == GONE]
        found = since(self._project, self.position)
        self.position = found.position
        if died or found:
            self._look_at_drivers()
        return Happened(found.position, list(dict.fromkeys([*found.runs, *died])), found.others)

    def _look_at_drivers(self) -> None:
        """The processes that drive runs now: that one of them dies, nobody commits."""
        store = self._project.store
        leases = store.read(lambda view: view.leases()) if store.exists() else []
        found = {run_id: lease.process for run_id, lease in leases if lease.process is not None}
        self._drivers = {run_id: process for run_id, process in found.items() if process.state() != GONE}
