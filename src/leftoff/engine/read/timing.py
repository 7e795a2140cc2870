"""Time used against what was estimated, from the steps' own records."""

from __future__ import annotations

from leftoff.clock import millis
from leftoff.engine.read.show import inner_steps
from leftoff.engine.read.state import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow


def timing(store: Store, row: RunRow, now: int) -> dict[str, float | None]:
    """Seconds: ``used`` by steps so far, ``estimated`` for all that have an estimate, ``left`` of it."""
    steps = {path: value.plain for path, value in read(store, row.run, row.run_id, "step").items()}
    inner = inner_steps(steps)
    leaves = [record for path, record in steps.items() if path not in inner]
    known = [record for record in leaves if _estimate(record) is not None]
    used = sum(_used(record, now) for record in leaves)
    if not known:
        return {"used": used, "estimated": None, "left": None}
    total = sum(_estimate(record) or 0 for record in known)
    left = sum(
        max(0.0, (_estimate(record) or 0) - _used(record, now))
        for record in known
        if record.get("status") not in ("completed", "skipped")
    )
    return {"used": used, "estimated": total, "left": left}


def _estimate(record: Mapping[str, Any]) -> float | None:
    value = record.get("estimate")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _used(record: Mapping[str, Any], now: int) -> float:
    began, ended = millis(record.get("started_at")), millis(record.get("completed_at"))
    if began is None or record.get("status") == "pending":
        return 0.0
    if ended is None and record.get("status") != "running":
        return 0.0
    return max(0.0, (ended if ended is not None else now) - began) / 1000
