"""Report on a run: steps, variables, records, notes, artifacts, checkpoints, signs of life.

A report is one transaction that finds the run, looks, changes and commits. What takes longer (files, git, an issue) is
looked at before, for a run that is found once: the report is on that run, whatever was started since. Scripts and
agents call these verbs by the thousand, so what only some of them need is imported late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leftoff.engine.commit import NO_GUARD, Audit, Guard, Make, Reported, Seal, Terms, beat, report
from leftoff.engine.find import OPEN_TURN, REPORTS, Find, Target, Which, need_run, need_store, refuse_archived
from leftoff.engine.lease import gone, refuse_driven
from leftoff.engine.step_lifecycle import (
    StepReport,
    add_output,
    capture_outputs,
    known_step,
    note_record,
    put_note,
    put_step,
    refuse_approval,
    step_changes,
    steps_in,
)
from leftoff.errors import NotFound, StoreUnavailable, usage_errors
from leftoff.model.changes import NOTHING, ChangeSet, Version
from leftoff.model.ids import check_step, given_step, parent_of
from leftoff.model.words import FINISHED, UNFINISHED, check_record, decides_step
from leftoff.store.base import Tx, View
from leftoff.store.rows import BlobRow, RunRow

if TYPE_CHECKING:
    from leftoff.engine.project import Project
    from leftoff.engine.settings import Caller
    from leftoff.engine.show import NextStep


# -- the run that is meant, and who reports on it


def which_run(project: Project, caller: Caller, rule: str = REPORTS) -> Which:
    """Return how to find the run that is meant if no REF names one. ``rule``: see ``engine/find.py``."""
    return Which(caller, project.now, rule, project.explain)


def current_row(project: Project, caller: Caller, rule: str = REPORTS) -> RunRow:
    """Return the run that is meant, as it is now."""
    try:
        row = project.store.read(which_run(project, caller, rule))
    except StoreUnavailable:
        project.need_store()
        raise
    return row


def this_run(run: int, run_id: str) -> Find:
    """Return how a transaction finds a run that is known."""
    return lambda view: need_run(view, run, run_id)


def step_named(project: Project, row: RunRow, path: str) -> str:
    """Return the path of a step. An item of a ``foreach`` may be named as it is shown."""
    if "[" not in path and "\\" not in path:
        return path
    return project.store.read(lambda view: known_step(view, row.run, path))


def owner_of_step(project: Project, caller: Caller, path: str) -> tuple[RunRow, RunRow | None]:
    """Return the run that is meant, and another unfinished run that has the step if the first one does not."""
    own = current_row(project, caller)

    def other(view: View) -> RunRow | None:
        if view.row(own.run, "step", path) is not None:
            return None
        rows = view.list_runs({"status": UNFINISHED}, 50)
        return next((row for row in rows if view.row(row.run, "step", path) is not None), None)

    return own, project.store.read(other)


def session_of_caller(project: Project, caller: Caller) -> str | None:
    """Return the agent's session that the caller belongs to."""
    if caller.session or caller.agent is None or not project.store.exists():
        return caller.session or caller.first_session
    return project.store.read(caller.session_in)


def check_free(project: Project, caller: Caller, target: Target) -> None:
    """Raise if another process or session drives the run."""
    row, session = target.row, session_of_caller(project, caller)
    project.store.read(lambda view: refuse_driven(view, row.run, row.run_id, project.now, session))


def guard_of(caller: Caller) -> Guard:
    """Return the guard of a commit: reports of a step that leftoff started carry its attempt's token."""
    return Guard(attempt=caller.attempt) if caller.attempt else NO_GUARD


# -- the transaction


def report_run(
    project: Project,
    caller: Caller,
    make: Make = lambda tx, row, changes: None,
    *,
    row: RunRow | None = None,
    blobs: Sequence[BlobRow] = (),
    changes: ChangeSet | None = None,
    at: int | None = None,
) -> Reported:
    """Commit a report on ``row``, by default on the run that is meant.

    ``make`` fills the change set in the transaction; ``changes`` are those that do not depend on what is stored.
    """
    project.need_store()
    find: Find = which_run(project, caller)
    if row is not None:
        run, run_id = row.run, row.run_id

        def find(view: View) -> RunRow:
            now = need_run(view, run, run_id)
            if now.is_gone:
                raise gone(run_id)
            refuse_archived(now)
            return now

    at = project.now if at is None else at
    terms = Terms(at, guard_of(caller), blobs=blobs)
    return report(project.store, find, make, terms, project.redactor, changes)


# -- steps


def report_step(project: Project, caller: Caller, said: StepReport, outputs: Sequence[str] = ()) -> Reported:
    """Report what happened to a step. ``outputs``: the files that it wrote, of which copies are stored.

    Outputs are copied before the transaction, and so are files, git and the issue if a checkpoint is sealed.
    """
    at, row, around = project.now, None, None
    blobs: list[BlobRow] = []
    said.masked(project.redactor)
    if outputs or said.action != "start":
        row = current_row(project, caller)  # nothing is stored for a run that does not exist
        said.path = step_named(project, row, said.path)
    if outputs:
        blobs += capture_outputs(project.workspace(at), said, list(outputs))
    if row is not None and said.action != "start":
        from leftoff.engine.tracking import look_around

        around = look_around(project, row, issue=_ends_phase(project, row, said))
        blobs += around.blobs
    reopened = False

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        nonlocal reopened
        known = tx.row(row.run, "step", said.path) if said.action != "done" else None
        reopened = known is not None and known[1] == "completed"
        seal = usage_errors(lambda: step_changes(project.store, tx, row, changes, said, at))
        if row.card.get(OPEN_TURN) and said.action in ("done", "skip"):
            from leftoff.engine.agent_turns import close_cut_off

            close_cut_off(project.store, tx, row, changes, at)
        if seal is not None and around is not None:
            around.put(row, changes)
        return seal

    done = report_run(project, caller, make, row=row, blobs=blobs, at=at)
    if reopened:
        project.say(f"leftoff: {said.path} was completed; because of this report it no longer is.")
    return done


def _ends_phase(project: Project, row: RunRow, said: StepReport) -> bool:
    """Return whether this is the last step of a phase of a run that works on an issue."""
    if not row.issue or said.action not in ("done", "skip"):
        return False
    from leftoff.engine.run_reader import read_collection

    path, phase = said.path, parent_of(said.path)
    found = read_collection(project.store, row.run, row.run_id, "step")
    steps = {key: value.plain for key, value in found.items()}
    if not phase:
        return bool(steps.get(path, {}).get("kind") == "phase")
    others = [key for key in steps if key.startswith(f"{phase}/") and key != path]
    return all(steps[key]["status"] in ("completed", "skipped") for key in others)


def find_next_step(project: Project, caller: Caller, *, start: bool = False) -> NextStep:
    """Return the step to do next. ``start``: start it in the same transaction, so that no other agent gets it."""
    from leftoff.engine.show import next_step

    store = project.store

    def look(view: View, row: RunRow) -> NextStep:
        return _waits_for_approval(project, view, row) or next_step(store, view, row)

    if not start:
        need_store(store)
        which = which_run(project, caller)
        return store.read(lambda view: look(view, which(view)))
    at = project.now
    found: list[NextStep] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        found[:] = [look(tx, row)]
        if found[0].step is not None:
            step_changes(store, tx, row, changes, StepReport("start", found[0].step), at)

    report_run(project, caller, make, at=at)
    return found[0]


def _waits_for_approval(project: Project, view: View, row: RunRow) -> NextStep | None:
    """Return why no step comes next while a phase of a protocol needs a person's approval."""
    if not project.settings.section("protocol").get("approvals") or row.status in FINISHED:
        return None
    from leftoff.engine.approvals import how
    from leftoff.engine.show import NextStep
    from leftoff.protocols.protocol import state_at
    from leftoff.protocols.registry import protocol_of, unapproved

    protocol = protocol_of(row, project.folder, project.settings)
    state = state_at(project.store, view, row, protocol) if protocol is not None else None
    phases = unapproved(state, project.settings) if state is not None else []
    if not phases:
        return None
    return NextStep(row, f"{phases[0]} waits for a person's approval: `{how(row.run_id, phases[0])}`.")


def request_approval(
    project: Project, caller: Caller, step: str, ask: str, options: Sequence[str] = ()
) -> dict[str, Any]:
    """Ask a person for a decision, as a step that waits for it. ``how`` in the result is the command that decides."""
    from leftoff.engine.approvals import ask_changes, how

    at, masked = project.now, project.redactor.mask(ask)
    path = usage_errors(lambda: check_step(step))

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        return ask_changes(steps_in(project.store, tx, row, changes, at), row.run_id, path, masked, options)

    done = report_run(project, caller, make, at=at)
    return {**done.to_json(), "status": "waiting", "how": how(done.row.run_id, path, options=[*options])}


# -- variables and other records


def set_variables(project: Project, caller: Caller, values: Mapping[str, Any]) -> Reported:
    """Set variables in one commit. A step whose definition names the variables that persist sets only those."""
    only = caller.persisted if caller.named in (None, caller.run) else None
    left_out = [key for key in values if only is not None and key not in only]
    if left_out:
        names = ", ".join(only or ["none"])
        project.say(
            f"leftoff: not kept: {', '.join(left_out)}. The variables_to_persist of {caller.step}: {names}."
        )
    changes = ChangeSet(project.redactor)

    def put() -> None:
        for key, value in values.items():
            if key not in left_out:
                changes.put("variable", key, value)

    usage_errors(put)
    return _report_ready(project, caller, changes)


def put_run_record(
    project: Project, caller: Caller, collection: str, key: str, value: Any, *, new: bool = False
) -> Reported:
    """Put any record, except leftoff's own and what only a person decides. ``new``: fail if there is one."""
    check_record(collection, key, value, person=caller.person)
    if collection == "step":
        path, at = usage_errors(lambda: check_step(key)), project.now

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            steps = steps_in(project.store, tx, row, changes, at)
            if not caller.person or decides_step(value):
                refuse_approval(steps, row.run_id, path)
            usage_errors(lambda: put_step(steps, path, value, new=new))

        return report_run(project, caller, make, at=at)
    changes = ChangeSet(project.redactor)
    usage_errors(lambda: changes.put(collection, key, value, expect=None if new else NOTHING))
    return _report_ready(project, caller, changes)


def _report_ready(project: Project, caller: Caller, changes: ChangeSet) -> Reported:
    return report_run(project, caller, changes=changes)._replace(redacted=changes.redacted)


def add_note(
    project: Project, caller: Caller, text: str, step: str | None = None, *, resume: bool = False
) -> Reported:
    """Add a note, by default on the step that the caller runs. ``resume``: it must be read before the run resumes."""
    at, masked, path = project.now, project.redactor.mask(text), _step_path(project, caller, step)
    about = usage_errors(lambda: note_record(masked, at, path, resume))

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        put_note(tx, row, changes, about, at)

    return report_run(project, caller, make, at=at)


def _step_path(project: Project, caller: Caller, named: str | None) -> str | None:
    """Return the step that is named, else the one that the caller runs."""
    if not named:
        return caller.step
    path = usage_errors(lambda: given_step(named))
    return step_named(project, current_row(project, caller), path) if "[" in path or "\\" in path else path


def keep_artifact(
    project: Project, caller: Caller, path: str, name: str | None = None, step: str | None = None
) -> dict[str, Any]:
    """Store a copy of a file, and record its path, hash and size. ``step``: which wrote it, by default the caller's."""
    from leftoff.engine.tracking import capture

    at, wrote = project.now, _step_path(project, caller, step)
    row = current_row(project, caller)  # nothing is stored for a run that does not exist
    got = capture(project.workspace(at), path, step=wrote, name=name or None)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        usage_errors(lambda: got.put(changes))
        if wrote is not None:
            add_output(project.store, tx, row, changes, wrote, got.about["path"])

    blobs = [got.blob] if got.blob is not None else []
    done = report_run(project, caller, make, row=row, blobs=blobs, at=at)
    return {**done.to_json(), "artifact": {"name": got.key, **got.about}}


def record_audit(project: Project, row: RunRow, audit: Audit) -> None:
    """Record an action on a run that is not one commit."""

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        audit.put(changes, project.now)

    try:
        report(project.store, this_run(row.run, row.run_id), make, Terms(project.now), project.redactor)
    except NotFound:
        pass  # the run was removed since; the action was done all the same


# -- checkpoints and signs of life


def check_trigger(trigger: str) -> None:
    """Raise ``Invalid`` if a checkpoint cannot have this trigger."""
    Seal(trigger)


def save_checkpoint(
    project: Project, caller: Caller, trigger: str = "manual", note: str | None = None
) -> Version:
    """Seal a new checkpoint, whether anything changed or not."""
    from leftoff.engine.tracking import look_around

    masked = project.redactor.mask(note) if note else None
    found = current_row(project, caller)
    around = look_around(project, found, dirty=True, issue=trigger == "phase_transition")

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        around.put(row, changes)
        return Seal(trigger, caller.step or tx.leaf(row.run, "running"), masked, asked=True)

    version = report_run(project, caller, make, row=found, blobs=around.blobs).version
    assert version is not None
    return version


def beat_run(project: Project, caller: Caller) -> Reported:
    """Give a sign of life. It makes no version."""
    row = beat(project.store, which_run(project, caller), project.now, guard_of(caller))
    if row.status != "running":
        project.say(f"leftoff: {row.run_id} is {row.status}: a sign of life counts for a run at work only.")
    return Reported(row, None)
