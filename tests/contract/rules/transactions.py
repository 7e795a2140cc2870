"""Obligations 1 to 3: atomic, durable, serial writes; snapshots that block nobody."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from leftoff.errors import LeftoffError
from leftoff.model.changes import Version
from leftoff.model.codec import payload, sha256
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import Holder, Record
from tests.contract.rules.base import Rules
from tests.contract.scribe import AT, Scribe, digest_of, state_of, stored


class Deliberate(Exception):
    """Raised by the tests themselves."""


class TransactionRules(Rules):
    def test_reading_never_creates(self, store: SqlStore, tmp_path: Path) -> None:
        """A store that is only looked at is not made; that it is missing is a typed error."""
        before = sorted(tmp_path.rglob("*"))
        assert not store.exists()
        with pytest.raises(LeftoffError):
            store.read(lambda view: view.list_runs({}))
        with pytest.raises(LeftoffError):
            store.load_blob(bytes(32))
        assert store.check()["ok"]
        assert not store.exists()
        assert before == sorted(tmp_path.rglob("*"))

    def test_first_write_creates(self, store: SqlStore, other: SqlStore) -> None:
        """The first write makes the store, for every handle."""
        Scribe(store)
        assert store.exists()
        assert other.exists()

    def test_results_come_back(self, store: SqlStore) -> None:
        """`write` and `read` give back what their function gives, whatever it is."""
        Scribe(store)
        thing = object()
        assert thing is store.write(lambda tx: thing)
        assert thing is store.read(lambda view: thing)
        assert store.write(lambda tx: None) is None

    def test_failure_changes_nothing(self, store: SqlStore) -> None:
        """A function that raises leaves no trace, its error arrives as it is, and the next write succeeds."""
        scribe = Scribe(store)
        scribe.commit({("variable", "a"): 1, ("variable", "big"): "x" * 5000}, seal="manual")
        plan = scribe.plan(
            {("variable", "a"): 2, ("variable", "big"): None, ("note", "n"): "n" * 5000}, seal="manual"
        )
        error = Deliberate()

        def work(tx: Tx) -> None:
            plan.write(tx, scribe.run)
            tx.put_lease(scribe.run, 7, Holder("process", None, None, "me", AT))
            tx.add_attempt("token", scribe.run, "step", AT)
            tx.add_run("run-2", AT, workflow="w", branch="b", status="running")
            raise error

        with pytest.raises(Deliberate) as caught:
            store.write(work)
        assert error is caught.value
        scribe.verify()
        lease, attempts, head, second = store.read(
            lambda v: (v.lease(scribe.run), v.attempts(scribe.run), v.head(scribe.run), v.find_run("run-2"))
        )
        assert (None, [], 2, None) == (lease, attempts, head[0] if head else None, second)
        scribe.make(plan)
        scribe.verify()

    def test_failure_takes_no_other_with_it(self, store: SqlStore) -> None:
        """Among many threads that may share a transaction, those that fail fail alone."""
        scribes = [Scribe(store, f"run-{i}") for i in range(12)]
        outcomes: dict[int, BaseException | None] = {}
        first = threading.Event()

        def work(i: int) -> None:
            plan = scribes[i].plan({("variable", "mine"): [i] * 600})
            if i:
                first.wait(10)

            def fn(tx: Tx) -> None:
                plan.write(tx, scribes[i].run)
                if i == 0:
                    first.set()
                    time.sleep(0.1)  # the others queue up meanwhile
                if i % 3 == 1:
                    raise Deliberate(i)

            try:
                store.write(fn)
                scribes[i].adopt(plan)
                outcomes[i] = None
            except Deliberate as error:
                outcomes[i] = error

        in_threads(work, range(12))
        failed = {i for i, outcome in outcomes.items() if outcome is not None}
        assert {i for i in range(12) if i % 3 == 1} == failed
        assert all((i,) == outcomes[i].args for i in failed)  # type: ignore[union-attr]
        for scribe in scribes:
            scribe.verify()

    def test_writers_see_the_newest(self, store: SqlStore, other: SqlStore) -> None:
        """Nobody changes what a function has seen before it is durable: counting by threads and handles adds up."""
        scribe = Scribe(store)
        store.write(lambda tx: put_count(tx, scribe.run, 0, first=True))

        def work(i: int) -> None:
            handle = (store, other)[i % 2]
            for _ in range(20):
                handle.write(lambda tx: put_count(tx, scribe.run, 1))

        in_threads(work, range(6))
        counted = other.read(lambda view: count_in(view, scribe.run))
        assert 120 == counted

    def test_unfinished_is_unseen(self, store: SqlStore, other: SqlStore) -> None:
        """What is written is seen by nobody else before its transaction is durable."""
        scribe = Scribe(store)
        plan = scribe.plan({("variable", "a"): 1})
        before = scribe.live

        def work(tx: Tx) -> tuple[Any, Any]:
            plan.write(tx, scribe.run)
            outside = other.read(lambda view: state_of(view, scribe.run))
            return outside, state_of(tx, scribe.run)

        assert (before, plan.live) == store.write(work)
        scribe.adopt(plan)
        scribe.verify(other)

    def test_durable_across_reopen(self, store: SqlStore) -> None:
        """Everything that was written is there for whoever opens the store next."""
        scribe = Scribe(store)
        for i in range(5):
            scribe.commit({("variable", "a"): i, ("variable", f"k{i}"): "v" * 400 * i}, seal="manual")
        store.close()
        again = self.reopen(store)
        scribe.verify(again)
        again.close()

    def test_write_that_need_not_be_synced(self, store: SqlStore, other: SqlStore) -> None:
        """It is seen by everyone when it returns, outlives its handle, and those after it are as durable as ever."""
        scribe = Scribe(store)
        for i in range(4):
            plan = scribe.plan({("variable", "a"): i})
            store.write(lambda tx, plan=plan: plan.write(tx, scribe.run), durable=i % 2 == 1)  # type: ignore[misc]
            scribe.adopt(plan)
            scribe.verify(other)
        store.close()
        scribe.verify(other)

    def test_closed_store_can_be_used_again(self, store: SqlStore) -> None:
        """`close` releases everything; the next operation opens what it needs."""
        scribe = Scribe(store)
        for soon in (False, True):
            store.close(soon=soon)
            scribe.commit({("variable", "a"): int(soon)})
            scribe.verify()

    def test_store_knows_whether_it_wrote(self, store: SqlStore, other: SqlStore) -> None:
        """`wrote` tells whether anything was written through this handle, whatever others did."""
        assert not store.wrote
        scribe = Scribe(store)
        scribe.verify(other)
        assert (True, False) == (store.wrote, other.wrote)

    def test_read_is_one_snapshot(self, store: SqlStore, other: SqlStore) -> None:
        """A reader sees one state from beginning to end, does not stop a writer, and the next reader sees more."""
        scribe = Scribe(store)
        writer = Scribe(other, "run-2")

        def look(view: View) -> tuple[Any, Any]:
            before = state_of(view, writer.run)
            writer.commit({("variable", "a"): 1})
            return before, state_of(view, writer.run)

        first, second = store.read(look)
        assert writer.history[1] == first == second
        writer.verify(store)
        scribe.verify()

    def test_second_handle_sees_commits(self, store: SqlStore, other: SqlStore) -> None:
        """What one handle wrote the other reads, and goes on from."""
        scribe = Scribe(store)
        scribe.commit({("variable", "a"): 1})
        scribe.verify(other)
        scribe.store = other
        scribe.commit({("variable", "a"): 2})
        scribe.verify(store)

    def test_half_read_leaves_no_old_snapshot(self, store: SqlStore, other: SqlStore) -> None:
        """A read that ended in the middle of a query does not make a later one see old records."""
        scribe = Scribe(store)
        scribe.commit({("variable", f"k{i}"): i for i in range(50)})
        left: list[Any] = []

        def half(view: View) -> None:
            left.append(view.records(scribe.run, "variable"))
            next(left[0])

        store.read(half)
        scribe.store = other
        scribe.commit({("variable", "k1"): "new"})
        scribe.verify(store)

    def test_half_read_write_leaves_nothing_held(self, store: SqlStore, other: SqlStore) -> None:
        """A write that failed in the middle of a query does not stop later ones, by whomever."""
        scribe = Scribe(store)
        scribe.commit({("variable", f"k{i}"): i for i in range(50)})
        left: list[Any] = []

        def half(tx: Tx) -> None:
            left.append(tx.records(scribe.run, "variable"))
            next(left[0])
            raise Deliberate

        with pytest.raises(Deliberate):
            store.write(half)
        scribe.store = other
        scribe.commit({("variable", "k1"): "new"})
        scribe.store = store
        scribe.commit({("variable", "k2"): "newer"})
        scribe.verify(other)


def put_count(tx: Tx, run: int, by: int, *, first: bool = False) -> None:
    """Add to the one number, as a commit of its own."""
    head = tx.head(run)
    assert head is not None
    old = None if first else tx.record(run, "variable", "count")
    value = stored((payload(old.stored, "count") if old else 0) + by)
    live = {**state_of(tx, run), ("variable", "count"): value}
    tx.put(run, Record("variable", "count", head[0] + 1, sha256(value).digest(), value))
    tx.add_version(run, Version(head[4], head[0] + 1, digest_of(live), AT, counts=head[2]), b"")


def count_in(view: View, run: int) -> Any:
    record = view.record(run, "variable", "count")
    return payload(record.stored, "count") if record else None


def in_threads(work: Any, numbers: Any) -> None:
    """Call ``work`` with each number in a thread of its own; all start together. Their errors are raised here."""
    threads, errors = [], []
    barrier = threading.Barrier(len(numbers))

    def guarded(i: int) -> None:
        try:
            barrier.wait(30)
            work(i)
        except BaseException as error:
            errors.append(error)

    for i in numbers:
        threads.append(threading.Thread(target=guarded, args=(i,)))
        threads[-1].start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
