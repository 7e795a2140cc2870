"""Notes: what somebody wants whoever goes on to know. Their keys sort by time, and never collide."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


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
        raise Invalid("A note cannot be empty.", hint="Say what is to be remembered.")
    about = {"text": text, "at": iso(at), "step": step, "resume": resume or None}
    return {name: value for name, value in about.items() if value is not None}
