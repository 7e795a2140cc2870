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
LOG_HEADER, LOG_FRAME = 32, 24  # bytes before the first frame of the log, and before the page in each
LOG_STEP = LOG_FRAME + PAGE_SIZE
INDEX_HEAD = (
    100  # bytes of the log's index: its header twice, and how many frames are in the database already
)
NOTE = "-note"  # behind the database's name: the file that says what the index knew of a damaged log

_loaded = False
_lock = allocate_lock()
opening = allocate_lock()  # held while the index is looked at, so that nobody's locks on it are dropped


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


# -- the log, before anything is read from it


def is_open(path: str) -> bool:
    """Whether a connection of this process is on that database; one that is busy in another thread does not say."""
    for db in apsw.connections():
        try:
            if db.filename == path:
                return True
        except apsw.ThreadingViolationError:
            return True
    return False


def index_head(path: str) -> tuple[bytes, float]:
    """The start of the log's index as whoever was here last left it, and when; SQLite builds it anew for the first
    who comes. A process that closes any descriptor of that file loses its locks on it: only while it has none."""
    try:
        fd = os.open(path + "-shm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b"", 0.0
    try:
        return os.pread(fd, INDEX_HEAD, 0), os.fstat(fd).st_mtime
    finally:
        os.close(fd)


def known_frames(head: bytes) -> int:
    """How many frames the index knows as committed and not as copied back into the database."""
    if len(head) < INDEX_HEAD or head[:48] != head[48:96]:
        return 0
    known, copied = (int.from_bytes(head[at : at + 4], sys.byteorder) for at in (16, 96))
    return known if copied < known else 0


def may_hide(db: apsw.Connection, path: str, before: bytes) -> bool:
    """Whether the log may hold more than SQLite reads of it: it stops at the first bad frame without a word.

    Looked at: what the index knew, and of each frame behind that stop whether it is of this life of the log. Nothing is
    summed up, so this is cheap, and not the last word.
    """
    read = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
    if known_frames(before) > read or os.path.exists(path + NOTE):
        return True
    try:
        fd = os.open(path + "-wal", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        size, salts = os.fstat(fd).st_size, os.pread(fd, 8, 16)
        if read <= 0:
            return size > LOG_HEADER
        pread, behind = os.pread, range(LOG_HEADER + read * LOG_STEP + 8, size, LOG_STEP)
        return any([_near(pread(fd, 8, at), salts) for at in behind])
    finally:
        os.close(fd)


def _near(salts: bytes, ours: bytes) -> bool:
    """Whether a frame's salts are those of the log's header, but for a byte that may be wrong."""
    return salts[:4] == ours[:4] or salts[4:] == ours[4:]
