"""Mark a run whose store went back behind versions that it had acknowledged, so that resuming it asks."""

from __future__ import annotations

from leftoff.clock import SYSTEM, iso
from leftoff.engine.commit import Terms
from leftoff.engine.report_commit import report_in
from leftoff.errors import LeftoffError, Rewound
from leftoff.model.changes import ChangeSet
from leftoff.model.words import REPAIRED
from leftoff.store.base import Store, Tx
from leftoff.store.rows import RunRow


def mark_rewound(store: Store, error: Rewound) -> None:
    """Put the record `context/repaired` into the run. Only the process that made the lost commits knows of them."""
    now = getattr(store, "clock", SYSTEM).now()
    message = f"The store went back to @{error.kept}, though it had acknowledged @{error.newest}."
    facts = {"at": iso(now), "kept": error.kept, "newest": error.newest, "message": message, "aside": []}

    def mark(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if tx.record(row.run, "context", REPAIRED) is None:  # the first mark knows most
            changes.put("context", REPAIRED, facts)

    def work(tx: Tx) -> None:
        row = tx.find_run(error.run_id)
        if row is not None:
            report_in(store, tx, row, mark, Terms(now), ChangeSet())

    try:
        store.write(work)
    except LeftoffError:  # the caller gets the error in any case
        pass
