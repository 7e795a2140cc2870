"""Schemas: a newer one is refused, and an older one is migrated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from leftoff._version import __version__
from leftoff.errors import Unsupported
from leftoff.store import sqlite_connection as migrate
from leftoff.store.sqlite import SqliteStore
from tests.contract.scribe import Scribe

pytestmark = pytest.mark.damages_store


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


def facts(store: SqliteStore) -> dict[str, str]:
    return dict(store.read(lambda view: view.execute("SELECT name, value FROM meta").fetchall()))  # type: ignore[attr-defined]


def user_version(store: SqliteStore) -> int:
    return int(store.read(lambda view: view.execute("PRAGMA user_version").fetchone()[0]))  # type: ignore[attr-defined]


def add_schema(patch: pytest.MonkeyPatch, folder: Path, sql: str) -> None:
    """Give this leftoff a second schema."""
    (folder / "second.sql").write_text(sql)
    patch.setattr(migrate, "SCRIPTS", [*migrate.SCRIPTS, str(folder / "second.sql")])
    patch.setattr(migrate, "SCHEMA", 2)


SECOND = "CREATE TABLE extra (x TEXT) STRICT;\nALTER TABLE run ADD COLUMN mood TEXT;\n"


def test_new_store_says_what_it_is(store: SqliteStore) -> None:
    """A store knows its schema and who made it. Its script is the only one."""
    store.write(lambda tx: None)
    known = facts(store)
    assert 32 == len(known.pop("store_id"))
    assert known.pop("created_at").isdigit()
    assert {"schema": "1", "created_by": __version__, "written_by": __version__} == known
    assert (1, 1, ["schema_sqlite.sql"]) == (user_version(store), migrate.SCHEMA, migrate.SCRIPTS)


def test_newer_schema_is_refused(store: SqliteStore) -> None:
    """It is refused by its number, for reading and writing, also by a process that had the store open before."""
    scribe = Scribe(store)
    early = SqliteStore(store.folder)
    early.write(lambda tx: None)

    def make_newer(tx) -> None:  # type: ignore[no-untyped-def]
        tx.execute("PRAGMA user_version = 7")
        tx.execute("REPLACE INTO meta (name, value) VALUES ('written_by', '9.9')")

    store.write(make_newer)
    late = SqliteStore(store.folder)
    for use in (
        lambda: late.read(lambda view: view.list_runs({})),
        lambda: late.write(lambda tx: None),
        lambda: early.write(lambda tx: None),
        lambda: scribe.commit({("note", "n"): 1}),
    ):
        with pytest.raises(Unsupported, match=r"schema 7, made by leftoff 9\.9; this leftoff knows schema 1"):
            use()
    early.close()


def test_old_store_is_migrated(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write of a later leftoff runs the missing script and keeps all rows. Reading changes nothing."""
    scribe = Scribe(store)
    store.close()
    add_schema(monkeypatch, tmp_path, SECOND)
    late = SqliteStore(store.folder)
    scribe.verify(late)
    assert 1 == user_version(late)
    late.write(lambda tx: tx.execute("INSERT INTO extra VALUES ('x')"))  # type: ignore[attr-defined]
    scribe.verify(late)
    assert (2, "2") == (user_version(late), facts(late)["schema"])
    late.close()


def test_failed_migration_changes_nothing(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that fails half way is as if it had not begun."""
    Scribe(store)
    store.close()
    with monkeypatch.context() as later:
        add_schema(later, tmp_path, "CREATE TABLE extra (x TEXT) STRICT;\nCREATE TABLE run (x);\n")
        with pytest.raises(apsw.SQLError, match="already exists"):
            SqliteStore(store.folder).write(lambda tx: None)
    assert 1 == user_version(store)
    assert [] == store.read(lambda view: view.execute("PRAGMA table_info(extra)").fetchall())  # type: ignore[attr-defined]
