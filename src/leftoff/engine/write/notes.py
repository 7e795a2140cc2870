"""Notes: what somebody wants whoever goes on to know. Their keys sort by time, and never collide."""

from __future__ import annotations

from leftoff.clock import iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx
    from leftoff.store.rows import RunRow


def put_note(
    tx: Tx,
    row: RunRow,
    changes: ChangeSet,
    text: str,
    at: int,
    *,
    step: str | None = None,
    resume: bool = False,
) -> str:
    """Add a note inside the transaction that commits it; its key. ``resume``: to be read first by whoever goes on."""
    number = 1
    while (
        tx.row(row.run, "note", key := f"{at:015d}-{number:04d}") is not None
        or ("note", key) in changes.changes
    ):
        number += 1
    about = {"text": text, "at": iso(at), "step": step, "resume": resume or None}
    changes.put("note", key, {name: value for name, value in about.items() if value is not None})
    return key
