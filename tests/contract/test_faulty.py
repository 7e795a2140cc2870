"""What a run does when its store fails: nothing is lost, nothing happens twice, and the error says what it is."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.engine.commit import Head, Seal, Terms, commit, new_token
from leftoff.engine.opening import Opening, start_new_run
from leftoff.engine.redactor import Redactor
from leftoff.errors import LeftoffError, StoreUnavailable
from leftoff.model.changes import ChangeSet
from leftoff.store.sqlite import SqliteStore
from leftoff.testing import FakeClock, FaultyStore

AT = FakeClock().now()
FAILURES = ("before", "during", "after")


@pytest.fixture
def faulty(store_path: Path) -> Iterator[FaultyStore]:
    store = FaultyStore(SqliteStore(str(store_path)))
    yield store
    store.close()


@pytest.fixture
def run(faulty: FaultyStore, store_path: Path) -> Iterator[leftoff.Run]:
    """A run whose store can be told to fail. It has one variable and two versions."""
    with leftoff.open(store_path) as opened:
        opened._store = faulty
        run = opened.start("work", run_id="run-1")
        run.variables["a"] = 1
        run.commit()
        yield run


class Seen:
    """The run as another process sees it."""

    def __init__(self, faulty: FaultyStore) -> None:
        with leftoff.open(faulty.name) as opened:
            run = opened.get("run-1")
            self.variables = dict(run.variables)
            self.status = run.status
            self.seq = run.history(sealed=False)[0].seq
            self.sealed = len(run.history())


def started(store: FaultyStore) -> Head:
    return start_new_run(store, Opening("work", run_id="run-1"), AT)[0]


def put(**values: Any) -> ChangeSet:
    changes = ChangeSet()
    for name, value in values.items():
        changes.put("variable", name, value)
    return changes


# -- the store


def test_nth_call_fails(faulty: FaultyStore) -> None:
    """Exactly the call that was named fails, and calls are counted."""
    faulty.fail("before", nth=3)
    outcomes = []
    for _ in range(4):
        try:
            faulty.write(lambda tx: None)
            outcomes.append("ok")
        except StoreUnavailable:
            outcomes.append("failed")
    assert ["ok", "ok", "failed", "ok"] == outcomes
    assert 4 == faulty.calls["write"]


def test_given_error_is_raised(faulty: FaultyStore) -> None:
    """The error that was asked for is the one that comes, from the call that was named."""
    started(faulty)
    error = OSError(errno.ENOSPC, "No space left on device")
    faulty.fail("before", error=error, call="save_blob")
    faulty.fail("before", error=error, call="read")
    for call in (lambda: faulty.save_blob([b"x"]), lambda: faulty.read(lambda view: None)):
        with pytest.raises(OSError) as caught:
            call()
        assert error is caught.value
    faulty.save_blob([b"x"])


def test_upkeep_meets_the_faults(faulty: FaultyStore) -> None:
    """The batches of a prune are writes, and fail like any other."""
    head = started(faulty)
    faulty.fail("during", nth=2)
    with pytest.raises(StoreUnavailable):
        faulty.prune(head.run, [])
    faulty.prune(head.run, [])


def test_impossible_fault_is_refused(faulty: FaultyStore) -> None:
    """A fault that could never strike is a mistake in the test."""
    for wrong in ({"nth": 0}, {"when": "sometimes"}, {"when": "during", "call": "save_blob"}):
        with pytest.raises(ValueError):
            faulty.fail(**wrong)


# -- the engine's commit


@pytest.mark.parametrize("when", FAILURES)
def test_commit_is_known_by_its_token(faulty: FaultyStore, when: Any) -> None:
    """Whether a commit that failed is durable all the same is found out, also where others have committed since."""
    head, token = started(faulty), new_token()
    faulty.fail(when)
    with pytest.raises(StoreUnavailable):
        commit(faulty, head, put(a=1), Terms(AT, seal=Seal("manual"), token=token))
    row = faulty.read(lambda view: view.run_row(head.run))
    assert row is not None
    commit(faulty, Head.of(row), put(b=1), Terms(AT))
    found = faulty.read(lambda view: view.applied(head.run, head.seq, token))
    assert ((2, "manual") if when == "after" else None) == (found and (found.seq, found.trigger))


def test_blob_that_cannot_be_saved(faulty: FaultyStore) -> None:
    """A value too large for a row fails before its transaction, and the next try has it whole."""
    head = started(faulty)
    changes = put(big="x" * 3_000_000)
    faulty.fail("before", call="save_blob")
    with pytest.raises(StoreUnavailable):
        commit(faulty, head, changes, Terms(AT))
    assert 1 == Seen(faulty).seq
    commit(faulty, head, changes, Terms(AT))
    assert {"big": "x" * 3_000_000} == Seen(faulty).variables


# -- a run


def test_error_is_typed(run: leftoff.Run, faulty: FaultyStore) -> None:
    """What comes out says what is wrong, what to do, and that trying again may help."""
    faulty.fail("during", error=StoreUnavailable("The disk is full."))
    run.variables["a"] = 2
    with pytest.raises(LeftoffError) as caught:
        run.commit()
    assert ("store_unavailable", 8, True) == (caught.value.code, caught.value.exit_code, caught.value.retry)
    assert "Nothing was changed" in caught.value.hint
    run.commit()


@pytest.mark.parametrize("when", ("before", "during"))
def test_failed_commit_keeps_the_buffer(run: leftoff.Run, faulty: FaultyStore, when: Any) -> None:
    """Changes of a commit that failed are still there, unseen by others, and become durable with the next one."""
    run.variables["a"] = 2
    run.append("list", "x")
    run.put("knowledge", "k", "known")
    faulty.fail(when)
    with pytest.raises(StoreUnavailable):
        run.commit()
    assert ({"a": 1}, 2) == (Seen(faulty).variables, Seen(faulty).seq)
    assert {"a": 2, "list": ["x"]} == dict(run.variables)
    assert "known" == run.records["knowledge"]["k"]
    version = run.commit()
    assert 3 == (version.seq if version else None)
    assert ({"a": 2, "list": ["x"]}, 3) == (Seen(faulty).variables, Seen(faulty).seq)


def test_lost_answer_is_not_applied_twice(run: leftoff.Run, faulty: FaultyStore) -> None:
    """A commit that was durable before it failed is recognised when it is tried again."""
    run.append("list", "x")
    faulty.fail("after")
    with pytest.raises(StoreUnavailable):
        run.commit()
    assert ({"a": 1, "list": ["x"]}, 3) == (Seen(faulty).variables, Seen(faulty).seq)
    version = run.commit()
    assert 3 == (version.seq if version else None)
    assert ({"a": 1, "list": ["x"]}, 3) == (Seen(faulty).variables, Seen(faulty).seq)
    assert {"a": 1, "list": ["x"]} == dict(run.variables)


def test_lost_answer_and_a_prune_in_between(run: leftoff.Run, faulty: FaultyStore) -> None:
    """Nor where somebody committed and pruned before the next try: the version is forgotten, the commit is not."""
    run.append("list", "x")
    faulty.fail("after")
    with pytest.raises(StoreUnavailable):
        run.commit()
    row = faulty.read(lambda view: view.find_run(run.id))
    assert row is not None
    commit(faulty, Head.of(row), put(b=1), Terms(AT))
    faulty.prune(row.run, [])
    assert None is faulty.read(lambda view: view.version(row.run, 3))
    run.commit()
    assert {"a": 1, "b": 1, "list": ["x"]} == Seen(faulty).variables


@pytest.mark.parametrize("when", FAILURES)
def test_changes_after_a_failure_are_not_lost(run: leftoff.Run, faulty: FaultyStore, when: Any) -> None:
    """What is changed between a failure and the next try becomes durable, whatever became of the first."""
    run.variables["b"] = 1
    run.append("list", "x")
    run.append("other", "o")
    faulty.fail(when)
    with pytest.raises(StoreUnavailable):
        run.commit()
    run.variables["b"] = 2
    run.variables["c"] = 3
    run.append("list", "y")
    expected = {"a": 1, "b": 2, "c": 3, "list": ["x", "y"], "other": ["o"]}
    assert expected == dict(run.variables)
    run.commit()
    assert expected == Seen(faulty).variables == dict(run.variables)


@pytest.mark.parametrize("when", FAILURES)
def test_checkpoint_after_a_failed_commit_is_sealed(run: leftoff.Run, faulty: FaultyStore, when: Any) -> None:
    """A checkpoint that follows a failed commit has an id, even where that commit turns out to be durable."""
    run.variables["b"] = 1
    faulty.fail(when)
    with pytest.raises(StoreUnavailable):
        run.commit()
    assert run.checkpoint().id
    assert 1 == Seen(faulty).sealed


@pytest.mark.parametrize("when", FAILURES)
def test_checkpoint_tried_again_is_one(run: leftoff.Run, faulty: FaultyStore, when: Any) -> None:
    """The same checkpoint, tried again, is sealed once."""
    run.variables["b"] = 1
    faulty.fail(when)
    with pytest.raises(StoreUnavailable):
        run.checkpoint(note="here")
    version = run.checkpoint(note="here")
    assert (3, "here") == (version.seq, version.note)
    assert (3, 1) == (Seen(faulty).seq, Seen(faulty).sealed)


@pytest.mark.parametrize("when", FAILURES)
def test_failing_twice(run: leftoff.Run, faulty: FaultyStore, when: Any) -> None:
    """A store that fails again and again loses nothing either."""
    for value in range(3):
        run.append("list", value)
        faulty.fail(when)
        faulty.fail("before", nth=2)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                run.commit()
    run.commit()
    assert [0, 1, 2] == Seen(faulty).variables["list"]


@pytest.mark.parametrize("when", FAILURES)
def test_interrupted_commit_ends_as_a_pause(faulty: FaultyStore, store_path: Path, when: Any) -> None:
    """Ctrl-C in the middle of a commit leaves the run paused, with everything up to it."""
    opened = leftoff.open(store_path)
    opened._store = faulty
    with pytest.raises(KeyboardInterrupt), opened.start("work", run_id="run-1") as run:
        run.variables["a"] = 1
        run.append("list", "x")
        faulty.fail(when, error=KeyboardInterrupt())
        run.commit()
    seen = Seen(faulty)
    assert ("paused", {"a": 1, "list": ["x"]}) == (seen.status, seen.variables)
    opened.close()


def test_a_note_is_masked_next_to_a_large_value(faulty: FaultyStore) -> None:
    """What makes a checkpoint loses its secrets, also if a value of the same commit becomes a blob."""
    head, changes = started(faulty), ChangeSet(Redactor())
    changes.put("variable", "large", "x" * 2_000_000)
    version = commit(
        faulty, head, changes, Terms(1, seal=Seal("manual", note="with " + "ghp_" + "a1B2c3D4e5" * 4))
    )
    assert version is not None and "with [redacted]" == version.note
