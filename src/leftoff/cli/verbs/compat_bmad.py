"""bmad's events: what `workflow.xml` says of a run, as the reports that it means."""

from __future__ import annotations

from leftoff.cli.arguments import asked, read_text
from leftoff.dialects.bmad import compat
from leftoff.dialects.bmad.document import workflow_of
from leftoff.dialects.bmad.events import parse
from leftoff.dialects.core.repairs import shown
from leftoff.engine.config.project import git_head
from leftoff.engine.lifecycle.opening import Opening, status_changes
from leftoff.engine.lifecycle.start import start_run
from leftoff.engine.steps.reports import StepReport, capture_outputs, step_changes
from leftoff.engine.workspace.surroundings import remember_git
from leftoff.engine.write.commit import Seal
from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.context import Context
    from leftoff.dialects.bmad.events import Event
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


def event(ctx: Context, rest: list[str]) -> int:
    """All the events on stdin, in order; nothing is done where one of them cannot be read."""
    found = parse(read_text("-"))
    if not found:
        raise Usage(
            "There is no event on stdin.", hint="For example: <checkpoint-close><status>completed</status>…"
        )
    for each in found:
        if each.aliases:
            ctx.say(f"leftoff: the id {shown(each.aliases[0])} is kept as {each.run_id}.")
    last: Reported | None = None
    for each in found:
        ctx.caller.named = each.run_id or ctx.caller.named
        last = _WORK[each.name](ctx, each)
    assert last is not None
    return ctx.told(last)


def _save(ctx: Context, each: Event) -> Reported:
    """Before a step: the run, started where it is not there yet, its variables, and the step that begins."""
    run_id, store = each.run_id, ctx.store
    if run_id is not None and not (store.exists() and store.read(lambda view: view.find_run(run_id))):
        opening = asked(lambda: Opening(workflow_of(run_id), branch=ctx.branch, run_id=run_id))
        start_run(store, opening, ctx.now, scrubber=ctx.redactor)
    at = ctx.now
    return ctx.report(lambda tx, row, changes: compat.save(store, tx, row, changes, each, at), at=at)


def _update(ctx: Context, each: Event) -> Reported:
    """After a step: it is done, with what it wrote; the next one is known."""
    number, next_step, at = each.number("step-completed"), each.number("next-step"), ctx.now
    if number is None:
        raise Usage("<checkpoint-update> needs a <step-completed>.", hint="Its number, from 1.")
    output = each.fields.get("artefact", "").strip()
    row, head = ctx.current(), git_head(ctx.project.folder)
    report = StepReport("done", ctx.store.read(lambda view: compat.step_at(ctx.store, view, row, number)))
    blobs = capture_outputs(ctx.project.workspace(at), report, [output] if output else [])

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        seal = asked(lambda: step_changes(ctx.store, tx, row, changes, report, at))
        if next_step is not None:
            compat.announce(ctx.store, tx, row, changes, next_step)
        remember_git(head, row, changes)
        if seal is not None:
            seal.aliases += each.aliases
        return seal

    return ctx.report(make, at=at, blobs=blobs)


def _close(ctx: Context, each: Event) -> Reported:
    """At the end: the run's status, and what came of it."""
    status, summary = each.status("completed"), ctx.redactor.mask(each.fields.get("summary", "").strip())
    at, head = ctx.now, git_head(ctx.project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        status_changes(changes, status, at, summary=summary or None)
        if status == "completed":
            compat.forget_announced(ctx.store, tx, row, changes)
        remember_git(head, row, changes)
        return Seal("session_end", note=summary or None, aliases=each.aliases)

    return ctx.report(make, at=at)


_WORK = {"checkpoint-save": _save, "checkpoint-update": _update, "checkpoint-close": _close}
