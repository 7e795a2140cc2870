"""Opening a database file the one right way: page checksums, WAL, a sync at every commit.

The checksum VFS must be loaded by path on a throw-away connection (importing apsw's helper costs more than the rest
of the start), and loading it makes it the default for the whole process, which is undone at once. A store that was
created with checksums is never written without them.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock

import apsw

from leftoff.errors import Corrupt, StoreUnavailable

VFS = "cksmvfs"
PAGE_SIZE = 4096
RESERVE = 8  # bytes at the end of each page, where the checksum lives
BUSY_MS = 10_000

_loaded = False
_lock = allocate_lock()


def load_checksums() -> None:
    """Make the checksum VFS known to SQLite, once per process."""
    global _loaded
    with _lock:
        if _loaded:
            return
        folder = os.path.join(os.path.dirname(apsw.__file__), "sqlite_extra_binaries")
        suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
        library = os.path.join(folder, "cksumvfs" + suffix)
        usual = apsw.vfs_names()[0] if apsw.vfs_names() else "unix"
        loader = apsw.Connection(":memory:")
        try:
            loader.enable_load_extension(True)
            loader.load_extension(library)
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(
                f"apsw's page checksums could not be loaded from {library}: {error}",
                hint="Install apsw from its wheel: pip install --force-reinstall apsw",
            ) from error
        finally:
            apsw.set_default_vfs(usual)
            loader.close()
        _loaded = True


def pragma(db: apsw.Connection, text: str) -> object:
    """Run a pragma to its end and give back what it says."""
    row = db.execute(f"PRAGMA {text}").fetchone()
    return row[0] if row else None


def open_file(path: str, *, read_only: bool = False) -> apsw.Connection:
    """A connection to an existing file (it may be empty)."""
    load_checksums()
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    db = apsw.Connection(path, flags=flags, vfs=VFS, statementcachesize=200)
    db.set_busy_timeout(BUSY_MS)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return db


def prepare(db: apsw.Connection, where: str) -> apsw.Connection:
    """What every connection to an initialised store needs, verified."""
    if str(pragma(db, "checksum_verification")) != "1":
        db.close()
        raise Corrupt(
            f"The header of {where} is damaged: it does not say that pages have checksums.", where=where
        )
    db.wal_autocheckpoint(0)
    pragma(db, f"synchronous={SYNCHRONOUS}")
    if sys.platform == "darwin":
        pragma(db, "fullfsync=1")
        pragma(db, "checkpoint_fullfsync=1")
    if pragma(db, "synchronous") != SYNCHRONOUS:
        raise StoreUnavailable(f"{where} cannot be opened durably.")
    return db


SYNCHRONOUS = 2  # FULL: NORMAL lost acknowledged commits in a power-cut test


def initialise(db: apsw.Connection) -> None:
    """Settings that are fixed when the first page is written."""
    db.reserve_bytes(None, RESERVE)
    pragma(db, f"page_size={PAGE_SIZE}")
    pragma(db, "auto_vacuum=2")
    if pragma(db, "journal_mode=wal") != "wal":
        raise StoreUnavailable("SQLite cannot use its write-ahead log here.", hint="Use a local disk.")
