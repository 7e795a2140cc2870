"""bmad's events: what `workflow.xml` says of a run, as the reports that it means."""

from __future__ import annotations

from leftoff.cli.arguments import asked, read_text
from leftoff.dialects.bmad.document import DIALECT, STATUS, workflow_of
from leftoff.dialects.bmad.events import parse
from leftoff.dialects.core.draft import fit_id
from leftoff.dialects.core.ordinals import last_of, step_of
from leftoff.dialects.core.words import meaning
from leftoff.dialects.importing.report import Rejected, Repairs, shown
from leftoff.dialects.mirror.take import state_at
from leftoff.engine.config.project import git_head
from leftoff.engine.lifecycle.opening import Opening, status_changes
from leftoff.engine.lifecycle.start import start_run
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.reports import StepReport, capture_outputs, step_changes
from leftoff.engine.workspace.surroundings import remember_git
from leftoff.errors import LeftoffError, Usage
from leftoff.model.ids import check_run_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.cli.context import Context
    from leftoff.dialects.bmad.events import Event
    from leftoff.engine.write.commit import Seal
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow

ANNOUNCED = "announced"  # in the record of a step that nobody has begun: what somebody thought comes next
WORDS = ("running", "completed", "failed", "paused")  # the protocol's


def event(ctx: Context, rest: list[str]) -> int:
    """All the events on stdin, in order; nothing is done where one of them cannot be read."""
    found = parse(read_text("-"))
    if not found:
        raise Usage(
            "There is no event on stdin.", hint="For example: <checkpoint-close><status>completed</status>…"
        )
    for each in found:
        each.number("step-number"), each.number("step-completed"), each.number("next-step"), each.variables()
        _run_id(each), _status(each, "running")
        if _aliases(each):
            ctx.say(f"leftoff: the id {shown(_aliases(each)[0])} is kept as {_run_id(each)}.")
    last: Reported | None = None
    for each in found:
        last = _WORK[each.name](ctx, each)
    assert last is not None
    return ctx.told(last)


def _run_id(each: Event) -> str | None:
    """The run that is meant; characters that no id can have are replaced, as in a document."""
    text = each.fields.get("run-id", "").strip()
    if not text:
        return None
    try:
        return check_run_id(fit_id(text))
    except LeftoffError:
        raise Rejected(f"<{each.name}>: {shown(text)} cannot name a run.") from None


def _aliases(each: Event) -> tuple[str, ...]:
    """The run's id as it was written, where it cannot be one: another name of what is sealed."""
    text = each.fields.get("run-id", "").strip()
    return (text,) if text != (_run_id(each) or "") and text.isprintable() else ()


def _status(each: Event, default: str) -> str:
    word = each.fields.get("status", "").strip()
    if word and meaning(word) is None:
        raise Rejected(f"<{each.name}>: there is no status {shown(word)}; there are {', '.join(WORDS)}.")
    return STATUS.read(word or None, default, Repairs(), "status")


def _report(ctx: Context, each: Event, make: Any, **more: Any) -> Reported:
    """On the run that the event names, else the current one."""
    named = _run_id(each)
    if named is not None:
        setattr(ctx.args, "run", named)  # noqa: B010 - options have no fixed names
    return ctx.report(make, **more)


def _save(ctx: Context, each: Event) -> Reported:
    """Before a step: the run, started where it is not there yet, its variables, and the step that begins."""
    run_id, number = _run_id(each), each.number("step-number")
    there = ctx.store.exists() and run_id is not None and _there(ctx, run_id)
    if run_id is not None and not there:
        opening = asked(lambda: Opening(workflow_of(run_id), branch=ctx.branch, run_id=run_id))
        start_run(ctx.store, opening, ctx.now, scrubber=ctx.redactor)
    status = _status(each, "running")
    at = ctx.now

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        for key, value in each.variables().items():
            changes.put("variable", key, value)
        changes.put("run", "status", status)
        if number is not None:
            path = _path(ctx, tx, row, number)
            record = Reader(ctx.store, tx, row.run, row.run_id).value("step", path)
            if record is None or record.plain.get("status") not in ("running", "completed"):
                step_changes(ctx.store, tx, row, changes, StepReport("start", path), at)
        return None

    return _report(ctx, each, make, at=at)


def _there(ctx: Context, run_id: str) -> bool:
    return ctx.store.read(lambda view: view.find_run(run_id)) is not None


def _path(ctx: Context, view: View, row: RunRow, number: int) -> str:
    """The step of that number: the so-manyth leaf, else one that is called so."""
    return step_of(state_at(ctx.store, view, row, DIALECT).leaves(), number)


def _update(ctx: Context, each: Event) -> Reported:
    """After a step: it is done, with what it wrote; the next one is known."""
    number, next_step, at = each.number("step-completed"), each.number("next-step"), ctx.now
    if number is None:
        raise Usage("<checkpoint-update> needs a <step-completed>.", hint="Its number, from 1.")
    named = _run_id(each)
    if named is not None:
        setattr(ctx.args, "run", named)  # noqa: B010
    output = each.fields.get("artefact", "").strip()
    row, head = ctx.current(), git_head(ctx.project.folder)
    report = StepReport("done", ctx.store.read(lambda view: _path(ctx, view, row, number)))
    blobs = capture_outputs(
        ctx.store, ctx.project.folder, report, [output] if output else [], ctx.redactor, at
    )

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        seal = asked(lambda: step_changes(ctx.store, tx, row, changes, report, at))
        if next_step is not None:
            _announce(ctx, tx, row, changes, next_step)
        remember_git(head, row, changes)
        if seal is not None:
            seal.aliases += _aliases(each)
        return seal

    return ctx.report(make, at=at, blobs=blobs)


def _announce(ctx: Context, tx: Tx, row: RunRow, changes: ChangeSet, number: int) -> None:
    """The step that comes next, where there can be one: the protocol names one behind the last step, too."""
    leaves = state_at(ctx.store, tx, row, DIALECT).leaves()
    total, path = row.card.get("total"), step_of(leaves, number)
    last = total if isinstance(total, int) else last_of(leaves)
    if (last is None or number <= last) and tx.row(row.run, "step", path) is None:
        changes.put("step", path, {"status": "pending", "order": number - 1, ANNOUNCED: True})


def _close(ctx: Context, each: Event) -> Reported:
    """At the end: the run's status, and what came of it."""
    from leftoff.engine.write.commit import Seal as Sealed

    status = _status(each, "completed")
    summary = ctx.redactor.mask(each.fields.get("summary", "").strip()) or None
    at, head = ctx.now, git_head(ctx.project.folder)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        status_changes(changes, status, at, summary=summary)
        if status == "completed":  # a step that was only announced was none
            for path, step in Reader(ctx.store, tx, row.run, row.run_id).values("step").items():
                if step.plain.get("status") == "pending" and step.plain.get(ANNOUNCED):
                    changes.delete("step", path)
        remember_git(head, row, changes)
        return Sealed("session_end", note=summary, aliases=_aliases(each))

    return _report(ctx, each, make, at=at)


_WORK = {"checkpoint-save": _save, "checkpoint-update": _update, "checkpoint-close": _close}
