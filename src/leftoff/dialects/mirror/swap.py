"""Replacing a file that others write too, without losing what they write.

A new version is put in its place by exchanging the two names in one step, where the system can: what was there before
is then still there, under the other name, and is looked at once more. Whoever had it open and goes on writing writes
into that, so it is kept until nobody has. Where names cannot be exchanged, the old file gets a second name before it is
replaced. Both names are given with the folder that was opened for them, so that no link is followed to either.
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

    from leftoff.engine.workspace.paths import Place

_EXCHANGE = 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP)
_SETSIG, _SETLEASE = 10, 1024
OLD = ".old"  # behind the name of a new version: the second name of what it replaces
_libc: Any = None


def _exchange(new: Place, at: Place) -> None:
    """`renameat2`; ``OSError`` with ``ENOSYS`` where there is none."""
    global _libc
    if _libc is None:
        _libc = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", False)
    if not _libc:
        raise OSError(errno.ENOSYS, "no renameat2")
    names = os.fsencode(new.name), os.fsencode(at.name)
    if _libc(new.folder, names[0], at.folder, names[1], _EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), at.path)


def reaches(folder: int, other: int) -> bool:
    """Whether a file can be renamed from one folder to the other."""
    return os.fstat(folder).st_dev == os.fstat(other).st_dev


def place(new: Place, at: Place) -> bool:
    """Put a new version where it belongs; whether there was one before, which has the other's name now."""
    while True:
        try:
            _exchange(new, at)
            return True
        except FileNotFoundError:
            if _first(new, at):
                return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return _replace(new, at)


def _first(new: Place, at: Place) -> bool:
    """Put a file where there is none; whether there still was none."""
    try:
        _link(new, at.name, at)
    except FileExistsError:
        return False
    os.unlink(new.name, dir_fd=new.folder)
    return True


def _link(old: Place, name: str, beside: Place) -> None:
    folders = {"src_dir_fd": old.folder, "dst_dir_fd": beside.folder}
    os.link(old.name, name, follow_symlinks=False, **folders)


def _replace(new: Place, at: Place) -> bool:
    """Without an exchange: the old file keeps a second name."""
    try:
        _link(at, new.name + OLD, new)
    except FileNotFoundError:
        os.replace(new.name, at.name, src_dir_fd=new.folder, dst_dir_fd=at.folder)
        return False
    os.replace(new.name, at.name, src_dir_fd=new.folder, dst_dir_fd=at.folder)
    os.rename(new.name + OLD, new.name, src_dir_fd=new.folder, dst_dir_fd=new.folder)
    return True


def in_use(at: Place) -> bool:
    """Whether somebody has a file open, or that cannot be told."""
    if sys.platform != "linux":
        return True
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(at.name, flags, dir_fd=at.folder)
    except OSError:
        return True
    try:  # a lease for writing is given only where no other descriptor is open
        # the signal is for those who want it back meanwhile; ignored unless asked for
        fcntl.fcntl(fd, _SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, _SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, _SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)
