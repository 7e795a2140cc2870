"""Fork a run: copy the records of one version into a new run on another branch, in one transaction.

Running steps become pending. Attempts, leases and sessions are not copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leftoff.clock import iso
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import (
    Apply,
    Audit,
    Head,
    Seal,
    Terms,
    add_version,
    save_blobs,
    set_card,
)
from leftoff.engine.find import Target
from leftoff.engine.imported_runs import copy_source
from leftoff.engine.lease import free, take
from leftoff.engine.opening import Opening, free_id
from leftoff.engine.run_reader import facts_of, need_version, proved_version, whole
from leftoff.errors import Corrupt
from leftoff.host import Process, this_process
from leftoff.model.changes import NO_COUNTS, ChangeSet, Scrubber, Version, blob_stored
from leftoff.model.codec import payload
from leftoff.model.codec import store as encoded
from leftoff.model.words import WHY_AGAIN
from leftoff.store.base import VALUE_MAX, SqlStore, Tx, View
from leftoff.store.rows import BlobRow

_LEFT_BEHIND = ("session_id", "completed_at", "summary", "imported", WHY_AGAIN)

CopiedRecord = tuple[str, str, bytes, tuple[str, int] | None]


class ForkRequest(NamedTuple):
    """How a fork differs from its source: its branch, its id, and the variables that are set."""

    branch: str
    run_id: str | None = None
    variables: Mapping[str, Any] = {}
    status: str = "running"
    scrubber: Scrubber | None = None
    audit: Audit | None = None


def fork_version(
    store: SqlStore, target: Target, wanted: ForkRequest, at: int, driver: tuple[Process, str]
) -> tuple[Head, int, Version]:
    """Return the head of the new run, which ``driver`` drives, its epoch and its first checkpoint."""
    source = target.row
    opening = Opening(source.workflow, title=source.title, branch=wanted.branch, run_id=wanted.run_id)
    given = ChangeSet(wanted.scrubber)
    for key, value in wanted.variables.items():
        given.put("variable", key, value)
    if wanted.audit is not None:
        wanted.audit.put(given, at)
    changes, blobs = save_blobs(store, given)
    records = copied_records(store, target, opening.branch, wanted.status, at, blobs)

    def work(tx: Tx) -> tuple[Head, int, Version]:
        run_id, workflow, branch = free_id(tx, opening, at), opening.workflow, opening.branch
        run = tx.add_run(run_id, at, workflow=workflow, branch=branch, status="running")
        head, epoch = Head(run, run_id, 0, 0), take(tx, run, run_id, driver, at)
        for row in blobs:
            tx.put_blob(row)
        apply = Apply(tx, head, 0, bytes(32), NO_COUNTS)
        for record in records:
            apply.put_record(*record)
        apply.changes(changes.changes.values())
        copy_source(tx, source, run)
        set_card(tx, run)
        seal = Seal("manual", note=f"fork of {source.run_id}@{target.seq}")
        return head, epoch, add_version(tx, apply, run_id, epoch, Terms(at), seal)

    try:
        head, epoch, version = store.write(work)
    except Corrupt:  # a blob is missing: its version was pruned meanwhile, or the store is damaged
        store.read(lambda view: need_version(view, source.run, source.run_id, target.seq))
        raise
    head.adopt(-1, version.seq, int.from_bytes(version.digest, "big"), None)
    return head, epoch, version


def fork_paused(store: SqlStore, target: Target, wanted: ForkRequest, at: int) -> Head:
    """Make a fork that has no driver."""
    driver = (this_process(), "leftoff fork")
    head, epoch, _ = fork_version(store, target, wanted._replace(status="paused"), at, driver)
    store.write(lambda tx: free(tx, head.run, epoch))
    return head


def copied_records(
    store: SqlStore, target: Target, branch: str, status: str, at: int, blobs: list[BlobRow]
) -> list[CopiedRecord]:
    """Return the records to copy, in order, changed where a fork differs. Add the blobs that this needs."""
    row, seq = target.row, target.seq
    parent = f"{row.run_id}@{seq}"
    own = {"branch": branch, "status": status, "created_at": iso(at), "parent": parent}
    own["why"] = f"forked from {parent}"

    def read(view: View) -> list[CopiedRecord]:
        _, records = proved_version(view, row.run, row.run_id, seq)
        out = {address: record.stored for address, record in records.items()}
        for key in _LEFT_BEHIND:
            out.pop(("run", key), None)
        for key, value in own.items():
            out["run", key] = encoded(value)
        for (collection, key), stored in out.items():
            if collection == "step":
                step = payload(whole(store, view, stored, f"step/{key}"), f"step/{key}")
                if step["status"] == "running":
                    out[collection, key] = encoded(lifecycle.put_back(step))
        return [
            (*address, out[address], facts_of(store, view, *address, out[address])) for address in sorted(out)
        ]

    found = store.read(read)
    for number, (collection, key, stored, facts) in enumerate(found):
        if len(stored) > VALUE_MAX:  # a large step that was running has its own blob
            blobs.append(store.save_blob([stored]))
            found[number] = (collection, key, blob_stored(blobs[-1].hash), facts)
    return found
