"""The values of the screens of a whole project: home (all runs) and store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leftoff.dialects.project_retention import prune_project
from leftoff.engine.config.project import Project
from leftoff.engine.read.attention import URGENT, Glance
from leftoff.model.words import RUN_STATUS
from leftoff.operations.page_actions import plan_to_prune
from leftoff.operations.page_views import Overview, RunFilter, overview
from leftoff.operations.project_trust import settings_in_force
from leftoff.operations.runs import list_project_runs
from leftoff.operations.store_upkeep import list_trash, store_info
from leftoff.web.background import MOST_STEPS
from leftoff.web.served import ScreenRequest, Served

_PAGE = 50
_FIRST, _ALL = 24, 500  # shown of the runs that need a person, and of those under way
_ASK, _STUCK = "ask", ("ask", "refuse")
_ORDER = (*URGENT, _ASK)
_FIELDS = ("status", "workflow", "branch", "agent", "text")
_LARGEST = 15
_SIZED = 500  # runs whose size is asked for
_REMOVED = 50


def home_screen(places: Sequence[tuple[Served, Project]], asked: ScreenRequest) -> dict[str, Any]:
    """Runs of all projects, the latest of each part first. ``?project=``: of that one alone."""
    only = asked.query.get("project", "")
    filters = _filters(asked)
    given = {name: getattr(filters, name) for name in _FIELDS}
    found = [(served, overview(project, filters)) for served, project in places if only in ("", served.key)]
    works = _latest([(served, each) for served, one in found for each in one.works])
    verdicts = {id(each): _verdict(asked, served, each) for served, each in works}
    asks = [(served, each.but(why=_ASK)) for served, each in works if verdicts[id(each)] in _STUCK]
    needs = _latest([(served, each) for served, one in found for each in one.needs]) + asks
    rests = []
    for served, one in found:
        more = {**given, "project": served.key, "before": one.next}
        rests.append((served, one.rest, asked.url("home", query=more) if one.next is not None else ""))
    return {
        "needs": sorted(needs, key=lambda need: _ORDER.index(need[1].why or "")),
        "works": [(served, each) for served, each in works if verdicts[id(each)] not in _STUCK],
        "is_looking": None in verdicts.values(),
        "rests": rests,
        "needing": sum(overview.needing for _, overview in found) + len(asks),
        "needed": sum(overview.needed for _, overview in found) + len(asks),
        "worked": sum(overview.worked for _, overview in found) - len(asks),
        "all": asked.url("home", query={**given, "project": only, "all": 1}),
        "filters": filters,
        "is_filtered": any(given.values()),
        "statuses": RUN_STATUS,
        "known": _known(found),
        "only": only,
        "is_empty": not any(one.needs or one.works or one.rest for _, one in found),
    }


def _filters(asked: ScreenRequest) -> RunFilter:
    filters = RunFilter(
        **{name: asked.query.get(name, "").strip() for name in _FIELDS},
        before=asked.number("before"),
        first=_ALL if asked.query.get("all") else _FIRST,
        most=_PAGE,
    )
    return filters if filters.status in RUN_STATUS else filters._replace(status="")


def _verdict(asked: ScreenRequest, served: Served, seen: Glance) -> str | None:
    """Return the verdict on a paused run; ``None`` until it is known."""
    info = seen.info
    if info.status != "paused" or info.steps["total"] > MOST_STEPS:
        return ""
    return asked.verdict_of(served, info.run_id, info.row.seq)


def _latest(runs: list[tuple[Served, Glance]]) -> list[tuple[Served, Glance]]:
    return sorted(runs, key=lambda run: run[1].info.row.updated_at, reverse=True)


def _known(found: list[tuple[Served, Overview]]) -> dict[str, list[str]]:
    """Return the values to filter by, from the runs that are shown."""
    rows = [each.info.row for _, one in found for part in (one.needs, one.works, one.rest) for each in part]
    agents = (row.card.get("agent") for row in rows)
    return {
        "workflow": sorted({row.workflow for row in rows}),
        "branch": sorted({row.branch for row in rows}),
        "agent": sorted({agent for agent in agents if isinstance(agent, str)}),
    }


def store_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """The store, the largest runs, the settings. ``?preview=1``: with what retention would remove."""
    about = store_info(project)
    found = list_project_runs(project, limit=_SIZED, sizes=True) if about.exists else None
    sizes = found.sizes if found is not None else {}
    runs = sorted(found.runs, key=lambda run: -sizes.get(run.run_id, 0)) if found is not None else []
    most = max(sizes.values(), default=0) or 1
    pruned = prune_project(project, dry=True) if about.exists and asked.query.get("preview") else None
    return {
        "about": about.to_json(),
        "facts": [(name.replace("_", " "), value) for name, value in about.about.items()],
        "bytes": about.about.get("bytes"),
        "runs": [
            (run, sizes.get(run.run_id, 0), 100 * sizes.get(run.run_id, 0) // most) for run in runs[:_LARGEST]
        ],
        "more_runs": found is not None and found.more,
        "pruned": pruned,
        "removed": pruned.removed[:_REMOVED] if pruned is not None else [],
        "plan": plan_to_prune(pruned) if pruned is not None else "",
        "trash": list_trash(project) if about.exists else [],
        "settings": settings_in_force(project),
        "fsck": asked.query.get("fsck"),
    }
