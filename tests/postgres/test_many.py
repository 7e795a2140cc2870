"""Many at once: one run of the same work, commits of different runs side by side, and a dump that is a store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leftoff.engine.continue_run import run_or_start
from leftoff.engine.opening import Opening
from leftoff.errors import LeaseHeld
from leftoff.host import Process
from leftoff.store.base import Tx
from leftoff.store.postgres import PostgresStore
from leftoff.store.store_copy import table_rows
from tests.contract.rules.transactions import in_threads
from tests.contract.scribe import AT, Scribe
from tests.postgres.server import Server
from tests.postgres.test_copy import everything, fill
from tests.seams import SEAMS


def test_many_start_the_same_work(url: str, tmp_path: Path) -> None:
    """Of many machines that go on with a workflow, or start it, one drives it; the others are told who. One run is
    made, whoever is first."""
    outcomes: list[Any] = []
    stores = [PostgresStore(url, str(tmp_path)) for _ in range(24)]
    stores[0].write(lambda tx: None)

    def go(i: int) -> None:
        driver = (Process(f"machine-{i}/boot/1", 100 + i, "1"), f"driver {i}")
        try:
            opened = run_or_start(stores[i], Opening("nightly", steps=["a"]), AT, driver, scrubber=None)
            assert opened is not None
            outcomes.append((opened[0].run_id, opened[1]))
        except LeaseHeld:
            outcomes.append(None)

    in_threads(go, range(len(stores)))
    runs = stores[0].read(lambda view: view.list_runs({}))
    assert 1 == len(runs)
    assert [(runs[0].run_id, 1)] == [each for each in outcomes if each is not None]
    assert [] == stores[0].check()["problems"]
    for store in stores:
        store.close()


def test_two_make_the_store_at_once(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had to wait finds it made."""
    first, second = (PostgresStore(url, str(tmp_path)) for _ in range(2))
    other = threading.Thread(target=lambda: second.write(lambda tx: None))
    real = PostgresStore._apply
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    def apply(*given: Any) -> None:
        if not other.is_alive():
            other.start()
            with psycopg.connect(server.url(), autocommit=True) as conn:
                while not conn.execute(waiting).fetchone():
                    assert other.is_alive()
        real(*given)

    monkeypatch.setattr(SEAMS["PostgresStore._apply"], apply)
    first.write(lambda tx: None)
    other.join()
    assert [True, True] == [store._there for store in (first, second)]
    for store in (first, second):
        store.close()


def test_a_store_that_does_not_look_again_has_twins(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where listings are not made again under the lock, two are started: this is what the other test would find."""

    store = PostgresStore(url, str(tmp_path))
    store.write(lambda tx: None)
    monkeypatch.setattr(SEAMS["postgres._compared"], lambda rows: None)
    calls: list[int] = []

    def start(tx: Tx) -> None:
        rows = tx.list_runs({"workflow": "work"})
        calls.append(len(rows))
        if len(calls) == 1:
            twin = PostgresStore(url, str(tmp_path))
            Scribe(twin, "twin")
            twin.close()
        if not rows:
            tx.hide(
                tx.add_run("run-1", AT, workflow="work", branch="main", status="running"), "run-1 removed"
            )

    store.write(start)
    assert [0] == calls
    assert 2 == len(store.read(lambda view: table_rows(view, "run", None, 10_000)))
    store.sweep()
    store.close()


def test_different_runs_do_not_wait_for_each_other(url: str, tmp_path: Path) -> None:
    """While one commit is held up, all others go through: no row, table or lock is shared by all."""
    stores = [PostgresStore(url, str(tmp_path)) for _ in range(4)]
    scribes = [Scribe(store, f"run-{i}") for i, store in enumerate(stores)]
    plan = scribes[0].plan({("variable", "large"): "x" * 5000}, seal="manual")
    done = threading.Event()

    def held_up(tx: Tx) -> None:
        plan.write(tx, scribes[0].run)
        tx.record(scribes[0].run, "variable", "none of it")  # all of it is sent, and not committed
        assert done.wait(60)

    waiting = threading.Thread(target=lambda: stores[0].write(held_up))
    waiting.start()
    try:
        for number in range(5):
            for scribe in scribes[1:]:
                scribe.commit({("variable", "large"): ["y" * 5000, number]}, seal="manual")
        assert waiting.is_alive()
    finally:
        done.set()
        waiting.join()
    scribes[0].adopt(plan)
    for scribe in scribes:
        scribe.verify()
    for store in stores:
        store.close()


def test_a_dump_that_is_restored(server: Server, url: str, name: str, tmp_path: Path) -> None:
    """`pg_dump` of one project, restored elsewhere, is the same store, and work goes on in it."""
    store = PostgresStore(url, str(tmp_path))
    fill(store)
    archived = Scribe(store, "archived").run
    store.write(lambda tx: tx.archive(archived))
    where = [f"--host={server.folder}", "--username=leftoff"]
    dump = server.folder / f"{name}.dump"
    server.run("pg_dump", *where, f"--schema=leftoff_{name}", "--format=custom", f"--file={dump}", "postgres")
    database = f"restored_{name.replace('-', '_')}"
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {database}".encode())
        try:
            server.run("pg_restore", *where, f"--dbname={database}", str(dump))
            restored = PostgresStore(url.replace("/postgres?", f"/{database}?"), str(tmp_path))
            assert everything(store) == everything(restored)
            assert [archived] == [row.run for row in restored.read(lambda view: view.archived())]
            assert [] == restored.check()["problems"]
            Scribe(restored, "later").verify()
            restored.close()
        finally:
            conn.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())
            dump.unlink()
    store.close()
