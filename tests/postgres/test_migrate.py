"""A store of an older schema is refused by its number, and migrated by one verb."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from leftoff.errors import Unsupported
from leftoff.store import postgres
from leftoff.store.base import read_sql
from leftoff.store.postgres import PostgresStore
from tests.contract.scribe import Scribe


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What gives this leftoff a second schema, once a test made a store of the first."""

    def read(name: str) -> str:
        return usual(name) if name != "second.sql" else "ALTER TABLE run ADD COLUMN mood text"

    usual = read_sql
    monkeypatch.setattr("leftoff.store.postgres.read_sql", read)
    return monkeypatch


def later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(postgres, "SCRIPTS", ["schema_postgres.sql", "second.sql"])
    patch.setattr(postgres, "SCHEMA", 2)


def schema_of(store: PostgresStore) -> object:
    return store.about()["schema"]


@pytest.mark.damages_store
def test_an_older_schema(url: str, tmp_path: Path, second: pytest.MonkeyPatch) -> None:
    """Nothing is written before it is migrated; then all rows are there, and an older leftoff is refused."""
    store = PostgresStore(url, str(tmp_path / "one"))
    scribe = Scribe(store)
    with second.context() as patch:
        later(patch)
        late = PostgresStore(url, str(tmp_path / "two"))
        with pytest.raises(Unsupported) as caught:
            late.write(lambda tx: tx.put_fact("x", "y"))
        assert "leftoff store migrate" in str(caught.value.hint)
        assert 1 == schema_of(store)
        late.migrate()
        assert 2 == schema_of(late)
        scribe.verify(late)
        late.close()
    early = PostgresStore(url, str(tmp_path / "three"))
    with pytest.raises(Unsupported, match="has schema 2"):
        early.read(lambda view: view.list_runs({}))
    early.close()
    store.close()


def test_who_makes_it_is_waited_for(url: str, tmp_path: Path) -> None:
    """Making a store is no work on a run: also who has no patience with others there waits until it is done."""
    store = PostgresStore(url, str(tmp_path))
    store.patience = 0.0
    with psycopg.connect(url.partition("&project")[0]) as other:
        waiting = "SELECT 1 FROM pg_locks WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))"
        other.execute(lock, (store.place.quoted,))
        with ThreadPoolExecutor() as pool:
            made = pool.submit(Scribe, store)
            while not made.done() and not other.execute(waiting).fetchall():
                time.sleep(0.05)
            time.sleep(0.05)  # longer than who has no patience waits
            other.commit()
            made.result()
    assert ["run-1"] == [row.run_id for row in store.read(lambda view: view.list_runs({}))]
    store.close()
