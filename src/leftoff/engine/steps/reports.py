"""Reports on steps: started, done, failed, blocked, skipped. And which one comes next.

A report is about one step, and changes its record from what it is at that moment: whoever reports at the same time on
another step is not in the way, and of two who ask for the next step each gets another. What a step left open when it
failed or was blocked is the `error` record of the same key, until the step is done or skipped.

A blocked step blocks the run, until that step is started, done or skipped and no other is blocked. A failed step does
not fail the run: whoever drives it decides.
"""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.artifacts import capture, relative
from leftoff.engine.write.commit import Seal
from leftoff.engine.write.notes import put_note
from leftoff.errors import NeedsPerson, NotFound
from leftoff.model.changes import LAST, NOTHING
from leftoff.model.ids import as_word, parent_of
from leftoff.model.versions import counts_of
from leftoff.model.words import ONCE_MORE, STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.steps.artifacts import Captured
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow, RunRow

STATUS = {"start": "running", "done": "completed", "fail": "failed", "block": "blocked", "skip": "skipped"}
_IN_FLIGHT = ("running", "waiting", "blocked")  # a report on one of these is about the same attempt
_TRIGGER = {"done": "step_complete", "skip": "step_complete", "fail": "error", "block": "error"}
_NO_REASON = "no reason was given"


class StepReport:
    """What is said of one step."""

    __slots__ = (
        "action",
        "captured",
        "error",
        "kind",
        "missing",
        "note",
        "outputs",
        "path",
        "result",
        "resume_with",
        "title",
        "total",
    )

    def __init__(
        self,
        action: str,
        path: str,
        *,
        title: str | None = None,
        total: int | None = None,
        result: Any = NOTHING,
        error: str | None = None,
        kind: str | None = None,
        resume_with: str | None = None,
        note: str | None = None,
    ) -> None:
        self.action = action
        self.path = path
        self.title = title
        self.total = total
        self.outputs: list[str] = []
        self.captured: list[Captured] = []
        self.missing: NotFound | None = None
        self.result = result
        self.error = error
        self.kind = kind
        self.resume_with = resume_with
        self.note = note

    def masked(self, redactor: Redactor) -> StepReport:
        """The same without secrets in what was written for people."""
        for name in ("error", "note", "resume_with", "title"):
            text = getattr(self, name)
            if text is not None:
                setattr(self, name, redactor.mask(text))
        return self


def capture_outputs(
    store: Store, project: str, report: StepReport, paths: list[str], redactor: Redactor, at: int
) -> list[BlobRow]:
    """Keep the files that a step wrote; the blobs of those that were copied. One that is not there is told later:
    it does not matter where the step is completed already. A step that starts only declares what it will write."""
    if report.action == "start":
        report.outputs = [relative(project, os.path.abspath(path)) for path in paths]
        return []
    try:
        for path in paths:
            report.captured.append(capture(store, project, path, redactor, at, step=report.path))
    except NotFound as error:
        report.missing = error
    report.outputs = [got.about["path"] for got in report.captured]
    return [got.blob for got in report.captured if got.blob is not None]


def _is_completed(view: View, row: RunRow, path: str) -> bool:
    found = view.row(row.run, "step", path)
    return found is not None and found[1] == "completed"


def is_approval(reader: Reader, path: str) -> bool:
    """Whether a step is one that a person decides."""
    found = reader.value("step", path)
    return (found is not None and found.plain.get("kind") == "approval") or (
        reader.value("approval", path) is not None
    )


def refuse_approval(reader: Reader, run_id: str, path: str) -> None:
    """An approval takes no report from anybody but who decides."""
    if is_approval(reader, path):
        words = f"{run_id} {as_word(path)}"
        raise NeedsPerson(
            f"Step {path} is a decision that only a person takes.",
            hint=f"Nothing was changed. `leftoff approve {words}` or `leftoff reject {words}` decides it.",
        )


def step_changes(
    store: Store,
    tx: Tx,
    row: RunRow,
    changes: ChangeSet,
    report: StepReport,
    at: int,
    *,
    decided: bool = False,
) -> Seal | None:
    """Put a report into a change set, inside the transaction that commits it; how to seal it.

    ``decided``: it comes from a person's decision, which is the only report that an approval takes.
    """
    if report.action == "done" and _is_completed(tx, row, report.path):
        return None
    if report.missing is not None:
        raise report.missing
    reader = Reader(store, tx, row.run, row.run_id)
    if not decided:
        refuse_approval(reader, row.run_id, report.path)
    found = reader.value("step", report.path)
    old: dict[str, Any] = (
        dict(found.plain) if found is not None else {"order": next_order(tx, row.run, report.path)}
    )
    record = _record(old, report, at)
    changes.put("step", report.path, record)
    _put_error(tx, row, changes, report, record, at)
    for got in report.captured:
        got.put(changes)
    if report.note is not None:
        put_note(tx, row, changes, report.note, at, step=report.path)
    _settle_run(tx, row, changes, old.get("status"), record["status"])
    trigger = _TRIGGER.get(report.action)
    return Seal(trigger, report.path, report.error or report.note) if trigger else None


def _record(old: dict[str, Any], report: StepReport, at: int) -> dict[str, Any]:
    """The step's record after the report."""
    record, status, now = dict(old), STATUS[report.action], iso(at)
    if report.action == "start" or (report.action != "skip" and old.get("status") not in _IN_FLIGHT):
        number = old.get("attempt")
        record["attempt"] = (number if isinstance(number, int) else 0) + 1
        record["started_at"] = now
    record["status"] = status
    for key in ("completed_at", "error"):
        record.pop(key, None)
    if status in ("completed", "failed", "skipped"):
        record["completed_at"] = now
    if status in STEP_ENDED:
        record.pop(ONCE_MORE, None)
    if status in ("failed", "blocked"):
        record["error"] = _error(report)
    if report.outputs:
        record["outputs"] = _with(record.get("outputs"), report.outputs)
    if report.result is not NOTHING:
        record["result"] = report.result
    for key, value in (("title", report.title), ("total", report.total)):
        if value is not None:
            record[key] = value
    return record


def _error(report: StepReport) -> dict[str, Any]:
    about = {
        "type": report.kind or STATUS[report.action],
        "message": report.error or report.note or _NO_REASON,
        "resume_with": report.resume_with,
    }
    return {key: value for key, value in about.items() if value is not None}


def _put_error(
    tx: Tx, row: RunRow, changes: ChangeSet, report: StepReport, record: dict[str, Any], at: int
) -> None:
    """What is open, under the step's path: written by fail and block, gone with done and skip."""
    if report.action in ("fail", "block"):
        about = {
            "step": report.path,
            "status": record["status"],
            "at": iso(at),
            "attempt": record.get("attempt"),
        }
        changes.put("error", report.path, {**about, **record["error"]})
    elif report.action != "start" and tx.row(row.run, "error", report.path) is not None:
        changes.delete("error", report.path)


def _settle_run(tx: Tx, row: RunRow, changes: ChangeSet, before: object, after: str) -> None:
    """A run is blocked while a step of it is."""
    if after == "blocked" and row.status in ("running", "failed"):
        changes.put("run", "status", "blocked")
    elif before == "blocked" != after and row.status == "blocked" and counts_of(row.counts)["blocked"] <= 1:
        changes.put("run", "status", "running")


def add_output(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, path: str, output: str) -> None:
    """A file that a step wrote is one of its outputs; a step that is not there is not made for it."""
    found = Reader(store, tx, row.run, row.run_id).value("step", path)
    if found is not None:
        changes.put("step", path, {**found.plain, "outputs": _with(found.plain.get("outputs"), [output])})


def _with(there: object, outputs: list[str]) -> list[Any]:
    return list(dict.fromkeys([*(there if isinstance(there, list) else ()), *outputs]))


def next_order(view: View, run: int, path: str) -> int:
    """The place of a step that was not declared: behind those that stand beside it."""
    above = parent_of(path)
    while above and view.row(run, "step", above) is None:
        above = parent_of(above)
    prefix = view.row(run, "step", above) if above else None
    start = f"{prefix[2]}/" if prefix is not None and prefix[2] else ""
    last = view.last_order(run, start)
    if last is None:
        return 0
    number = last[len(start) :].partition("/")[0]
    return min(int(number) + 1, LAST) if number.isdigit() else 0
