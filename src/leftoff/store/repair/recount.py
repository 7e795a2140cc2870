"""Everything that the tables keep besides the records, written anew from them."""

from __future__ import annotations

from leftoff.errors import LeftoffError
from leftoff.model.card import card_of
from leftoff.store.fsck.derived import Leaves, counts_at, orders, step_of
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
    steps: list[tuple[str, int, int | None, str]] = []
    live: dict[str, dict[str, Any]] = {}
    own: dict[str, bytes] = {}
    for _, collection, key, seq, until, _, stored, *_ in tx.execute(Q.all_records, (run,)).fetchall():
        if collection == "step":
            step = _step(tx, blobs, key, stored)
            steps.append((key, seq, until, step["status"]))
            if until is None:
                live[key] = step
        elif collection == "run" and until is None:
            own[key] = stored
    _recount_steps(tx, run, live)
    versions = tx.versions(run, sealed=False)
    counted = counts_at(steps, [version.seq for version in versions])
    for seq, counts in counted.items():
        tx.execute(Q.set_counts, (counts, run, seq))
    head = versions[0]
    tx.execute(Q.set_head, (head.n, head.seq, head.digest, counted[head.seq], head.at, head.checkpoint, run))
    columns, card = card_of(own.items())
    tx.set_card(run, columns, card)


def _recount_steps(tx: SqliteTx, run: int, live: dict[str, dict[str, Any]]) -> None:
    leaves, places = Leaves(), orders(live)
    for path, step in live.items():
        leaves.add(path, step["status"])
    for path, step in live.items():
        tx.execute(Q.set_step, (step["status"], int(leaves.is_leaf(path)), places[path], run, path))


def _step(tx: SqliteTx, blobs: Blobs, path: str, stored: bytes) -> dict[str, Any]:
    def load(hash: bytes) -> Any:
        row = tx.blob(hash)
        return blobs.load(row) if row is not None else ()

    try:
        return step_of(load, stored, f"step/{path}")
    except LeftoffError:  # it was in a blob that is lost
        return {"status": "pending"}
