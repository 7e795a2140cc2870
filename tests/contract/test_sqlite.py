"""The SQLite store keeps the contract, bare and inside a wrapper that never fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leftoff.store.base import SqlStore
from leftoff.store.sqlite import SqliteStore
from leftoff.testing import FaultyStore
from tests.contract.rules import StoreContract


class TestSqliteStore(StoreContract):
    """Every obligation of a store, on SQLite."""

    def make_store(self, folder: Path) -> SqlStore:
        return SqliteStore(str(folder / ".leftoff"))

    def reopen(self, store: SqlStore) -> SqlStore:
        return SqliteStore(store.name)

    def open_backup(self, folder: Path) -> SqlStore:
        return SqliteStore(str(folder))

    def size(self, store: SqlStore) -> int:
        inner(store).truncate()
        return sum(path.stat().st_size for path in Path(store.name).rglob("*") if path.is_file())

    def damage_blob(self, store: SqlStore, hash: bytes) -> Callable[[], None]:
        path = Path(inner(store).blobs.path(hash))
        before = path.read_bytes()
        middle = len(before) // 2
        path.write_bytes(before[:middle] + bytes([before[middle] ^ 0x10]) + before[middle + 1 :])

        def undo() -> None:
            path.write_bytes(before)

        return undo

    def age(self, store: SqlStore) -> None:
        self.let_pass(store, 1e9)

    def let_pass(self, store: SqlStore, seconds: float) -> None:
        for part in ("blobs", "trash", "tmp"):
            for path in Path(store.name, part).rglob("*"):
                if path.is_file():
                    then = path.stat().st_mtime - seconds
                    os.utime(path, (then, then))


@pytest.mark.crash_full
class TestWrappedStore(TestSqliteStore):
    """A store around a store, without faults, keeps every obligation that the inner one does."""

    def make_store(self, folder: Path) -> SqlStore:
        return FaultyStore(super().make_store(folder))

    def reopen(self, store: SqlStore) -> SqlStore:
        return FaultyStore(super().reopen(store))


def inner(store: SqlStore) -> SqliteStore:
    while isinstance(store, FaultyStore):
        store = store.store
    assert isinstance(store, SqliteStore)
    return store
