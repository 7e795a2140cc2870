"""A run is taken to stand where this process left it; where it does not, nothing of that is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leftoff.engine.write import lease as leases
from leftoff.engine.write.commit import NO_GUARD, Guard, Terms, commit
from leftoff.engine.write.head import Head
from leftoff.errors import Conflict, NotFound, StaleEpoch
from leftoff.host import this_process
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import payload
from leftoff.store.postgres.connection import Link
from leftoff.store.postgres.held import Known, Left
from leftoff.store.postgres.store import PostgresStore
from tests.contract.scribe import AT, Scribe
from tests.postgres.proxy import Proxy
from tests.seams import SEAMS


class Writer:
    """One process's store, and what it remembers of the run."""

    def __init__(self, url: str, folder: Path, run: int) -> None:
        self.store = PostgresStore(url, str(folder))
        row = self.store.read(lambda view: view.run_row(run))
        assert row is not None
        self.head = Head.of(row)

    def put(self, value: object, name: str = "n", guard: Guard = NO_GUARD, **more: object) -> None:
        changes = ChangeSet()
        changes.put("variable", name, value, **more)
        commit(self.store, self.head, changes, Terms(AT, guard))

    def get(self, name: str = "n") -> object:
        found = self.store.read(lambda view: view.record(self.head.run, "variable", name))
        return payload(found.stored, name) if found is not None else None


@pytest.fixture
def url(proxy: Proxy, name: str) -> str:
    return proxy.url(name)


@pytest.fixture
def pair(url: str, tmp_path: Path) -> Iterator[tuple[Writer, Writer]]:
    """Two processes. The first has committed twice, so that it goes by what it remembers."""
    first = PostgresStore(url, str(tmp_path))
    scribe = Scribe(first)
    one, two = Writer(url, tmp_path, scribe.run), Writer(url, tmp_path, scribe.run)
    for number in range(3):
        one.put(number)
    yield one, two
    assert one.store.check()["ok"]
    for store in (first, one.store, two.store):
        store.close()


def test_a_commit_of_somebody_else(pair: tuple[Writer, Writer]) -> None:
    """Both are there."""
    one, two = pair
    two.put("theirs", "m")
    one.put("mine")
    assert ("mine", "theirs") == (one.get(), two.get("m"))


def test_nothing_differs_from_what_is_remembered(pair: tuple[Writer, Writer]) -> None:
    """But from what is there, it does."""
    one, two = pair
    two.put("theirs")
    one.put(2)
    assert 2 == two.get()


def test_what_is_expected_is_what_is_there(pair: tuple[Writer, Writer]) -> None:
    """An error out of what is remembered is none; one out of what is there is."""
    one, two = pair
    two.put("theirs")
    one.put("mine", expect="theirs")
    assert "mine" == two.get()
    with pytest.raises(Conflict):
        one.put(5, expect="theirs")


def test_a_run_that_was_removed(pair: tuple[Writer, Writer]) -> None:
    """It is gone."""
    one, two = pair
    two.store.write(lambda tx: tx.trash(two.head.run, AT))
    with pytest.raises(NotFound, match="is gone"):
        one.put("late")
    two.store.remove(two.head.run)
    with pytest.raises(NotFound, match="is gone"):
        one.put("late")


def test_a_run_that_was_taken_over(pair: tuple[Writer, Writer]) -> None:
    """The old epoch gets in no more."""
    one, two = pair
    guard = Guard(epoch=0)
    one.put("before", guard=guard)
    two.store.write(lambda tx: leases.take(tx, two.head.run, "run-1", (this_process(), "two"), AT))
    with pytest.raises(StaleEpoch):
        one.put("late", guard=guard)
    assert "before" == two.get()


def test_connections_that_are_new(pair: tuple[Writer, Writer]) -> None:
    """What fails on one of them spoils nothing of it: the statements that were not prepared are prepared again."""
    one, two = pair
    one.store.pool.close()
    two.put("theirs", "m")
    for value in ("mine", "again", "and again"):
        one.put(value)
    assert ("and again", "theirs") == (one.get(), one.get("m"))


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_answer_is_lost(pair: tuple[Writer, Writer], proxy: Proxy, when: str) -> None:
    """It is there once, whether it had happened or not."""
    one, two = pair
    seq = one.head.seq
    proxy.fail(when)
    one.put("mine")
    assert (seq + 1, "mine") == (one.head.seq, two.get())


def test_a_lost_commit_that_arrives_late(
    pair: tuple[Writer, Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made again meanwhile, so the run has moved on: the late one fails, and is not made a second time."""
    one, two = pair
    seq, late = one.head.seq, list[Any]()
    with monkeypatch.context() as patch:

        def lose(link: Link, statements: list[Any], then: object = ()) -> None:
            late.extend(statements)
            patch.undo()
            link.close()
            raise psycopg.OperationalError("the connection is lost")

        patch.setattr(SEAMS["Link.ask"], lose)
        one.put("mine")
    assert "COMMIT" == late[-1][0]
    with pytest.raises(psycopg.errors.NotNullViolation):
        two.store._with_link(lambda link: link.ask(late))
    row = two.store.read(lambda view: view.run_row(two.head.run))
    assert row is not None
    assert seq + 1 == row.seq


HEAD = (1, b"digest", "counts", 2, "run-1", 0, "running")


def test_two_threads_do_not_begin_with_the_same() -> None:
    """What is left of a run is taken by one of them, whenever the other looks."""
    left, other = Left(), list[Any]()

    class Meanwhile(dict[int, Any]):
        """Behind each look, another thread takes what is left."""

        def get(self, key: int, default: Any = None) -> Any:
            return self._then(super().get(key, default))

        def pop(self, key: int, default: Any = None) -> Any:
            return self._then(super().pop(key, default))

        def _then(self, found: Any) -> Any:
            if not other:
                other.append(None)
                other.append(left.take(1))
            return found

    left.keep(1, HEAD, None, "2", True)
    left._runs = Meanwhile(left._runs)
    assert [True, False] == sorted((found is None for found in (left.take(1), other[1])), reverse=True)


@pytest.mark.parametrize("alone", [True, False])
def test_what_was_known_holds_for_a_run_as_it_was_left(alone: bool) -> None:
    """A repair changes what is remembered of records, and no head; but the epoch, so the run is not found so."""
    left, known = Left(), Known()
    known.all = True
    left.keep(1, HEAD, known, "2", True)
    left.keep(1, (*HEAD[:3], 3, *HEAD[4:]), None, "2", alone)
    left.keep(1, (*HEAD[:3], 3, *HEAD[4:]), None, "2", True)
    found = left.take(1)
    assert found is not None
    assert (known if alone else None) is found[1]


@pytest.mark.parametrize("part", range(len(HEAD)))
def test_every_part_of_a_head_counts(part: int) -> None:
    """A repair or a new driver leaves version and digest, and changes the epoch: the run is not as it was left."""
    left = Left()
    left.keep(1, HEAD, None, "2", True)
    assert left.is_at(1, HEAD)
    assert not left.is_at(1, (*HEAD[:part], "another", *HEAD[part + 1 :]))
