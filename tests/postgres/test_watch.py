"""Who watches a store on a server hears of commits, and asks nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from leftoff.errors import StoreUnavailable
from leftoff.store.base import Tx
from leftoff.store.notifications import NO_FILE, News
from leftoff.store.postgres import PostgresStore
from leftoff.store.server_connection import Link, Q
from tests.contract.scribe import AT, Scribe
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.seams import SEAMS

SOON_S = 60.0  # for what will be heard of: only a failure waits so long


@pytest.fixture
def store(proxy: Proxy, name: str, tmp_path: Path) -> Iterator[PostgresStore]:
    """A store behind the proxy."""
    made = PostgresStore(proxy.url(name), str(tmp_path))
    yield made
    made.close()


def test_watching_asks_nothing(store: PostgresStore, proxy: Proxy) -> None:
    """While nothing happens there is no round trip, nor for what is told then: it says which run, and its version."""
    scribe = Scribe(store)
    watch = store.watch()
    before = proxy.rounds
    assert not watch.wait(0.3)
    assert before == proxy.rounds
    scribe.commit()
    before = proxy.rounds
    assert News({"run-1": 2}) == watch.wait(SOON_S)
    assert before == proxy.rounds
    watch.close()


def test_a_lost_connection_is_made_again(store: PostgresStore, proxy: Proxy) -> None:
    """What was committed meanwhile is found, and what comes later is heard of."""
    scribe = Scribe(store)
    watch = store.watch()
    proxy.cut()
    scribe.commit()
    assert watch.wait(SOON_S).concerns("run-1")
    while watch.wait(0):
        pass
    scribe.commit()
    assert News({"run-1": 3}) == watch.wait(SOON_S)
    watch.close()


@pytest.mark.parametrize("version", [True, False])
def test_a_commit_whose_answer_is_lost_is_told(store: PostgresStore, proxy: Proxy, version: bool) -> None:
    """What is told behind it may be lost with its answer, so it is told again."""
    scribe = Scribe(store)
    watch = store.watch()
    proxy.fail("after", Q.add_version if version else Q.add_attempt)
    if version:
        scribe.commit()
    else:
        store.write(lambda tx: tx.add_attempt("t1", scribe.run, "a", AT))
    assert News({"run-1": 1 + version}) == watch.wait(SOON_S)
    watch.close()


def test_a_server_that_stays_away(store: PostgresStore, proxy: Proxy) -> None:
    """It is waited for as long as a write would be, and then told."""
    Scribe(store)
    watch = store.watch()
    store.patience = 0.2
    proxy.close()
    with pytest.raises(StoreUnavailable):
        watch.wait(SOON_S)


def test_other_projects_are_not_heard_of(
    store: PostgresStore, server: Server, name: str, tmp_path: Path
) -> None:
    """Each project has a channel of its own."""
    scribe = Scribe(store)
    watch = store.watch()
    other = PostgresStore(server.url(f"{name}-2"), str(tmp_path))
    Scribe(other, "elsewhere")
    scribe.commit()
    assert News({"run-1": 2}) == watch.wait(SOON_S)
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f'DROP SCHEMA "{other.place.schema}" CASCADE'.encode())
    other.close()
    watch.close()


def test_many_runs_at_once_are_told_as_one(store: PostgresStore) -> None:
    """Who loads many runs in one transaction fills no queue."""
    scribes = [Scribe(store, f"run-{number}") for number in range(60)]
    plans = [(scribe, scribe.plan()) for scribe in scribes]
    watch = store.watch()

    def work(tx: Tx) -> None:
        for scribe, plan in plans:
            plan.write(tx, scribe.run)

    store.write(work)
    assert News(others=True) == watch.wait(SOON_S)
    watch.close()


def test_a_selector_can_wait_for_it(store: PostgresStore) -> None:
    """What becomes readable when something is told; not while it is lost."""
    import select

    scribe = Scribe(store)
    watch = store.watch()
    scribe.commit()
    assert News({"run-1": 2}) == watch.wait(SOON_S)  # and whatever was told late of what came before it
    assert ([], [], []) == select.select([watch.fileno()], [], [], 0)
    scribe.commit()
    assert select.select([watch.fileno()], [], [], SOON_S)[0]
    watch.close()
    assert NO_FILE == watch.fileno()


def test_a_standby_is_looked_at(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can listen there: what changed is found by comparing, now and then; a selector has nothing to wait for."""
    scribe = Scribe(store)

    def refuse(link: Link, text: str) -> None:
        raise psycopg.errors.ReadOnlySqlTransaction("cannot execute LISTEN during recovery")

    monkeypatch.setattr(SEAMS["Link.script"], refuse)
    monkeypatch.setattr(SEAMS["watch.DEAF_S"], 0.05)
    watch = store.watch()
    assert NO_FILE == watch.fileno()
    assert not watch.wait(0.2)
    scribe.commit()
    assert {"run-1": 2} == watch.wait(SOON_S).runs
    watch.close()


def test_nobody_is_told_where_nobody_watches(store: PostgresStore) -> None:
    """A notification makes all who send one wait for each other. Who only listens hears what watchers are told."""
    scribe = Scribe(store)
    listener = Link(store.place)
    listener.script(f"LISTEN {store.place.quoted}")
    scribe.commit({("variable", "n"): 1})
    store.read(
        lambda view: view.run_row(scribe.run)
    )  # on the same connection: nothing is on its way behind it
    watch = store.watch()
    scribe.commit({("variable", "n"): 2})
    told = [text.split() for text in listener.heard(SOON_S)]
    watch.close()
    listener.close()
    assert [["3", scribe.run_id]] == told
