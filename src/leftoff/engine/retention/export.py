"""A run as one portable file: written from one snapshot, taken in elsewhere with the same ids and digests.

Importing plays the history again, version by version, into a hidden run, in short batches; the run is seen once it
is complete. What belongs to a machine stays behind: leases, attempts, the tokens of commits.
"""

from __future__ import annotations

import os

from leftoff._version import __version__
from leftoff.engine.retention.bundle_check import AGAIN, Bundle
from leftoff.engine.write.apply import Apply
from leftoff.engine.write.commit import new_token, set_card
from leftoff.engine.write.head import Head, gone
from leftoff.engine.write.lease import ELSEWHERE, free, take
from leftoff.errors import Conflict, Corrupt, LeftoffError, NotFound
from leftoff.model.derived import places_of
from leftoff.model.digest import MASK
from leftoff.model.values import blob_of
from leftoff.model.versions import NO_COUNTS
from leftoff.store.bundle.write import BundleWriter, check_target
from leftoff.store.pace import Pace
from leftoff.store.rows import Holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from leftoff.engine.lifecycle.origin import Mark
    from leftoff.host import Process
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow, RunRow

IMPORTING = " importing "  # part of no valid run id
BATCH_BYTES = 1 << 20
TRIES = 3  # of an export during which somebody prunes


class Exported:
    """What was written; ``row`` and ``names``: the run as it was then, and what its checkpoints are called."""

    _SHOWN = ("blobs", "bytes", "checkpoints", "path", "records", "run_id", "versions")
    __slots__ = (*_SHOWN, "names", "row")

    def __init__(self, path: str, row: RunRow, versions: list[Version], out: BundleWriter) -> None:
        self.path = path
        self.row = row
        self.run_id: str = row.run_id
        self.names = sorted({name for version in versions for name in version.aliases})
        self.checkpoints = sum(version.checkpoint is not None for version in versions)
        self.versions = out.counts["versions"]
        self.records = out.counts["records"]
        self.blobs = out.counts["blobs"]
        self.bytes = out.finish()

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._SHOWN}


def export(store: Store, row: RunRow, path: str) -> Exported:
    """Write a run with its whole history to a file, while others go on writing."""
    full = check_target(path, store.folder)
    for left in range(TRIES - 1, -1, -1):
        with BundleWriter(full) as out:
            try:
                found = store.read(lambda view, out=out: _write(store, view, row, out))  # type: ignore[misc]
            except (NotFound, Corrupt):  # a file went between looking and reading, if it was not damage
                if left == 0 or not _still_there(store, row):
                    raise
                continue
            return Exported(path, *found, out)
    raise AssertionError("unreachable")


def _still_there(store: Store, row: RunRow) -> bool:
    return store.read(lambda view: view.find_run(row.run_id)) is not None


def _write(store: Store, view: View, row: RunRow, out: BundleWriter) -> tuple[RunRow, list[Version]]:
    """Everything that a kept version sees; the run and its versions in this snapshot, be it the second one."""
    if out.counts["versions"]:
        out.begin()
    versions = view.versions(row.run, sealed=False)[::-1]
    now = view.run_row(row.run)
    if now is None or now.is_gone or not versions:
        raise gone(row.run_id)
    for version in versions:
        out.version(version)
    blobs: set[bytes] = set()
    seen = _Seen([version.seq for version in versions])
    for record, until in view.history(row.run):
        if until is None or seen.between(record.seq, until):
            out.record(record.collection, record.key, record.seq, until, record.hash, record.stored)
            blob = blob_of(record.stored)
            if blob is not None:
                blobs.add(blob)
    for hash in sorted(blobs):
        known = view.blob(hash)
        if known is None:
            message = f"The store does not know the blob {hash.hex()} that run {row.run_id} refers to."
            raise Corrupt(message, where=f"blob {hash.hex()}")
        out.blob(hash, known.size, store.load_blob(hash, known))
    out.facts(_facts(now, versions[-1], out.counts))
    return now, versions


def _facts(row: RunRow, head: Version, counts: dict[str, int]) -> dict[str, str]:
    return {
        "run_id": row.run_id,
        "created_at": str(row.created_at),
        "seq": str(head.seq),
        "digest": head.digest.hex(),
        "written_by": __version__,
        **{name: str(number) for name, number in counts.items()},
    }


class _Seen:
    """Which spans of versions have a kept one in them; a prune that was cut short leaves records that have none."""

    def __init__(self, kept: list[int]) -> None:
        self._kept = kept

    def between(self, since: int, until: int) -> bool:
        from bisect import bisect_left

        at = bisect_left(self._kept, since)
        return at < len(self._kept) and self._kept[at] < until


# -- importing


def is_there(view: View, bundle: Bundle) -> bool:
    """Whether the run is here already, exactly so; ``Conflict`` where it is here otherwise."""
    row = view.find_run(bundle.run_id)
    if row is None and view.find_run(bundle.run_id, hidden=True) is not None:
        raise hidden(bundle.run_id)
    if row is None:
        return False
    head = bundle.head
    theirs = {version.seq: _identity(version) for version in bundle.versions}
    ours = {version.seq: _identity(version) for version in view.versions(row.run, sealed=False)}
    differ = [seq for seq in ours.keys() & theirs.keys() if ours[seq] != theirs[seq]]
    if (row.seq, row.digest) == (head.seq, head.digest) and not differ:
        return True
    raise Conflict(
        f"Run {bundle.run_id} is already here with other content: here at version {row.seq}, "
        f"in {bundle.path} at version {head.seq}.",
        hint=f"Import it into another store (--store FOLDER), or delete this one first: leftoff rm {bundle.run_id}",
    )


def hidden(run_id: str) -> Conflict:
    """The error for a run that is here, and that nobody sees."""
    return Conflict(
        f"Run {run_id} is already here: in the trash, or on its way.",
        hint=f"`leftoff undelete {run_id}` brings it back; or import this one into another store (--store FOLDER).",
    )


def _identity(version: Version) -> tuple[Any, ...]:
    v = version
    return (v.digest, v.at, v.checkpoint, v.trigger, v.step, v.note, frozenset(v.aliases))


def would_import(store: Store, bundle: Bundle) -> bool:
    """Whether importing would add a run; nothing is written, not even a store."""
    return not (store.exists() and store.read(lambda view: is_there(view, bundle)))


def import_bundle(
    store: Store, bundle: Bundle, at: int, driver: tuple[Process, str], mark: Mark | None = None
) -> bool:
    """Take a checked bundle in; whether there is a new run. Cut short anywhere, it leaves nothing to be seen.

    ``mark``: left beside a run that was here before; any other is from elsewhere.
    """
    if not would_import(store, bundle):
        return False
    with bundle.reader.guard():
        blobs = {hash: _save(store, bundle, hash) for hash in bundle.blobs}
        run = store.write(lambda tx: hidden_run(tx, bundle.run_id, bundle.created_at, at, driver))
        replay = _Replay(bundle, blobs, run, at)
        try:
            replay.play(Pace(store))
            replay.put_in_order(Pace(store))
            new = store.write(lambda tx: replay.complete(tx, mark))
        except BaseException:
            forget(store, replay.run)
            raise
    if not new:
        forget(store, replay.run)
    return new


def _save(store: Store, bundle: Bundle, hash: bytes) -> BlobRow:
    row = store.save_blob(bundle.reader.content(hash, *bundle.blobs[hash]))
    if row.hash != hash:
        raise bundle.reader.bad(f"file {hash.hex()} has another hash.")
    return row


def forget(store: Store, run: int) -> None:
    """A hidden run that is not completed goes. It may be: that was not heard of, or Ctrl-C came right behind it. Then
    others see it, and it stays."""

    def allowed(view: View) -> None:
        row = view.run_row(run)
        if row is not None and row.hidden != 1:
            raise Conflict(f"Run {row.run_id} is complete.")

    try:
        store.remove(run, allowed)
    except LeftoffError:  # out of reach: it stays hidden, and the next sweep removes it
        pass


def hidden_run(tx: Tx, run_id: str, created_at: int, at: int, driver: tuple[Process, str]) -> int:
    """A lease says that somebody is at it: ``sweep`` removes hidden runs that nobody completes."""
    name = f"{run_id}{IMPORTING}{os.urandom(6).hex()}"
    run = tx.add_run(name, created_at, workflow="", branch="", status="", hidden=True)
    take(tx, run, name, driver, at)
    return run


def reveal(tx: Tx, run: int, run_id: str) -> None:
    """A hidden run is complete: it has a card, nobody drives it, and it is seen."""
    set_card(tx, run, hidden=True)
    lease = tx.lease(run)
    if lease is not None:
        free(tx, run, lease.epoch)
    tx.reveal(run, run_id)


class _Replay:
    """The history of a bundle on its way into a hidden run; what has been written adds up here."""

    def __init__(self, bundle: Bundle, blobs: dict[bytes, BlobRow], run: int, at: int) -> None:
        self.bundle = bundle
        self.blobs = blobs
        self.run = run
        self.at = at
        self.head = Head(run, bundle.run_id, -1, 0)  # of no version: nothing is remembered
        self.digest = 0
        self.counts = NO_COUNTS

    def play(self, pace: Pace) -> None:
        events = self._events()
        while batch := self._take(events, pace.size):
            apply = pace.batch(lambda tx, _size, batch=batch: self._some(tx, batch))  # type: ignore[misc]
            self.digest = apply.digest & MASK
            self.counts = apply.packed_counts()

    def put_in_order(self, pace: Pace) -> None:
        """A step stands where its order and those of the steps above it say; pruned versions may have told it."""
        places = places_of({key: order for key, (_, order) in self.bundle.steps.items()})
        pace.over(list(places.items()), self._order)

    def _order(self, tx: Tx, places: Sequence[tuple[str, str]]) -> int:
        for key, order in places:
            row = tx.row(self.run, "step", key)
            if row is not None and row[2] != order:
                tx.set_order(self.run, key, order)
        return len(places)

    def _events(self) -> Iterator[tuple[Any, ...]]:
        """What was put and what ended, each version behind what it consists of."""
        waiting = iter(self.bundle.versions)
        version = next(waiting, None)
        for seq, ends, collection, key, value in self.bundle.reader.rows("events"):
            while version is not None and version.seq < seq:
                yield (version,)
                version = next(waiting, None)
            hash, stored = self.bundle.reader.stored(value)
            facts = self.bundle.facts_of(collection, key, stored)
            yield seq, bool(ends), collection, key, hash, stored, facts
        while version is not None:
            yield (version,)
            version = next(waiting, None)

    @staticmethod
    def _take(events: Iterator[tuple[Any, ...]], most: int) -> list[tuple[Any, ...]]:
        """The next batch, taken before its transaction: that one may be tried again."""
        out: list[tuple[Any, ...]] = []
        size = 0
        while len(out) < most and size < BATCH_BYTES and (event := next(events, None)) is not None:
            out.append(event)
            size += len(event[5]) if len(event) > 1 else 0
        return out

    def _some(self, tx: Tx, batch: list[tuple[Any, ...]]) -> Apply:
        """Write a batch. What an ``Apply`` remembers is good for one version only."""
        apply = Apply(tx, self.head, 0, self.digest.to_bytes(32, "big"), self.counts)
        for event in batch:
            if len(event) == 1:
                self._version(tx, apply, event[0])
                continue
            seq, ends, collection, key, hash, stored, facts = event
            if apply.seq != seq:
                digest = (apply.digest & MASK).to_bytes(32, "big")
                apply = Apply(tx, self.head, seq - 1, digest, apply.packed_counts())
            if ends:
                apply.drop_record(collection, key, hash)
                continue
            blob = blob_of(stored)
            if blob is not None:
                tx.put_blob(self.blobs[blob])
            apply.put_record(collection, key, stored, facts)
        return apply

    def _version(self, tx: Tx, apply: Apply, version: Version) -> None:
        if (apply.digest & MASK).to_bytes(32, "big") != version.digest:
            raise Corrupt(
                f"{self.bundle.path} changed while it was read: version {version.seq} does not match.",
                hint=AGAIN,
            )
        tx.add_version(self.run, version, new_token())
        for name in version.aliases:
            tx.add_alias(self.run, version.seq, name)

    def complete(self, tx: Tx, mark: Mark | None) -> bool:
        """Show the run, unless somebody else imported the same meanwhile."""
        if is_there(tx, self.bundle):
            return False
        lease = tx.lease(self.run)
        reveal(tx, self.run, self.bundle.run_id)
        if lease is not None:
            tx.put_lease(self.run, lease.epoch, Holder(who=ELSEWHERE, since=lease.since))
        if mark is not None:
            mark(tx, self.run, self.bundle.run_id)
        return True
