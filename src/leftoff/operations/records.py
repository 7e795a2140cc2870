"""Records of a run: variables, any other record, notes, artifacts; put and read. And a sign of life."""

from __future__ import annotations

from leftoff.model.fields import Fields
from leftoff.operations.reports import (
    current,
    current_row,
    guard_of,
    report,
    report_on,
    step_of,
    usage_errors,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.engine.config.caller import Caller
    from leftoff.engine.config.project import Project
    from leftoff.engine.read.state import Reader, Value
    from leftoff.engine.write.report import Reported
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import RunRow


def set_variables(project: Project, caller: Caller, values: Mapping[str, Any]) -> Reported:
    """Set variables, all in one commit. Of a step whose definition names those that persist, only these are kept."""
    only = caller.persisted if caller.named in (None, caller.run) else None
    left = [key for key in values if only is not None and key not in only]
    if left:
        names = ", ".join(only or ["none"])
        project.say(
            f"leftoff: not kept: {', '.join(left)}. The variables_to_persist of {caller.step}: {names}."
        )

    def put(changes: ChangeSet) -> None:
        for key, value in values.items():
            if key not in left:
                changes.put("variable", key, value)

    return _put_ready(project, caller, put)


class Record(Fields):
    """A record to put. ``new``: only where there is none under that key."""

    collection: str
    key: str
    value: Any
    new: bool = False


def put_record(project: Project, caller: Caller, record: Record) -> Reported:
    """Put any record but those that are leftoff's own, and what only a person decides."""
    from leftoff.engine.write import records

    records.check_record(record.collection, record.key, record.value, person=caller.person)
    if record.collection == "step":
        return _put_step(project, caller, record)

    def put(changes: ChangeSet) -> None:
        records.put_record(changes, record.collection, record.key, record.value, new=record.new)

    return _put_ready(project, caller, put)


def _put_step(project: Project, caller: Caller, record: Record) -> Reported:
    from leftoff.engine.steps.lifecycle import steps_in
    from leftoff.engine.steps.reports import put_step, refuse_approval
    from leftoff.engine.write.records import decides_step
    from leftoff.model.ids import check_step

    store, path = project.store, project.redactor.name(usage_errors(lambda: check_step(record.key)))

    at = project.now

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        steps = steps_in(store, tx, row, changes, at)
        if not caller.person or decides_step(record.value):
            refuse_approval(steps, row.run_id, path)
        usage_errors(lambda: put_step(steps, path, record.value, new=record.new))

    return report(project, caller, make, at=at)


def _put_ready(project: Project, caller: Caller, put: Any) -> Reported:
    """Changes that do not depend on what is there are made before the transaction."""
    from leftoff.model.changes import ChangeSet

    changes = ChangeSet(project.redactor)
    usage_errors(lambda: put(changes))
    done = report(project, caller, changes=changes)
    done.redacted = changes.redacted
    return done


class Note(Fields):
    """A note. ``step``: which it is about, if not the one that the caller is part of. ``resume``: whoever goes on must
    read it first."""

    text: str
    step: str | None = None
    resume: bool = False


def add_note(project: Project, caller: Caller, note: Note) -> Reported:
    """Leave a note for whoever goes on."""
    from leftoff.engine.write.records import note_record, put_note

    at, text, step = project.now, project.redactor.mask(note.text), _step(project, caller, note.step)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        put_note(tx, row, changes, about, at)

    about = usage_errors(lambda: note_record(text, at, step, note.resume))
    return report(project, caller, make, at=at)


def _step(project: Project, caller: Caller, named: str | None) -> str | None:
    """The step that is named, else the one that the caller is part of."""
    from leftoff.model.ids import given_step

    if not named:
        return caller.step
    path = project.redactor.name(usage_errors(lambda: given_step(named)))
    return step_of(project, current_row(project, caller), path) if "[" in path or "\\" in path else path


class Artifact(Fields):
    """A file to keep. ``step``: which wrote it, if not the one that the caller is part of."""

    path: str
    name: str | None = None
    step: str | None = None


class KeptArtifact(Fields):
    """What was recorded of a file, under which name."""

    done: Reported
    name: str
    about: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {**self.done.to_json(), "artifact": {"name": self.name, **self.about}}


def keep_artifact(project: Project, caller: Caller, artifact: Artifact) -> KeptArtifact:
    """Keep a file: its path, hash and size, and a copy of it as it is now."""
    from leftoff.engine.steps.reports import add_output
    from leftoff.engine.workspace.tracking import capture

    at, store, step = project.now, project.store, _step(project, caller, artifact.step)
    looked = current_row(project, caller)  # nothing is kept for a run that is not there
    got = capture(project.workspace(at), artifact.path, step=step, name=artifact.name or None)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        usage_errors(lambda: got.put(changes))
        if step is not None:
            add_output(store, tx, row, changes, step, got.about["path"])

    blobs = [got.blob] if got.blob is not None else []
    done = report_on(project, caller, looked, make, blobs, at)
    return KeptArtifact(done, got.key, got.about)


def beat(project: Project, caller: Caller) -> Reported:
    """A sign of life, which makes no version."""
    from leftoff.engine.write.report import Reported, beat

    row = beat(project.store, current(project, caller), project.now, guard_of(caller))
    if row.status != "running":
        project.say(f"leftoff: {row.run_id} is {row.status}: a sign of life counts for a run at work only.")
    return Reported(row, None)


# -- reading


def variables(project: Project, caller: Caller) -> dict[str, Any]:
    """All variables of the run that is meant."""
    found: dict[str, Any] = _read(project, caller, None, lambda reader: reader.plain("variable"))
    return found


def get(
    project: Project, caller: Caller, name: str, ref: str | None = None, *, redacted: bool = False
) -> Any:
    """A variable, or the record that ``COLLECTION/KEY`` names, of the run or version that a REF names.

    A secret that was never stored is an error, as no script must take its mark for it; ``redacted``: it is the mark.
    """
    from leftoff.errors import Redacted
    from leftoff.model.words import COLLECTIONS

    collection, _, key = name.partition("/")
    if not key or collection not in COLLECTIONS:
        collection, key = "variable", name
    value: Value = _read(project, caller, ref, lambda reader: _one(reader, collection, key))
    if [] in value.holes and not redacted:
        raise Redacted(
            name, hint="Secrets are not stored. Read it from where it is kept, or allow it in leftoff.toml."
        )
    return _seen(collection, value.plain)


def _seen(collection: str, plain: Any) -> Any:
    from leftoff.engine.read.state import seen_step
    from leftoff.model.values import readable

    if collection == "step" and isinstance(plain, dict):
        return seen_step(plain)
    return readable(plain) if collection == "variable" else plain


def _read(project: Project, caller: Caller, ref: str | None, read: Any) -> Any:
    from leftoff.engine.read.state import PROVED, Reader
    from leftoff.operations.runs import target

    found = target(project, caller, ref)  # of an archived run, that opens another store
    row, seq, store = found.row, found.version.seq if found.version is not None else None, project.store

    def look(view: View) -> Any:
        now = view.run_row(row.run) if seq is None else None
        if now is not None:
            view.prove(now, PROVED)
        return read(Reader(store, view, row.run, row.run_id, seq))

    return store.read(look)


def _one(reader: Reader, collection: str, key: str) -> Value:
    from leftoff.model.ids import step_readings

    value = reader.value(collection, key)
    if value is None and collection == "step":
        found = filter(None, (reader.value(collection, each) for each in step_readings(key)[1:]))
        value = next(found, None)
    if value is not None:
        return value
    from difflib import get_close_matches

    from leftoff.errors import NotFound

    known = list(reader.raw(collection))
    near = get_close_matches(key, known, 3, 0.5)
    what = "variable" if collection == "variable" else f"{collection} record"
    hint = (
        f"Did you mean {', '.join(near)}?"
        if near
        else f"It has {_some(known) if known else f'no {what} at all'}."
    )
    raise NotFound(f"The run has no {what} {key}.", hint=hint)


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
