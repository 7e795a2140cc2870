"""Leases and attempts: who drives a run, who tries a step, and who does so no longer."""

from __future__ import annotations

import pytest

from leftoff.engine import lease as leases
from leftoff.errors import LeaseHeld, StaleEpoch
from leftoff.host import Process, this_process
from leftoff.store.base import SqlStore, Tx
from leftoff.store.rows import Holder
from tests.contract.rules.base import Rules
from tests.contract.scribe import AT, Scribe, facts

GONE = Process(this_process().scope, 2**22 + 5, "1")  # a pid that no Linux gives out


class DriverRules(Rules):
    def test_no_lease(self, store: SqlStore) -> None:
        """A run that nobody ever drove has no lease, and epoch 0."""
        scribe = Scribe(store)
        assert None is store.read(lambda v: v.lease(scribe.run))
        assert [] == store.read(lambda v: v.leases())

    def test_lease(self, store: SqlStore, other: SqlStore) -> None:
        """A lease says who, where and since when, to every handle."""
        scribe = Scribe(store)
        me = this_process()
        store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("process", me, "s-1", "pytest", AT)))
        lease = other.read(lambda v: v.lease(scribe.run))
        assert lease is not None and lease.held
        assert (1, "process", me, "s-1", "pytest", AT, AT) == facts(
            lease, "epoch kind process session who since beat"
        )
        assert ["run-1"] == [run_id for run_id, _ in other.read(lambda v: v.leases())]

    def test_epochs_only_grow(self, store: SqlStore) -> None:
        """Each driver gets a greater epoch than all before; freeing keeps the number."""
        scribe = Scribe(store)
        epochs = []
        for number in range(3):
            driver = Process(GONE.scope, GONE.pid + number, "1")
            epochs.append(store.write(lambda tx, d=driver: take(tx, scribe, d)))  # type: ignore[misc]
            store.write(lambda tx: leases.free(tx, scribe.run, epochs[-1]))
            lease = store.read(lambda v: v.lease(scribe.run))
            assert lease is not None and not lease.held
            assert (epochs[-1], None) == (lease.epoch, lease.process)
            assert [] == store.read(lambda v: v.leases())
        assert [1, 2, 3] == epochs

    def test_freeing_under_an_old_epoch_frees_nothing(self, store: SqlStore) -> None:
        """Who lost the lease cannot give away the next one's."""
        scribe = Scribe(store)
        old = store.write(lambda tx: take(tx, scribe, GONE))
        new = store.write(lambda tx: take(tx, scribe, this_process()))
        store.write(lambda tx: leases.free(tx, scribe.run, old))
        lease = store.read(lambda v: v.lease(scribe.run))
        assert lease is not None and lease.held and new == lease.epoch

    def test_live_driver_is_not_pushed_aside(self, store: SqlStore, other: SqlStore) -> None:
        """A lease whose process lives is refused to another; the same process gets the same epoch again."""
        scribe = Scribe(store)
        epoch = store.write(lambda tx: take(tx, scribe, this_process()))
        with pytest.raises(LeaseHeld, match="run-1"):
            other.write(lambda tx: take(tx, scribe, GONE))
        assert epoch == other.write(lambda tx: take(tx, scribe, this_process()))

    def test_beat(self, store: SqlStore) -> None:
        """A beat under the held epoch is noted; it makes no version."""
        scribe = Scribe(store)
        epoch = store.write(lambda tx: take(tx, scribe, this_process()))
        leases.renew_lease(store, scribe.run, "run-1", epoch, AT + 5000)
        lease = store.read(lambda v: v.lease(scribe.run))
        assert lease is not None
        assert (AT, AT + 5000) == (lease.since, lease.beat)
        scribe.verify()

    def test_beat_under_an_old_epoch_is_refused(self, store: SqlStore) -> None:
        """Whoever was followed learns it by its next beat, and changes nothing by it."""
        scribe = Scribe(store)
        old = store.write(lambda tx: take(tx, scribe, GONE))
        store.write(lambda tx: take(tx, scribe, this_process()))
        with pytest.raises(StaleEpoch):
            leases.renew_lease(store, scribe.run, "run-1", old, AT + 5000)
        lease = store.read(lambda v: v.lease(scribe.run))
        assert AT == (lease.beat if lease else None)

    def test_beat_on_a_free_lease_is_refused(self, store: SqlStore) -> None:
        """A freed lease has no driver that could be alive."""
        scribe = Scribe(store)
        epoch = store.write(lambda tx: take(tx, scribe, this_process()))
        store.write(lambda tx: leases.free(tx, scribe.run, epoch))
        assert not store.write(lambda tx: tx.beat(scribe.run, epoch, AT))
        assert not store.write(lambda tx: tx.beat(scribe.run + 1, epoch, AT))

    def test_attempts_are_numbered(self, store: SqlStore) -> None:
        """Tries at a step count from 1, each step by itself; the last one is current."""
        scribe = Scribe(store)
        numbers = []
        for token, step in (("t1", "a"), ("t2", "a"), ("t3", "b"), ("t4", "a")):
            numbers.append(store.write(lambda tx, t=token, s=step: tx.add_attempt(t, scribe.run, s, AT)))  # type: ignore[misc]
        assert [1, 2, 1, 3] == numbers
        found = store.read(lambda v: [v.attempt(f"t{i}") for i in (1, 2, 3, 4)])
        assert [(1, 3), (2, 3), (1, 1), (3, 3)] == [(a.number, a.current) for a in found if a is not None]
        assert None is store.read(lambda v: v.attempt("t5"))
        assert None is store.read(lambda v: v.attempt(""))

    def test_attempt(self, store: SqlStore, other: SqlStore) -> None:
        """An attempt keeps its process, log, times and exit code."""
        scribe = Scribe(store)
        me = this_process()
        store.write(lambda tx: tx.add_attempt("t1", scribe.run, "a", AT, log="attempts/t1"))
        first = other.read(lambda v: v.attempt("t1"))
        assert first is not None
        assert (None, None, None) == (first.process, first.ended_at, first.exit_code)
        store.write(lambda tx: tx.set_attempt_process("t1", me))
        store.write(lambda tx: tx.end_attempt("t1", AT + 9, 3))
        (attempt,) = other.read(lambda v: v.attempts(scribe.run))
        assert ("t1", scribe.run, "a", me, "attempts/t1", AT, AT + 9, 3) == facts(
            attempt, "token run step process log started_at ended_at exit_code"
        )

    def test_old_logs(self, store: SqlStore, other: SqlStore) -> None:
        """Logs of attempts that ended before a moment are found once their run is finished, until they are dropped."""
        scribe = Scribe(store)
        for token in ("t1", "t2"):
            store.write(lambda tx, t=token: tx.add_attempt(t, scribe.run, "a", AT, log=f"attempts/r/{t}"))  # type: ignore[misc]
        store.write(lambda tx: tx.end_attempt("t1", AT + 9, 3))
        assert [] == other.read(lambda v: v.old_logs(AT + 10))
        row = store.read(lambda v: v.run_row(scribe.run))
        assert row is not None
        columns = {"workflow": row.workflow, "branch": row.branch}
        store.write(lambda tx: tx.set_card(scribe.run, {**columns, "status": "failed"}, {}))
        assert [] == other.read(lambda v: v.old_logs(AT + 9))
        assert [("t1", "attempts/r/t1")] == other.read(lambda v: v.old_logs(AT + 10))
        store.write(lambda tx: tx.drop_logs(["t1"]))
        assert [] == other.read(lambda v: v.old_logs(AT + 10))
        store.write(lambda tx: tx.set_card(scribe.run, {**columns, "status": row.status}, row.card))

    def test_the_last_attempts(self, store: SqlStore) -> None:
        """The last that began between two moments, oldest first, with the number of the current one."""
        scribe = Scribe(store)
        for number, step in enumerate("abab"):
            store.write(lambda tx, n=number, s=step: tx.add_attempt(f"t{n}", scribe.run, s, AT + n))  # type: ignore[misc]
        found = store.read(lambda v: v.latest_attempts(scribe.run, AT, AT + 9, 3))
        assert [("b", 1, 2), ("a", 2, 2), ("b", 2, 2)] == [
            facts(each, "step number current") for each in found
        ]
        found = store.read(lambda v: v.latest_attempts(scribe.run, AT + 1, AT + 3, 9))
        assert ["t1", "t2"] == [each.token for each in found]

    def test_an_attempt_that_never_began(self, store: SqlStore) -> None:
        """It is forgotten as if it had not been made: the next one gets its number."""
        scribe = Scribe(store)
        for token in ("t1", "t2"):
            store.write(lambda tx, t=token: tx.add_attempt(t, scribe.run, "a", AT))  # type: ignore[misc]
        store.write(lambda tx: tx.drop_attempt("t2"))
        assert None is store.read(lambda v: v.attempt("t2"))
        assert 2 == store.write(lambda tx: tx.add_attempt("t3", scribe.run, "a", AT))

    def test_attempts_of_a_run(self, store: SqlStore) -> None:
        """A run's attempts come by step and number; another run's are not among them."""
        scribes = [Scribe(store, name) for name in ("run-1", "run-2")]

        def add(tx: Tx) -> None:
            for i, step in enumerate("baab"):
                tx.add_attempt(f"t{i}", scribes[0].run, step, AT, process=GONE)
            tx.add_attempt("t9", scribes[1].run, "a", AT)

        store.write(add)
        found = store.read(lambda v: v.attempts(scribes[0].run))
        assert [("a", 1), ("a", 2), ("b", 1), ("b", 2)] == [(a.step, a.number) for a in found]

    def test_what_is_noted(self, store: SqlStore, other: SqlStore) -> None:
        """A note beside the runs is kept under its name until it is taken back; it makes no version."""
        scribe = Scribe(store)
        assert None is store.read(lambda v: v.fact("ours 1"))
        for value in ("a", "b"):
            store.write(lambda tx, value=value: tx.put_fact("ours 1", value))  # type: ignore[misc]
            assert value == other.read(lambda v: v.fact("ours 1"))
        store.write(lambda tx: tx.put_fact("ours", "c"))
        assert [("fact ours 1", "b")] == other.read(lambda v: list(v.notes("fact ours ")))
        assert {"fact ours", "fact ours 1", "store_id"} <= other.read(lambda v: dict(v.notes()).keys())
        for name in ("ours", "ours 1"):
            store.write(lambda tx, name=name: tx.put_fact(name, None))  # type: ignore[misc]
        assert None is other.read(lambda v: v.fact("ours 1"))
        scribe.verify()


def take(tx: Tx, scribe: Scribe, process: Process) -> int:
    return leases.take(tx, scribe.run, scribe.run_id, (process, "pytest"), AT)
