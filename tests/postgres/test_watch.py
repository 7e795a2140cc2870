"""Who watches a store on a server hears of commits, and asks nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from leftoff.errors import StoreUnavailable
from leftoff.store.notifications import News
from leftoff.store.postgres import PostgresStore
from tests.contract.scribe import Scribe
from tests.postgres.proxy import Proxy
from tests.postgres.server import Server

SOON_S = 60.0  # for what will be heard of: only a failure waits so long


@pytest.fixture
def store(proxy: Proxy, name: str, tmp_path: Path) -> Iterator[PostgresStore]:
    """A store behind the proxy."""
    made = PostgresStore(proxy.url(name), str(tmp_path))
    yield made
    made.close()


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
