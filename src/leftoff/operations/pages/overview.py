"""All runs of a project at a glance: those that need a person, those at work, then the others by the page."""

from __future__ import annotations

from leftoff.engine.read.attention import URGENT as URGENT
from leftoff.engine.read.attention import Glance as Glance
from leftoff.engine.read.attention import Question as Question
from leftoff.engine.read.attention import glance, unfinished_runs
from leftoff.engine.read.info import info
from leftoff.model.fields import Fields
from leftoff.model.words import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow


class RunFilter(Fields):
    """Which runs are looked for. ``text``: in id, title, workflow, branch or issue. ``before``: the number of a commit;
    only the rest is wanted, from what was touched last before it. ``first``: how many are shown of those that need a
    person, and of those under way; ``most``: of the rest."""

    status: str = ""
    workflow: str = ""
    branch: str = ""
    agent: str = ""
    text: str = ""
    before: int | None = None
    first: int = 50
    most: int = 50

    def fits(self, row: RunRow) -> bool:
        """Whether a run is looked for, as far as a store is not asked for that."""
        if self.agent and row.card.get("agent") != self.agent:
            return False
        told = (row.run_id, row.title, row.workflow, row.branch, f"#{row.issue}" if row.issue else None)
        wanted = self.text.casefold()
        return not wanted or any(wanted in word.casefold() for word in told if word)


class Overview(Fields):
    """``needed`` and ``worked``: how many fit of those that need a person, and of those under way, shown or not;
    ``needing``: how many need a person, whatever is looked for. ``next``: where the rest goes on, if there is more."""

    needs: list[Glance] = []
    works: list[Glance] = []
    rest: list[Glance] = []
    needed: int = 0
    worked: int = 0
    needing: int = 0
    next: int | None = None


def overview(project: Project, filters: RunFilter) -> Overview:
    """The runs of a project that are looked for; none where there is no store."""
    if not project.store.exists():
        return Overview()
    return project.store.read(lambda view: _look(project, view, filters))


def _look(project: Project, view: View, filters: RunFilter) -> Overview:
    where: dict[str, Any] = {"workflow": filters.workflow or None, "branch": filters.branch or None}
    all_of_them = unfinished_runs(view, project.now, {})
    found = [
        (row, why)
        for row, why in all_of_them
        if all(value is None or value == getattr(row, name) for name, value in where.items())
        and filters.fits(row)
        and filters.status in ("", row.status)
    ]
    needs = [(row, why) for row, why in found if why is not None]
    needs.sort(key=lambda need: URGENT.index(need[1]))
    works = [(row, why) for row, why in found if why is None]
    first = filters.first if filters.before is None else 0

    def seen(rows: Sequence[tuple[RunRow, str | None]]) -> list[Glance]:
        return [
            glance(project.store, view, row, why, project.now, project.limits) for row, why in rows[:first]
        ]

    rest, then = _rest(view, where, filters)
    return Overview(
        seen(needs),
        seen(works),
        [Glance(info(view, row, project.now, project.limits)) for row in rest],
        len(needs),
        len(works),
        sum(why is not None for _, why in all_of_them),
        then,
    )


def _rest(view: View, where: dict[str, Any], filters: RunFilter) -> tuple[list[RunRow], int | None]:
    """A page of the finished runs, and where the next one begins."""
    wanted = FINISHED if not filters.status else [filters.status] if filters.status in FINISHED else []
    plain = not (filters.text or filters.agent)
    every = {**where, "status": wanted, "before": filters.before}
    rows = view.list_runs(every, filters.most + 1 if plain else None)
    found = rows if plain else [row for row in rows if filters.fits(row)]
    then = found[filters.most - 1].n if len(found) > filters.most else None
    return found[: filters.most], then
