"""What a store says of itself: noted when it is made, told by ``Store.about``."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.clock import Clock


def first_facts(clock: Clock) -> dict[str, str]:
    """What is noted in a store that is made now."""
    from leftoff._version import __version__

    return {
        "store_id": os.urandom(16).hex(),
        "created_at": str(clock.now()),
        "created_by": __version__,
        "written_by": __version__,
    }


def about(kind: str, meta: dict[str, str], runs: int, size: int) -> dict[str, Any]:
    """The facts that every store has, from what it noted when it was made."""
    named = {name: meta.get(name) for name in ("store_id", "created_by", "written_by")}
    numbers = {name: int(meta[name]) if name in meta else None for name in ("schema", "created_at")}
    return {"kind": kind, **numbers, **named, "runs": runs, "bytes": size}
