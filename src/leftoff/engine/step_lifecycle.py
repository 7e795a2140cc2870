"""The life of a step's record: each change of its status, what that clears, and what is stored next to it.

This is the only writer of step records. The first part is functions from a record to its next one, without I/O. The
second part puts records into a change set: with the `error` record of the same key, which is written when a step fails
or is blocked and deleted once it is done or skipped; and with the status of the run, which is blocked while a step of
it is.

The third part is reports: a step was started, done, failed, blocked or skipped. A report changes the step's record from
what it is at that moment. So parallel reports on different steps do not collide, and of two processes that ask for the
next step each gets another. A failed step does not fail the run: its driver decides. A report may bring a note.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leftoff.clock import iso
from leftoff.engine.commit import Seal
from leftoff.engine.find import need_run
from leftoff.engine.run_reader import Reader
from leftoff.errors import Conflict, Invalid, NeedsPerson, NotFound, Usage
from leftoff.model.changes import LAST, NOTHING, Change, ChangeSet, counts_of
from leftoff.model.codec import Mark, holes, place_of, text
from leftoff.model.ids import parent_of, shown_step, step_readings, step_word
from leftoff.model.words import EXPECTED, ONCE_MORE, STEP_ENDED
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import BlobRow, RunRow

if TYPE_CHECKING:  # `set` and `note` import this module, and look at no file
    from leftoff.engine.redactor import Redactor
    from leftoff.engine.tracking import Captured, Workspace

Record = dict[str, Any]

# What kept a step from being done, or says how that came about: nothing of it is left when the step has ended.
_ON_THE_WAY = frozenset(("allowed", "completed_at", "error", "interrupted_at", "last_error", "waits_until"))
# What a try at a step leaves in its record; the rest is how it was declared, and whose it is.
OF_A_TRY = _ON_THE_WAY.union("started_at why result typed outputs cache code digest args".split())
_SAID = _ON_THE_WAY | {"result", "typed"}
_ENDED = _ON_THE_WAY | {ONCE_MORE}
FIRST = "first run"
_OVER_AND_DUE = frozenset(("completed_at", "waits_until"))
_IN_FLIGHT = ("running", "waiting", "blocked")  # a report on one of these is about the same try
_SHOWN = 3
STATUS = {"start": "running", "done": "completed", "fail": "failed", "block": "blocked", "skip": "skipped"}
_TRIGGER = {"done": "step_complete", "skip": "step_complete", "fail": "error", "block": "error"}


def _without(record: Record, words: Iterable[str]) -> Record:
    return {key: value for key, value in record.items() if key not in words}


# -- from a record to the next


def declare(order: int, known: Record | None = None) -> Record:
    """Return a step that is to be done."""
    return {"status": "pending", "order": order, **(known or {})}


def start(record: Record, now: str, attempt: int | None = None, why: str | None = None) -> Record:
    """Begin a try, with nothing left of the one before it. ``attempt``: its number, if the caller counts them. ``why``:
    why it is made, if the record does not tell."""
    tried = _tries(record)
    # Before the first try, a report may have said what the step will write.
    out = _without(record, OF_A_TRY if tried else OF_A_TRY - {"outputs"})
    began = {"status": "running", "attempt": attempt or tried + 1, "started_at": now}
    return {**out, **began, "why": why_again(record) or why or FIRST}


def why_again(record: Record) -> str | None:
    """Return why a step is tried again; ``None`` if it was not tried yet."""
    status, last = record.get("status"), f"attempt {_tries(record)}"
    if status == "pending" and "why" in record:
        return str(record["why"])
    if not _tries(record):
        return None
    if status in STEP_ENDED:
        return f"{last} was {status}, and you asked for another one"
    word = {"running": "was cut off", "blocked": "was blocked", "waiting": "waited"}.get(
        str(status), "failed"
    )
    return f"{last} {word}"


def _with_why(record: Record, why: str | None) -> Record:
    return {**record, "why": why} if why else _without(record, ("why",))


def ensure_try(record: Record, now: str) -> Record:
    """Prepare a step for a report that it has ended. If no report said that it began, its try begins now."""
    if record.get("status") in _IN_FLIGHT:
        return record
    why = why_again(record) or FIRST
    return {**record, "attempt": _tries(record) + 1, "started_at": now, "why": why}


def _tries(record: Record) -> int:
    number = record.get("attempt")
    return number if isinstance(number, int) else 0


def enter(record: Record, now: str) -> Record:
    """Set a step that contains others running, with the first of them; it began when that first was so."""
    began = None if record.get("status") in STEP_ENDED else record.get("started_at")
    return {**_without(record, _OVER_AND_DUE), "status": "running", "started_at": began or now}


def complete(record: Record, now: str, result: Any = NOTHING, *, typed: bool = False) -> Record:
    """Set a step completed. ``typed``: the result stands for a value that is not JSON."""
    out = {**_without(record, _ENDED), "status": "completed", "completed_at": now}
    if result is not NOTHING:
        out["result"] = result
        out.pop("typed", None)
        if typed:
            out["typed"] = True
    return out


def skip(record: Record, now: str) -> Record:
    """Set a step skipped."""
    return {**_without(record, _ENDED | {"why"}), "status": "skipped", "completed_at": now}


def fail(record: Record, now: str, error: Record | None = None) -> Record:
    """Set a step failed. A step that contains others fails with them, and has no separate error."""
    out = {**_without(record, _ON_THE_WAY), "status": "failed", "completed_at": now}
    return out if error is None else {**out, "error": error}


def block(record: Record, error: Record) -> Record:
    """Set a step blocked: a person has to do something before it can continue."""
    return {**_without(record, _ON_THE_WAY), "status": "blocked", "error": error}


def wait(record: Record, now: str) -> Record:
    """Set a step waiting: a person has to decide it, or to do it."""
    return {**_without(record, OF_A_TRY), "status": "waiting", "started_at": now}


def put_back(record: Record, interrupted_at: str | None = None) -> Record:
    """Set a step pending for the next driver, and keep how its last try ended. It may have been interrupted."""
    out = {**_with_why(_without(record, _OVER_AND_DUE), why_again(record)), "status": "pending"}
    return out if interrupted_at is None else {**out, "interrupted_at": interrupted_at}


def retry(record: Record, error: Record | None = None) -> Record:
    """Set a step pending for the same driver, or because it is unblocked: what the last try said is dropped. ``error``:
    how that try failed."""
    why = why_again({**record, "status": "failed"} if error is not None else record)
    out = {**_with_why(_without(record, _SAID), why), "status": "pending"}
    return out if error is None else {**out, "error": error}


def forget(record: Record) -> Record:
    """Set a step pending as if its try had never been made."""
    return {**_without(record, OF_A_TRY - {"why"}), "status": "pending"}


def redo(record: Record, why: str) -> Record:
    """Set a step that was done, or may have been, pending again, though others that need it are done."""
    return {**_without(record, OF_A_TRY), "status": "pending", ONCE_MORE: True, "why": why}


def put_over(record: Record, value: Record) -> Record:
    """Return the record that a user gives: the step keeps its status and its place, unless that says otherwise.

    A person's decision stays; only the runner says what a later run may reuse.
    """
    said = _without(value, ("cache",))
    out = {"status": record.get("status", "pending"), "order": record.get("order"), **said}
    return {**out, "kind": "approval"} if record.get("kind") == "approval" else out


def decides(value: Record) -> bool:
    """Return whether a record that a user gives says more of a step than that it is pending, or waits."""
    return value.get("status") not in (None, "pending", "waiting")


_ENDS: dict[str, Callable[[Record, str], Record]] = {"completed": complete, "failed": fail, "skipped": skip}


def end(record: Record, status: str, now: str) -> Record:
    """End a step that contains others, with the last of them."""
    return _ENDS[status](record, now)


def status_of_run(status: str, *, blocked: bool) -> str:
    """Return a run's status. It is blocked while a step of it is, unless it is paused or finished."""
    if blocked:
        return "blocked" if status in ("running", "failed") else status
    return "running" if status == "blocked" else status


def merged(first: object, then: Iterable[str]) -> list[Any]:
    """Return outputs, each once."""
    return list(dict.fromkeys([*(first if isinstance(first, list) else ()), *then]))


def why_failed(record: Mapping[str, Any]) -> str:
    """Return what is recorded of why a step failed, or is blocked."""
    error = record.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "no reason was given")


# -- writing


def put(changes: ChangeSet, path: str, record: Record) -> Change:
    """Set a step's record when nothing is stored next to it: a new one, facts about it, what a document says."""
    return changes.put("step", path, record)


def move(changes: ChangeSet, path: str, record: Record, now: str) -> Change:
    """Set a step's record after its status changed.

    If it has ended its `error` record goes, whether or not this process knows of one: another may have written it.
    """
    change = changes.put("step", path, record)
    status, error = record["status"], record.get("error")
    if status in ("failed", "blocked") and isinstance(error, dict):
        about = {"step": path, "status": status, "at": now, "attempt": record.get("attempt")}
        changes.put("error", path, {**about, **error})
    elif status in STEP_ENDED:
        changes.delete("error", path)
        if change.secret is not NOTHING:
            _say_redacted(path, change)
    return change


said: set[tuple[str, str]] = set()  # steps and fields that this process has reported of a run


def _say_redacted(path: str, change: Change) -> None:
    """Print which fields of a step's result are not stored: once for all items of a batch."""
    found: dict[str, list[Any]] = {}  # the first place of each field
    total, name = 0, parent_of(path) or path
    for hole in holes(change.stored):
        if hole[0] == "result" and not _was_redacted(change.secret, hole):
            total += 1
            found.setdefault(place_of(key if isinstance(key, str) else 0 for key in hole), hole[1:])
    if all((name, field) in said for field in found):
        return
    said.update((name, field) for field in found)
    some = list(found.values())[:_SHOWN]
    more = f" and {total - len(some)} more" if total > len(some) else ""
    words = {next((key for key in hole[::-1] if isinstance(key, str)), f"{path}.result"): 0 for hole in some}
    places = ", ".join(place_of(hole).lstrip(".") or "all of it" for hole in some)
    line = (
        f"leftoff: the result of step {shown_step(path)} is stored without what looks like a secret: {places}{more}. "
        f"To store it, allow it in leftoff.toml: [redaction] allow = [{', '.join(map(text, words))}]"
    )
    try:
        print("".join(c if c.isprintable() else "\ufffd" for c in line), file=sys.stderr)
    except OSError:  # stderr is closed
        pass


def _was_redacted(value: Any, place: list[Any]) -> bool:
    """Return whether an entry came with the mark: it was read from a run, and reported when it was first recorded."""
    for key in place:
        if isinstance(value, dict) and key not in value:  # a secret in the key was masked
            return False
        value = value[key]
    return isinstance(value, Mark)


def remove_step(changes: ChangeSet, path: str) -> None:
    """Delete a step, with what is stored next to it."""
    for collection in ("step", "approval", "error"):
        changes.delete(collection, path)


def check(path: str, record: Record) -> None:
    """Raise ``Invalid`` if such a record cannot be stored."""
    ChangeSet().put("step", path, record)


class Steps:
    """The steps of one run inside a transaction, as its changes leave them."""

    def __init__(self, reader: Reader, changes: ChangeSet, at: int) -> None:
        self.changes = changes
        self.at = at
        self.now = iso(at)
        self._reader = reader
        self._seen: dict[str, Record | None] = {}
        self._blocked = 0  # how many more are blocked than before

    def all(self) -> dict[str, Record]:
        """Return every step by its path, before any change."""
        found = self._reader.plain("step")
        self._seen = {**found, **self._seen}
        return found

    def get(self, path: str) -> Record | None:
        """Return a step's record as the changes leave it."""
        if path not in self._seen:
            found = self._reader.value("step", path)
            self._seen[path] = found.plain if found is not None else None
        return self._seen[path]

    def get_or_new(self, path: str) -> Record:
        """Return a step's record; for one that is not there, its place."""
        found = self.get(path)
        return found if found is not None else {"order": self._next_order(path)}

    def is_approval(self, path: str) -> bool:
        """Return whether a person decides this step."""
        record = self.get(path)
        if record is not None and record.get("kind") == "approval":
            return True
        return self._reader.view.row(self._reader.run, "approval", path) is not None

    def move(self, path: str, record: Record) -> None:
        """Set a step's record after its status changed, and what is stored next to it."""
        before = self.get(path)
        move(self.changes, path, record, self.now)
        self._seen[path] = record
        self._settle_run(before, record.get("status"))

    def put(self, path: str, record: Record) -> None:
        """Set facts about a step, which leave its status as it is."""
        put(self.changes, path, record)
        self._seen[path] = record

    def declare(self, steps: Iterable[tuple[str, Record]]) -> None:
        """Add the steps that the run does not have yet, after the others at their place; change none that it has."""
        places: dict[str, int] = {}
        for path, known in steps:
            if self.get(path) is None:
                parent = parent_of(path)
                places[parent] = places[parent] + 1 if parent in places else self._next_order(path)
                self.put(path, declare(places[parent], known))

    def withdraw(self, steps: Iterable[tuple[str, Record]]) -> None:
        """Delete the steps at the top that were declared, never tried, and are in the list no more (if there is one).

        They stay in the history."""
        wanted = {path for path, _ in steps}
        known = self.all() if wanted else {}
        inner = {parent_of(path) for path in known} | {parent_of(path) for path in wanted}
        for path, record in known.items():
            untried = record["status"] == "pending" and not _tries(record) and not self.is_approval(path)
            if untried and "/" not in path and path not in wanted | inner:
                self.remove(path)

    def remove(self, path: str) -> None:
        """Delete a step, with what is stored next to it."""
        before = self.get(path)
        remove_step(self.changes, path)
        self._seen[path] = None
        self._settle_run(before, None)

    def _settle_run(self, record: Record | None, after: object) -> None:
        """Set the status of the run if a step was blocked or is blocked no more."""
        before = record.get("status") if record is not None else None
        if (before == "blocked") == (after == "blocked"):
            return
        self._blocked += 1 if after == "blocked" else -1
        row = need_run(self._reader.view, self._reader.run, self._reader.run_id)
        status = status_of_run(row.status, blocked=counts_of(row.counts)["blocked"] + self._blocked > 0)
        if status != row.status or ("run", "status") in self.changes.changes:
            self.changes.put("run", "status", status)

    def _next_order(self, path: str) -> int:
        """Return the place of a step that was not declared: after the others below the same step."""
        view, run, above = self._reader.view, self._reader.run, parent_of(path)
        while above and view.row(run, "step", above) is None:
            above = parent_of(above)
        prefix = view.row(run, "step", above) if above else None
        outer = f"{prefix[2]}/" if prefix is not None and prefix[2] else ""
        last = view.last_order(run, outer)
        number = last[len(outer) :].partition("/")[0] if last is not None else ""
        return min(int(number) + 1, LAST) if number.isdigit() else 0


def steps_in(store: SqlStore, view: View, row: RunRow, changes: ChangeSet, at: int) -> Steps:
    """Return the steps of a run, to change them in this transaction."""
    return Steps(Reader(store, view, row.run, row.run_id), changes, at)


# -- reports


class StepReport:
    """The changes of one step. ``decided``: by a person; an approval takes no other report."""

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
    store: SqlStore, tx: Tx, row: RunRow, changes: ChangeSet, report: StepReport, at: int
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
        record = start(old, now)
    elif report.action == "skip":
        record = skip(old, now)
    elif report.action == "done":
        record = complete(ensure_try(old, now), now)
    elif report.action == "fail":
        record = fail(ensure_try(old, now), now, error)
    else:
        record = block(ensure_try(old, now), error)
    if report.outputs:
        record["outputs"] = merged(record.get("outputs"), report.outputs)
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
    steps.move(path, put_over(old, value))


def add_output(store: SqlStore, tx: Tx, row: RunRow, changes: ChangeSet, path: str, output: str) -> None:
    """Add a file to the outputs of a step, if that step is there."""
    steps = steps_in(store, tx, row, changes, 0)
    record = steps.get(path)
    if record is not None:
        steps.put(path, {**record, "outputs": merged(record.get("outputs"), [output])})


# -- notes


def put_note(tx: Tx, row: RunRow, changes: ChangeSet, note: dict[str, Any], at: int) -> str:
    """Add a note inside the transaction that commits it; its key."""
    number = 1
    while (
        tx.row(row.run, "note", key := f"{at:015d}-{number:04d}") is not None
        or ("note", key) in changes.changes
    ):
        number += 1
    changes.put("note", key, note)
    return key


def note_record(text: str, at: int, step: str | None = None, resume: bool = False) -> dict[str, Any]:
    """Return the record of a note. An empty note is refused. ``resume``: to be read first by the next agent."""
    if not text.strip():
        raise Invalid("A note cannot be empty.", hint="Say what to remember.")
    about = {"text": text, "at": iso(at), "step": step, "resume": resume or None}
    return {name: value for name, value in about.items() if value is not None}
