"""Runs: which one a REF names, wherever it is kept; what is known of one, of many, and of where this is."""

from __future__ import annotations

import os

from leftoff.engine.config.project import open_store
from leftoff.model.fields import Fields
from leftoff.operations.reports import current, current_row, this_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.workspace.journal import CutShort
    from leftoff.engine.write.commit import Seal
    from leftoff.engine.write.report import Find
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

    class Known(Protocol):
        """A run that was found."""

        @property
        def run(self) -> int: ...
        @property
        def run_id(self) -> str: ...


_LOOKED_AT = 200  # checkpoints, for a session of the agent


def target(
    project: Project, caller: Caller, ref: str, find: Find | None = None, *, back: bool = False
) -> Target:
    """What a REF names; ``@`` is the current run. An archived run is looked at in a store of its own, or with ``back``
    taken back into the project's."""
    from leftoff.engine.read.find import resolve
    from leftoff.errors import NotFound

    find = find or current(project, caller)
    try:
        return resolve(project.store, ref, find)
    except NotFound:
        if not _open_archived(project, ref, back=back):
            raise
        return resolve(project.store, ref, find)


def _open_archived(project: Project, ref: str, *, back: bool) -> bool:
    """Whether a REF is of an archived run, which can be looked at from now on."""
    from leftoff.engine.retention.archive import SUFFIX, bundle_named, bundle_of, take_out
    from leftoff.host import this_process
    from leftoff.model.ids import parse_ref

    store, process = project.store, (this_process(), "leftoff")
    bundle = bundle_of(store, parse_ref(ref).base) or bundle_named(store, ref)
    if bundle is None:
        return False
    if back:
        take_out(store, bundle, store, project.now, process)
        project.say(f"leftoff: {os.path.basename(bundle).removesuffix(SUFFIX)} was archived, and is back.")
        return True
    from tempfile import TemporaryDirectory

    folder = TemporaryDirectory(prefix="leftoff-")
    aside = open_store(folder.name + "/.leftoff")
    take_out(store, bundle, aside, project.now, process)
    project.look_into(aside, folder)
    return True


def named(project: Project, caller: Caller, ref: str | None) -> Target:
    """What a REF names; without one, the run that is meant."""
    from leftoff.engine.read.find import Target

    return Target(current_row(project, caller), None) if ref is None else target(project, caller, ref)


def info(project: Project, row: Known) -> RunInfo:
    """A run as it is now."""
    from leftoff.engine.read.info import run_info
    from leftoff.engine.write.head import gone

    found = run_info(project.store, row.run, project.now, project.limits)
    if found is None:
        raise gone(row.run_id)
    return found


def bring_back(project: Project, caller: Caller, ref: str) -> None:
    """An archived run that is named comes back into the store, unless one of that name is there."""
    from leftoff.engine.retention.archive import SUFFIX, bundle_named, bundle_of
    from leftoff.model.ids import parse_ref

    store = project.store
    bundle = bundle_of(store, parse_ref(ref).base)
    if bundle is None and not _is_known(project, caller, ref):
        bundle = bundle_named(store, ref)
    if bundle is not None:
        run_id = os.path.basename(bundle).removesuffix(SUFFIX)
        if not (store.exists() and store.read(lambda view: view.find_run(run_id)) is not None):
            _open_archived(project, ref, back=True)


def _is_known(project: Project, caller: Caller, ref: str) -> bool:
    """Whether a REF names something in the store."""
    from leftoff.engine.read.find import resolve
    from leftoff.errors import LeftoffError

    try:
        resolve(project.store, ref, current(project, caller))
    except LeftoffError:
        return False
    return True


def session_of_agent(project: Project, row: RunRow, agent: str) -> str | None:
    """The latest session of an agent that worked on a run: the one it is bound to, else one of an older version."""
    if row.card.get("agent") == agent and row.session:
        return str(row.session)
    from leftoff.engine.read.state import Reader

    store = project.store

    def look(view: View) -> str | None:
        for version in view.versions(row.run, sealed=True, limit=_LOOKED_AT):
            known = Reader(store, view, row.run, row.run_id, version.seq).plain("run")
            if known.get("agent") == agent and isinstance(known.get("session_id"), str):
                return str(known["session_id"])
        return None

    return store.read(look)


def hand_over(project: Project, row: RunRow, agent: str, session: str | None) -> None:
    """From now on another agent works on a run: a checkpoint says so. ``session``: its own earlier one, if any."""
    from leftoff.engine.write.commit import Seal, Terms
    from leftoff.engine.write.report import report

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        changes.put("run", "agent", agent)
        if session:
            changes.put("run", "session_id", session)
        elif row.session:
            changes.delete("run", "session_id")  # it was another agent's; the new one says its own
        return Seal("manual", note=f"handed over to {agent}")

    report(project.store, this_run(row.run, row.run_id), make, Terms(project.now), scrubber=project.redactor)


# -- many runs


class Wanted(Fields):
    """Which runs to list. ``limit``: at most so many. ``archived``: the archived ones, too."""

    status: Sequence[str] | None = None
    workflow: str | None = None
    branch: str | None = None
    limit: int | None = None
    archived: bool = False


class Listed(Fields):
    """Runs, latest first, and whether there are more; the archived ones, as they were listed."""

    runs: list[RunInfo]
    more: bool
    archived: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        return {"runs": [*(run.to_json() for run in self.runs), *self.archived]}


def list_runs(project: Project, wanted: Wanted) -> Listed:
    """Runs as listings show them; none where there is no store."""
    from leftoff.engine.read.info import list_info

    limit = None if wanted.limit is None else wanted.limit + 1
    where = {"status": wanted.status, "workflow": wanted.workflow, "branch": wanted.branch}
    found = list_info(project.store, project.now, project.limits, limit=limit, **where)
    shown = found if wanted.limit is None else found[: wanted.limit]
    return Listed(shown, len(found) > len(shown), _archived(project, wanted) if wanted.archived else [])


def _archived(project: Project, wanted: Wanted) -> list[dict[str, Any]]:
    from leftoff.engine.retention.archive import archived

    where = {"workflow": wanted.workflow, "branch": wanted.branch}
    return [
        about
        for about in archived(project.store)
        if (wanted.status is None or about["status"] in wanted.status)
        and all(value is None or about.get(key) == value for key, value in where.items())
    ]


# -- where this is

_TIMED = 10  # runs whose time is told where none is the current one


class Status(Fields):
    """The project, its store, the current run and all that are not finished, at one moment.

    ``why_none``: why there is no current run. ``times``: of the current run; where there is none, of those that were
    touched last. ``cut_short``: rollbacks that were killed before all files were in their place, by run. ``problems``:
    which files of the protocol could not be kept in step, and why.
    """

    project: str
    store: str
    exists: bool
    branch: str
    git_branch: str | None
    runs: list[RunInfo]
    current: RunInfo | None
    why_none: str
    times: dict[str, dict[str, float | None]]
    cut_short: dict[str, CutShort]
    problems: list[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "project": self.project,
            "store": self.store,
            "branch": self.branch,
            "git_branch": self.git_branch,
            "current_run": self.current.run_id if self.current is not None else None,
            "time": self.times[self.current.run_id] if self.current is not None else None,
            "times": self.times,
            "half_restored": {run: found.command for run, found in self.cut_short.items()},
            "problems": self.problems,
            "runs": [run.to_json() for run in self.runs],
        }


def status(project: Project, caller: Caller) -> Status:
    """Where this is."""
    from leftoff.engine.config.git_head import git_branch
    from leftoff.engine.read.timing import timing
    from leftoff.engine.workspace.journal import cut_short
    from leftoff.model.words import UNFINISHED

    store, folder = project.store, project.folder
    runs = list_runs(project, Wanted(status=UNFINISHED)).runs
    row, why_none = _current_or_why(project, caller)
    current = info(project, row) if row is not None else None
    timed = [current] if current is not None else runs[:_TIMED]
    found = {run.run_id: cut_short(store, folder, run.row.run, run.run_id) for run in runs}
    return Status(
        project=folder,
        store=store.name,
        exists=store.exists(),
        branch=caller.branch,
        git_branch=git_branch(folder),
        runs=runs,
        current=current,
        why_none=why_none,
        times={run.run_id: timing(store, run.row, project.now) for run in timed},
        cut_short={run_id: short for run_id, short in found.items() if short},
        problems=store.follower.problems() if store.follower is not None else [],
    )


def _current_or_why(project: Project, caller: Caller) -> tuple[RunRow | None, str]:
    """The run that is meant; where nobody named one, there may be none, and why."""
    from leftoff.errors import NotFound, Usage

    try:
        return current_row(project, caller), ""
    except (NotFound, Usage) as error:
        if caller.named or caller.run:
            raise
        return None, error.message


def board(project: Project) -> str:
    """The table of active checkpoints, as the sitebuilder protocol has it."""
    from leftoff.dialects.sitebuilder.board import table

    return table(project.store, project.now, project.limits)
