"""Replacing a file that others write too, without losing what they write.

A new version is put in its place by exchanging the two names in one step, where the system can: what was there before
is then still there, under the other name, and is looked at once more. Whoever had it open and goes on writing writes
into that, so it is kept until nobody has. Where names cannot be exchanged, the old file gets a second name before it is
replaced.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_AT_FDCWD = -100
_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP)
_SETSIG, _SETLEASE = 10, 1024
OLD = ".old"  # behind the name of a new version: the second name of what it replaces
_libc: Any = None


def _exchange(source: str, target: str) -> None:
    """`renameat2`; ``OSError`` with ``ENOSYS`` where there is none."""
    global _libc
    if _libc is None:
        _libc = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", False)
    if not _libc:
        raise OSError(errno.ENOSYS, "no renameat2")
    if _libc(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def write_new(path: str, data: bytes) -> int:
    """A whole file, on disk, readable by its owner only; the number of its inode."""
    with open(path, "wb", opener=lambda p, f: os.open(p, f | os.O_EXCL, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_ino


def replace_file(path: str, data: bytes) -> None:
    """Write a file that nobody else writes, whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temp = f"{path}.{os.urandom(4).hex()}.leftoff"
    write_new(temp, data)
    os.replace(temp, path)


def reaches(folder: str, other: str) -> bool:
    """Whether a file can be renamed from one folder to the other."""
    return os.stat(folder).st_dev == os.stat(other).st_dev


def place(new: str, path: str) -> bool:
    """Put a new version where it belongs; whether there was one before, which has the other's name now."""
    while True:
        try:
            _exchange(new, path)
            return True
        except FileNotFoundError:
            if _first(new, path):
                return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return _replace(new, path)


def _first(new: str, path: str) -> bool:
    """Put a file where there is none; whether there still was none."""
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    os.unlink(new)
    return True


def _replace(new: str, path: str) -> bool:
    """Without an exchange: the old file keeps a second name."""
    try:
        os.link(path, new + OLD)
    except FileNotFoundError:
        os.replace(new, path)
        return False
    os.replace(new, path)
    os.rename(new + OLD, new)
    return True


def forget(*paths: str) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            pass


def in_use(path: str) -> bool:
    """Whether somebody has a file open, or that cannot be told."""
    if sys.platform != "linux":
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:  # a lease for writing is given only where no other descriptor is open
        fcntl.fcntl(
            fd, _SETSIG, signal.SIGURG
        )  # of those who want it back meanwhile; ignored unless asked for
        fcntl.fcntl(fd, _SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, _SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
