"""Opening a database file the one right way: page checksums, WAL, a sync at every commit.

The checksum VFS must be loaded by path on a throw-away connection (importing apsw's helper costs more than the rest
of the start), and loading it makes it the default for the whole process, which is undone at once. A store that was
created with checksums is never written without them.
"""

from __future__ import annotations

import fcntl
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
# Bytes of the log's index: its header twice, and how many frames are in the database already.
INDEX_HEAD = 100
MOUNTS = "/proc/self/mountinfo"
# SQLite's WAL needs shared memory between all who open it; none of these gives that across machines.
NETWORK = frozenset(
    "nfs nfs4 cifs smb smb2 smb3 smbfs 9p afs afpfs ncpfs ncp coda ceph lustre gpfs glusterfs fuse.glusterfs "
    "fuse.sshfs fuse.s3fs fuse.gcsfuse fuse.rclone davfs fuse.davfs2 webdav beegfs orangefs".split()
)
NOTE = "-note"  # behind the database's name: the file that says what the index knew of a damaged log

_loaded = False
_lock = allocate_lock()
opening = allocate_lock()  # held while a first connection is made, or a last one closed


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


def may_be_network() -> bool:
    """Whether the mounts speak of a file system of a network at all: a look that costs little, and mostly is enough."""
    try:
        with open(MOUNTS, "rb", buffering=0) as file:
            return not NETWORK.isdisjoint(file.read().decode("latin-1").split())
    except OSError:
        return True


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


class Log:
    """How long the write-ahead log is, as a writer sees it, and making it short."""

    pages = 0

    def saw(self, db: apsw.Connection, name: str, pages: int) -> int:
        self.pages = pages
        return 0

    def move_home(self, db: apsw.Connection) -> None:
        """Its pages into the database; readers and writers go on meanwhile."""
        try:
            log, done = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:  # someone else is at it, or the disk is full: the log is durable as it is
            return
        if log == done:
            self.pages = 0

    def truncate(self, db: apsw.Connection) -> None:
        """And its space back, if nobody is in the way."""
        try:
            db.set_busy_timeout(0)
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self.pages = 0
        except (apsw.BusyError, apsw.LockedError):
            pass
        finally:
            db.set_busy_timeout(BUSY_MS)


# -- the log, before anything is read from it
#
# SQLite's locks are on the index, and a process that closes any descriptor of a file loses all its locks on it. So the
# one that is opened here stays open as long as a connection of this process is.

# The byte of the index that everyone who has it open holds shared, and who makes it exclusively.
_ALONE_AT = 128
_indexes: dict[str, int] = {}  # descriptors, by the path of the database


def is_open(path: str) -> bool:
    """Whether a connection of this process is on that database; one that is busy in another thread does not say."""
    for db in apsw.connections():
        try:
            if db.filename == path:
                return True
        except apsw.ThreadingViolationError:
            return True
    return False


def index_left(path: str) -> tuple[bytes, float]:
    """The start of the log's index as the last process left it, and when that was; nothing where others have it open.

    SQLite makes it anew for the first who comes. Until this process is that one, or lets go, nobody else is.
    """
    fd = _index(path)
    if fd < 0:
        return b"", 0.0
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _ALONE_AT)
        return os.pread(fd, INDEX_HEAD, 0), os.fstat(fd).st_mtime
    except OSError:
        return b"", 0.0


def index_now(path: str) -> bytes:
    """The start of the index that a connection of this process has open."""
    fd = _index(path)
    return os.pread(fd, INDEX_HEAD, 0) if fd >= 0 else b""


def let_go(path: str) -> None:
    """A connection was closed: after the last one, so is the index."""
    if path in _indexes and not is_open(path):
        os.close(_indexes.pop(path))


def forget_indexes() -> None:
    """In a child that was forked: what the parent has open is left alone."""
    global opening
    opening = allocate_lock()
    _indexes.clear()


def _index(path: str) -> int:
    fd = _indexes.get(path, -1)
    if fd < 0:
        try:
            fd = _indexes[path] = os.open(path + "-shm", os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # there is none; or it is for reading only, and then nothing can be written, either
            pass
    return fd


def committed_frames(head: bytes) -> int:
    """How many frames of the log an index knows as committed."""
    whole = len(head) == INDEX_HEAD and head[:48] == head[48:96]
    return int.from_bytes(head[16:20], sys.byteorder) if whole else 0


def needed_frames(head: bytes) -> int:
    """The same, where not all of them are in the database already."""
    known = committed_frames(head)
    return known if int.from_bytes(head[96:], sys.byteorder) < known else 0


def may_hide(path: str, before: bytes, now: bytes) -> bool:
    """Whether the log may hold more than SQLite reads of it: it stops at the first bad frame without a word.

    Looked at: what the index knew, and of each frame behind that stop whether it is of this life of the log. Nothing is
    summed up, so this is cheap, and not the last word.
    """
    read = committed_frames(now)
    if needed_frames(before) > read or os.path.exists(path + NOTE):
        return True
    try:
        fd = os.open(path + "-wal", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size, salts = os.fstat(fd).st_size, os.pread(fd, 8, 16)
        if not read:
            return size > LOG_HEADER
        pread, behind = os.pread, range(LOG_HEADER + read * LOG_STEP + 8, size, LOG_STEP)
        return any([_near(pread(fd, 8, at), salts) for at in behind])
    finally:
        os.close(fd)


def _near(salts: bytes, ours: bytes) -> bool:
    """Whether a frame's salts are those of the log's header, but for a byte that may be wrong."""
    return salts[:4] == ours[:4] or salts[4:] == ours[4:]
