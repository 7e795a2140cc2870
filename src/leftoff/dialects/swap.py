"""Replacing a file that others write too, without losing what they write.

A new version is put in its place by exchanging the two names in one step, where the system can: what was there before
is then still there, under the other name, and is looked at once more. Whoever had it open and goes on writing writes
into that, so it is kept for a while and looked at again. Where names cannot be exchanged, the old file gets a second
name before it is replaced.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP)
_libc: Any = None


def _rename(source: str, target: str, flag: int) -> None:
    """`renameat2`; ``OSError`` with ``ENOSYS`` where there is none."""
    global _libc
    if _libc is None:
        _libc = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", False)
    if not _libc:
        raise OSError(errno.ENOSYS, "no renameat2")
    if _libc(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flag) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), target)


def write_new(path: str, data: bytes) -> None:
    """A whole file, on disk, readable by its owner only."""
    with open(path, "wb", opener=lambda p, f: os.open(p, f | os.O_EXCL, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def put(path: str, data: bytes) -> str | None:
    """Put a new version of a file in its place; the name under which the old one is now, if there was one."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temp = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(6).hex()}.leftoff")
    write_new(temp, data)
    try:
        return _place(temp, path)
    except BaseException:
        _forget(temp)
        raise


def _place(temp: str, path: str) -> str | None:
    while True:
        try:
            _rename(temp, path, _EXCHANGE)
            return temp
        except FileNotFoundError:
            if _first(temp, path):
                return None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return _replace(temp, path)


def _first(temp: str, path: str) -> bool:
    """Put a file where there is none; whether there still was none."""
    try:
        os.link(temp, path)
    except FileExistsError:
        return False
    os.unlink(temp)
    return True


def _replace(temp: str, path: str) -> str | None:
    """Without an exchange: the old file keeps a second name."""
    old = f"{temp}.old"
    try:
        os.link(path, old)
    except FileNotFoundError:
        os.replace(temp, path)
        return None
    os.replace(temp, path)
    return old


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def aside(path: str, name: str) -> str:
    """Move what was displaced out of the way, the same file under another name; where it is now."""
    try:
        os.rename(path, name)
        return name
    except OSError:  # another file system: it stays where it is, hidden
        return path
