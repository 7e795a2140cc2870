"""Back up a PostgreSQL store into a folder store, which needs no server, while others write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leftoff.store.sqlite.store import SqliteStore
from leftoff.store.transfer import backup_folder, copy_store

if TYPE_CHECKING:
    from leftoff.store.postgres.store import PostgresStore


def backup_postgres(store: PostgresStore, folder: str) -> None:
    """Copy one snapshot of the store into a new folder."""
    with backup_folder(store, folder) as part:
        target = SqliteStore(part, store.clock)
        try:
            copy_store(store, target, others_write=True)
        finally:
            target.close()
