"""A copy of a store on a server into a folder, while others write: an embedded store, which needs no server.

The server's own way (``pg_dump``) is in docs/postgres.md.
"""

from __future__ import annotations

import os
import shutil

from leftoff.errors import Invalid, NotFound
from leftoff.files import sync_folder
from leftoff.store.sqlite.store import SqliteStore
from leftoff.store.transfer import copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.postgres.store import PostgresStore


def backup(store: PostgresStore, folder: str) -> None:
    """Made beside it and renamed last: a folder with a store in it is a complete backup."""
    if not store.exists():
        raise NotFound(f"There is no store at {store.name}.", hint="There is nothing to back up yet.")
    if os.path.isdir(folder) and os.listdir(folder):
        raise Invalid(f"{folder} is not empty; a backup goes into a new folder.")
    part = f"{os.path.abspath(folder)}.{os.urandom(6).hex()}"  # nobody's name: it is deleted where this fails
    target = SqliteStore(part, store.clock)
    try:
        copy(store, target, moves=True)
        target.close()
        if os.path.isdir(folder):
            os.rmdir(folder)
        os.rename(part, folder)
    except BaseException:
        target.close()
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_folder(os.path.dirname(os.path.abspath(folder)))
