"""The listing's copy of a run's own records: which of them have a column, and what the others look like."""

from __future__ import annotations

from leftoff.model.codec import BLOB, payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def card_of(records: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str | None], dict[str, Any]]:
    """Columns and card of a run, from the keys and stored bytes of its ``run`` records.

    A value so large that it is a blob is no part of a listing.
    """
    own = {key: payload(stored, f"run/{key}") for key, stored in records if stored[:1] != BLOB}
    issue = own.pop("issue", None)
    columns = {
        "workflow": _text(own.pop("workflow", None)) or "run",
        "branch": _text(own.pop("branch", None)) or "main",
        "status": _text(own.pop("status", None)) or "running",
        "title": _text(own.pop("title", None)),
        "issue": None if issue is None else str(issue),
        "session": _text(own.pop("session_id", None)),
    }
    return columns, own


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
