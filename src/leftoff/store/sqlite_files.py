"""The files of an embedded store: making them, the schema's migration, a backup."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from leftoff import files
from leftoff.errors import Corrupt
from leftoff.host import debug
from leftoff.store import sqlite_connection as connection
from leftoff.store.base import ALL, read_sql
from leftoff.store.blobs import Blobs
from leftoff.store.rows import BlobRow, first_facts
from leftoff.store.sqlite_connection import Q, apsw, check_schema
from leftoff.store.store_copy import backup_folder

if TYPE_CHECKING:
    from leftoff.store.sqlite import SqliteStore


def remains_of(path: str, size: int | None, blobs: Blobs) -> str:
    """What says that the database at ``path``, which is empty (``size``) or gone, was there once; nothing where it was
    not."""
    log = path + "-wal"
    if os.path.exists(log) and os.path.getsize(log):
        return f"is empty or gone, but its log {log} is not: the database was cut off"
    if size == 0:
        return "is empty: the database was cut off"
    return "is gone, but its blobs are there" if next(blobs.names(), None) is not None else ""


def cut_off(path: str, remains: str) -> Corrupt:
    """The error for a database of which only that remains: it must not be written over."""
    return Corrupt(
        f"{path} {remains}.",
        where=path,
        hint="Let `leftoff fsck --repair` keep what can be proved; or put the folder aside, and a backup in its place.",
    )


# -- making a store


def make(store: SqliteStore) -> None:
    """A whole store under another name, renamed last: nobody ever sees half of one."""
    store.turn.mark(0)
    path = store.path
    part = path + ".new"
    for old in (part, part + "-wal", part + "-shm", path + "-wal", path + "-shm"):
        if os.path.exists(old):
            os.unlink(old)
    # Private from its first byte: SQLite gives the WAL the mode of the database.
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    db = connection.open_file(part)
    try:
        connection.initialise(db)
        bring_up_to_date(store, connection.prepare(db, part))
        store_id = str(db.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchall()[0][0])
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()
    os.unlink(part + "-wal")
    os.unlink(part + "-shm")
    files.write_private(os.path.join(store.folder, files.ID_FILE), [f"{store_id}\n".encode()])
    if store.created is not None:
        store.created(store_id)
    os.rename(part, path)
    files.mark_done(os.path.join(store.folder, files.SWEPT), store.clock.now())
    files.sync_folder(store.folder)


def bring_up_to_date(store: SqliteStore, db: apsw.Connection) -> None:
    """All migrations that the database has not had yet, in one transaction."""
    debug("makes the store %s", store.folder)
    try:
        db.execute("BEGIN IMMEDIATE")
        migrate(db, store.path, first_facts(store.clock))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def migrate(db: apsw.Connection, where: str, facts: dict[str, str]) -> None:
    """Bring the schema up to date, inside the caller's write transaction."""
    empty = db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
    schema = 0 if empty else check_schema(db, where)
    if schema >= connection.SCHEMA:
        return
    for name in connection.SCRIPTS[schema:]:
        for _ in db.execute(read_sql(name)):  # apsw runs statements only as their rows are asked for
            pass
    known = {**facts} if schema == 0 else {"written_by": facts["written_by"]}
    for name, value in {**known, "schema": str(connection.SCHEMA)}.items():
        db.execute(Q.put_meta, (name, value))
    db.execute(f"PRAGMA user_version = {connection.SCHEMA}")


# -- backup


def backup_sqlite(store: SqliteStore, folder: str) -> None:
    """Copy one snapshot of the store into a new folder. No writer waits for it."""
    with backup_folder(store, folder) as part:
        files.make_folder(part)
        path = os.path.join(part, os.path.basename(store.path))
        _copy_database(store, path)
        blobs = Blobs(part)
        for row in switch_log_on(path):
            _copy_blob(store.blobs, blobs, row)
        if os.path.isfile(known := os.path.join(store.folder, files.ID_FILE)):
            with open(known, "rb") as file:
                files.write_private(os.path.join(part, files.ID_FILE), [file.read()])
        files.sync_folder(part)


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
        rows = [BlobRow(*columns) for columns in connection.prepare(db, path).execute(Q.blobs, (b"", ALL))]
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()
    for left in (path + "-wal", path + "-shm"):
        os.unlink(left)
    files.sync_file(path)
    return rows


def _copy_blob(source: Blobs, target: Blobs, row: BlobRow) -> None:
    for _ in source.load(row):
        pass  # raises if the blob is damaged
    path = target.path(row.hash)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    there = source.path(row.hash)
    shutil.copyfile(there if os.path.exists(there) else source.trash_path(row.hash), path)
    os.chmod(path, 0o600)
    files.sync_file(path)
    files.sync_folder(os.path.dirname(path))
