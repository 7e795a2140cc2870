"""Commits of which no answer came, and which may still be on their way: made once, whatever arrives when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import StoreUnavailable
from leftoff.model.changes import Version
from leftoff.python.run_buffer import UNKNOWN, UnansweredCommit
from leftoff.store.postgres import PostgresStore
from leftoff.store.server_connection import Link, Q
from tests.cli.command import call
from tests.contract.scribe import AT, Scribe
from tests.postgres.lost import lose_the_end
from tests.postgres.proxy import Proxy
from tests.seams import SEAMS


@pytest.fixture
def run(proxy: Proxy, name: str) -> Iterator[leftoff.Run]:
    """A run that is driven through the proxy, by what is remembered of it: each commit is one packet."""
    with leftoff.open(proxy.url(name)) as store:
        made = store.start("work", run_id="r")
        for number in range(3):
            made.variables["n"] = number
            made.commit()
        yield made
        proxy.let_go()
        assert store.fsck().ok
        made.finish()


COMMITS = "commit_run_1("  # in the one statement by which a driver commits


def entries(url: str) -> Any:
    with leftoff.open(url) as store:
        return store.get("r").variables.get("list")


@pytest.mark.parametrize("why", [KeyboardInterrupt(), None])
@pytest.mark.parametrize("arrives", ["before", "after"])
def test_what_was_given_up_arrives(
    run: leftoff.Run,
    proxy: Proxy,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    arrives: str,
    why: BaseException | None,
) -> None:
    """Before the store is asked for it, or after: it is found, and only the rest is written. Whether somebody gave it
    up, or patience was over."""
    asked = UnansweredCommit.ask
    found: list[Version | None] = []

    def ask(unanswered: UnansweredCommit, *what: Any) -> Version | None:
        found.append(asked(unanswered, *what))
        proxy.let_go()
        return found[-1]

    run.append("list", "x")
    proxy.fail("late", COMMITS)
    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, StoreUnavailable)):
        patch.setattr(run._buffer.store, "patience", 0.0)
        lose_the_end(patch, why)
        run.commit()
    if arrives == "before":
        proxy.let_go()
    monkeypatch.setattr(SEAMS["UnansweredCommit.ask"], ask)
    run.append("list", "y")
    run.commit()
    assert (arrives == "before") is (found[0] is not None)
    assert ["x", "y"] == entries(url) == run.variables["list"]


def test_what_was_lost_was_pruned_meanwhile(
    run: leftoff.Run, proxy: Proxy, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made, others went on from there, and its version is gone: its token is still found."""
    take, tries = PostgresStore._take, list[None]()

    def taken(store: PostgresStore) -> Link:
        tries.append(None)
        if len(tries) == 2:
            patch.undo()
            assert 0 == call("set", "other=1", "--run", "r", cwd=tmp_path, LEFTOFF_STORE=url).code
            run._buffer.store.prune(run._buffer.run, [])
        return take(store)

    run.append("list", "x")
    proxy.fail("after", COMMITS)
    with monkeypatch.context() as patch:
        patch.setattr(SEAMS["PostgresStore._take"], taken)
        run.commit()
    assert 2 == len(tries)
    assert ["x"] == entries(url) == run.variables["list"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_became_of_it_cannot_be_found_out(
    run: leftoff.Run, proxy: Proxy, url: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """So that is said, and not that nothing was changed; the next commit finds out."""
    run.append("list", "x")
    proxy.fail(when, COMMITS)
    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable) as caught:
        patch.setattr(run._buffer.store, "patience", 0.0)
        run.commit()
    says_that_it_is_not_known(caught.value)
    assert (["x"] if when == "after" else None) == entries(url)
    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable) as caught:
        patch.setattr(SEAMS["PostgresStore._take"], refused)
        run.commit()
    assert UNKNOWN == caught.value.hint
    run.append("list", "y")
    run.commit()
    assert ["x", "y"] == entries(url)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_report_of_which_nothing_can_be_found_out(
    proxy: Proxy, name: str, url: str, tmp_path: Path, when: str
) -> None:
    """The command says so, too, with its exit code."""
    with leftoff.open(url) as store:
        store.start("work", run_id="r").pause()
        proxy.fail(when, Q.add_version)
        proxy.fail("before", Q.outcome)
        place = proxy.url(name)
        told = call("note", "once", "--run", "r", cwd=tmp_path, LEFTOFF_STORE=place, LEFTOFF_LOCK_TIMEOUT="0")
        assert 8 == told.code
        assert "did not say whether it made the last change" in told.err
        assert "Nothing was changed" not in told.err
        assert (when == "after") is bool(store.get("r").records.get("note"))


def test_a_transaction_whose_end_does_not_arrive(
    proxy: Proxy, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for as long as a lock would be; what it changed is there when it is over."""
    store = PostgresStore(proxy.url(name), str(tmp_path))
    scribe = Scribe(store)
    proxy.fail("late", "COMMIT")
    store.patience = 0.1
    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable) as caught:
        lose_the_end(patch)
        store.write(lambda tx: tx.add_attempt("t1", scribe.run, "a", AT))
    says_that_it_is_not_known(caught.value)
    proxy.let_go()
    assert ["t1"] == [attempt.token for attempt in store.read(lambda view: view.attempts(scribe.run))]
    store.close()


def refused(_: PostgresStore) -> None:
    raise StoreUnavailable("out of reach", hint="Nothing was changed.")


def says_that_it_is_not_known(error: StoreUnavailable) -> None:
    assert ("store_unavailable", 8, True) == (error.code, error.exit_code, error.retry)
    assert "did not say whether it made the last change" in error.message
    assert "Nothing was changed" not in str(error)
