"""All runs of a project at a glance: those that need a person, those at work, then the others by the page."""

from __future__ import annotations

from leftoff.engine.read.glance import Glance as Glance
from leftoff.engine.read.glance import Question as Question
from leftoff.engine.read.glance import glance, unfinished
from leftoff.engine.read.info import info
from leftoff.model.fields import Fields
from leftoff.model.words import RUN_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

_AT_ONCE = 500  # rows that are looked at for a text


class Looking(Fields):
    """Which runs are looked for. ``text``: in id, title, workflow, branch or issue. ``before``: the number of a commit;
    the rest begins with what was touched last before it. ``most``: how many of each part are shown."""

    status: str = ""
    workflow: str = ""
    branch: str = ""
    agent: str = ""
    text: str = ""
    before: int | None = None
    most: int = 50

    def fits(self, row: RunRow) -> bool:
        """Whether a run is looked for, as far as a store is not asked for that."""
        if self.agent and row.card.get("agent") != self.agent:
            return False
        told = (row.run_id, row.title, row.workflow, row.branch, f"#{row.issue}" if row.issue else None)
        wanted = self.text.casefold()
        return not wanted or any(wanted in word.casefold() for word in told if word)


class Overview(Fields):
    """``needing``: how many runs need a person, whatever is looked for; ``working``: how many others are unfinished.
    ``next``: where the rest goes on, if there is more of it."""

    needs: list[Glance]
    works: list[Glance]
    rest: list[Glance]
    needing: int
    working: int
    next: int | None


def overview(project: Project, looking: Looking) -> Overview:
    """The runs of a project that are looked for; none where there is no store."""
    if not project.store.exists():
        return Overview([], [], [], 0, 0, None)
    return project.store.read(lambda view: _look(project, view, looking))


def _look(project: Project, view: View, looking: Looking) -> Overview:
    where: dict[str, Any] = {"workflow": looking.workflow or None, "branch": looking.branch or None}
    all_of_them = unfinished(view, project.now, {})
    found = [
        (row, why)
        for row, why in all_of_them
        if all(value is None or value == getattr(row, name) for name, value in where.items())
        and looking.fits(row)
        and looking.status in ("", row.status)
    ]
    needs = [(row, why) for row, why in found if why is not None]
    works = [(row, why) for row, why in found if why is None]
    first = looking.before is None

    def seen(rows: Sequence[tuple[RunRow, str | None]]) -> list[Glance]:
        some = rows[: looking.most] if first else []
        return [glance(project.store, view, row, why, project.now, project.limits) for row, why in some]

    more = [row for row, _ in [*needs[looking.most :], *works[looking.most :]]]
    rest, then = _rest(view, where, looking, more)
    return Overview(
        seen(needs),
        seen(works),
        [Glance(info(view, row, project.now, project.limits)) for row in rest],
        sum(why is not None for _, why in all_of_them),
        sum(why is None for _, why in all_of_them),
        then,
    )


def _rest(
    view: View, where: dict[str, Any], looking: Looking, more: list[RunRow]
) -> tuple[list[RunRow], int | None]:
    """A page of the finished runs, and of those that found no place above; and where the next one begins."""
    shown = {row.run for row in more}
    ended = [word for word in RUN_STATUS if word not in ("running", "paused", "blocked", "failed")]
    wanted = [looking.status] if looking.status else RUN_STATUS if more else ended
    plain = not (looking.text or looking.agent or more)
    found: list[RunRow] = []
    before = looking.before
    while len(found) <= looking.most:
        size = looking.most + 1 if plain else _AT_ONCE
        rows = view.list_runs({**where, "status": wanted, "before": before}, size)
        found += [row for row in rows if (row.status in ended or row.run in shown) and looking.fits(row)]
        if len(rows) < size:
            break
        before = rows[-1].n
    then = found[looking.most - 1].n if len(found) > looking.most else None
    return found[: looking.most], then
