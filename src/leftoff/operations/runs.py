"""Runs: which one a REF names, wherever it is kept; starting, pausing and finishing one."""

from __future__ import annotations

import os

from leftoff.engine.config.project import open_store
from leftoff.engine.read.state import Reader
from leftoff.engine.write.commit import Seal
from leftoff.engine.write.report import report
from leftoff.operations.reports import current, this_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.find import Target
    from leftoff.engine.read.info import RunInfo
    from leftoff.engine.write.head import Head
    from leftoff.engine.write.report import Find
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

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


def info(project: Project, row: RunRow | Head) -> RunInfo:
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

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        changes.put("run", "agent", agent)
        if session:
            changes.put("run", "session_id", session)
        elif row.session:
            changes.delete("run", "session_id")  # it was another agent's; the new one says its own
        return Seal("manual", note=f"handed over to {agent}")

    report(project.store, this_run(row.run, row.run_id), make, project.now, scrubber=project.redactor)
