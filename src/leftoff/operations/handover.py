"""Handing a run over to another agent."""

from __future__ import annotations

from leftoff.operations.reports import session_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

_LOOKED_AT = 200  # checkpoints, for a session of the agent


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


def hand_over(project: Project, caller: Caller, row: RunRow, agent: str, session: str | None) -> None:
    """From now on another agent works on a run: a checkpoint says so. ``session``: its own earlier one, if any. Not
    where somebody drives the run by now, or went on with it: that agent is told of another state."""
    from leftoff.engine.write.commit import Seal, Terms
    from leftoff.engine.write.lease import refuse_driven
    from leftoff.engine.write.report import report
    from leftoff.engine.write.unmoved import unmoved_run

    at, ours = project.now, session_of(project, caller)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        refuse_driven(tx, row.run, row.run_id, at, ours)
        changes.put("run", "agent", agent)
        if session:
            changes.put("run", "session_id", session)
        elif row.session:
            changes.delete("run", "session_id")  # it was another agent's; the new one says its own
        return Seal("manual", note=f"handed over to {agent}")

    report(project.store, unmoved_run(row), make, Terms(at), scrubber=project.redactor)
