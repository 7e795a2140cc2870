"""Go back to a version of a run: in place (rollback), or as a new run on another branch (fork). Nothing is erased.

A rollback makes a new checkpoint that equals the old one, after the present was saved. A fork copies the records of a
version in one transaction. Running steps become pending; attempts, leases and sessions are not copied.
"""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import (
    NO_GUARD,
    Apply,
    Audit,
    Guard,
    Head,
    Seal,
    Terms,
    add_version,
    commit_in,
    save_blobs,
    set_card,
)
from leftoff.engine.find import Target
from leftoff.engine.imported_runs import copy_source
from leftoff.engine.lease import free, gone, take
from leftoff.engine.opening import Opening, free_id
from leftoff.engine.run_reader import DEFINITION, facts_of, need_version, proved_version, whole
from leftoff.errors import Corrupt
from leftoff.hints import Any, Mapping, NamedTuple
from leftoff.host import Process, this_process
from leftoff.model.changes import NO_COUNTS, ChangeSet, Version, blob_stored
from leftoff.model.codec import payload, sha256
from leftoff.model.codec import store as encoded
from leftoff.model.words import RESTORING
from leftoff.store.base import VALUE_MAX, Store, Tx, View
from leftoff.store.rows import BlobRow, Record, RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.model.changes import Scrubber

_RUNNING, _PAUSED = encoded("running"), encoded("paused")
_LEFT_BEHIND = ("session_id", "completed_at", "summary", "imported")

CopiedRecord = tuple[str, str, bytes, tuple[str, int] | None]


# -- in place


def rollback_to(store: Store, head: Head, seq: int, at: int, *, guard: Guard = NO_GUARD) -> Version:
    """Make the run's records what they were at version ``seq``."""
    version = store.write(lambda tx: rollback_in(store, tx, head, seq, at, guard))
    head.adopt(-1, version.seq, int.from_bytes(version.digest, "big"), None)
    return version


def is_back_at(view: View, row: RunRow, seq: int) -> bool:
    """Return whether a run is at that version, and a rollback would change nothing: it pauses a run that needs a
    driver."""
    if row.seq != seq or RESTORING in row.card:
        return False
    if row.status != "running":
        return True
    return view.row(row.run, "context", DEFINITION) is None and row.card.get("program") is None


def rollback_in(store: Store, tx: Tx, head: Head, seq: int, at: int, guard: Guard) -> Version:
    """Roll back inside a transaction."""
    target, wanted = proved_version(tx, head.run, head.run_id, seq)
    wanted.pop(("run", RESTORING), None)  # whatever restore was begun then, this one is complete
    save_present(tx, head, at, guard)
    now = tx.head(head.run)
    if now is None:
        raise gone(head.run_id)
    since, digest, counts, epoch, run_id = now
    status = wanted.get(("run", "status"))
    # A run that only a runner or its program continues has no driver now. Any other run takes reports as before.
    driven = ("context", DEFINITION) in wanted or ("run", "program") in wanted
    if guard.epoch is None and driven and status is not None and status.stored == _RUNNING:
        wanted["run", "status"] = Record("run", "status", status.seq, sha256(_PAUSED).digest(), _PAUSED)
    apply = Apply(tx, head, since, digest, counts)
    live: dict[tuple[str, str], bytes] = {}
    for collection in tx.collections(head.run):
        for key, hash in tx.hashes(head.run, collection).items():
            live[collection, key] = hash
    # Steps below go before the ones above them, and come after.
    for address in sorted(live.keys() - wanted.keys(), reverse=True):
        apply.drop_record(*address, live[address])
    for address in sorted(wanted):
        record = wanted[address]
        if live.get(address) != record.hash:
            apply.put_record(*address, record.stored, facts_of(store, tx, *address, record.stored))
    name = target.id or f"version {seq}"
    seal = Seal("rollback", note=f"back to {name}" + (f" ({target.note})" if target.note else ""))
    return add_version(tx, apply, run_id, epoch, Terms(at), seal)


def save_present(tx: Tx, head: Head, at: int, guard: Guard) -> None:
    """Seal the head if it is not a checkpoint yet, so that the rollback can be undone."""
    row = tx.run_row(head.run)
    if row is not None and row.checkpoint is None:
        seal = Seal("manual", note="before a rollback")
        commit_in(tx, head, ChangeSet(), Terms(at, guard, seal=seal))
    elif row is not None:
        current = tx.head(head.run)
        assert current is not None
        guard.check(tx, head, current[3])


# -- as a new run


class ForkRequest(NamedTuple):
    """How a fork differs from its source: its branch, its id, and the variables that are set."""

    branch: str
    run_id: str | None = None
    variables: Mapping[str, Any] = {}
    status: str = "running"
    scrubber: Scrubber | None = None
    audit: Audit | None = None


def fork_version(
    store: Store, target: Target, wanted: ForkRequest, at: int, driver: tuple[Process, str]
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


def fork_paused(store: Store, target: Target, wanted: ForkRequest, at: int) -> Head:
    """Make a fork that has no driver."""
    driver = (this_process(), "leftoff fork")
    head, epoch, _ = fork_version(store, target, wanted._replace(status="paused"), at, driver)
    store.write(lambda tx: free(tx, head.run, epoch))
    return head


def copied_records(
    store: Store, target: Target, branch: str, status: str, at: int, blobs: list[BlobRow]
) -> list[CopiedRecord]:
    """Return the records to copy, in order, changed where a fork differs. Add the blobs that this needs."""
    row, seq = target.row, target.seq
    own = {"branch": branch, "status": status, "created_at": iso(at), "parent": f"{row.run_id}@{seq}"}

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
        if len(stored) > VALUE_MAX:  # a large step that was running has a blob of its own
            blobs.append(store.save_blob([stored]))
            found[number] = (collection, key, blob_stored(blobs[-1].hash), facts)
    return found
