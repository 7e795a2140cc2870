"""A store of an older schema: told by its number, brought up to date by one verb, and then like a new one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from leftoff.engine.write import lease as leases
from leftoff.errors import Conflict, Unsupported
from leftoff.host import Process
from leftoff.store.postgres import migrate
from leftoff.store.postgres.queries import read
from leftoff.store.postgres.store import PostgresStore
from tests.cli.command import Called, call
from tests.contract.scribe import AT, Scribe
from tests.postgres.conftest import drop
from tests.postgres.server import Server

COLUMNS = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = $1"
BACK_TO_THE_FIRST = [
    "ALTER TABLE run DROP COLUMN era",
    "ALTER TABLE attempt DROP COLUMN printed",
    "DROP INDEX run_session, run_issue",
    "UPDATE meta SET value = '1' WHERE name IN ('schema', 'min_reader', 'min_writer')",
]
INDEXES = "SELECT tablename, indexname FROM pg_indexes WHERE schemaname = $1"


def layout(store: PostgresStore) -> list[set[tuple[object, ...]]]:
    asked = [(COLUMNS, (store.place.schema,)), (INDEXES, (store.place.schema,))]
    return [{*map(tuple, rows)} for rows in store.on_link(lambda link: link.ask(asked))]


def make_old(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first leftoff that knew servers made it."""
    with monkeypatch.context() as old:
        old.setattr(migrate, "MIGRATIONS", migrate.MIGRATIONS[:1])
        old.setattr(migrate, "SCHEMA", 1)
        store.migrate()


@pytest.mark.parametrize("there", [0, 4])
def test_an_older_schema(
    url: str, name: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int
) -> None:
    """Nothing is written before it is brought up to date; then its tables are those of a store that was just made.
    What has some of it already, as versions between had, gets the rest."""
    store = PostgresStore(url, str(tmp_path / "one"))
    fresh = PostgresStore(server.url(f"{name}-fresh"), str(tmp_path / "two"))
    make_old(store, monkeypatch)
    store.on_link(lambda link: link.script(migrate.statements(read(migrate.MIGRATIONS[1]))[:there]))
    with pytest.raises(Unsupported) as caught:
        Scribe(store)
    assert "leftoff store migrate" in str(caught.value.hint)
    before = layout(store)
    store.migrate()
    fresh.migrate()
    assert layout(fresh) == layout(store) != before
    scribe = Scribe(store)
    scribe.commit({("note", "n"): 1})
    scribe.verify()
    assert [] == store.check()["problems"]
    for made in (store, fresh):
        made.close()
    drop(server, f"{name}-fresh")


def test_not_while_somebody_drives(url: str, tmp_path: Path) -> None:
    """A run that another machine drives is waited for: nothing is changed. One that is silent for long is not."""
    store = PostgresStore(url, str(tmp_path))
    scribe = Scribe(store)
    far = Process("elsewhere/1/2", 7, "1")
    store.write(lambda tx: leases.take(tx, scribe.run, "run-1", (far, "somebody"), AT))
    now = layout(store)
    store.on_link(lambda link: link.script(BACK_TO_THE_FIRST))
    with pytest.raises(Conflict, match="driven by somebody"):
        store.migrate()
    assert now != layout(store)
    store.on_link(lambda link: link.script(["UPDATE lease SET heard = heard - interval '11 min'"]))
    store.migrate()
    assert now == layout(store)
    scribe.verify()
    store.close()


def test_the_verb(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs a newer schema names the verb that brings it."""
    store = PostgresStore(url, str(tmp_path / "one"))
    make_old(store, monkeypatch)
    store.close()

    def leftoff(*words: str) -> Called:
        return call("--store", url, *words, cwd=tmp_path)

    for words in (("start", "w"), ("ls",)):
        refused = leftoff(*words)
        assert 4 == refused.code and "leftoff store migrate" in refused.err, refused
    assert 1 == leftoff("store", "info", "--json").json["schema"]
    assert 0 == leftoff("store", "migrate").code
    assert 2 == leftoff("store", "info", "--json").json["schema"]
    assert 0 == leftoff("start", "w").code


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
