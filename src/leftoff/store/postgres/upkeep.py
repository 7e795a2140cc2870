"""Long jobs in short batches: pruning, removing, sweeping. Nobody waits for them longer than a moment.

Versions go before the records that only they see, so a reader finds a version whole or not at all. Cut short at any
point, a job leaves nothing wrong: the next one, or ``sweep``, goes on.
"""

from __future__ import annotations

from leftoff.host import GONE, UNKNOWN
from leftoff.store.pace import Orphans, Pace
from leftoff.store.postgres.blobs import IN_FOLDER
from leftoff.store.postgres.queries import Q
from leftoff.store.rows import TRASH, token_name
from leftoff.store.sqlite.upkeep import NEVER, REMOVED, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from leftoff.store.base import View
    from leftoff.store.postgres.blobs import PostgresBlobs
    from leftoff.store.postgres.store import PostgresStore
    from leftoff.store.postgres.tx import PostgresTx

ABANDONED_MS = 86_400_000  # after that, whoever made a hidden run somewhere else is taken for gone
_Place = tuple[str, str, int]


def prune(store: PostgresStore, run: int, drop: Iterable[int]) -> int:
    """See ``Store.prune``."""
    pace, orphans = Pace(store), Orphans()
    wanted = sorted(drop)
    head, oldest = store.read(lambda view: span(view, run))
    store.write(lambda tx: _drop_tokens(tx, run, oldest))
    # In this order: see `leftoff.engine.read.state.need_version`.
    pace.until_none(lambda tx, size: _forget(tx, run, oldest, Q.forget_unsealed, (run, head, size)))
    pace.over(wanted, lambda tx, some: _forget(tx, run, oldest, Q.forget_named, (run, [*some], head)))
    start: _Place = ("", "", -1)
    freed = pace.walk(start, lambda tx, here, size: _prune_past(tx, run, head, here, size, orphans))
    return freed + orphans.drop(pace, _drop_some)


def _forget(tx: PostgresTx, run: int, oldest: int, sql: str, values: tuple[Any, ...]) -> int:
    """Forget versions; the tokens of the newest stay (``span``)."""
    rows = tx.ask(sql, values, run)
    kept = [row for row in rows if row[0] >= oldest]
    if kept:
        names = [token_name(run, token) for _, token, _, _ in kept]
        facts = [f"{seq} {at} {digest.hex()}" for seq, _, digest, at in kept]
        tx.note(Q.put_metas, (names, facts))
    tx.note(Q.forget_aliases, (run, [row[0] for row in rows]))
    return len(rows)


def _drop_tokens(tx: Any, run: int, below: int) -> None:
    name = token_name(run, b"")
    found = tx.ask(Q.meta_range, (name, name + "g"))
    tx.note(Q.drop_metas, ([key for key, value in found if int(value.split()[0]) < below],))


def _prune_past(
    tx: PostgresTx, run: int, head: int, place: _Place, size: int, orphans: Orphans
) -> tuple[_Place | None, int]:
    """Drop what no kept version sees from the next rows; where to go on, and bytes given back."""
    rows = tx.ask(Q.past_batch, (run, *place, size), run)
    # What ended after the head we started from is still seen by that head.
    gone = [row for row in rows if not row[6] and row[2] <= head]
    for row in gone:
        orphans.note(row[3], row[3] is not None, row[4])
    if gone:
        tx.note(Q.drop_past, (run, *[[row[i] for row in gone] for i in range(3)]))
    last = (rows[-1][0], rows[-1][1], rows[-1][2]) if len(rows) == size else None
    return last, sum(row[5] for row in gone)


def _drop_some(tx: PostgresTx, values: list[bytes], blobs: list[bytes]) -> int:
    """Looked at again, once whoever may be about to refer to them has ended."""
    tx.gather(None, [(Q.lock_values, (values,)), (Q.lock_blobs, (blobs,))])
    lost = tx.gather(None, [(Q.drop_values, (values,)), (Q.discard_blobs, (blobs,))])
    return sum(row[0] for rows in lost for row in rows)


def remove(store: PostgresStore, run: int, allowed: Callable[[View], None] | None = None) -> int:
    """See ``Store.remove``. Out of sight at once, gone in batches."""

    def hide(tx: Any) -> None:
        row = tx.run_row(run)
        if allowed is not None:
            allowed(tx)
        if row is not None and REMOVED not in row.run_id:
            tx.note(Q.hide_run, (f"{row.run_id}{REMOVED}{run}", run))

    store.write(hide)
    pace, orphans = Pace(store), Orphans()
    freed = pace.until_none(lambda tx, size: _remove_records(tx, run, size, orphans))
    pace.until_none(lambda tx, size: len(tx.ask(Q.drop_versions, (run, size), run)))

    def rest(tx: Any) -> None:
        _drop_tokens(tx, run, NEVER)
        tx.note(Q.drop_meta, (f"{TRASH}{run}",))
        for query in (Q.drop_all_aliases, Q.drop_lease, Q.drop_attempts, Q.drop_run_rows):
            tx.note(query, (run,))

    store.write(rest)
    return freed + orphans.drop(pace, _drop_some)


def _remove_records(tx: PostgresTx, run: int, size: int, orphans: Orphans) -> int:
    past, live = tx.gather(run, [(Q.remove_past, (run, size)), (Q.remove_records, (run, size))])
    for outside, blob, _ in [*past, *live]:
        orphans.note(outside, outside is not None, blob)
    return sum(row[2] for row in [*past, *live])


def sweep(store: PostgresStore, *, thorough: bool = True) -> int:
    """See ``Store.sweep``."""
    freed = 0
    for run in store.read(_abandoned):
        freed += remove(store, run)
    pace, orphans = Pace(store), Orphans()
    if thorough:

        def strays(view: Any) -> None:
            values, blobs = view.several([(Q.stray_values, ()), (Q.stray_blobs, ())])
            orphans.values.update(row[0] for row in values)
            orphans.blobs.update(row[0] for row in blobs)

        store.read(strays)
        freed += orphans.drop(pace, _drop_some)
        store.write(lambda tx: tx.note(Q.drop_idle_tokens))  # type: ignore[attr-defined]
    freed += pace.walk(0, lambda tx, number, size: _empty(tx, store.blobs, number, max(1, size // 8)))
    if store.blobs.files is not None:
        freed += store.blobs.files.empty(store.clock.now() / 1000, store.blobs.grace)
    return freed


def _abandoned(view: Any) -> list[int]:
    """Hidden runs that nobody is completing any more."""
    out = []
    for run, run_id in view.ask(Q.hidden_runs):
        lease = view.lease(run)
        state = lease.seen(0) if lease is not None and lease.process is not None else GONE
        if REMOVED in run_id or state == GONE or (state == UNKNOWN and lease.silence(0) > ABANDONED_MS):
            out.append(run)
    return out


def _empty(tx: PostgresTx, kept: PostgresBlobs, number: int, size: int) -> tuple[int | None, int]:
    """Pieces and files of what is past its grace go; another batch if there may be more, and bytes given back."""
    grace = kept.grace
    blobs, strays = tx.gather(None, [(Q.due_blobs, (grace, size)), (Q.due_uploads, (grace, size))])
    kept.discard(row[0] for row in blobs if row[1] == IN_FOLDER)
    hashes, uploads = [row[0] for row in blobs], [row[0] for row in strays]
    lost = tx.ask(Q.empty_blobs, (hashes,)) if hashes else []
    tx.note(Q.drop_uploads, ([*uploads, *[row[1] for row in blobs]],))
    return (number + 1 if blobs or uploads else None), int(sum(row[0] for row in lost))
