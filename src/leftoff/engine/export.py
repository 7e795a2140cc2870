"""Export a run as a bundle, and import one elsewhere with the same ids and digests.

The blobs and logs are copied first, then all rows in one transaction, so that a failure leaves no part of a run. Leases
and the processes of attempts belong to a machine and are not copied.
"""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple

from leftoff.engine.commit import set_card
from leftoff.engine.lease import ELSEWHERE, gone
from leftoff.engine.quoting import FROM
from leftoff.errors import Conflict
from leftoff.model.changes import Version
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.bundle import (
    TemporaryStore,
    check_target,
    damaged,
    pack_bundle,
    unpack_bundle,
)
from leftoff.store.rows import Holder, RunRow
from leftoff.store.store_copy import TABLES, LogCopy, RowBatch, RowCopy, add_rows, copy_python_logs


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
        return {**self._asdict(), "lost": []}  # an export is whole, or fails


def export_run(store: SqlStore, row: RunRow, path: str) -> Exported:
    """Write a run with its whole history to a file, while others write to the store."""
    full = check_target(path, store.folder)
    with TemporaryDirectory(prefix="leftoff-") as folder:
        bundle, counts = store.read(lambda view: _fill(store, view, row, mkdtemp(dir=folder)))
        size = pack_bundle(bundle, full)
    records = counts["record"] + counts["past"]
    return Exported(path, row.run_id, counts["checkpoint"], counts["version"], records, counts["blob"], size)


def _fill(store: SqlStore, view: View, row: RunRow, folder: str) -> tuple[TemporaryStore, dict[str, int]]:
    """Copy a run into a new temporary store. A server may call this again with another snapshot."""
    bundle = TemporaryStore(folder)
    try:
        now = view.run_row(row.run)
        if now is None or now.is_gone:
            raise gone(row.run_id)
        rows = RunCopy(store, view, bundle, row)
        counts = bundle.write(lambda tx: rows.add(tx)[1])
        return bundle, {**counts, "blob": len(rows.blobs)}
    finally:
        bundle.close()


# -- copying


class RunCopy(RowCopy):
    """Copies one run. Its blobs and logs are copied when this is made, before the transaction that adds the rows."""

    def __init__(self, source: SqlStore, view: View, target: SqlStore, row: RunRow) -> None:
        super().__init__(source, view, target, row.run)
        self.row = row
        self.save_blobs()
        self._logs = LogCopy(source, target)
        self._attempts: list[tuple[Any, ...]] = []
        for batch in self.batches("attempt"):
            for token, _, step, number, _, _, _, log, began, ended, code in batch.rows:
                if ended is not None:  # the end of any other is only known on its machine
                    self._logs.save(view, token, log)
                    self._attempts.append((token, step, number, log, began, ended, code))
        copy_python_logs(source, target, row.run_id)

    def add(self, tx: Tx) -> tuple[int, dict[str, int]]:
        """Add the run. Return its number, and how many rows of each table there are. Versions get new commit numbers of
        this store."""
        row = self.row
        run = tx.add_run(row.run_id, row.created_at, workflow="", branch="", status="")
        counts = {"record": 0, "past": 0, "version": 0, "alias": 0, "checkpoint": 0}
        for table in ("record", "past", "version", "alias"):
            at = TABLES[table][0].index("run")
            for batch in self.batches(table):
                counts[table] += len(batch.rows)
                if table != "version":
                    own = [(*each[:at], run, *each[at + 1 :]) for each in batch.rows]
                    RowBatch(own, batch.blobs).add(tx, table)
                else:
                    for _, seq, _, token, digest, epoch, when, leaves, *seal in batch.rows:
                        facts = dict(zip(("checkpoint", "trigger", "step", "note"), seal, strict=True))
                        version = Version(row.run_id, seq, digest, when, epoch=epoch, counts=leaves, **facts)
                        tx.add_version(run, version, token)
                        counts["checkpoint"] += facts["checkpoint"] is not None
                tx.newest()  # so that a server is sent what it was not sent yet
        for token, step, number, *rest in self._attempts:
            add_rows(tx, "attempt", [(token, run, step, number, None, None, None, *rest)])
        self._logs.add(self.view, tx)
        set_card(tx, run)
        return run, counts


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
            f"Run {run_id} is already here, in the trash.",
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


def would_import(store: SqlStore, bundle: Bundle) -> bool:
    """Return whether importing would add a run. Nothing is written, not even a store."""
    return not (store.exists() and store.read(lambda view: _has_run(view, bundle)))


def import_bundle(store: SqlStore, bundle: Bundle, at: int) -> bool:
    """Import a bundle in one transaction, which also notes where the run came from. Return whether there is a new
    run."""
    if not would_import(store, bundle):
        return False

    def copy(view: View) -> bool:
        rows = RunCopy(bundle.store, view, store, bundle.row)
        return store.write(lambda tx: add(tx, rows))

    def add(tx: Tx, rows: RunCopy) -> bool:
        if _has_run(tx, bundle):  # another process has imported the same meanwhile
            return False
        run, _ = rows.add(tx)
        epoch = max(1, *(version.epoch for version in bundle.versions))
        tx.put_lease(run, epoch, Holder(who=ELSEWHERE, since=at))
        tx.put_fact(f"{FROM} {run}", os.path.basename(bundle.path))
        return True

    return bundle.store.read(copy)
