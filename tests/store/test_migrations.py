"""Schemas: the sum of their migrations, refused when newer, brought up to date when nobody is in the way.

Most tests here leave a store that only a later leftoff knows, hence `damages_store`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from leftoff._version import __version__
from leftoff.errors import Conflict, Unsupported
from leftoff.host import this_process
from leftoff.store.rows import Holder
from leftoff.store.sqlite import migrate
from leftoff.store.sqlite.queries import read
from leftoff.store.sqlite.store import SqliteStore
from leftoff.testing import FakeClock
from tests.contract.scribe import Scribe
from tests.store.processes import child


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


def schema_of(db: apsw.Connection) -> set[tuple[str, str, str]]:
    return set(db.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema"))


def facts(store: SqliteStore) -> dict[str, str]:
    return dict(store.read(lambda view: view.execute("SELECT name, value FROM meta").fetchall()))  # type: ignore[attr-defined]


def user_version(store: SqliteStore) -> int:
    return int(store.read(lambda view: view.execute("PRAGMA user_version").fetchone()[0]))  # type: ignore[attr-defined]


def make_newer(store: SqliteStore, schema: int, **known: str) -> None:
    """What a later leftoff would leave behind. Without facts about it, nobody but it may use it."""

    def work(tx) -> None:  # type: ignore[no-untyped-def]
        tx.execute(f"PRAGMA user_version = {schema}")
        tx.execute("DELETE FROM meta WHERE name LIKE 'min_%'")
        for name, value in {"written_by": "9.9", **known}.items():
            tx.execute("REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))

    store.write(work)


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This leftoff has a second migration, and no older one may write what it made."""
    path = tmp_path / "0002.sql"
    path.write_text(
        "-- The second.\nCREATE TABLE extra (x TEXT) STRICT;\nALTER TABLE run ADD COLUMN mood TEXT;\n"
    )
    monkeypatch.setattr(migrate, "MIGRATIONS", [*migrate.MIGRATIONS, str(path)])
    monkeypatch.setattr(migrate, "SCHEMA", migrate.SCHEMA + 1)
    monkeypatch.setattr(migrate, "COMPATIBLE", {**migrate.COMPATIBLE, migrate.SCHEMA: (1, migrate.SCHEMA)})


# -- what a schema is


def test_schema_is_the_sum_of_its_migrations(store: SqliteStore) -> None:
    """A new store has what the migrations make one after the other, and no more."""
    db = apsw.Connection(":memory:")
    for name in migrate.MIGRATIONS:
        for _ in db.execute(read(name)):
            pass
    store.write(lambda tx: None)
    assert schema_of(db) == store.read(lambda view: schema_of(view.db))  # type: ignore[attr-defined]


def test_every_migration_is_listed() -> None:
    """The list has each file once, in order, and says who may use what it makes."""
    there = (Path(migrate.__file__).parent / "sql" / "migrations").glob("*.sql")
    assert sorted(f"migrations/{path.name}" for path in there) == migrate.MIGRATIONS
    assert [f"migrations/{n:04d}.sql" for n in range(1, migrate.SCHEMA + 1)] == migrate.MIGRATIONS
    assert set(range(1, migrate.SCHEMA + 1)) == migrate.COMPATIBLE.keys()
    assert all(1 <= reader <= writer <= schema for schema, (reader, writer) in migrate.COMPATIBLE.items())


def test_new_store_says_what_it_is(store: SqliteStore) -> None:
    """A store knows its schema, who may read and write it, and who made it."""
    store.write(lambda tx: None)
    reader, writer = migrate.COMPATIBLE[migrate.SCHEMA]
    known = facts(store)
    assert 32 == len(known.pop("store_id"))
    assert known.pop("created_at").isdigit()
    assert {
        "schema": str(migrate.SCHEMA),
        "min_reader": str(reader),
        "min_writer": str(writer),
        "created_by": __version__,
        "written_by": __version__,
    } == known
    assert migrate.SCHEMA == user_version(store)


# -- a later leftoff was here


@pytest.mark.damages_store
@pytest.mark.parametrize("known", [{}, {"min_reader": "7", "min_writer": "7"}])
def test_newer_schema_is_refused(store: SqliteStore, known: dict[str, str]) -> None:
    """A schema of which we may know nothing is refused by its number, for reading and writing."""
    Scribe(store)
    make_newer(store, 7, **known)
    store.close()
    late = SqliteStore(store.folder)
    for use in (lambda: late.read(lambda view: view.list_runs({})), lambda: late.write(lambda tx: None)):
        with pytest.raises(
            Unsupported, match=rf"schema 7, made by leftoff 9\.9; this leftoff knows schema {migrate.SCHEMA}"
        ):
            use()


@pytest.mark.damages_store
def test_newer_schema_that_can_be_read(store: SqliteStore) -> None:
    """A later schema may say that we can still read it; then only writing is refused."""
    scribe = Scribe(store)
    make_newer(store, 7, min_reader=str(migrate.SCHEMA), min_writer="7")
    store.close()
    scribe.verify(SqliteStore(store.folder))
    with pytest.raises(Unsupported, match="schema 7"):
        SqliteStore(store.folder).write(lambda tx: None)


@pytest.mark.damages_store
def test_newer_schema_that_can_be_written(store: SqliteStore) -> None:
    """Or that we can do both: it is used as it is, and not brought down to ours."""
    scribe = Scribe(store)
    make_newer(store, 7, min_reader=str(migrate.SCHEMA), min_writer=str(migrate.SCHEMA))
    store.close()
    scribe.commit({("note", "n"): 1})
    scribe.verify()
    assert 7 == user_version(store)


@pytest.mark.damages_store
def test_schema_that_became_newer_while_we_had_it_open(store: SqliteStore) -> None:
    """It is looked at inside every write transaction: a handle that was there before writes nothing more."""
    scribe = Scribe(store)
    late = SqliteStore(store.folder)
    scribe.store = late
    scribe.commit({("note", "n"): 1})
    make_newer(store, 7, min_reader=str(migrate.SCHEMA), min_writer="7")
    called = []
    for handle in (late, store):
        with pytest.raises(Unsupported, match="schema 7"):
            handle.write(lambda tx: called.append(tx))
    assert [] == called
    scribe.verify()
    late.close()


# -- an earlier leftoff was here


@pytest.mark.damages_store
def test_old_store_is_brought_up_to_date(store: SqliteStore, request: pytest.FixtureRequest) -> None:
    """The first write of a later leftoff runs what is missing, keeps what is there, and says so."""
    scribe = Scribe(store)
    store.close()
    old = facts(store)
    request.getfixturevalue("second")
    late = SqliteStore(store.folder)
    late.write(lambda tx: tx.execute("INSERT INTO extra VALUES ('x')"))  # type: ignore[attr-defined]
    scribe.verify(late)
    assert migrate.SCHEMA == user_version(late)
    expected = {**old, "schema": str(migrate.SCHEMA), "min_reader": "1", "min_writer": str(migrate.SCHEMA)}
    assert expected == facts(late)
    late.close()


def test_reading_does_not_migrate(store: SqliteStore, request: pytest.FixtureRequest) -> None:
    """Whoever only looks changes nothing, the schema least of all."""
    scribe = Scribe(store)
    store.close()
    request.getfixturevalue("second")
    late = SqliteStore(store.folder)
    scribe.verify(late)
    assert migrate.SCHEMA - 1 == user_version(late)
    late.close()


def test_failed_migration_changes_nothing(
    store: SqliteStore, tmp_path: Path, second: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that fails half way is as if it had not begun."""
    wrong = tmp_path / "0003.sql"
    wrong.write_text("CREATE TABLE more (x TEXT) STRICT;\nCREATE TABLE run (x);\n")
    with monkeypatch.context() as before:
        before.setattr(migrate, "SCHEMA", 1)
        Scribe(store)
        store.close()
    with monkeypatch.context() as later:
        later.setattr(migrate, "MIGRATIONS", [*migrate.MIGRATIONS, str(wrong)])
        later.setattr(migrate, "SCHEMA", 3)
        later.setattr(migrate, "COMPATIBLE", {**migrate.COMPATIBLE, 3: (1, 3)})
        with pytest.raises(apsw.SQLError, match="already exists"):
            SqliteStore(store.folder).write(lambda tx: None)
    assert 1 == user_version(store)
    names = {name for _, name, _ in store.read(lambda view: schema_of(view.db))}  # type: ignore[attr-defined]
    assert not {"extra", "more"} & names


DRIVES = """
run = store.write(add("run-9"))
store.write(lambda tx: take(tx, run, "run-9", (this_process(), "old.py"), 1))
say("driving")
hear()
"""


@pytest.mark.damages_store
def test_no_migration_while_somebody_drives(store: SqliteStore, request: pytest.FixtureRequest) -> None:
    """A live process that drives a run does not know the new schema: it is let finish; once it is gone, we go on."""
    scribe = Scribe(store)
    store.close()
    request.getfixturevalue("second")
    with child(DRIVES, store.folder) as driver:
        assert "driving" == driver.hear()
        late = SqliteStore(store.folder)
        with pytest.raises(Conflict, match=rf"run-9 is driven by process {driver.pid} on ") as caught:
            late.write(lambda tx: None)
        assert caught.value.hint
        assert migrate.SCHEMA - 1 == user_version(late)
        scribe.verify(late)
    late.write(lambda tx: None)
    assert migrate.SCHEMA == user_version(late)
    late.close()


@pytest.mark.damages_store
def test_a_session_is_let_finish_too(store: SqliteStore, request: pytest.FixtureRequest) -> None:
    """An agent whose process nobody knows is at work while it gives signs of life; silent, or seen by a clock that was
    far ahead, it is in nobody's way."""
    scribe, now = Scribe(store), store.clock.now()
    store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("session", None, "s-1", "agent", now)))
    store.close()
    request.getfixturevalue("second")
    late = SqliteStore(store.folder)
    with pytest.raises(Conflict, match="run-1 is driven by session s-1"):
        late.write(lambda tx: None)
    late.clock = FakeClock(now - 86_400_000)
    late.write(lambda tx: None)
    assert migrate.SCHEMA == user_version(late)
    late.close()


@pytest.mark.damages_store
def test_our_own_lease_is_not_in_the_way(store: SqliteStore, request: pytest.FixtureRequest) -> None:
    """What this very process drives, it drives with the code that migrates."""
    scribe = Scribe(store)
    store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("process", this_process(), None, "me", 1)))
    store.close()
    request.getfixturevalue("second")
    late = SqliteStore(store.folder)
    late.write(lambda tx: None)
    assert migrate.SCHEMA == user_version(late)
    late.close()
