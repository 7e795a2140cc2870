"""The token of an attempt fences: only the current try at a step may report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.engine.commit import Guard, Head, Terms, commit
from leftoff.engine.opening import Opening, start_new_run
from leftoff.errors import Conflict
from leftoff.model.changes import ChangeSet
from leftoff.store.sqlite import SqliteStore

AT = 1_770_000_000_000


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


@pytest.fixture
def head(store: SqliteStore) -> Head:
    return start_new_run(store, Opening("work", run_id="run-1", steps=["a", "b"]), AT)[0]


def attempt(store: SqliteStore, head: Head, token: str, step: str = "a") -> None:
    store.write(lambda tx: tx.add_attempt(token, head.run, step, AT))


def report(store: SqliteStore, head: Head, value: object, guard: Guard) -> None:
    changes = ChangeSet()
    changes.put("variable", "report", value)
    commit(store, head, changes, Terms(AT, guard))


def reported(store: SqliteStore, head: Head) -> bytes | None:
    record = store.read(lambda view: view.record(head.run, "variable", "report"))
    return record.stored if record else None


def test_current_attempt_may_report(store: SqliteStore, head: Head) -> None:
    """The current try at each step reports, whatever the others are at."""
    attempt(store, head, "t1")
    attempt(store, head, "t2", "b")
    report(store, head, 1, Guard(attempt="t1"))
    report(store, head, 2, Guard(attempt="t2"))
    assert b"J2" == reported(store, head)


def test_earlier_attempt_is_refused(store: SqliteStore, head: Head) -> None:
    """Once a step was started again, its earlier try changes nothing more; the refusal says which one is current."""
    attempt(store, head, "t1")
    report(store, head, 1, Guard(attempt="t1"))
    attempt(store, head, "t2")
    with pytest.raises(Conflict, match=r"attempt 1 at a; attempt 2"):
        report(store, head, 2, Guard(attempt="t1"))
    assert b"J1" == reported(store, head)
    report(store, head, 3, Guard(attempt="t2"))
    assert b"J3" == reported(store, head)


def test_ended_attempt_is_still_the_current_one(store: SqliteStore, head: Head) -> None:
    """A try that ended is fenced off by the next, not by its end: its last words may come late."""
    attempt(store, head, "t1")
    store.write(lambda tx: tx.end_attempt("t1", AT, 0))
    report(store, head, 1, Guard(attempt="t1"))
    assert b"J1" == reported(store, head)


def test_unknown_token_is_refused(store: SqliteStore, head: Head) -> None:
    """A token that no attempt has is refused, and the variable that it came from is named."""
    with pytest.raises(Conflict, match="LEFTOFF_ATTEMPT"):
        report(store, head, 1, Guard(attempt="unknown"))
    assert None is reported(store, head)


def test_a_step_of_another_run_may_report(store: SqliteStore, head: Head) -> None:
    """A step may begin a run of its own and report on it, for as long as it is not replaced itself."""
    other = start_new_run(store, Opening("work", run_id="run-2"), AT)[0]
    attempt(store, other, "t2")
    report(store, head, 1, Guard(attempt="t2"))
    attempt(store, other, "t3")
    with pytest.raises(Conflict, match=r"attempt 1 at a; attempt 2"):
        report(store, head, 2, Guard(attempt="t2"))
    assert b"J1" == reported(store, head)


def test_empty_token_is_none(store: SqliteStore, head: Head) -> None:
    """An empty variable counts as unset: a plain report."""
    attempt(store, head, "t1")
    report(store, head, 1, Guard(attempt=""))
    assert b"J1" == reported(store, head)


def test_fence_is_checked_in_the_transaction(store: SqliteStore, head: Head) -> None:
    """An attempt that is replaced between the report and its transaction is refused all the same."""
    attempt(store, head, "t1")
    plain = store.write

    def slow(fn, *, durable=True):  # type: ignore[no-untyped-def]
        plain(lambda tx: tx.add_attempt("t2", head.run, "a", AT))
        return plain(fn, durable=durable)

    store.write = slow  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="attempt 2"):
        report(store, head, 1, Guard(attempt="t1"))
    del store.write
    assert None is reported(store, head)
