"""Behind a pooler that gives each transaction to another session, a project is the one that is named, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import leftoff
from leftoff.store.postgres import PostgresStore
from tests.cli.command import call
from tests.postgres.pooler import Pooler
from tests.postgres.server import Server

SETTINGS = "SHOW search_path; SHOW lock_timeout; SHOW idle_in_transaction_session_timeout"


@pytest.fixture(params=["ignores", "refuses"])
def pooler(server: Server, request: pytest.FixtureRequest) -> Iterator[Pooler]:
    between = Pooler(server.folder, refuses=request.param == "refuses")
    yield between
    between.close()


def test_projects_stay_apart(pooler: Pooler, server: Server, name: str, url: str, tmp_path: Path) -> None:
    """Sessions that others have used, for other projects, are used as they are, and left so."""
    with leftoff.open(url) as there, psycopg.connect(pooler.url(), autocommit=True) as session:
        there.start("other", run_id="other").pause()
        (fresh,) = pooler.ask(SETTINGS)
        session.execute(f'SET search_path = "leftoff_{name}"')  # as a role that works there has it
        (used,) = pooler.ask(SETTINGS)
        assert used != fresh
        place = pooler.url(f"{name}-2")
        try:
            with leftoff.open(place) as store, store.start("work", run_id="r", steps=["a", "b"]) as run:
                run.variables["n"] = 1
                run.commit()
                assert 0 == call("set", "n=2", "--run", "r", cwd=tmp_path, LEFTOFF_STORE=place).code
                run.variables["m"] = 3
                run.commit()
                assert {"n": 2, "m": 3} == dict(run.variables)
                assert store.fsck().ok
                assert ["r"] == [found.id for found in store.list()]
            assert ["other"] == [found.id for found in there.list()]
        finally:
            server.tell(f'DROP SCHEMA IF EXISTS "leftoff_{name}-2" CASCADE')
        first, *others = pooler.ask(SETTINGS)
        assert first == used
        assert {fresh} >= set(others)


@pytest.mark.parametrize("pooler", ["ignores"], indirect=True)
def test_watching_behind_it(pooler: Pooler, name: str, url: str, tmp_path: Path) -> None:
    """Nobody can listen there: it is looked from time to time."""
    with leftoff.open(url) as there:
        run = there.start("work", run_id="r")
        store = PostgresStore(pooler.url(name), str(tmp_path))
        watch = store.watch()
        run.variables["n"] = 1
        run.commit()
        news = watch.wait(30)
        assert news
        watch.close()
        store.close()
        run.pause()
