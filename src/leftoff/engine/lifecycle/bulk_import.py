"""Taking in runs that somebody else kept: each with the history it has, as the checkpoints of one run."""

from __future__ import annotations

from collections import deque
from itertools import groupby

from leftoff.engine.retention.export import drop_partial_run, hidden_run, reveal
from leftoff.engine.write.apply import Apply
from leftoff.engine.write.commit import Seal, Terms, add_version, commit_in, save_blobs
from leftoff.engine.write.head import Head
from leftoff.errors import Conflict
from leftoff.host import this_process
from leftoff.model.changes import APPEND, NOTHING, PUT, Change, ChangeSet, Spread
from leftoff.model.digest import MASK
from leftoff.model.fields import Fields
from leftoff.model.versions import NO_COUNTS
from leftoff.store.pace import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow

    Records = dict[tuple[str, str], Any]
    Piece = tuple[int, "Change | ImportedVersion", list[BlobRow]]

LARGE = 1000  # records; more than that are written in batches
SLICE = 500  # entries of a list that are written at once


class ImportedVersion(Fields):
    """One version on its way in: what differs from the one before, when it was, and how it is sealed."""

    changes: ChangeSet
    at: int
    seal: Seal


def redacted(changes: ChangeSet) -> list[str]:
    """The records in which secrets were left out."""
    found = changes.changes.items()
    return [f"{name}/{key}" for (name, key), change in found if change.secret is not NOTHING]


def imported_versions(
    versions: list[tuple[Records, int, Seal]], scrubber: Scrubber | None
) -> list[ImportedVersion]:
    """Versions, each given whole, as what each changes."""
    out: list[ImportedVersion] = []
    before: Records = {}
    for records, at, seal in versions:
        changes = ChangeSet(scrubber)
        for address, value in records.items():
            if address not in before or before[address] != value:
                changes.put(*address, value)
        for address in before.keys() - records.keys():
            changes.delete(*address)
        out.append(ImportedVersion(changes, at, seal))
        before = records
    return out


def create_runs(store: Store, runs: list[tuple[str, list[ImportedVersion]]], now: int) -> None:
    """New runs, durable when this returns, each whole or not at all. Their ids must be free.

    Small ones share a transaction; a long history is written in batches, and seen when it is complete.
    """
    small = [(run_id, history) for run_id, history in runs if weight(history) <= LARGE]
    if small:
        _create_small(store, small)
    for run_id, history in runs:
        if weight(history) > LARGE:
            _LargeImport(store, run_id, history).write(now)


def weight(history: list[ImportedVersion]) -> int:
    """How much there is to write, in records."""
    return sum(1 + sum(map(_weight, version.changes.changes.values())) for version in history)


def _weight(change: Change) -> int:
    if change.kind == APPEND:
        return len(change.items)
    return 1 if change.spread is None else 1 + len(change.spread.encoded)


def _create_small(store: Store, runs: list[tuple[str, list[ImportedVersion]]]) -> None:
    ready = [save_blobs(store, version.changes) for _, history in runs for version in history]

    def work(tx: Tx) -> None:
        left = iter(ready)
        for run_id, history in runs:
            _need_free(tx, run_id)
            run = tx.add_run(run_id, history[0].at, workflow="", branch="", status="running", hidden=False)
            seq, digest = 0, 0
            for version in history:
                changes, blobs = next(left)
                head = Head(run, run_id, seq, digest)
                done = commit_in(tx, head, changes, Terms(version.at, seal=version.seal, blobs=blobs))
                assert done is not None
                seq, digest = done[0].seq, int.from_bytes(done[0].digest, "big")

    store.write(work)


def _need_free(view: View, run_id: str) -> None:
    if view.find_run(run_id, hidden=True) is not None:
        raise Conflict(f"Run {run_id} is already here.")


class _LargeImport:
    """A history on its way into a hidden run, in batches that nobody waits for; what is written adds up here."""

    def __init__(self, store: Store, run_id: str, history: list[ImportedVersion]) -> None:
        self.store = store
        self.run_id = run_id
        self.history = history
        self.digest, self.counts = 0, NO_COUNTS

    def write(self, now: int) -> None:
        self.run = self.store.write(lambda tx: self._begin(tx, now))
        try:
            pace = Pace(self.store)
            left = deque(self._pieces())
            while left:
                some = _next_batch(left, pace.size)
                self.digest, self.counts = pace.batch(lambda tx, _size, some=some: self._write(tx, some))  # type: ignore[misc]
            self.store.write(self._complete)
        except BaseException:
            drop_partial_run(self.store, self.run)
            raise

    def _begin(self, tx: Tx, now: int) -> int:
        _need_free(tx, self.run_id)
        return hidden_run(tx, self.run_id, self.history[0].at, now, (this_process(), "leftoff import"))

    def _pieces(self) -> Iterator[Piece]:
        """The changes of each version one by one, and behind them what seals it."""
        for seq, version in enumerate(self.history, 1):
            changes, blobs = save_blobs(self.store, version.changes)
            for change in changes.changes.values():
                for part in _sliced(change) if seq == 1 else (change,):
                    yield seq, part, blobs
            yield seq, version, []

    def _write(self, tx: Tx, some: list[Piece]) -> tuple[int, str]:
        """A batch; what it all adds up to."""
        head = Head(self.run, self.run_id, -1, 0)  # of no version: nothing is remembered
        digest, counts = self.digest, self.counts
        for seq, pieces in groupby(some, lambda piece: piece[0]):
            apply = Apply(tx, head, seq - 1, digest.to_bytes(32, "big"), counts)
            for _, piece, blobs in pieces:
                if isinstance(piece, ImportedVersion):
                    apply.card_changed = False  # nobody sees it before it is complete
                    add_version(tx, apply, self.run_id, 0, Terms(piece.at), piece.seal)
                    continue
                for row in blobs:
                    tx.put_blob(row)
                if seq == 1 and piece.kind == PUT:
                    apply.fresh[piece.collection, piece.key] = None  # a new run: nothing to look for
                apply.changes((piece,))
            digest, counts = apply.digest & MASK, apply.packed_counts()
        return digest, counts

    def _complete(self, tx: Tx) -> None:
        _need_free(tx, self.run_id)
        reveal(tx, self.run, self.run_id)


def _sliced(change: Change) -> Iterator[Change]:
    """A long list that is not there yet, as its beginning and what is appended to it."""
    spread = change.spread
    if spread is None or not isinstance(spread.encoded, list) or len(spread.encoded) <= SLICE:
        yield change
        return
    first = Change(PUT, change.collection, change.key, change.stored)
    first.spread = Spread(change.key, spread.values[:SLICE], spread.encoded[:SLICE], spread.hashes[:SLICE])
    yield first
    for start in range(SLICE, len(spread.encoded), SLICE):
        more = Change(APPEND, change.collection, change.key)
        more.items = spread.encoded[start : start + SLICE]
        yield more


def _next_batch(left: deque[Piece], most: int) -> list[Piece]:
    """The next pieces, about so many records."""
    out: list[Piece] = []
    size = 0
    while left and size < most:
        out.append(left.popleft())
        piece = out[-1][1]
        size += _weight(piece) if isinstance(piece, Change) else 1
    return out
