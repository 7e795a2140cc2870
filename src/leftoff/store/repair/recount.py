"""Everything that the tables keep besides the records, written anew from them."""

from __future__ import annotations

from leftoff.model.card import card_of
from leftoff.model.derived import columns_of, counts_at, step_or_pending
from leftoff.store.sqlite.queries import Q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.blobs import Blobs
    from leftoff.store.sqlite.tx import SqliteTx


def recount(tx: SqliteTx, blobs: Blobs) -> None:
    """Every run's row, counters and the columns of its steps, inside one transaction."""
    tx.execute(Q.ensure_run_0)
    for (run_id,) in tx.execute(Q.hidden_but_complete).fetchall():
        tx.execute(Q.unhide_run, (run_id,))
    for (run,) in tx.execute(Q.runs_to_check).fetchall():
        _recount_run(tx, blobs, run)
    tx.execute(Q.catch_up_n)


def _recount_run(tx: SqliteTx, blobs: Blobs, run: int) -> None:
    def load(hash: bytes) -> Any:
        row = tx.blob(hash)
        return blobs.load(row) if row is not None else ()

    steps: list[tuple[str, int, int | None, str]] = []
    live: dict[str, dict[str, Any]] = {}
    own: dict[str, bytes] = {}
    for _, collection, key, seq, until, _, stored, *_ in tx.execute(Q.all_records, (run,)).fetchall():
        if collection == "step":
            step = step_or_pending(load, stored, key)
            steps.append((key, seq, until, step["status"]))
            if until is None:
                live[key] = step
        elif collection == "run" and until is None:
            own[key] = stored
    for path, columns in columns_of(live).items():
        tx.execute(Q.set_step, (columns["status"], columns["leaf"], columns["ord"], run, path))
    versions = tx.versions(run, sealed=False)
    counted = counts_at(steps, [version.seq for version in versions])
    for seq, counts in counted.items():
        tx.execute(Q.set_counts, (counts, run, seq))
    head = versions[0]
    tx.execute(Q.set_head, (head.n, head.seq, head.digest, counted[head.seq], head.at, head.checkpoint, run))
    tx.set_card(run, *card_of(own.items()))
