"""Write a run through a store's transactions, and remember in plain dicts what must be readable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leftoff.model.changes import Version, pack_counts
from leftoff.model.codec import JSON, MASK, checkpoint_id, encode, sha256, term, to_bytes
from leftoff.store.base import NOT_A_STEP, SqlStore, Tx, View
from leftoff.store.rows import BlobRow, Record

Address = tuple[str, str]
State = dict[Address, bytes]

AT = 1_770_000_000_000


def stored(value: Any) -> bytes:
    """Stored bytes of a value; bytes are taken as stored already."""
    return value if isinstance(value, bytes) else JSON + encode(value)


def facts(row: object, names: str) -> tuple[Any, ...]:
    """What a row says under these names."""
    return tuple(getattr(row, name) for name in names.split())


class Plan:
    """A commit that is thought out and not yet made. ``changes``: None ends a record."""

    def __init__(
        self, scribe: Scribe, changes: dict[Address, Any], steps: dict[str, tuple[str, str, int]]
    ) -> None:
        self.run_id = scribe.run_id
        self.seq = scribe.seq + 1
        self.changes = {a: None if v is None else stored(v) for a, v in changes.items()}
        self.changes.update({("step", key): stored({"status": s[0]}) for key, s in steps.items()})
        self.before = scribe.live
        self.live = {a: v for a, v in {**scribe.live, **self.changes}.items() if v is not None}
        self.steps = {k: s for k, s in {**scribe.steps, **steps}.items() if ("step", k) in self.live}
        self.sealed: str | None = None
        self.trigger: str | None = None
        self.aliases: tuple[str, ...] = ()
        self.blobs: tuple[BlobRow, ...] = ()
        self.token = b"%016d" % self.seq
        self.epoch = 0
        self.at = AT + self.seq

    @property
    def digest(self) -> bytes:
        return digest_of(self.live)

    def counts(self) -> str:
        counts: dict[str, int] = {}
        for status, _, leaf in self.steps.values():
            counts[status] = counts.get(status, 0) + leaf
        return pack_counts(counts)

    def write(self, tx: Tx, run: int) -> None:
        """Make it, inside a transaction."""
        for row in self.blobs:
            tx.put_blob(row)
        for address, value in self.changes.items():
            if value is not None:
                step = self.steps.get(address[1], NOT_A_STEP) if address[0] == "step" else NOT_A_STEP
                tx.put(run, Record(*address, self.seq, sha256(value).digest(), value), step)
            elif address in self.before:
                tx.drop(run, self.seq, *address)
        version = Version(self.run_id, self.seq, self.digest, self.at, epoch=self.epoch, counts=self.counts())
        if self.sealed and self.trigger:
            version = version._replace(checkpoint=self.sealed, trigger=self.trigger)
        tx.add_version(run, version, self.token)
        for name in self.aliases:
            tx.add_alias(run, self.seq, name)


class Scribe:
    """One run: its live records, what they were at each version, and which versions are checkpoints."""

    def __init__(
        self, store: SqlStore, run_id: str = "run-1", *, workflow: str = "work", branch: str = "main"
    ) -> None:
        self.store = store
        self.run_id = run_id
        self.run = 0
        self.seq = 0
        self.live: State = {}
        self.steps: dict[str, tuple[str, str, int]] = {}
        self.history: dict[int, State] = {}
        self.checkpoints: dict[int, str] = {}
        card = {"workflow": workflow, "branch": branch, "status": "running"}
        plan = self.plan({("run", key): value for key, value in card.items()})

        def work(tx: Tx) -> int:
            run = tx.add_run(run_id, AT, workflow=workflow, branch=branch, status="running")
            plan.write(tx, run)
            return run

        self.run = store.write(work)
        self.adopt(plan)

    def plan(
        self,
        changes: dict[Address, Any] | None = None,
        *,
        steps: dict[str, tuple[str, str, int]] | None = None,
        seal: str | None = None,
        aliases: tuple[str, ...] = (),
        blobs: Iterable[BlobRow] = (),
    ) -> Plan:
        """A commit on top of the last one. ``steps``: status, ord and leaf by path. ``seal``: the trigger."""
        plan = Plan(self, changes or {}, steps or {})
        plan.trigger, plan.aliases, plan.blobs = seal, aliases, tuple(blobs)
        if seal is not None:
            plan.sealed = checkpoint_id(self.run_id, plan.seq, plan.digest)
        return plan

    def commit(self, changes: dict[Address, Any] | None = None, **more: Any) -> int:
        """Make a commit (see ``plan``); its seq."""
        return self.make(self.plan(changes, **more))

    def set_card(self, columns: dict[str, str], card: dict[str, Any] | None = None) -> int:
        """Commit a run's own records, and the listing's copy of them with it."""
        own = {"session_id" if key == "session" else key: value for key, value in columns.items()}
        plan = self.plan({("run", key): value for key, value in {**own, **(card or {})}.items()})

        def work(tx: Tx) -> None:
            plan.write(tx, self.run)
            tx.set_card(self.run, columns, card or {})

        self.store.write(work)
        return self.adopt(plan)

    def make(self, plan: Plan) -> int:
        self.store.write(lambda tx: plan.write(tx, self.run))
        return self.adopt(plan)

    def adopt(self, plan: Plan) -> int:
        """A planned commit became durable."""
        self.seq, self.live, self.steps = plan.seq, plan.live, plan.steps
        self.history[plan.seq] = plan.live
        if plan.sealed is not None:
            self.checkpoints[plan.seq] = plan.sealed
        return plan.seq

    def verify(self, store: SqlStore | None = None, *, seqs: Iterable[int] | None = None) -> None:
        """What is read back, live and at each of these versions (all), is what was written."""
        wanted = list(self.history if seqs is None else seqs)
        expected = {seq: self.history[seq] for seq in wanted}
        at, live = (store or self.store).read(
            lambda view: ({seq: state_at(view, self.run, seq) for seq in wanted}, state_of(view, self.run))
        )
        assert expected == at
        assert self.live == live


def digest_of(state: State) -> bytes:
    return to_bytes(sum(term(*a, sha256(v).digest()) for a, v in state.items()) & MASK)


def state_of(view: View, run: int) -> State:
    """Every live record, each with the hash of its bytes."""
    found: State = {}
    for collection in view.collections(run):
        for record in view.records(run, collection):
            assert sha256(record.stored).digest() == record.hash
            found[record.collection, record.key] = record.stored
    return found


def state_at(view: View, run: int, seq: int) -> State:
    """Every record that a version saw, each once."""
    found: State = {}
    for collection in view.collections(run, past=True):
        for record in view.records_at(run, seq, collection):
            assert (record.collection, record.key) not in found
            assert record.seq <= seq
            found[record.collection, record.key] = record.stored
    return found
