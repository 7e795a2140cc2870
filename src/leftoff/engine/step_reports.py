"""Reports on steps: started, done, failed, blocked, skipped.

A report is about one step, and changes its record from what it is at that moment. So parallel reports on different
steps do not collide, and of two processes that ask for the next step each gets another. ``lifecycle`` says what becomes
of the record. A failed step does not fail the run: its driver decides.
"""

from __future__ import annotations

import os

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import Seal
from leftoff.engine.redactor import Redactor
from leftoff.engine.report_commit import note_record, put_note
from leftoff.engine.step_lifecycle import Steps, steps_in
from leftoff.errors import Conflict, NeedsPerson, NotFound, Usage
from leftoff.hints import Any, Sequence
from leftoff.model.changes import NOTHING, ChangeSet
from leftoff.model.ids import parent_of, shown_step, step_readings, step_word
from leftoff.model.words import EXPECTED, STEP_ENDED
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import BlobRow, RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:  # `set` and `note` import this module, and look at no file
    from leftoff.engine.tracking import Captured, Workspace

STATUS = {"start": "running", "done": "completed", "fail": "failed", "block": "blocked", "skip": "skipped"}
_TRIGGER = {"done": "step_complete", "skip": "step_complete", "fail": "error", "block": "error"}


class StepReport:
    """What is said of one step. ``decided``: by a person; an approval takes no other report."""

    title: str | None = None
    total: int | None = None
    result: Any = NOTHING
    error: str | None = None
    kind: str | None = None
    resume_with: str | None = None
    note: str | None = None
    decided: bool = False
    outputs: Sequence[str] = ()
    captured: Sequence[Captured] = ()
    missing: NotFound | None = None

    def __init__(self, action: str, path: str, **said: Any) -> None:
        self.action = action
        self.path = path
        for name, value in said.items():
            if not hasattr(type(self), name):
                raise TypeError(f"a report of a step has no {name}")
            setattr(self, name, value)

    def masked(self, redactor: Redactor) -> StepReport:
        """Leave secrets out of what was written for people."""
        for name in ("error", "note", "resume_with", "title"):
            text = getattr(self, name)
            if text is not None:
                setattr(self, name, redactor.mask(text))
        return self


def known_step(view: View, run: int, path: str) -> str:
    """Return the step of a run that is meant by a name: an item may be named as it is shown."""
    if "[" not in path and "\\" not in path:
        return path
    found = (each for each in step_readings(path) if view.row(run, "step", each) is not None)
    return next(found, path)


def capture_outputs(workspace: Workspace, report: StepReport, paths: list[str]) -> list[BlobRow]:
    """Copy the files that a step wrote. Return the blobs of the copies. A missing file is reported later: it does not
    matter if the step is completed already. A step that starts only declares what it will write."""
    from leftoff.engine.tracking import capture, relative

    if report.action == "start":
        report.outputs = [relative(workspace.folder, os.path.abspath(path)) for path in paths]
        return []
    found: list[Captured] = []
    try:
        for path in paths:
            found.append(capture(workspace, path, step=report.path))
    except NotFound as error:
        report.missing = error
    report.captured, report.outputs = found, [got.about["path"] for got in found]
    return [got.blob for got in found if got.blob is not None]


def refuse_approval(steps: Steps, run_id: str, path: str) -> None:
    """Raise ``NeedsPerson`` if a step is an approval: it takes no report."""
    if steps.is_approval(path):
        raise needs_decision(run_id, path)


def needs_decision(run_id: str, path: str) -> NeedsPerson:
    words = f"{run_id} {step_word(path)}"
    return NeedsPerson(
        f"Step {shown_step(path)} is a decision that only a person takes.",
        hint=f"Nothing was changed. `leftoff approve {words}` or `leftoff reject {words}` decides it.",
    )


def step_changes(
    store: Store, tx: Tx, row: RunRow, changes: ChangeSet, report: StepReport, at: int
) -> Seal | None:
    """Put a report into a change set, inside the transaction that commits it. Return how to seal it."""
    steps = steps_in(store, tx, row, changes, at)
    report.path = known_step(tx, row.run, report.path)
    found = steps.get(report.path)
    if report.action == "done" and found is not None and found.get("status") == "completed":
        return None
    if report.missing is not None:
        raise report.missing
    if not report.decided:
        refuse_approval(steps, row.run_id, report.path)
    record = _record(steps.get_or_new(report.path), report, steps.now)
    _expect(tx, row, changes, report.path, record, new=found is None)
    steps.move(report.path, record)
    for got in report.captured:
        got.put(changes)
    if report.note and report.note.strip():
        put_note(tx, row, changes, note_record(report.note, at, report.path), at)
    trigger = _TRIGGER.get(report.action)
    return Seal(trigger, report.path, report.error or report.note) if trigger else None


def _record(old: dict[str, Any], report: StepReport, now: str) -> dict[str, Any]:
    """Return the step's record after the report."""
    about = {
        "type": report.kind or STATUS[report.action],
        "message": report.error or report.note or "no reason was given",
        "resume_with": report.resume_with,
    }
    error = {key: value for key, value in about.items() if value is not None}
    if report.action == "start":
        record = lifecycle.start(old, now)
    elif report.action == "skip":
        record = lifecycle.skip(old, now)
    elif report.action == "done":
        record = lifecycle.complete(lifecycle.ensure_try(old, now), now)
    elif report.action == "fail":
        record = lifecycle.fail(lifecycle.ensure_try(old, now), now, error)
    else:
        record = lifecycle.block(lifecycle.ensure_try(old, now), error)
    if report.outputs:
        record["outputs"] = lifecycle.merged(record.get("outputs"), report.outputs)
    if report.result is not NOTHING:
        record["result"] = report.result
    for key, value in (("title", report.title), ("total", report.total)):
        if value is not None:
            record[key] = value
    return record


def _expect(tx: Tx, row: RunRow, changes: ChangeSet, path: str, record: dict[str, Any], *, new: bool) -> None:
    """Count the steps that were announced (`total`) below others and are not there yet, by the step that they will be
    below. A step without any below it is one itself, so the first one takes its place."""
    known, total = row.card.get(EXPECTED) or {}, record.get("total")
    expected, above = dict(known), parent_of(path) if new and known else ""
    while above and not tx.has_below(row.run, above) and tx.row(row.run, "step", above) is None:
        above = parent_of(above)  # it comes with this one
    if above in expected and tx.has_below(row.run, above):
        expected[above] -= 1
    if isinstance(total, int):
        below = tx.records(row.run, "step", f"{path}/", f"{path}0")  # 0 is the character after the slash
        there = {each.key[len(path) + 1 :].partition("/")[0] for each in below}
        expected[path] = total - max(1, len(there)) if record["status"] not in STEP_ENDED else 0
    left = {step: number for step, number in expected.items() if number > 0}
    if left != known:
        changes.put("run", EXPECTED, left) if left else changes.delete("run", EXPECTED)


def put_step(steps: Steps, path: str, value: Any, *, new: bool = False) -> None:
    """Put the record of a step: it keeps its status and its place, unless the record says otherwise."""
    if not isinstance(value, dict):
        raise Usage(
            f"The record of step {shown_step(path)} must be an object.",
            hint='For example: \'{"title": "Collect"}\'',
        )
    old = steps.get_or_new(path)
    if new and "status" in old:
        raise Conflict(f"step/{path} already exists.", hint="Read it first, or choose another key.")
    steps.move(path, lifecycle.put_over(old, value))


def add_output(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, path: str, output: str) -> None:
    """Add a file to the outputs of a step, if that step is there."""
    steps = steps_in(store, tx, row, changes, 0)
    record = steps.get(path)
    if record is not None:
        steps.put(path, {**record, "outputs": lifecycle.merged(record.get("outputs"), [output])})
