"""A consistent copy of a store while others write to it."""

from __future__ import annotations

import os
import shutil

import apsw

from leftoff.errors import Invalid, NotFound
from leftoff.files import ID_FILE, make_folder, sync_file, sync_folder
from leftoff.store.blobs import Blobs
from leftoff.store.rows import BlobRow
from leftoff.store.sqlite import connection
from leftoff.store.sqlite.location import refuse_network
from leftoff.store.sqlite.queries import Q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.sqlite.store import SqliteStore


def backup(store: SqliteStore, folder: str) -> None:
    """The database by ``VACUUM INTO`` (one snapshot, no writer waits), then every blob that it refers to.

    The copy is made under another name and renamed last: a folder with a ``store.db`` is a complete backup.
    """
    if not store.exists():
        raise NotFound(f"There is no store at {store.folder}.", hint="There is nothing to back up yet.")
    if os.path.isdir(folder) and os.listdir(folder):
        raise Invalid(f"{folder} is not empty; a backup goes into a new folder.")
    make_folder(folder)
    refuse_network(folder)
    final = os.path.join(folder, os.path.basename(store.path))
    part = final + ".part"
    for row in _copy_rows(store, part):
        _copy_blob(store.blobs, Blobs(folder), row)
    if os.path.isfile(known := os.path.join(store.folder, ID_FILE)):
        shutil.copyfile(known, os.path.join(folder, ID_FILE))
    os.rename(part, final)
    sync_folder(folder)


def _copy_rows(store: SqliteStore, part: str) -> list[BlobRow]:
    """The database at ``part``, durable; the blobs that it knows."""
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    db = store.take()
    try:
        db.execute("VACUUM INTO ?", (part,))
    finally:
        store.give(db)
    copy = connection.open_file(part)
    try:
        connection.initialise(copy)  # VACUUM INTO leaves the write-ahead log switched off
        rows = [BlobRow(*columns) for columns in connection.prepare(copy, part).execute(Q.blobs)]
        copy.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        copy.close()
    for path in (part + "-wal", part + "-shm"):
        os.unlink(path)
    sync_file(part)
    return rows


def _copy_blob(source: Blobs, target: Blobs, row: BlobRow) -> None:
    for _ in source.load(row):
        pass  # checked before it is copied: a backup of damage is none
    path = target.path(row.hash)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    there = source.path(row.hash)
    shutil.copyfile(there if os.path.exists(there) else source.trash_path(row.hash), path)
    os.chmod(path, 0o600)
    sync_file(path)
    sync_folder(os.path.dirname(path))
