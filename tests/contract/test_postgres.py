"""The PostgreSQL store keeps the contract, on a real server."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from leftoff.store.base import SqlStore
from leftoff.store.postgres import PostgresStore
from leftoff.store.sqlite import SqliteStore
from leftoff.testing import FaultyStore
from tests.contract.rules import StoreContract
from tests.contract.rules.base import Rules
from tests.postgres.conftest import drop
from tests.postgres.conftest import server as server
from tests.postgres.server import Server

_numbers = itertools.count(1)
_TABLES = "meta run version alias value blob upload piece record past lease attempt".split()


class OnAServer(Rules):
    """How a store on the tests' server is made, measured and damaged."""

    @pytest.fixture(autouse=True)
    def _projects(self, server: Server) -> Iterator[None]:
        self.server, self.made = server, list[str]()
        yield
        for project in self.made:
            drop(server, project)

    def make_store(self, folder: Path) -> SqlStore:
        self.made.append(f"c{os.getpid()}-{next(_numbers)}")
        return PostgresStore(self.server.url(self.made[-1]), str(folder / "local"))

    def reopen(self, store: SqlStore) -> SqlStore:
        found = inner(store)
        return PostgresStore(found.location, os.path.dirname(found.folder))

    def open_backup(self, folder: Path) -> SqlStore:
        return SqliteStore(str(folder))

    def size(self, store: SqlStore) -> int:
        """What the rows take. That the server gives the space of dropped ones back is for its vacuum, which waits for
        whoever may still see them: for other tests, too."""
        each = " + ".join(f"(SELECT coalesce(sum(28 + pg_column_size(t)), 0) FROM {t} t)" for t in _TABLES)
        with self._sql(store) as conn:
            found = conn.execute(f"SELECT ({each})::bigint".encode()).fetchone()
        assert found is not None
        return int(found[0])

    def damage_blob(self, store: SqlStore, hash: bytes) -> Callable[[], None]:
        where = "WHERE (upload, number) = (SELECT p.upload, max(p.number) / 2 FROM piece p JOIN blob b USING (upload) "
        where += "WHERE b.hash = %s GROUP BY p.upload)"
        bit = "octet_length(data) / 2 * 8"
        flip = f"UPDATE piece SET data = set_bit(data, {bit}, 1 - get_bit(data, {bit})) {where}"

        def change() -> None:
            with self._sql(store) as conn:
                conn.execute(flip.encode(), (hash,))

        change()
        return change

    def age(self, store: SqlStore) -> None:
        with self._sql(store) as conn:
            conn.execute("UPDATE blob SET touched = 'epoch'")
            conn.execute("UPDATE upload SET begun = 'epoch'")

    def let_pass(self, store: SqlStore, seconds: float) -> None:
        with self._sql(store) as conn:
            conn.execute("UPDATE blob SET touched = touched - make_interval(secs => %s)", (seconds,))
            conn.execute("UPDATE upload SET begun = begun - make_interval(secs => %s)", (seconds,))

    def _sql(self, store: SqlStore) -> psycopg.Connection:
        place = inner(store).place
        return psycopg.connect(place.conninfo, options=f"-c search_path={place.quoted}", autocommit=True)


class TestPostgresStore(OnAServer, StoreContract):
    """Every obligation of a store, on PostgreSQL."""


def inner(store: SqlStore) -> PostgresStore:
    while isinstance(store, FaultyStore):
        store = store.store
    assert isinstance(store, PostgresStore)
    return store
