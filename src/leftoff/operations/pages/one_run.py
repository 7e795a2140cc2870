"""One run, looked into: its steps by the page, their graph and their times, what it keeps; now or at a version."""

from __future__ import annotations

from leftoff.engine.read.history import Life as Life
from leftoff.engine.read.history import Lives as Lives
from leftoff.engine.read.history import Tried as Tried
from leftoff.engine.read.history import find_lives
from leftoff.engine.read.show import GraphNode as GraphNode
from leftoff.engine.read.show import StepGraph as StepGraph
from leftoff.engine.read.show import StepPage as StepPage
from leftoff.engine.read.show import StepsWanted as StepsWanted
from leftoff.engine.read.show import as_of, step_graph, step_page
from leftoff.engine.read.state import Reader, need_version
from leftoff.operations.runs import target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.attention import Glance
    from leftoff.engine.read.find import Target
    from leftoff.store.base import View


def steps(project: Project, caller: Caller, ref: str, wanted: StepsWanted) -> StepPage:
    """A page of a run's leaf steps."""
    found = target(project, caller, ref)
    return step_page(project.store, found, wanted)


def lives(project: Project, caller: Caller, ref: str, epoch: int | None = None, most: int = 400) -> Lives:
    """When what of a run was done. ``epoch``: in one life of it only."""
    found = target(project, caller, ref)
    return find_lives(project.store, found, epoch, most)


def graph(project: Project, caller: Caller, ref: str) -> StepGraph:
    """Which step of a run waits for which."""
    found = target(project, caller, ref)
    return step_graph(project.store, found)


def at_a_glance(project: Project, caller: Caller, ref: str) -> tuple[Target, Glance]:
    """What a REF names, and that run as an overview shows it; of a version, as it was then."""
    from leftoff.engine.read.attention import Glance, glance, need_of
    from leftoff.engine.read.info import info
    from leftoff.engine.write.lease import state
    from leftoff.host import GONE

    found = target(project, caller, ref)
    store, now = project.store, project.now

    def look(view: View) -> Glance:
        row = view.run_row(found.row.run) or found.row
        if found.version is not None:
            version = need_version(view, row.run, row.run_id, found.version.seq)
            own = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
            return Glance(info(view, as_of(row, version, own), now, project.limits))
        why = need_of(row, state(view.lease(row.run), now) == GONE)
        return glance(store, view, row, why, now, project.limits)

    return found, store.read(look)


def kept(project: Project, caller: Caller, ref: str, *collections: str) -> dict[str, dict[str, Any]]:
    """What a run, or a version of it, has in some collections, by key."""
    found = target(project, caller, ref)
    row, seq = found.row, found.version.seq if found.version is not None else None
    store = project.store

    def look(view: View) -> dict[str, dict[str, Any]]:
        reader = Reader(store, view, row.run, row.run_id, seq)
        return {name: reader.plain(name) for name in collections}

    return store.read(look)


def step(project: Project, caller: Caller, ref: str, path: str) -> dict[str, Any]:
    """One step, as documents have it."""
    from leftoff.engine.read.show import step_record
    from leftoff.operations.reports import step_of

    found = target(project, caller, ref)
    row, seq = found.row, found.version.seq if found.version is not None else None
    known = step_of(project, row, path)
    value = project.store.read(
        lambda view: Reader(project.store, view, row.run, row.run_id, seq).value("step", known)
    )
    return step_record(known, dict(value.plain) if value is not None else {})
