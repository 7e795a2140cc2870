"""Long jobs in short batches: pruning, removing, sweeping. Nobody waits for them longer than a moment.

Versions go before the records that only they see, so a reader finds a version whole or not at all. Cut short at any
point, a job leaves nothing wrong: the next one, or ``sweep``, goes on.
"""

from __future__ import annotations

import os

from leftoff.host import GONE
from leftoff.model.words import AT_WORK
from leftoff.store.blobs import UNCLAIMED_S
from leftoff.store.pace import Orphans, Pace
from leftoff.store.rows import TRASH, token_name
from leftoff.store.sqlite.queries import Q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from leftoff.store.base import View
    from leftoff.store.sqlite.store import SqliteStore
    from leftoff.store.sqlite.tx import SqliteTx

REMOVED = " removed "  # part of no valid run id
TOKENS = 256  # of how many of its newest versions a run at work keeps the tokens, once they are pruned
NEVER = 1 << 62


def prune(store: SqliteStore, run: int, drop: Iterable[int]) -> int:
    """See ``Store.prune``."""
    pace, orphans = Pace(store), Orphans()
    wanted = sorted(drop)
    head, oldest = store.read(lambda view: span(view, run))
    store.write(lambda tx: _drop_tokens(tx, run, oldest))
    # In this order: see `leftoff.engine.read.state.need_version`.
    pace.until_none(lambda tx, size: _forget_unsealed(tx, run, head, size, oldest))
    pace.over(wanted, lambda tx, some: _forget_named(tx, run, some, head, oldest))
    pace.walk(("", "", -1), lambda tx, here, size: _prune_past(tx, run, head, here, size, orphans))
    freed = _drop_orphans(store, pace, orphans)
    return freed + vacuum(store, pace)


def span(view: View, run: int) -> tuple[int, int]:
    """Return the head of a run that is to be pruned, and the oldest version whose token is kept.

    A writer that never heard that its commit was durable tries it again, and is recognised by the token. Nobody does
    that to a run that rests, so it keeps none.
    """
    found, row = view.head(run), view.run_row(run)
    head = int(found[0]) if found is not None else 0
    return head, head - TOKENS if row is not None and row.status in AT_WORK else head


def _forget_named(tx: Any, run: int, seqs: Sequence[int], head: int, oldest: int) -> int:
    """Checkpoints that were asked for by name; never what was the head when this began."""
    for seq in seqs:
        if seq < head:
            _keep_tokens(tx, run, oldest, tx.execute(Q.forget_version, (run, seq)).fetchall())
            tx.execute(Q.forget_aliases, (run, seq))
    return len(seqs)


def _forget_unsealed(tx: Any, run: int, head: int, size: int, oldest: int) -> int:
    rows = tx.execute(Q.forget_versions, (run, 0, head, size)).fetchall()
    _keep_tokens(tx, run, oldest, rows)
    return len(rows)


def _keep_tokens(tx: Any, run: int, oldest: int, rows: list[tuple[int, bytes, bytes, int]]) -> None:
    for seq, token, digest, at in rows:
        if seq >= oldest:
            tx.execute(Q.put_meta, (token_name(run, token), f"{seq} {at} {digest.hex()}"))


def _drop_tokens(tx: Any, run: int, below: int) -> None:
    """Drop the kept tokens of versions below one."""
    name = token_name(run, b"")
    for found, value in tx.execute(Q.meta_range, (name, name + "g")).fetchall():
        if int(value.split()[0]) < below:
            tx.execute(Q.drop_meta, (found,))


def _prune_past(
    tx: SqliteTx, run: int, head: int, place: tuple[str, str, int], size: int, orphans: Orphans
) -> tuple[tuple[str, str, int] | None, int]:
    """Drop what no kept version sees from the next rows; where to go on, and how many were looked at."""
    rows = tx.execute(Q.past_batch, (run, *place, size)).fetchall()
    for collection, key, until, hash, outside, blob, seen in rows:
        # What ended after the head we started from is still seen by that head.
        if not seen and until <= head:
            tx.execute(Q.drop_past, (run, collection, key, until))
            orphans.note(hash, outside, blob)
    last = (rows[-1][0], rows[-1][1], rows[-1][2]) if len(rows) == size else None
    return last, len(rows)


def _drop_orphans(store: SqliteStore, pace: Pace, orphans: Orphans) -> int:
    return orphans.drop(pace, lambda tx, values, blobs: _drop_some(store, tx, values, blobs))


def _drop_some(store: SqliteStore, tx: SqliteTx, values: list[bytes], blobs: list[bytes]) -> int:
    got = 0
    for hash in values:
        tx.execute(Q.drop_value_if_unused, (hash,))
    for hash in blobs:
        row = tx.blob(hash)
        if row is not None and tx.execute(Q.drop_blob_if_unused, (hash,)).fetchall():
            store.blobs.discard(hash)
            got += row.stored
    return got


def vacuum(store: SqliteStore, pace: Pace) -> int:
    """Give free pages back to the file system; bytes."""

    def work(tx: SqliteTx, size: int) -> int:
        before = int(tx.execute("PRAGMA freelist_count").fetchone()[0])
        if before:
            tx.execute(f"PRAGMA incremental_vacuum({size})").fetchall()
        return before - int(tx.execute("PRAGMA freelist_count").fetchone()[0])

    page = store.read(lambda view: view.execute("PRAGMA page_size").fetchone()[0])  # type: ignore[attr-defined]
    freed = pace.until_none(work) * int(page)
    store.truncate()
    return freed


def remove(store: SqliteStore, run: int, allowed: Callable[[View], None] | None = None) -> int:
    """See ``Store.remove``. Out of sight at once, gone in batches."""

    def hide(tx: Any) -> None:
        if allowed is not None:
            allowed(tx)
        row = tx.run_row(run)
        if row is not None and REMOVED not in row.run_id:
            tx.execute(Q.hide_run, (f"{row.run_id}{REMOVED}{run}", run))

    store.write(hide)
    pace, orphans = Pace(store), Orphans()
    pace.until_none(lambda tx, size: _remove_records(tx, run, size, orphans))
    pace.until_none(lambda tx, size: len(tx.execute(Q.drop_versions, (run, size)).fetchall()))

    def rest(tx: Any) -> None:
        _drop_tokens(tx, run, NEVER)
        tx.execute(Q.drop_meta, (f"{TRASH}{run}",))
        for query in (Q.drop_all_aliases, Q.drop_lease, Q.drop_attempts, Q.drop_run_rows):
            tx.execute(query, (run,))

    store.write(rest)
    freed = _drop_orphans(store, pace, orphans)
    return freed + vacuum(store, pace)


def _remove_records(tx: SqliteTx, run: int, size: int, orphans: Orphans) -> int:
    rows = tx.execute(Q.past_batch, (run, "", "", -1, size)).fetchall()
    for collection, key, until, hash, outside, blob, _seen in rows:
        tx.execute(Q.drop_past, (run, collection, key, until))
        orphans.note(hash, outside, blob)
    live = tx.execute(Q.record_batch, (run, size)).fetchall()
    for collection, key, hash, outside, blob in live:
        tx.execute(Q.drop_record, (run, collection, key))
        orphans.note(hash, outside, blob)
    return len(rows) + len(live)


def sweep(store: SqliteStore, *, thorough: bool = True, at_once: bool = False) -> int:
    """See ``Store.sweep``."""
    freed = 0
    for run in store.read(_abandoned):
        freed += remove(store, run)
    if not thorough:
        return freed + _empty(store, at_once=at_once)
    pace, orphans = Pace(store), Orphans()

    def strays(view: Any) -> None:
        orphans.values.update(row[0] for row in view.execute(Q.stray_values, (-1,)))
        orphans.blobs.update(row[0] for row in view.execute(Q.stray_blobs, (-1,)))

    store.read(strays)
    freed += _drop_orphans(store, pace, orphans)
    store.write(lambda tx: tx.execute(Q.drop_idle_tokens))  # type: ignore[attr-defined]
    _sweep_files(store)
    freed += _empty(store, at_once=at_once)
    return freed + vacuum(store, pace)


def _abandoned(view: Any) -> list[int]:
    """Hidden runs that nobody is completing any more."""
    out = []
    for run, run_id in view.execute("SELECT run, run_id FROM run WHERE hidden = 1 AND run > 0").fetchall():
        lease = view.lease(run)
        alive = lease is not None and lease.process is not None and lease.process.state() != GONE
        if REMOVED in run_id or not alive:
            out.append(run)
    return out


def _sweep_files(store: SqliteStore) -> None:
    """Unknown blob files go to the trash; what is known comes back from there."""

    def unknown(tx: Any) -> None:
        for hash in list(store.blobs.names()):
            path = store.blobs.path(hash)
            old = os.path.exists(path) and os.stat(path).st_mtime < store.clock.now() / 1000 - UNCLAIMED_S
            if old and tx.blob(hash) is None:
                store.blobs.discard(hash)

    def known(tx: Any) -> None:  # a crash between the move to the trash and its commit
        for hash in store.blobs.trashed():
            if tx.blob(hash) is not None:
                store.blobs.present(hash)

    store.write(unknown)
    store.write(known)


def _empty(store: SqliteStore, *, at_once: bool) -> int:
    """The files of removed blobs go past their grace; at once where nobody else has the store open."""
    if at_once and store.presence.alone():
        try:
            return store.blobs.empty(store.clock.now() / 1000, 0)
        finally:
            store.presence.show()
    return store.blobs.empty(store.clock.now() / 1000, store.blobs.grace)
