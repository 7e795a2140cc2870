"""Export a run as a bundle, and import one elsewhere with the same ids and digests.

`copy_run` copies the rows of one run into a partial run, in short transactions. The run becomes visible when it is
complete. Leases, attempts and logs belong to a machine and are not copied.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory, mkdtemp

from leftoff.engine.commit import set_card
from leftoff.engine.lease import ELSEWHERE, free, gone, take
from leftoff.errors import Conflict, LeftoffError
from leftoff.hints import Any, NamedTuple
from leftoff.host import Process, this_process
from leftoff.model.changes import Version
from leftoff.store.bundle import check_target, damaged, pack_bundle, temporary_store, unpack_bundle
from leftoff.store.rows import Holder
from leftoff.store.store_copy import TABLES, RowBatch, RowCopy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.imported_runs import Mark
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.bundle import TemporaryStore
    from leftoff.store.rows import RunRow

IMPORTING = " importing "  # part of no valid run id
_CHECKPOINT = TABLES["version"][0].index("checkpoint")


class Exported(NamedTuple):
    """What an export has written."""

    path: str
    run_id: str
    checkpoints: int
    versions: int
    records: int
    blobs: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def export_run(store: Store, row: RunRow, path: str) -> Exported:
    """Write a run with its whole history to a file, while others write to the store."""
    full = check_target(path, store.folder)
    with TemporaryDirectory(prefix="leftoff-") as folder:
        bundle, copied = store.read(lambda view: _fill(store, view, row, mkdtemp(dir=folder)))
        try:
            bundle.write(lambda tx: _reveal(tx, copied.run, row.run_id))
            size = pack_bundle(bundle, full)
        finally:
            bundle.close()
    counts = copied.counts
    records = counts["record"] + counts["past"]
    return Exported(path, row.run_id, copied.checkpoints, counts["version"], records, counts["blob"], size)


def _fill(store: Store, view: View, row: RunRow, folder: str) -> tuple[TemporaryStore, CopiedRun]:
    """Copy a run into a new temporary store. A server may call this again with another snapshot."""
    bundle = temporary_store(folder)
    try:
        return bundle, copy_run(store, view, row, bundle, row.created_at, (this_process(), "leftoff export"))
    finally:
        bundle.close()


# -- copying


@dataclass
class CopiedRun:
    """A partial run that has all rows of another one: its number, and how many rows of each table there are."""

    run: int
    counts: dict[str, int]
    checkpoints: int = 0


def copy_run(
    source: Store, view: View, row: RunRow, target: Store, at: int, driver: tuple[Process, str]
) -> CopiedRun:
    """Copy a run from a snapshot into a new partial run of another store. On a failure nothing of it is left."""
    now = view.run_row(row.run)
    if now is None or now.is_gone:
        raise gone(row.run_id)
    number = target.write(lambda tx: _hidden_run(tx, row.run_id, row.created_at, at, driver))
    rows = RowCopy(source, view, target, row.run)
    copied = CopiedRun(number, {"record": 0, "past": 0, "version": 0, "alias": 0})
    try:
        for table in copied.counts:
            for batch in rows.batches(table):
                copied.counts[table] += len(batch.rows)
                if table == "version":
                    copied.checkpoints += sum(each[_CHECKPOINT] is not None for each in batch.rows)
                target.write(partial(_add, table, batch, number, row.run_id))
    except BaseException:
        _drop_partial_run(target, number)
        raise
    copied.counts["blob"] = len(rows.blobs)
    return copied


def _add(table: str, batch: RowBatch, run: int, run_id: str, tx: Tx) -> None:
    """Add rows to a partial run. Versions get new commit numbers of this store."""
    if table != "version":
        at = TABLES[table][0].index("run")
        RowBatch([(*row[:at], run, *row[at + 1 :]) for row in batch.rows], batch.blobs).add(tx, table)
        return
    for _, seq, _, token, digest, epoch, at, counts, checkpoint, trigger, step, note in batch.rows:
        facts = {"checkpoint": checkpoint, "trigger": trigger, "step": step, "note": note}
        version = Version(run_id, seq, digest, at, epoch=epoch, counts=counts, **facts)
        tx.add_version(run, version, token)


def _hidden_run(tx: Tx, run_id: str, created_at: int, at: int, driver: tuple[Process, str]) -> int:
    """Add a partial run. Its lease keeps ``sweep`` from removing it while its process is alive."""
    name = f"{run_id}{IMPORTING}{os.urandom(6).hex()}"
    run = tx.add_run(name, created_at, workflow="", branch="", status="", hidden=True)
    take(tx, run, name, driver, at)
    return run


def _reveal(tx: Tx, run: int, run_id: str) -> None:
    """Make a complete partial run visible: with a card, and with no driver."""
    set_card(tx, run, hidden=True)
    lease = tx.lease(run)
    if lease is not None:
        free(tx, run, lease.epoch)
    tx.reveal(run, run_id)


def _drop_partial_run(store: Store, run: int) -> None:
    """Remove a partial run, unless it is visible by now: its last commit may have succeeded before an interruption."""

    def allowed(view: View) -> None:
        row = view.run_row(run)
        if row is not None and row.hidden != 1:
            raise Conflict(f"Run {row.run_id} is complete.")

    try:
        store.remove(run, allowed)
    except LeftoffError:  # the store cannot be reached: the next sweep removes it
        pass


# -- importing


class Bundle:
    """A bundle, unpacked into a temporary store and checked from end to end. Use it in a ``with`` statement."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = TemporaryDirectory(prefix="leftoff-")
        try:
            self.store = unpack_bundle(path, self._folder.name)
            self.row, self.versions = self.store.read(self._look)
        except BaseException:
            self._folder.cleanup()
            raise
        self.run_id: str = self.row.run_id
        self.head = self.versions[0]

    def _look(self, view: View) -> tuple[RunRow, list[Version]]:
        rows = view.list_runs({})
        if len(rows) != 1:
            raise damaged(self.path, f"it has {len(rows)} runs.")
        return rows[0], view.versions(rows[0].run, sealed=False)

    def close(self) -> None:
        self.store.close()
        self._folder.cleanup()

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has_run(view: View, bundle: Bundle) -> bool:
    """Return whether the same run is in the store already; raise ``Conflict`` if it is there with other content."""
    run_id, head = bundle.run_id, bundle.head
    row = view.find_run(run_id)
    if row is None and view.find_run(run_id, hidden=True) is not None:
        raise Conflict(
            f"Run {run_id} is already here: in the trash, or on its way.",
            hint=f"`leftoff undelete {run_id}` brings it back; or import this one into another store "
            "(--store FOLDER).",
        )
    if row is None:
        return False

    def identities(versions: list[Version]) -> dict[int, tuple[Any, ...]]:
        return {
            v.seq: (v.digest, v.at, v.checkpoint, v.trigger, v.step, v.note, frozenset(v.aliases))
            for v in versions
        }

    theirs, ours = identities(bundle.versions), identities(view.versions(row.run, sealed=False))
    differ = [seq for seq in ours.keys() & theirs.keys() if ours[seq] != theirs[seq]]
    if (row.seq, row.digest) == (head.seq, head.digest) and not differ:
        return True
    raise Conflict(
        f"Run {run_id} is already here with other content: here at version {row.seq}, "
        f"in {bundle.path} at version {head.seq}.",
        hint=f"Import it into another store (--store FOLDER), or delete this one first: leftoff rm {run_id}",
    )


def would_import(store: Store, bundle: Bundle) -> bool:
    """Return whether importing would add a run. Nothing is written, not even a store."""
    return not (store.exists() and store.read(lambda view: _has_run(view, bundle)))


def import_bundle(
    store: Store, bundle: Bundle, at: int, driver: tuple[Process, str], mark: Mark | None = None
) -> bool:
    """Import a bundle; return whether there is a new run. ``mark``: called in the transaction that makes it visible."""
    if not would_import(store, bundle):
        return False
    copied = bundle.store.read(lambda view: copy_run(bundle.store, view, bundle.row, store, at, driver))

    def complete(tx: Tx) -> bool:
        if _has_run(tx, bundle):  # another process has imported the same meanwhile
            return False
        _reveal(tx, copied.run, bundle.run_id)
        epoch = max(1, *(version.epoch for version in bundle.versions))
        tx.put_lease(copied.run, epoch, Holder(who=ELSEWHERE, since=at))
        if mark is not None:
            mark(tx, copied.run, bundle.run_id)
        return True

    try:
        new = store.write(complete)
    except BaseException:
        _drop_partial_run(store, copied.run)
        raise
    if not new:
        _drop_partial_run(store, copied.run)
    return new
