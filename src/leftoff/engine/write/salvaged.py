"""The mark of a run that lost versions, or may have: it asks before it resumes, as finished steps would run again."""

from __future__ import annotations

from leftoff.clock import SYSTEM, iso
from leftoff.engine.write.commit import Terms
from leftoff.engine.write.report import report_in
from leftoff.errors import LeftoffError
from leftoff.model.changes import ChangeSet
from leftoff.model.words import SALVAGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.errors import Rewound
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import RunRow


def mark_in(store: Store, tx: Tx, loss: dict[str, Any], aside: Sequence[str] = ()) -> None:
    """Put it into the run itself: `context/salvaged`, gone when somebody has decided to go on."""
    now, row = getattr(store, "clock", SYSTEM).now(), tx.find_run(loss["run_id"])
    facts = {"at": iso(now), **{key: loss[key] for key in ("kept", "newest", "message")}, "aside": [*aside]}

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if tx.record(row.run, "context", SALVAGED) is None:  # the first to find it knows most
            changes.put("context", SALVAGED, facts)

    if row is not None:
        report_in(store, tx, row, make, Terms(now), ChangeSet())


def mark_rewound(store: Store, error: Rewound) -> None:
    """Whoever knew more than the store has is the only one who can tell; it is told to the caller in any case."""
    message = f"The store went back to @{error.kept}, though it had acknowledged @{error.newest}."
    loss = {"run_id": error.run_id, "kept": error.kept, "newest": error.newest, "message": message}
    try:
        store.write(lambda tx: mark_in(store, tx, loss))
    except LeftoffError:
        pass
