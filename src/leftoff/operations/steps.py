"""Steps: what happened to one, which comes next, and asking a person to decide one."""

from __future__ import annotations

from leftoff.engine.read.find import OPEN_TURN
from leftoff.model.fields import Fields
from leftoff.model.words import FINISHED
from leftoff.operations.reports import current, current_row, report, report_on, step_of, usage_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.steps.next_step import NextStep
    from leftoff.engine.steps.reports import StepReport
    from leftoff.engine.workspace.tracking import Surroundings
    from leftoff.engine.write.commit import Seal
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import BlobRow, RunRow

    Also = Callable[[Tx, RunRow, ChangeSet, Seal | None], None]


def report_step(
    project: Project,
    caller: Caller,
    said: StepReport,
    outputs: Sequence[str] = (),
    *,
    also: Also | None = None,
) -> Reported:
    """Report what happened to a step. ``outputs``: the files that it wrote, of which copies are kept. ``also``: what is
    done in the same transaction."""
    from leftoff.engine.steps.reports import step_changes

    at = project.now
    said.masked(project.redactor)
    looked, around, blobs = _looked_around(project, caller, said, outputs, at)
    was = ""

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        nonlocal was
        known = tx.row(row.run, "step", said.path) if said.action != "done" else None
        was = known[1] or "" if known is not None else ""
        seal = usage_errors(lambda: step_changes(project.store, tx, row, changes, said, at))
        if row.card.get(OPEN_TURN) and said.action in ("done", "skip"):
            from leftoff.engine.lifecycle.agent_turns import close_cut_off

            close_cut_off(project.store, tx, row, changes, at)
        if seal is not None and around is not None:
            around.put(row, changes)
        if also is not None:
            also(tx, row, changes, seal)
        return seal

    done = report_on(project, caller, looked, make, blobs, at)
    if was == "completed":
        project.say(f"leftoff: {said.path} was completed; because of this report it no longer is.")
    return done


def _looked_around(
    project: Project, caller: Caller, said: StepReport, outputs: Sequence[str], at: int
) -> tuple[RunRow | None, Surroundings | None, list[BlobRow]]:
    """Before the transaction: the run, copies of the outputs, and the world as it is where a checkpoint is sealed."""
    if not outputs and said.action == "start":
        return None, None, []
    row = current_row(project, caller)  # nothing is kept for a run that is not there
    said.path = step_of(project, row, said.path)
    blobs: list[BlobRow] = []
    if outputs:
        from leftoff.engine.steps.reports import capture_outputs

        blobs += capture_outputs(project.workspace(at), said, list(outputs))
    if said.action == "start":
        return row, None, blobs
    from leftoff.engine.workspace.tracking import look_around

    around = look_around(project, row, issue=_ends_phase(project, row, said))
    return row, around, blobs + around.blobs


def _ends_phase(project: Project, row: RunRow, said: StepReport) -> bool:
    """Whether this is the last step of a phase of a run that works on an issue."""
    if not row.issue or said.action not in ("done", "skip"):
        return False
    from leftoff.engine.read.state import read
    from leftoff.model.ids import parent_of

    steps = {key: value.plain for key, value in read(project.store, row.run, row.run_id, "step").items()}
    phase = parent_of(said.path)
    if not phase:
        return bool(steps.get(said.path, {}).get("kind") == "phase")
    beside = [
        record["status"] for key, record in steps.items() if key.startswith(f"{phase}/") and key != said.path
    ]
    return all(status in ("completed", "skipped") for status in beside)


def next_step(project: Project, caller: Caller, *, start: bool = False) -> NextStep:
    """The step to do next. ``start``: it is started in the same transaction, so that nobody else gets it."""
    from leftoff.engine.steps.next_step import next_step as look_up
    from leftoff.engine.write.head import need_store

    store, find = project.store, current(project, caller)

    def look(view: View, row: RunRow) -> NextStep:
        return _waits_for_approval(project, view, row) or look_up(store, view, row)

    if not start:
        need_store(store)
        return store.read(lambda view: look(view, find(view)))
    from leftoff.engine.steps.reports import StepReport, step_changes

    at = project.now
    found: list[NextStep] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        found[:] = [look(tx, row)]
        if found[0].step is not None:
            step_changes(store, tx, row, changes, StepReport("start", found[0].step), at)

    report(project, caller, make, at=at)
    return found[0]


def _waits_for_approval(project: Project, view: View, row: RunRow) -> NextStep | None:
    """Nothing comes next before a person has approved the phase that a protocol wants approved."""
    if not project.settings.section("mirror").get("approvals"):
        return None
    from leftoff.dialects.protocol import state_at
    from leftoff.dialects.verdict import dialect_of, unapproved
    from leftoff.engine.steps.approvals import how
    from leftoff.engine.steps.next_step import NextStep

    dialect = dialect_of(row, project.folder, project.settings)
    state = state_at(project.store, view, row, dialect) if dialect is not None else None
    phases = unapproved(state, project.settings) if state is not None else []
    if not phases or row.status in FINISHED:
        return None
    return NextStep(row, f"{phases[0]} waits for a person's approval: `{how(row.run_id, phases[0])}`.")


def step_names(project: Project, caller: Caller) -> list[str]:
    """The steps of the run that is meant; of several the latest."""
    from leftoff.engine.read.state import Reader

    store, row = project.store, current_row(project, caller, "reads")
    return store.read(lambda view: list(Reader(store, view, row.run, row.run_id).raw("step")))


class Requested(Fields):
    """A question that waits for a person, and the command that decides it."""

    done: Reported
    how: str

    def to_json(self) -> dict[str, Any]:
        return {**self.done.to_json(), "status": "waiting", "how": self.how}


def request_approval(
    project: Project, caller: Caller, step: str, ask: str, options: Sequence[str] = ()
) -> Requested:
    """Ask a person for a decision, as a step that waits for it."""
    from leftoff.engine.steps.approvals import ask_changes, how
    from leftoff.engine.steps.lifecycle import steps_in
    from leftoff.model.ids import check_step

    at, redactor = project.now, project.redactor
    path, masked = redactor.name(usage_errors(lambda: check_step(step))), redactor.mask(ask)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        return ask_changes(steps_in(project.store, tx, row, changes, at), row.run_id, path, masked, options)

    done = report(project, caller, make, at=at)
    return Requested(done, how(done.row.run_id, path))
