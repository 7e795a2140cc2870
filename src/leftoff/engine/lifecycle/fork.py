"""Fork: the records of a version copied into a new run on another branch, unseen until complete.

What was in flight stays behind: running steps become pending; attempts, leases and sessions are not copied.
"""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.lifecycle.opening import Opening, free_id
from leftoff.engine.lifecycle.origin import copy_source
from leftoff.engine.read.state import facts_of, need_version, proved_version, whole
from leftoff.engine.retention.export import drop_partial_run
from leftoff.engine.steps.lifecycle import put_back
from leftoff.engine.write.apply import Apply
from leftoff.engine.write.commit import Seal, Terms, add_version, save_blobs, set_card
from leftoff.engine.write.head import Head
from leftoff.engine.write.lease import free, take
from leftoff.errors import Corrupt
from leftoff.host import this_process
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import payload
from leftoff.model.codec import store as encoded
from leftoff.model.fields import Fields
from leftoff.model.values import blob_stored
from leftoff.model.versions import NO_COUNTS
from leftoff.store.base import VALUE_MAX
from leftoff.store.pace import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.engine.write.audit import Audit
    from leftoff.host import Process
    from leftoff.model.changes import Scrubber
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow

    Copied = tuple[str, str, bytes, tuple[str, int] | None]

_LEFT_BEHIND = ("session_id", "completed_at", "summary", "imported")


class ForkRequest(Fields):
    """What a fork shall be: on which branch, under which id, with which variables set anew."""

    branch: str
    run_id: str | None = None
    variables: Mapping[str, Any] = {}
    status: str = "running"
    scrubber: Scrubber | None = None
    audit: Audit | None = None


def fork(
    store: Store, target: Target, wanted: ForkRequest, at: int, driver: tuple[Process, str]
) -> tuple[Head, int, Version]:
    """The new run, driven by ``driver``: its head, its epoch and its first checkpoint."""
    source = target.row
    opening = Opening(source.workflow, title=source.title, branch=wanted.branch, run_id=wanted.run_id)
    given = ChangeSet(wanted.scrubber)
    opening.mask_names(given)
    for key, value in wanted.variables.items():
        given.put("variable", key, value)
    if wanted.audit is not None:
        wanted.audit.put(given, at)
    records = store.read(lambda view: _copied(store, view, target, opening.branch, wanted.status, at))
    changes, blobs = save_blobs(store, given)
    records, large = _in_blobs(store, records)
    head, epoch = store.write(lambda tx: _hidden_run(tx, opening, at, driver))
    copy = _Copy(head, large)

    def complete(tx: Tx) -> Version:
        copy_source(tx, source, head.run)
        return _complete(tx, copy, changes, blobs, at, f"fork of {source.run_id}@{target.seq}")

    try:
        copy.all(store, records)
        version = store.write(complete)
    except BaseException as error:
        drop_partial_run(store, head.run)
        if isinstance(error, Corrupt):  # a blob was there: its version went meanwhile, or it is damage
            store.read(lambda view: need_version(view, source.run, source.run_id, target.seq))
        raise
    head.adopt(-1, version.seq, int.from_bytes(version.digest, "big"), None)
    return head, epoch, version


def fork_paused(store: Store, target: Target, wanted: ForkRequest, at: int) -> Head:
    """A fork that nobody drives yet: this process holds its lease only while it copies."""
    head, epoch, _ = fork(store, target, wanted.but(status="paused"), at, (this_process(), "leftoff fork"))
    store.write(lambda tx: free(tx, head.run, epoch))
    return head


def _copied(store: Store, view: View, target: Target, branch: str, status: str, at: int) -> list[Copied]:
    """The records to copy, in order, changed where a fork differs."""
    run, seq = target.row.run, target.seq
    _, records = proved_version(view, run, target.row.run_id, seq)
    out = {address: record.stored for address, record in records.items()}
    for key in _LEFT_BEHIND:
        out.pop(("run", key), None)
    own = {"branch": branch, "status": status, "created_at": iso(at), "parent": f"{target.row.run_id}@{seq}"}
    for key, value in own.items():
        out["run", key] = encoded(value)
    for (collection, key), stored in out.items():
        if collection == "step":
            out[collection, key] = _at_rest(store, view, key, stored)
    return [
        (*address, out[address], facts_of(store, view, *address, out[address])) for address in sorted(out)
    ]


def _at_rest(store: Store, view: View, key: str, stored: bytes) -> bytes:
    value = payload(whole(store, view, stored, f"step/{key}"), f"step/{key}")
    return encoded(put_back(value)) if value["status"] == "running" else stored


def _in_blobs(store: Store, records: list[Copied]) -> tuple[list[Copied], list[BlobRow]]:
    """A step over 1 MiB that was put to rest is a blob of its own."""
    blobs: list[BlobRow] = []
    for at, (collection, key, stored, facts) in enumerate(records):
        if len(stored) > VALUE_MAX:
            blobs.append(store.save_blob([stored]))
            records[at] = (collection, key, blob_stored(blobs[-1].hash), facts)
    return records, blobs


def _hidden_run(tx: Tx, opening: Opening, at: int, driver: tuple[Process, str]) -> tuple[Head, int]:
    run_id = free_id(tx, opening, at)
    run = tx.add_run(
        run_id, at, workflow=opening.workflow, branch=opening.branch, status="running", hidden=True
    )
    return Head(run, run_id, 0, 0), take(tx, run, run_id, driver, at)


class _Copy:
    """A copy in progress: what has been written so far adds up here, not in the run's row."""

    def __init__(self, head: Head, blobs: list[BlobRow]) -> None:
        self.head = head
        self.blobs = blobs
        self.digest = 0
        self.counts = NO_COUNTS

    def apply(self, tx: Tx) -> Apply:
        return Apply(tx, self.head, 0, self.digest.to_bytes(32, "big"), self.counts)

    def add(self, apply: Apply) -> None:
        self.digest = apply.digest % (1 << 256)
        self.counts = apply.packed_counts()

    def all(self, store: Store, records: list[Copied]) -> None:
        """Copy everything, in batches."""
        pace = Pace(store)
        while records:
            done, apply = pace.batch(lambda tx, size, records=records: self.some(tx, records[:size]))  # type: ignore[misc]
            self.add(apply)
            records = records[done:]

    def some(self, tx: Tx, records: list[Copied]) -> tuple[int, Apply]:
        """Copy a batch: how many, and what it adds up to."""
        apply = self.apply(tx)
        for row in self.blobs:
            tx.put_blob(row)
        for record in records:
            apply.put_record(*record)
        return len(records), apply


def _complete(tx: Tx, copy: _Copy, changes: ChangeSet, blobs: list[BlobRow], at: int, note: str) -> Version:
    apply = copy.apply(tx)
    for row in blobs:
        tx.put_blob(row)
    apply.changes(changes.changes.values())
    set_card(tx, copy.head.run)
    now = tx.head(copy.head.run)
    assert now is not None
    return add_version(tx, apply, copy.head.run_id, now[3], Terms(at), Seal("manual", note=note))
