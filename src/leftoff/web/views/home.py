"""Home: what needs a person, what is at work, and the rest; of everything that is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leftoff.model.words import RUN_STATUS
from leftoff.operations import Project
from leftoff.operations.pages.overview import URGENT, Glance, Overview, RunFilter, overview
from leftoff.web.asking import Asked
from leftoff.web.projects import Served
from leftoff.web.verdicts import MOST_STEPS
from leftoff.web.views.heading import number

PAGE = 50
FIRST, ALL = 24, 500  # of those that need a person, and of those under way
ASK, STUCK = "ask", ("ask", "refuse")
_ORDER = (*URGENT, ASK)
FIELDS = ("status", "workflow", "branch", "agent", "text")


def view(places: Sequence[tuple[Served, Project]], asked: Asked) -> dict[str, Any]:
    """Runs of all projects, the latest of each part first. ``?project=``: of that one alone."""
    only = asked.query.get("project", "")
    filters = _filters(asked)
    found = [(served, overview(project, filters)) for served, project in places if only in ("", served.key)]
    works = _latest([(served, each) for served, one in found for each in one.works])
    verdicts = {id(each): _verdict(asked, served, each) for served, each in works}
    asks = [(served, each.but(why=ASK)) for served, each in works if verdicts[id(each)] in STUCK]
    needs = _latest([(served, each) for served, one in found for each in one.needs]) + asks
    return {
        "needs": sorted(needs, key=lambda need: _ORDER.index(need[1].why or "")),
        "works": [(served, each) for served, each in works if verdicts[id(each)] not in STUCK],
        "is_looking": None in verdicts.values(),
        "rests": [(served, one.rest, _more(asked, served, filters, one)) for served, one in found],
        "needing": sum(overview.needing for _, overview in found) + len(asks),
        "needed": sum(overview.needed for _, overview in found) + len(asks),
        "worked": sum(overview.worked for _, overview in found) - len(asks),
        "all": asked.url(
            "home", query={**{name: getattr(filters, name) for name in FIELDS}, "project": only, "all": 1}
        ),
        "filters": filters,
        "is_filtered": any(getattr(filters, name) for name in FIELDS),
        "statuses": RUN_STATUS,
        "known": _known(found),
        "only": only,
        "is_empty": not any(one.needs or one.works or one.rest for _, one in found),
    }


def _filters(asked: Asked) -> RunFilter:
    filters = RunFilter(
        **{name: asked.query.get(name, "").strip() for name in FIELDS},
        before=number(asked.query.get("before")),
        first=ALL if asked.query.get("all") else FIRST,
        most=PAGE,
    )
    if filters.status not in RUN_STATUS:
        filters.status = ""
    return filters


def _verdict(asked: Asked, served: Served, seen: Glance) -> str | None:
    """The verdict on a run that stands still, as far as it is known; ``None`` until it is looked at."""
    info = seen.info
    if info.status != "paused" or info.steps["total"] > MOST_STEPS:
        return ""
    return asked.verdicts.of(served, info.run_id, info.row.seq)


def _latest(runs: list[tuple[Served, Glance]]) -> list[tuple[Served, Glance]]:
    """Of all projects together; each has its own in order already."""
    return sorted(runs, key=lambda run: run[1].info.row.updated_at, reverse=True)


def _more(asked: Asked, served: Served, filters: RunFilter, found: Overview) -> str:
    """Where the next page of the rest is, if there is one."""
    if found.next is None:
        return ""
    given = {name: getattr(filters, name) for name in FIELDS}
    return asked.url("home", query={**given, "project": served.key, "before": found.next})


def _known(found: list[tuple[Served, Overview]]) -> dict[str, list[str]]:
    """What there is to filter by, of the runs that are shown."""
    rows = [each.info.row for _, one in found for part in (one.needs, one.works, one.rest) for each in part]
    agents = (row.card.get("agent") for row in rows)
    return {
        "workflow": sorted({row.workflow for row in rows}),
        "branch": sorted({row.branch for row in rows}),
        "agent": sorted({agent for agent in agents if isinstance(agent, str)}),
    }
