"""Reports on a run, by the process that works on it: one transaction finds the run, looks, changes and commits.

Reports need no lease and work next to a live driver. Each reads and writes in the same transaction, so several agents
that report at once lose nothing, not even on the same step.
"""

from __future__ import annotations

from leftoff.clock import SYSTEM, iso
from leftoff.engine.commit import NO_GUARD, Head, Terms, commit_in, save_blobs
from leftoff.engine.lease import sign_of_life
from leftoff.engine.optimistic_check import need_store
from leftoff.errors import Invalid, LeftoffError, NeedsPerson, Rewound, Usage
from leftoff.hints import Any, Callable, Mapping, NamedTuple
from leftoff.host import user
from leftoff.model.changes import NOTHING, ChangeSet
from leftoff.model.words import COLLECTIONS, REPAIRED, STEP_STATUS, is_own
from leftoff.store.rows import RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.commit import Guard, Seal
    from leftoff.engine.optimistic_check import Find
    from leftoff.model.changes import Scrubber
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx

    Make = Callable[[Tx, RunRow, ChangeSet], Seal | None]


class Reported:
    """The run as it was found, and the version that the report made (``None``: it changed nothing).

    ``redacted``: the keys of records that held a secret, which was not stored.
    """

    __slots__ = ("redacted", "row", "version")

    def __init__(self, row: RunRow, version: Version | None) -> None:
        self.row = row
        self.version = version
        self.redacted: list[str] = []

    @property
    def seq(self) -> int:
        return self.version.seq if self.version is not None else self.row.seq

    @property
    def left(self) -> RunRow:
        """Return where the run stands after this report, for an operation that continues: see ``need_unmoved``."""
        if self.version is None:
            return self.row
        return RunRow((*self.row[:3], self.version.seq, self.version.digest, *self.row[5:]))

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.row.run_id, "seq": self.seq}


def beat(store: Store, find: Find, at: int, guard: Guard = NO_GUARD) -> RunRow:
    """Give a sign of life, which makes no version."""
    need_store(store)

    def work(tx: Tx) -> RunRow:
        row = find(tx)
        guard.check(tx, row, 0)
        sign_of_life(tx, row.run, at)
        return row

    return store.write(work)


def report(
    store: Store,
    find: Find,
    make: Make,
    terms: Terms,
    scrubber: Scrubber | None = None,
    changes: ChangeSet | None = None,
) -> Reported:
    """Find the run, let ``make`` fill a change set (and say how to seal it), and commit.

    ``changes``: those that do not depend on what is there, made beforehand.
    """
    need_store(store)
    ready, saved = save_blobs(store, changes) if changes is not None else (ChangeSet(), [])
    terms.blobs = [*saved, *terms.blobs]

    def work(tx: Tx) -> Reported:
        wanted = ChangeSet(scrubber)
        wanted.changes.update(ready.changes)
        row = find(tx)
        tx.prove(row)
        return report_in(store, tx, row, make, terms, wanted)

    return store.write(work)


def report_in(store: Store, tx: Tx, row: RunRow, make: Make, terms: Terms, changes: ChangeSet) -> Reported:
    """Do the part inside the transaction. ``make`` says how it is sealed."""
    seal = make(tx, row, changes)
    ready, large = save_blobs(
        store, changes
    )  # hardly ever any: a record that was read here may be that large
    own = Terms(terms.at, terms.guard, seal, terms.token, [*terms.blobs, *large])
    done = commit_in(tx, Head.of(row), ready, own)
    return Reported(row, done[0] if done is not None else None)


def mark_rewound(store: Store, error: Rewound) -> None:
    """Put the record `context/repaired` into a run whose store lost acknowledged versions, so that resuming it asks.

    Only the process that made the lost commits knows of them.
    """
    now = getattr(store, "clock", SYSTEM).now()
    message = f"The store went back to @{error.kept}, though it had acknowledged @{error.newest}."
    facts = {"at": iso(now), "kept": error.kept, "newest": error.newest, "message": message, "aside": []}

    def mark(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if tx.record(row.run, "context", REPAIRED) is None:  # the first mark knows most
            changes.put("context", REPAIRED, facts)

    def work(tx: Tx) -> None:
        row = tx.find_run(error.run_id)
        if row is not None:
            report_in(store, tx, row, mark, Terms(now), ChangeSet())

    try:
        store.write(work)
    except LeftoffError:  # the caller gets the error in any case
        pass


class Audit(NamedTuple):
    """Who decided what about a run: an action, the face through which it came, the fields that were given with it."""

    action: str
    via: str
    said: Mapping[str, Any]

    def put(self, changes: ChangeSet, at: int, **more: Any) -> None:
        """Add the record to the changes that carry the action out. more: fields that are known only then."""
        said = {**self.said, **more}
        about = {"action": self.action, "by": user(), "at": iso(at), "via": self.via, "said": said}
        changes.put("audit", f"{about['at']} {self.action}", about)


# -- any record: messages, knowledge, criteria, … A few collections have rules.

_REFUSED = {
    "run": "Use `leftoff start`, `pause` and `finish`; what you want to remember of a run goes to context or extra.",
    "turn": "An agent's hooks keep them (`leftoff install`). What you want to remember goes to note or context.",
    "audit": "It says who decided what through the page. What you want to remember goes to note or context.",
    "item": "Entries of long variables are kept here. Set the variable itself: `leftoff set K:=JSON`.",
}


_DECIDES = ("choice", "by", "decided_at")  # what an approval has once somebody decided
_OPEN = ("pending", "waiting")  # a step for which nobody has decided yet


def check_record(collection: str, key: str, value: Any, *, person: bool = True) -> None:
    """Whether this record may be put: not one that decides what is executed, approved or brought back.

    ``person``: whether one may be behind it. One may ask for a decision so, and never take it.
    """
    _check_collection(collection)
    refuse_decision(collection, key, value, person=person)
    if collection in ("file", "artifact") and not person:
        raise Usage(
            f"Records of the collection {collection} are leftoff's own.",
            hint="A file that is named as an output is kept: report_step(output=…), `leftoff artifact PATH`.",
        )


def refuse_decision(collection: str, key: str, value: Any, *, person: bool = True) -> None:
    """An error for a record that decides what is executed or approved, whoever puts it."""
    if collection == "approval" and (not person or _is_decided(value)):
        raise NeedsPerson(
            "Only a person decides an approval.",
            hint="Nothing was changed. `leftoff approve RUN STEP` decides one that is waiting.",
        )
    if is_own(collection, key) or (collection, key) == ("context", "graph"):
        raise Usage(
            f"The record {collection}/{key} is leftoff's own.",
            hint="Nothing was changed. It says what is executed, restored or was decided; choose another one.",
        )


def _is_decided(value: Any) -> bool:
    about = value if isinstance(value, dict) else {}
    return about.get("status", "waiting") not in _OPEN or any(key in about for key in _DECIDES)


def decides_step(value: Any) -> bool:
    """Whether this record of a step that is an approval says how it was decided."""
    status = value.get("status") if isinstance(value, dict) else None
    return status in STEP_STATUS and status not in _OPEN


def _check_collection(collection: str) -> None:
    if collection in _REFUSED:
        raise Usage(f"Records of the collection {collection} are leftoff's own.", hint=_REFUSED[collection])
    if collection not in COLLECTIONS:
        from difflib import get_close_matches

        known = [name for name in COLLECTIONS if name not in _REFUSED]
        near = get_close_matches(collection, known, 1, 0.5)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise Usage(f"There is no collection {collection!r}.", hint=f"{hint}Collections: {', '.join(known)}.")


def put_record(changes: ChangeSet, collection: str, key: str, value: Any, *, new: bool = False) -> None:
    """Put a record into a change set. ``new``: only where there is none under that key."""
    changes.put(collection, key, value, expect=None if new else NOTHING)


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
    """What is recorded of a note; one without a word is none. ``resume``: to be read first by whoever goes on."""
    if not text.strip():
        raise Invalid("A note cannot be empty.", hint="Say what to remember.")
    about = {"text": text, "at": iso(at), "step": step, "resume": resume or None}
    return {name: value for name, value in about.items() if value is not None}
