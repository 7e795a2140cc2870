"""Long jobs in short batches: pruning, removing, sweeping. No writer waits for a batch longer than 50 ms.

Versions go before the records that only they see, so a reader finds a version whole or not at all. Cut short at any
point, a job leaves nothing wrong: the next one, or ``sweep``, continues.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from leftoff.model.words import AT_WORK
from leftoff.store.blobs import UNCLAIMED_S
from leftoff.store.rows import TRASH

if TYPE_CHECKING:
    from leftoff.store.base import SqlStore, Tx, View
    from leftoff.store.sqlite import SqliteStore

    T = TypeVar("T")

BATCH = 500  # rows in a transaction
REMOVED = " removed "  # part of no valid run id
TOKENS = 256  # of how many of its newest versions a run at work keeps the tokens, once they are pruned


def until_none(store: SqlStore, work: Callable[[Any], int]) -> int:
    """Do transactions until one finds nothing; return the sum of what they found."""
    total = 0
    while found := store.write(work):
        total += found
    return total


def over(store: SqlStore, items: Sequence[T], work: Callable[[Any, Sequence[T]], int]) -> int:
    """Do all of these, some in each transaction; return the sum of what came of them."""
    total = 0
    for at in range(0, len(items), BATCH):
        some = items[at : at + BATCH]
        total += store.write(lambda tx, some=some: work(tx, some))  # type: ignore[misc]
    return total


class _Orphans:
    """Values and blobs that lost a reference, looked at again before they go."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._values: set[bytes] = set()
        self._blobs: set[bytes] = set()

    def note(self, hash: bytes, outside: bool, blob: bytes | None) -> None:
        if outside:
            self._values.add(hash)
        if blob is not None:
            self._blobs.add(blob)

    def drop(self) -> int:
        """Drop those that are still without a reference; return the bytes given back."""
        kinds = [(hash, False) for hash in self._values] + [(hash, True) for hash in self._blobs]

        def some(tx: Any, found: Sequence[tuple[bytes, bool]]) -> int:
            values, blobs = ([hash for hash, is_blob in found if is_blob is kind] for kind in (False, True))
            return int(self._store.drop_orphans(tx, values, blobs))

        return over(self._store, kinds, some)


def prune(store: Any, run: int, drop: Iterable[int]) -> int:
    """See ``Store.prune``."""
    orphans = _Orphans(store)
    head, oldest = store.read(lambda view: _span(view, run))
    store.write(lambda tx: tx.note(tx.q.drop_tokens, (run, oldest)))
    # In this order: see `leftoff.engine.run_reader.need_version`.
    until_none(store, lambda tx: _forget(tx, run, _unsealed(tx, run, head), oldest))
    over(
        store,
        sorted(seq for seq in drop if seq < head),  # never what was the head when this began
        lambda tx, some: _forget(tx, run, some, oldest),
    )
    sizes = [0]
    place: tuple[str, str, int] | None = ("", "", -1)
    while place is not None:
        here = place
        place = store.write(lambda tx: _prune_past(tx, run, head, here, orphans, sizes))  # noqa: B023
    return int(store.freed(sizes)) + orphans.drop()


def _span(view: View, run: int) -> tuple[int, int]:
    """Return the head of a run that is to be pruned, and the oldest version whose token is kept.

    A writer that never heard that its commit was durable tries it again, and is recognised by the token. Nobody does
    that to a run that rests, so it keeps none.
    """
    row = view.run_row(run)
    head = row.seq if row is not None else 0
    return head, head - TOKENS if row is not None and row.status in AT_WORK else head


def _unsealed(tx: Tx, run: int, head: int) -> list[int]:
    tx.hold(run)
    return [seq for (seq,) in tx.rows(tx.q.unsealed, (run, head, BATCH))]


def _forget(tx: Tx, run: int, seqs: Sequence[int], oldest: int) -> int:
    """Forget versions, and keep the tokens of the newest."""
    if seqs:
        tx.hold(run)
        numbers = ", ".join(map(str, seqs))
        tx.note(tx.q.keep_tokens.replace("{seqs}", numbers), (run, oldest))
        tx.note(tx.q.forget_versions.replace("{seqs}", numbers), (run,))
        tx.note(tx.q.forget_aliases.replace("{seqs}", numbers), (run,))
    return len(seqs)


def _prune_past(
    tx: Tx, run: int, head: int, place: tuple[str, str, int], orphans: _Orphans, sizes: list[int]
) -> tuple[str, str, int] | None:
    """Drop what no kept version sees from the next rows; return where to continue."""
    tx.hold(run)
    rows = tx.rows(tx.q.past_batch, (run, *place, BATCH))
    for collection, key, until, hash, outside, blob, length, seen in rows:
        # What ended after the head that this prune began with is still seen by that head.
        if not seen and until <= head:
            tx.note(tx.q.drop_past, (run, collection, key, until))
            orphans.note(hash, outside, blob)
            sizes.append(length)
    return rows[-1][:3] if len(rows) == BATCH else None


def remove(store: Any, run: int, allowed: Callable[[View], None] | None = None) -> int:
    """See ``Store.remove``. The run is out of sight at once, and gone in batches."""

    def hide(tx: Any) -> None:
        tx.hold(run)
        if allowed is not None:
            allowed(tx)
        row = tx.run_row(run)
        if row is not None and REMOVED not in row.run_id:
            tx.hide(run, f"{row.run_id}{REMOVED}{run}")

    store.write(hide)
    orphans = _Orphans(store)
    sizes = [0]
    until_none(store, lambda tx: _remove_records(tx, run, orphans, sizes))
    until_none(store, lambda tx: len(tx.rows(tx.q.drop_versions, (run, BATCH))))

    def rest(tx: Any) -> None:
        tx.note(tx.q.drop_meta, (f"{TRASH}{run}",))
        for table in ("token", "alias", "lease", "attempt", "run"):
            tx.note(tx.in_words(f"DELETE FROM {table} WHERE run = $1"), (run,))

    store.write(rest)
    return int(store.freed(sizes)) + orphans.drop()


def _remove_records(tx: Tx, run: int, orphans: _Orphans, sizes: list[int]) -> int:
    past = tx.rows(tx.q.past_batch, (run, "", "", -1, BATCH))
    for collection, key, until, hash, outside, blob, length, _ in past:
        tx.note(tx.q.drop_past, (run, collection, key, until))
        orphans.note(hash, outside, blob)
        sizes.append(length)
    live = tx.rows(tx.q.record_batch, (run, BATCH))
    for collection, key, hash, outside, blob, length in live:
        tx.note(tx.q.drop_record, (run, collection, key))
        orphans.note(hash, outside, blob)
        sizes.append(length)
    return len(past) + len(live)


def sweep(store: Any, *, thorough: bool = True) -> int:
    """Finish removals that were cut off; if thorough, also drop strays."""
    freed = sum(remove(store, run) for run, _ in store.read(lambda view: view.rows(view.q.hidden_runs)))
    if not thorough:
        return freed
    orphans = _Orphans(store)

    def strays(view: View) -> None:
        for (hash,) in view.rows(view.q.stray_values):
            orphans.note(hash, True, None)
        for (hash,) in view.rows(view.q.stray_blobs):
            orphans.note(b"", False, hash)

    store.read(strays)
    freed += orphans.drop()
    store.write(lambda tx: tx.note(tx.q.drop_idle_tokens))
    return freed


def sweep_folder(store: SqliteStore) -> None:
    """Move unknown blob files to the trash, and known ones back from there."""

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
