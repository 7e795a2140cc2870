"""What a store says of itself, for people: see ``Store.about``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def about(kind: str, meta: dict[str, str], runs: int, size: int) -> dict[str, Any]:
    """The facts that every store has, from what it noted when it was made."""
    named = {name: meta.get(name) for name in ("store_id", "created_by", "written_by")}
    numbers = {name: int(meta[name]) if name in meta else None for name in ("schema", "created_at")}
    return {"kind": kind, **numbers, **named, "runs": runs, "bytes": size}
