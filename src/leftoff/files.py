"""Files and folders of our own: private to their owner, durable, written as a whole and by one process at a time.

Every store has a folder for facts of this machine (``Store.folder``); the embedded store is in it. This module knows
how such files are made, synced and locked, and nothing of their content.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Iterable

from leftoff.clock import DAY_MS
from leftoff.errors import StoreUnavailable
from leftoff.host import shown, text_of, user_name

NAME = ".leftoff"  # of a store's folder, by default
GITIGNORE = "*\n"
STORE_FILE, ID_FILE = "store.db", "id"  # in a store's folder: the database, and the id of the store
FOLDER = 0o040000  # in a mode
SWEPT = "swept"  # a file in the store's folder: when what is due was last swept
FOREVER = 1e6  # seconds
_READ_ONLY = "Make the folder writable, or point LEFTOFF_STORE at one that is."


def links_in(folder: str, *, deep: bool = True) -> list[str]:
    """Return the links in a folder and in the folders there: a store that is created there would write through them."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                found.append(entry.name)
            elif deep and entry.is_dir():
                found += [f"{entry.name}/{link}" for link in links_in(entry.path, deep=False)]
    return found


def open_plain(path: str, flags: int = 0) -> int:
    """Open a plain file to read, and return the descriptor. Raise for anything else: a pipe would block."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    if os.fstat(fd).st_mode & 0o170000 != 0o100000:
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "it is no plain file", path)
    return fd


def make_folder(folder: str) -> None:
    """Create the store's folder, private to its owner and ignored by git, with its parents durable.

    An existing one under the usual name is made private. One that the user named stays as it is.
    """
    if os.path.exists(folder) and not os.path.isdir(folder):
        hint = "Move it away, or use another store."
        raise StoreUnavailable(f"{folder} is a file, not a folder.", hint=hint)
    missing = []
    path = os.path.abspath(folder)
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        try:
            os.mkdir(path, 0o700 if path == missing[0] else 0o777)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
        sync_folder(os.path.dirname(path))
    if not missing and os.path.basename(folder) == NAME:
        make_private(folder)
    ignore = os.path.join(folder, ".gitignore")
    if not os.path.exists(ignore):
        with open(os.open(ignore, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(GITIGNORE)


def make_private(folder: str) -> None:
    """Remove the rights of other users to a folder of leftoff. One of another user stays as it is, as does a link."""
    try:
        facts = os.lstat(folder)
        mode = facts.st_mode
        if mode & 0o170000 == FOLDER and mode & 0o077 and facts.st_uid == os.geteuid():
            os.chmod(folder, mode & 0o7700)
    except OSError:  # gone, or on a read-only disk: the next write reports it
        pass


def forget_folder(folder: str) -> None:
    """Remove a store's folder without a store. One with any content stays as it is."""
    if os.listdir(folder) != [".gitignore"]:
        return
    os.unlink(os.path.join(folder, ".gitignore"))
    try:
        os.rmdir(folder)
    except OSError:  # another process made a store in it just now
        make_folder(folder)


def write_private(path: str, content: Iterable[bytes], *, durable: bool = True) -> None:
    """Write a file for its owner alone, as a whole, also if two processes write it. Create its folder.

    Not ``durable``: a mere copy, which may be gone or empty after a power cut.
    """
    folder, name = os.path.split(path)
    os.makedirs(folder, 0o700, exist_ok=True)
    temp = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    try:
        with open(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            for piece in content:
                file.write(piece)
            if durable:
                file.flush()
                sync(file.fileno())
        os.replace(temp, path)
        if durable:
            sync_folder(folder)
    except BaseException:
        if os.path.exists(temp):
            os.unlink(temp)
        raise


def is_writable(folder: str) -> bool:
    """Return whether a folder and all files in it can be written."""
    paths = (entry.path for entry in os.scandir(folder) if entry.is_file())
    return all(os.access(path, os.W_OK) for path in (folder, *paths))


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    sync_file(path, os.O_DIRECTORY)


def sync_file(path: str, flags: int = 0) -> None:
    """Make what is in a file durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    """Sync to the disk itself: on macOS that is F_FULLFSYNC."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def is_due(stamp: str, now: int) -> bool:
    """Return whether the time of a file is a day ago, or a day ahead: then a clock was wrong."""
    try:
        return abs(now - os.stat(stamp).st_mtime_ns // 1_000_000) >= DAY_MS
    except OSError:
        return True


def mark_done(stamp: str, now: int) -> None:
    """Set the time of a file to now: what is due once a day is done for today."""
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    try:
        os.utime(stamp, ns=(now * 1_000_000, now * 1_000_000))
    except PermissionError:  # another user's file, or a file system without: it has the system's time
        pass


def lock_within(fd: int, kind: int, patience: float) -> bool:
    """Take an flock (``LOCK_EX`` or ``LOCK_SH``). Return whether that took no longer than so many seconds.

    `flock` has no timeout. So a thread waits in the queue, and unlocks at once if it gets the lock after we have left.
    If this returns False, close ``fd``: the lock belongs to everyone who shares the open file.
    """
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        if patience <= 0:
            return False
    waiter = _Waiter(fd, kind)
    try:
        waiter.gate.acquire(timeout=min(patience, FOREVER))
    except BaseException:  # Ctrl-C
        waiter.leave()
        raise
    return not waiter.leave()


class _Waiter:
    """A thread that waits for an flock, on a separate descriptor."""

    def __init__(self, fd: int, kind: int) -> None:
        self._fd, self._kind = os.dup(fd), kind
        self._mutex = allocate_lock()
        self._got = self._left = False
        self.gate = allocate_lock()  # open once it has the lock
        self.gate.acquire()
        start_new_thread(self._wait, ())

    def _wait(self) -> None:
        try:
            fcntl.flock(self._fd, self._kind)
            with self._mutex:
                self._got = True
                if self._left:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            os.close(self._fd)
            self.gate.release()

    def leave(self) -> bool:
        """Stop waiting. Return whether the lock was not taken yet."""
        with self._mutex:
            self._left = not self._got
            return self._left


# -- who has a lock


def held_by_another(path: str, fd: int) -> StoreUnavailable:
    """Return the error for the lock at ``path``, open at ``fd``, which names the holder if the system does."""
    pid = _locked_by(fd) if shown() else None
    name = text_of(f"/proc/{pid}/comm").strip()
    who = f"process {pid}" + (f" (`{name}`)" if name else "") if pid else "another process"
    state = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1]
    hint = (
        "Nothing was changed. Try again when it is done; `lock_timeout` in leftoff.toml, or LEFTOFF_LOCK_TIMEOUT, "
        "says how long to wait."
    )
    if state and state[0] in "Tt":
        hint = f"Nothing was changed. That process is stopped: `kill -CONT {pid}` lets it continue."
    return StoreUnavailable(f"The store {os.path.dirname(path)} is locked by {who}.", hint=hint)


def _locked_by(fd: int) -> int | None:
    """Return the process that has an exclusive flock on the file, if the system says so (Linux)."""
    facts = os.fstat(fd)
    place = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
    for line in text_of("/proc/locks").splitlines():
        words = line.split()
        if words[1:2] == ["FLOCK"] and words[3:4] == ["WRITE"] and words[5:6] == [place]:
            return int(words[4]) if int(words[4]) > 0 else None
    return None


# -- what went wrong


def keeps_us_out(error: OSError) -> bool:
    """Return whether a file could not be read for a reason that says nothing about its content."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def failure(error: OSError, where: str) -> StoreUnavailable:
    """Return the typed error for a failed system call on a file."""
    place = error.filename or where
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(place)
    if error.errno in (errno.EACCES, errno.EPERM):
        return _denied(place, error.strerror or str(error))
    if error.errno == errno.EROFS:
        return StoreUnavailable(f"{place} cannot be written to: {error.strerror}.", hint=_READ_ONLY)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "Nothing was changed. Raise the limit (`ulimit -n`), or close what keeps so many open; then try again."
        return StoreUnavailable(f"{place}: {error.strerror}.", hint=hint)
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST):
        return _in_the_way(error, os.fsdecode(error.filename2 or place))
    return StoreUnavailable(f"{place}: {error.strerror or error}")


def _in_the_way(error: OSError, path: str) -> StoreUnavailable:
    """Return the error for a folder in the place of a file, or a file in the place of a folder."""
    what, wanted = "a folder", "a file"
    if error.errno != errno.EISDIR:
        what, wanted = "no folder", "one"
        while not os.path.lexists(path) and os.path.dirname(path) != path:
            path = os.path.dirname(path)
    return StoreUnavailable(
        f"{path} is {what}, and {wanted} should be there.",
        hint="leftoff makes no such thing. Move it away, then try again; `leftoff fsck` tells what is missed.",
    )


def _denied(place: str, why: str) -> StoreUnavailable:
    """Return the error for a file that this user may not read or write: often another user made it, as root."""
    path = os.path.abspath(os.fsdecode(place))
    while True:
        try:
            owner = os.lstat(path).st_uid
            break
        except OSError:  # not there, or not visible: look at its folder
            path = os.path.dirname(path)
    message = f"{place} cannot be {'written to' if os.access(path, os.R_OK) else 'read or written'}: {why}."
    if owner == os.geteuid():
        return StoreUnavailable(message, hint=_READ_ONLY)
    ours = NAME in path.split(os.sep)  # anything else may be a folder of the system
    what = "Work as that user, or have it given to you (chown -R)." if ours else _READ_ONLY
    return StoreUnavailable(message, hint=f"{path} belongs to {user_name(owner)}. {what}")


def full(place: str) -> StoreUnavailable:
    """Return the error for a full disk."""
    return StoreUnavailable(
        f"The disk that holds {place} is full.",
        hint="Nothing was changed. Free some space, then try again: what was committed before is safe.",
    )


def read_only(place: str) -> StoreUnavailable:
    """Return the error for a read-only place."""
    return StoreUnavailable(f"{place} cannot be written to.", hint=_READ_ONLY)
