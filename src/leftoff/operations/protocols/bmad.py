"""bmad's events: what `workflow.xml` says of a run, as the reports that it means."""

from __future__ import annotations

from leftoff.dialects import bmad_events
from leftoff.dialects.bmad import workflow_of
from leftoff.engine.config.git_head import git_head
from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.steps.reports import StepReport
from leftoff.engine.workspace.git import remember_git
from leftoff.engine.write.commit import Seal
from leftoff.errors import Usage
from leftoff.operations.run_lifecycle import Start, start
from leftoff.operations.run_reports import StepChange, current_row, report_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.bmad_events import Event
    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


def take_event(project: Project, caller: Caller, event: Event) -> Reported:
    """Do what an event says, to the run that it names, else to the current one."""
    caller.named = event.run_id or caller.named
    return _WORK[event.name](project, caller, event)


def _save(project: Project, caller: Caller, event: Event) -> Reported:
    """Before a step: the run, started where it is not there yet, its variables, and the step that begins."""
    run_id, store, at = event.run_id, project.store, project.now
    if run_id is not None and not (store.exists() and store.read(lambda view: view.find_run(run_id))):
        start(project, caller, Start(workflow_of(run_id), run_id=run_id))

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        bmad_events.save(store, tx, row, changes, event, at)

    return report_run(project, caller, make, at=at)


def _update(project: Project, caller: Caller, event: Event) -> Reported:
    """After a step: it is done, with what it wrote; the next one is known."""
    number, upcoming, store = event.number("step-completed"), event.number("next-step"), project.store
    if number is None:
        raise Usage("<checkpoint-update> needs a <step-completed>.", hint="Its number, from 1.")
    row, output = current_row(project, caller), event.fields.get("artefact", "").strip()
    caller.named = row.run_id  # the step is one of this run
    done = StepReport("done", store.read(lambda view: bmad_events.step_at(store, view, row, number)))

    change = StepChange(project, caller, done, [output] if output else [])

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        seal = change.put(tx, row, changes)
        if upcoming is not None:
            bmad_events.announce(store, tx, row, changes, upcoming)
        if seal is not None:
            seal.aliases += event.aliases
        return seal

    return report_run(project, caller, make, row=change.row, blobs=change.blobs, at=change.at)


def _close(project: Project, caller: Caller, event: Event) -> Reported:
    """At the end: the run's status, and what came of it."""
    status = event.status("completed")
    summary = project.redactor.mask(event.fields.get("summary", "").strip()) or None
    at, head = project.now, git_head(project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        status_changes(changes, status, at, summary=summary)
        if status == "completed":
            bmad_events.forget_announced(project.store, tx, row, changes)
        remember_git(head, row, changes)
        return Seal("session_end", note=summary, aliases=event.aliases)

    return report_run(project, caller, make, at=at)


_WORK = {"checkpoint-save": _save, "checkpoint-update": _update, "checkpoint-close": _close}
