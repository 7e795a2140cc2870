"""Any record, put by whoever reports: messages, knowledge, criteria, … Those that keep the run itself going have rules."""

from __future__ import annotations

from leftoff.engine.steps import next_order
from leftoff.errors import Usage
from leftoff.model.changes import NOTHING
from leftoff.model.codec import payload
from leftoff.model.words import COLLECTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow

_REFUSED = {
    "run": "Use `leftoff start`, `pause` and `finish`; what you want to remember of a run goes to context or extra.",
    "item": "Entries of long variables are kept here. Set the variable itself: `leftoff set K:=JSON`.",
}


def check_collection(collection: str) -> None:
    """Whether records of this collection may be put."""
    if collection in _REFUSED:
        raise Usage(f"Records of the collection {collection} are leftoff's own.", hint=_REFUSED[collection])
    if collection not in COLLECTIONS:
        from difflib import get_close_matches

        known = [name for name in COLLECTIONS if name not in _REFUSED]
        near = get_close_matches(collection, known, 1, 0.5)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise Usage(f"There is no collection {collection!r}.", hint=f"{hint}Collections: {', '.join(known)}.")


def put_record(
    tx: Tx, row: RunRow, changes: ChangeSet, collection: str, key: str, value: Any, *, new: bool = False
) -> None:
    """Put a record into a change set. ``new``: only where there is none under that key."""
    if collection == "step":
        value = _step(tx, row, key, value)
    changes.put(collection, key, value, expect=None if new else NOTHING)


def _step(tx: Tx, row: RunRow, key: str, value: Any) -> Any:
    """A step keeps its status and its place, unless the record says otherwise."""
    if not isinstance(value, dict):
        raise Usage(f"The record of step {key} must be an object.", hint='For example: \'{"title": "Collect"}\'')
    there = tx.record(row.run, "step", key)
    old = payload(there.stored, f"step/{key}") if there is not None and there.stored[:1] in (b"J", b"R") else {}
    order = old.get("order") if there is not None else next_order(tx, row.run, key)
    return {"status": old.get("status", "pending"), "order": order, **value}
