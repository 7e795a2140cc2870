"""Any record, put by whoever reports: messages, knowledge, criteria, … A few collections have rules."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.errors import Invalid, NeedsPerson, Usage
from leftoff.hints import Any
from leftoff.model.changes import NOTHING
from leftoff.model.words import COLLECTIONS, STEP_STATUS, is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

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
