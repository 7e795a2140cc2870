"""A project in numbers, for whoever watches many: runs by status, those that need a person, how much room."""

from __future__ import annotations

from leftoff.engine.read.glance import unfinished
from leftoff.model.fields import Fields
from leftoff.model.versions import counts_of
from leftoff.model.words import RUN_STATUS, STEP_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.project import Project
    from leftoff.store.base import View


class Measures(Fields):
    """``runs``: by status. ``steps``: leaf steps of unfinished runs, by status. ``needs``: unfinished runs by what they
    need a person for. ``commits``: so many were ever made."""

    runs: dict[str, int]
    steps: dict[str, int]
    needs: dict[str, int]
    commits: int = 0
    bytes: int = 0


def measures(project: Project) -> Measures:
    """As things are now."""
    store = project.store
    if not store.exists():
        return Measures(dict.fromkeys(RUN_STATUS, 0), dict.fromkeys(STEP_STATUS, 0), {})
    found = store.read(lambda view: _measured(view, project.now))
    found.bytes = int(store.about().get("bytes") or 0)
    return found


def _measured(view: View, now: int) -> Measures:
    runs, steps = dict.fromkeys(RUN_STATUS, 0), dict.fromkeys(STEP_STATUS, 0)
    needs: dict[str, int] = {}
    rows = view.list_runs({})
    for row in rows:
        runs[row.status] = runs.get(row.status, 0) + 1
    for row, why in unfinished(view, now, {}):
        if why is not None:
            needs[why] = needs.get(why, 0) + 1
        for word, number in counts_of(row.counts).items():
            steps[word] = steps.get(word, 0) + number
    return Measures(runs, steps, needs, commits=rows[0].n if rows else 0)
