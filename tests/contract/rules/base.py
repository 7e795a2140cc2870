"""What a store's own test class must provide, and what every rule may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leftoff.store.base import SqlStore


class Rules:
    """Subclass ``StoreContract`` and give these; pytest finds the tests."""

    def make_store(self, folder: Path) -> SqlStore:
        """A store that does not exist yet, in or for that folder."""
        raise NotImplementedError

    def reopen(self, store: SqlStore) -> SqlStore:
        """Another handle to the same store, as another process would have."""
        raise NotImplementedError

    def open_backup(self, folder: Path) -> SqlStore:
        """The store that ``backup(folder)`` made."""
        raise NotImplementedError

    def size(self, store: SqlStore) -> int:
        """How many bytes it takes on disk, once it has come to rest."""
        raise NotImplementedError

    def damage_blob(self, store: SqlStore, hash: bytes) -> Callable[[], None]:
        """Change a byte of a blob where it lies. What puts it right again."""
        raise NotImplementedError

    def age(self, store: SqlStore) -> None:
        """Let the grace of everything pass that was thrown away."""
        raise NotImplementedError

    def let_pass(self, store: SqlStore, seconds: float) -> None:
        """Whatever blobs there are were saved, or thrown away, so much earlier."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqlStore]:
        """A store of its own for each test, which ends with a clean check."""
        store = self.make_store(tmp_path)
        yield store
        assert [] == store.check()["problems"]
        store.close()

    @pytest.fixture
    def other(self, store: SqlStore) -> Iterator[SqlStore]:
        """A second handle to the same store."""
        handle = self.reopen(store)
        yield handle
        handle.close()
