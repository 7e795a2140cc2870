"""Which runs have changed since a position, for whoever was away: `watching.changes` tells those who are there.

A position is the number of the newest commit. Whoever knows one is told which runs have changed since, however long ago
that was, and whoever else was told meanwhile.
"""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.engine.config.project import Project

MOST = 200  # runs that are named; where more of them changed, all may have


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
    told = position - store.late
    runs = [row.run_id for row in rows if row.n > told] if position < newest else []
    return Happened(newest, runs, others=len(runs) == MOST)
