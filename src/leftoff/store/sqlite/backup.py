"""Back up a SQLite store while others write to it: the database, then the blobs that it refers to."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import apsw

from leftoff.files import ID_FILE, make_folder, sync_file, sync_folder
from leftoff.store.blobs import Blobs
from leftoff.store.rows import BlobRow
from leftoff.store.sqlite import connection
from leftoff.store.sqlite.location import refuse_network
from leftoff.store.sqlite.queries import Q
from leftoff.store.transfer import backup_folder

if TYPE_CHECKING:
    from leftoff.store.sqlite.store import SqliteStore


def backup_sqlite(store: SqliteStore, folder: str) -> None:
    """Copy one snapshot of the store into a new folder. No writer waits for it."""
    with backup_folder(store, folder) as part:
        make_folder(part)
        refuse_network(part)
        path = os.path.join(part, os.path.basename(store.path))
        _copy_database(store, path)
        blobs = Blobs(part)
        for row in switch_log_on(path):
            _copy_blob(store.blobs, blobs, row)
        if os.path.isfile(known := os.path.join(store.folder, ID_FILE)):
            shutil.copyfile(known, os.path.join(part, ID_FILE))
        sync_folder(part)


def _copy_database(store: SqliteStore, path: str) -> None:
    """Copy one snapshot of the database to a new private file.

    ``VACUUM INTO`` would do the same, but it writes pages before the header of the new file says that pages have
    checksums, so that they get none.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    target = connection.open_file(path)
    db = store.take()
    try:
        target.reserve_bytes(None, connection.RESERVE)
        connection.pragma(target, f"page_size={connection.PAGE_SIZE}")
        connection.pragma(target, "user_version=1")  # writes the header
        with target.backup("main", db, "main") as copying:
            copying.step(-1)
    finally:
        store.give(db)
        target.close()


def switch_log_on(path: str) -> list[BlobRow]:
    """Switch on the write-ahead log of a database that was copied; return its blobs."""
    db = connection.open_file(path)
    try:
        connection.initialise(db)
        rows = [BlobRow(*columns) for columns in connection.prepare(db, path).execute(Q.blobs)]
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()
    for log in (path + "-wal", path + "-shm"):
        os.unlink(log)
    sync_file(path)
    return rows


def _copy_blob(source: Blobs, target: Blobs, row: BlobRow) -> None:
    for _ in source.load(row):
        pass  # raises if the blob is damaged
    path = target.path(row.hash)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    there = source.path(row.hash)
    shutil.copyfile(there if os.path.exists(there) else source.trash_path(row.hash), path)
    os.chmod(path, 0o600)
    sync_file(path)
    sync_folder(os.path.dirname(path))
