"""Making an embedded store, and bringing the schema of an old one up to date."""

from __future__ import annotations

import os

import apsw

from leftoff import files, log
from leftoff.store.facts import first_facts
from leftoff.store.sqlite import connection, migrate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.sqlite.store import SqliteStore


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
    log.debug("makes the store %s", store.folder)
    try:
        db.execute("BEGIN IMMEDIATE")
        migrate.migrate(db, store.path, first_facts(store.clock))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
