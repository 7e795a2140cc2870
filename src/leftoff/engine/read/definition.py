"""Whether a run is one of a workflow file, and what it remembers of that."""

from __future__ import annotations

from leftoff.engine.read.state import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow

KEY = "definition"  # in the collection `context`


def definition_of(store: Store, row: RunRow, seq: int | None = None) -> dict[str, Any] | None:
    """``path``, ``digest`` and ``text`` of the file that a run executes; ``None`` where it is no such run.

    The text is ``None`` where it was not stored: there was a secret in it. ``seq``: at that version.
    """
    found = store.read(lambda view: Reader(store, view, row.run, row.run_id, seq).value("context", KEY))
    known = found.plain if found is not None else None
    if not isinstance(known, dict) or not isinstance(known.get("digest"), str):
        return None
    return known if isinstance(known.get("text"), str) else {**known, "text": None}


def names_of(store: Store, row: RunRow, seq: int | None = None) -> set[str]:
    """The variables that a run has, whatever became of their values: its definition may use them."""
    return set(store.read(lambda view: Reader(store, view, row.run, row.run_id, seq).values("variable")))
