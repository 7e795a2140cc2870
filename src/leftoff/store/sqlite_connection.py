"""A connection to the SQLite file: page checksums, WAL, a sync at every commit, the schema's number, typed errors.
And the file locks by which processes take turns.

The checksum VFS must be loaded by path on a throw-away connection (importing apsw's helper costs more than the rest
of the start), and loading it makes it the default for the whole process, which is undone at once. A store that was
created with checksums is never written without them.
"""

from __future__ import annotations

import fcntl
import os
import sys
from _thread import allocate_lock
from typing import Any

import apsw as apsw

from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable, Unsupported
from leftoff.files import failure, full, held_by_another, lock_within, read_only
from leftoff.store.base import Queries

Q = Queries("sqlite")
#: the first script makes schema 1, and each later one a schema from the one before it
SCRIPTS: list[str] = ["schema_sqlite.sql"]
SCHEMA = len(SCRIPTS)

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
    """A connection to an existing file (it may be empty). ``read_only``: the path is a URI."""
    load_checksums()
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI if read_only else apsw.SQLITE_OPEN_READWRITE
    try:
        db = apsw.Connection(path, flags=flags, vfs=VFS, statementcachesize=200)
    except UnicodeEncodeError:
        raise StoreUnavailable(
            f"The name of a folder in {path!a} is not UTF-8, as a store's must be.",
            hint="Rename the folder, or keep the store elsewhere: --store DIR, LEFTOFF_STORE.",
        ) from None
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


# -- a folder that nothing can be written to


def open_immutable(path: str) -> apsw.Connection:
    """Open a database on a read-only disk, where SQLite cannot make the index of a log, for one read.

    Raise ``StoreUnavailable`` if there is a log: it has newer commits than the database.
    """
    from urllib.parse import quote

    if has_log(path):
        raise StoreUnavailable(
            f"{path} cannot be read where it is: its log has no index, and none can be made there.",
            hint="Copy the folder to where you may write, and name the copy: --store FOLDER.",
        )
    return open_file(f"file:{quote(os.fsencode(path))}?immutable=1", read_only=True)


def refuse_written(path: str) -> None:
    """Raise if another process wrote meanwhile: a database that was read as immutable may have been read half old."""
    if has_log(path):
        raise StoreUnavailable(
            f"{path} was written to while it was read.", hint="Nothing is damaged. Read again."
        )


def has_log(path: str) -> bool:
    try:
        return os.stat(path + "-wal").st_size > 0
    except FileNotFoundError:
        return False


# -- the schema


def version(db: apsw.Connection) -> int:
    """Return the number of the schema, which is in the header of the file."""
    row: Any = db.execute("PRAGMA user_version").fetchone()
    return int(row[0])


def check_schema(db: apsw.Connection, where: str, schema: int | None = None) -> int:
    """Return the schema of the store; raise ``Unsupported`` if it is newer than ours."""
    schema = version(db) if schema is None else schema
    if schema == 0:
        raise Corrupt(f"{where} is a database, but not one of leftoff's.", where=where, hint="Move it away.")
    if schema > SCHEMA:
        rows: Any = db.execute(Q.meta).fetchall()
        raise Unsupported(
            f"{where} has schema {schema}, made by leftoff {dict(rows).get('written_by', 'of a later version')}; "
            f"this leftoff knows schema {SCHEMA}.",
        )
    return schema


# -- errors

IOERR_CHECKSUM = 8202  # SQLITE_IOERR_DATA: a page whose checksum is off


def translate(error: BaseException, where: str) -> LeftoffError:
    """The typed error for a failure of SQLite or of a system call at ``where``."""
    if isinstance(error, LeftoffError):
        return error
    if isinstance(error, apsw.Error):
        return _sqlite(error, where)
    if isinstance(error, OSError):
        return failure(error, where)
    raise error


def _sqlite(error: apsw.Error, where: str) -> LeftoffError:
    extended = getattr(error, "extendedresult", 0)
    if extended == IOERR_CHECKSUM:
        return Corrupt(f"A page of {where} is damaged: its checksum does not match.", where=where)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(f"{where} is damaged, or is not a leftoff store: {error}", where=where)
    if isinstance(error, apsw.FullError):
        return full(where)
    if isinstance(error, apsw.ReadOnlyError):
        return read_only(where)
    if isinstance(error, (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)):
        return StoreUnavailable(
            f"{where} is locked by another program.",
            hint="Close what holds it open (a database browser?), then retry.",
        )
    if isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.PermissionsError, apsw.NoMemError)):
        return StoreUnavailable(f"{where} is out of reach: {error}")
    if isinstance(error, apsw.SQLError) and "no such" in str(error):
        return Unsupported(f"{where} has another layout than this leftoff knows: {error}")
    raise error


# -- whose turn it is
#
# A process may be stopped, or hang, while it has its turn. So waiting has an end, and a process that waited in vain
# reports who has the turn: each writes its name into the file that is locked.


class Presence:
    """Whether anybody else has the store open: all who do share a lock on its folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = -1

    def show(self, patience: float = 0.0) -> None:
        """Say that this process has the store open. Wait for a process that is alone with it, such as a repair."""
        if self._fd < 0:
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not lock_within(self._fd, fcntl.LOCK_SH, patience) and patience:
            self.close()
            raise StoreUnavailable(
                f"The store in {self._folder} is being repaired.", hint="Try again when that has finished."
            )

    def alone(self) -> bool:
        """Whether nobody else has it open, until ``show``."""
        return self._fd >= 0 and lock_within(self._fd, fcntl.LOCK_EX, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


MARK, DIGITS = 1024, 20  # where in its file the number of the newest commit stands, twice, each time so long


class Turn:
    """A process's turn to write: an flock, taken before SQLite's own lock, whose waiting starves. The number that is
    written into its file is not synced: it may be late, never ahead."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def open(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, patience: float) -> None:
        """Wait for it, at most so many seconds; ``StoreUnavailable`` names who has it."""
        if self._fd < 0:
            self.open()
        try:
            if not lock_within(self._fd, fcntl.LOCK_EX, patience):
                raise held_by_another(self._path, self._fd)
        except BaseException:
            self.close()  # a thread may still wait there
            raise

    def mark(self, newest: int) -> None:
        """The number of the newest commit is durable: a log that is lost later is missed by it."""
        try:
            os.pwrite(self._fd, b"%0*d" % (DIGITS, newest) * 2, MARK)
        except OSError:  # a full disk: only a loss is not noticed
            pass

    def marked(self) -> int:
        """The number of the newest commit that is known to have been durable; 0 where none is. It is there twice: where
        the two differ, the file is damaged, and not the store."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = os.pread(fd, 2 * DIGITS, MARK)
            finally:
                os.close(fd)
        except OSError:
            return 0
        return int(found[:DIGITS]) if found.isdigit() and found[:DIGITS] == found[DIGITS:] else 0

    def give(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
