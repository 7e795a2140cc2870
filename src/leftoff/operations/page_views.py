"""What only the page shows: all runs at a glance, one run at a glance, its records and single steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from leftoff.engine.config.caller import Caller
from leftoff.engine.config.project import Project
from leftoff.engine.read.attention import URGENT, Glance, glance, need_of, unfinished_runs
from leftoff.engine.read.find import Target
from leftoff.engine.read.info import info
from leftoff.engine.read.show import as_of, step_record
from leftoff.engine.read.state import Reader, need_version
from leftoff.engine.write.lease import state as lease_state
from leftoff.host import GONE
from leftoff.model.words import FINISHED
from leftoff.operations.run_reports import step_named
from leftoff.operations.runs import target
from leftoff.store.base import View
from leftoff.store.rows import RunRow

# -- all runs


class RunFilter(NamedTuple):
    """Which runs are looked for. ``text``: in id, title, workflow, branch or issue.

    ``first``: how many are shown of those that need a person, and of those under way; ``most``: of the rest.
    ``before``: the number of a commit; show only the rest, from what was touched last before it.
    """

    status: str = ""
    workflow: str = ""
    branch: str = ""
    agent: str = ""
    text: str = ""
    before: int | None = None
    first: int = 50
    most: int = 50

    def fits(self, row: RunRow) -> bool:
        """Return whether a run is looked for, as far as the store does not select it."""
        if self.agent and row.card.get("agent") != self.agent:
            return False
        told = (row.run_id, row.title, row.workflow, row.branch, f"#{row.issue}" if row.issue else None)
        wanted = self.text.casefold()
        return not wanted or any(wanted in word.casefold() for word in told if word)


class Overview(NamedTuple):
    """Runs that need a person, runs under way, and the rest. ``needed``, ``worked``: how many fit of the first two;
    ``needing``: how many need a person, whether they fit or not. ``next``: where the rest continues, if there is more.
    """

    needs: Sequence[Glance] = ()
    works: Sequence[Glance] = ()
    rest: Sequence[Glance] = ()
    needed: int = 0
    worked: int = 0
    needing: int = 0
    next: int | None = None


def overview(project: Project, filters: RunFilter) -> Overview:
    """Return the runs of a project that are looked for; none if there is no store."""
    if not project.store.exists():
        return Overview()
    return project.store.read(lambda view: _overview(project, view, filters))


def _overview(project: Project, view: View, filters: RunFilter) -> Overview:
    store, now, limits = project.store, project.now, project.limits
    every = unfinished_runs(view, now, {})
    found = [
        (row, why)
        for row, why in every
        if filters.workflow in ("", row.workflow)
        and filters.branch in ("", row.branch)
        and filters.status in ("", row.status)
        and filters.fits(row)
    ]
    needs = [(row, why) for row, why in found if why is not None]
    needs.sort(key=lambda need: URGENT.index(need[1]))
    works = [(row, None) for row, why in found if why is None]
    first = filters.first if filters.before is None else 0
    rest, then = _rest(view, filters)
    return Overview(
        [glance(store, view, row, why, now, limits) for row, why in needs[:first]],
        [glance(store, view, row, why, now, limits) for row, why in works[:first]],
        [Glance(info(view, row, now, limits)) for row in rest],
        len(needs),
        len(works),
        sum(why is not None for _, why in every),
        then,
    )


def _rest(view: View, filters: RunFilter) -> tuple[list[RunRow], int | None]:
    """Return a page of the finished runs, and where the next one begins."""
    status = FINISHED if not filters.status else [filters.status] if filters.status in FINISHED else []
    where = {"workflow": filters.workflow or None, "branch": filters.branch or None, "status": status}
    plain = not (filters.text or filters.agent)
    rows = view.list_runs({**where, "before": filters.before}, filters.most + 1 if plain else None)
    found = rows if plain else [row for row in rows if filters.fits(row)]
    then = found[filters.most - 1].n if len(found) > filters.most else None
    return found[: filters.most], then


# -- one run


def at_a_glance(project: Project, caller: Caller, ref: str) -> tuple[Target, Glance]:
    """Return what a REF names, and that run as an overview shows it; of a version, as it was then."""
    found = target(project, caller, ref)
    store, now = project.store, project.now

    def look(view: View) -> Glance:
        row = view.run_row(found.row.run) or found.row
        if found.version is not None:
            version = need_version(view, row.run, row.run_id, found.version.seq)
            own = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
            return Glance(info(view, as_of(row, version, own), now, project.limits))
        why = need_of(row, lease_state(view.lease(row.run), now) == GONE)
        return glance(store, view, row, why, now, project.limits)

    return found, store.read(look)


def records_of(project: Project, caller: Caller, ref: str, *collections: str) -> dict[str, dict[str, Any]]:
    """Return the records that a run, or a version of it, has in some collections, by key."""
    found = target(project, caller, ref)

    def look(view: View) -> dict[str, dict[str, Any]]:
        reader = _reader(project, view, found)
        return {name: reader.plain(name) for name in collections}

    return project.store.read(look)


def step_of_run(project: Project, caller: Caller, ref: str, path: str) -> dict[str, Any]:
    """Return one step, as documents have it."""
    found = target(project, caller, ref)
    known = step_named(project, found.row, path)
    value = project.store.read(lambda view: _reader(project, view, found).value("step", known))
    return step_record(known, dict(value.plain) if value is not None else {})


def _reader(project: Project, view: View, found: Target) -> Reader:
    seq = found.version.seq if found.version is not None else None
    return Reader(project.store, view, found.row.run, found.row.run_id, seq)
