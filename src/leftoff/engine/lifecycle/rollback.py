"""Rollback: a new checkpoint equal to an old one, after the present was saved. Nothing is erased."""

from __future__ import annotations

from leftoff.engine.read.state import DEFINITION, facts_of, proved_version
from leftoff.engine.write.apply import Apply
from leftoff.engine.write.commit import NO_GUARD, Guard, Seal, Terms, add_version, commit_in
from leftoff.engine.write.head import gone
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import sha256
from leftoff.model.codec import store as stored_bytes
from leftoff.model.words import RESTORING
from leftoff.store.rows import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.write.head import Head
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

_RUNNING, _PAUSED = stored_bytes("running"), stored_bytes("paused")


def rollback(store: Store, head: Head, seq: int, at: int, *, guard: Guard = NO_GUARD) -> Version:
    """Make the run's records what they were at version ``seq``."""
    version = store.write(lambda tx: rollback_in(store, tx, head, seq, at, guard))
    head.adopt(-1, version.seq, int.from_bytes(version.digest, "big"), None)
    return version


def is_there(view: View, row: RunRow, seq: int) -> bool:
    """Whether a run is at that version, with nothing to be put back: one that somebody has to drive would be paused."""
    if row.seq != seq or RESTORING in row.card:
        return False
    if row.status != "running":
        return True
    return view.row(row.run, "context", DEFINITION) is None and row.card.get("program") is None


def rollback_in(store: Store, tx: Tx, head: Head, seq: int, at: int, guard: Guard) -> Version:
    """The part inside the transaction."""
    target, wanted = proved_version(tx, head.run, head.run_id, seq)
    wanted.pop(("run", RESTORING), None)  # whatever restore was begun then, this one is complete
    save_present(tx, head, at, guard)
    now = tx.head(head.run)
    if now is None:
        raise gone(head.run_id)
    since, digest, counts, epoch, run_id = now
    if guard.epoch is None:
        _pause(wanted)
    apply = Apply(tx, head, since, digest, counts)
    _make_equal(store, tx, apply, wanted)
    name = target.id or f"version {seq}"
    seal = Seal("rollback", note=f"back to {name}" + (f" ({target.note})" if target.note else ""))
    return add_version(tx, apply, run_id, epoch, Terms(at), seal)


def _pause(wanted: dict[tuple[str, str], Record]) -> None:
    """A run that was running then, and goes on only when it is driven, by a runner or by its program: nobody drives it
    now. Of any other, whoever reports works on it."""
    driven = ("context", DEFINITION) in wanted or ("run", "program") in wanted
    status = wanted.get(("run", "status"))
    if driven and status is not None and status.stored == _RUNNING:
        wanted["run", "status"] = Record("run", "status", status.seq, sha256(_PAUSED).digest(), _PAUSED)


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


def _make_equal(store: Store, tx: Tx, apply: Apply, wanted: dict[tuple[str, str], Record]) -> None:
    run = apply.run
    live: dict[tuple[str, str], bytes] = {}
    for collection in tx.collections(run):
        for key, hash in tx.hashes(run, collection).items():
            live[collection, key] = hash
    # Steps below go before the ones above them, and come after.
    for address in sorted(live.keys() - wanted.keys(), reverse=True):
        apply.drop_record(*address, live[address])
    for address in sorted(wanted):
        record = wanted[address]
        if live.get(address) != record.hash:
            apply.put_record(*address, record.stored, facts_of(store, tx, *address, record.stored))
