"""Whether a file is still what it was when it was hashed, told from its `stat`, as git does it.

A record remembers under `seen` what the file system said of a file when its content was read: mtime, ctime and inode.
Where these and the size are still the same, the content is. That is only true if a later change must show: a file that
was changed in the same tick of the clock as it was read ("racy") could be changed again without a trace. So the facts
are taken only where the last change was before the tick in which reading began; without them a file is hashed.
"""

from __future__ import annotations

import os
import stat as bits
import time

from leftoff.errors import StoreUnavailable
from leftoff.model.hashing import long_sha256 as sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")

CHUNK = 1 << 18
TICK_NS = 20_000_000  # more than any tick of a kernel's clock
COARSE_NS = 2_000_000_000  # the resolution of file systems that know only seconds
SAME, CHANGED, GONE = "same", "changed", "gone"
_LINUX_TICK = 5  # CLOCK_REALTIME_COARSE: what the kernel stamps files with
_TRIES = 2


def tick() -> int:
    """The time that a file which is changed now would get, or an earlier one; nanoseconds."""
    try:
        return time.clock_gettime_ns(_LINUX_TICK)
    except (AttributeError, OSError):
        return time.time_ns() - TICK_NS


def facts(st: os.stat_result, since: int) -> list[int] | None:
    """What to remember of a file whose content was read from ``since`` on; ``None`` where a change might not show."""
    changed = st.st_ctime_ns
    settled = changed + COARSE_NS if changed % 1_000_000_000 == 0 else changed
    return [st.st_mtime_ns, changed, st.st_ino] if settled < since else None


def unchanged(about: Mapping[str, Any], st: os.stat_result) -> bool:
    """Whether the file is known to be what its record says; if not, its content must be looked at."""
    seen = about.get("seen")
    return (
        seen is not None
        and [st.st_mtime_ns, st.st_ctime_ns, st.st_ino] == seen
        and st.st_size == about["size"]
    )


def look(
    project: str, entries: Mapping[str, Mapping[str, Any]], *, deep: bool = False, modes: bool = False
) -> dict[str, str]:
    """What became of files, by path: ``same``, ``changed`` or ``gone``.

    ``entries``: the records about them. A file that is known to be unchanged is not read, unless ``deep``. ``modes``:
    other permissions are a change, too.
    """
    out: dict[str, str] = {}
    start, read = project.rstrip("/") + "/", os.stat
    for path, about in entries.items():
        full = path if path[:1] == "/" else start + path
        try:
            st = read(full) if "target" not in about else os.lstat(full)
        except (OSError, ValueError):
            gone = about.get("status") == "deleted" or ("target" not in about and os.path.islink(full))
            out[path] = GONE if not gone else SAME if about.get("status") == "deleted" else CHANGED
            continue
        out[path] = SAME if not deep and unchanged(about, st) else _compared(full, about, st)
        if modes and out[path] == SAME and _other_mode(about, st):
            out[path] = CHANGED
    return out


def _other_mode(about: Mapping[str, Any], st: os.stat_result) -> bool:
    """Whether a file has other permissions than its record says, where that says any."""
    known = about.get("mode")
    return isinstance(known, str) and bits.S_ISREG(st.st_mode) and f"{st.st_mode & 0o777:04o}" != known


def _compared(full: str, about: Mapping[str, Any], st: os.stat_result) -> str:
    """A file that may have changed: its kind, its size, then its content."""
    if about.get("status") == "deleted":
        return CHANGED
    if "hash" not in about and "target" not in about:
        return SAME  # nothing but its name is known, and it is there
    if "target" in about:
        there = bits.S_ISLNK(st.st_mode) and os.readlink(full) == about["target"]
        return SAME if there else CHANGED
    if not bits.S_ISREG(st.st_mode) or st.st_size != about.get("size"):
        return CHANGED
    if os.path.islink(full) and not about.get("followed"):
        return CHANGED
    try:
        return SAME if f"sha256:{hash_file(full)[0].hex()}" == about.get("hash") else CHANGED
    except StoreUnavailable:
        return CHANGED


def take(
    path: str, keep: Callable[[Iterable[bytes]], T], *, fd: int | None = None
) -> tuple[T, os.stat_result, Any]:
    """Read a regular file to its end: what ``keep`` makes of it, its stat, and the facts to remember.

    One that changes while it is read is read again; one that goes on changing is what was read last, and no facts.
    """
    fd = open_file(path) if fd is None else fd
    try:
        for left in reversed(range(_TRIES)):
            before = os.fstat(fd)
            since = _next_tick(before.st_ctime_ns)
            kept = keep(_chunks(fd, path))
            after = os.fstat(fd)
            steady = _key(before) == _key(after)
            if steady or not left:
                return kept, after, facts(after, since) if steady else None
        raise AssertionError
    finally:
        os.close(fd)


def _key(st: os.stat_result) -> tuple[int, int, int]:
    return st.st_size, st.st_mtime_ns, st.st_ctime_ns


def _next_tick(changed: int) -> int:
    """The present, a moment later where the file was changed just now: whatever is written from then on will show."""
    now = tick()
    while changed >= now > changed - TICK_NS:
        time.sleep(0.001)
        now = tick()
    return now


def open_file(path: str, *, folder: int | None = None, follow: bool = True) -> int:
    """Open for reading; what is not a regular file is never waited for."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags, dir_fd=folder)
    except FileNotFoundError:
        raise _unreadable(path, "it is gone", "Write the file before you record it.") from None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    if not bits.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _unreadable(path, "it is not a regular file")
    return fd


def _chunks(fd: int, path: str) -> Iterator[bytes]:
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        while chunk := os.read(fd, CHUNK):
            yield chunk
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def _unreadable(path: str, why: str, hint: str = "Check its permissions.") -> StoreUnavailable:
    return StoreUnavailable(f"{path} cannot be read: {why}.", hint=f"Nothing was recorded. {hint}")


def hashed(chunks: Iterable[bytes]) -> tuple[bytes, int]:
    """The sha256 of bytes, and how many they are."""
    digest, size = sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return digest.digest(), size


def hash_file(path: str) -> tuple[bytes, int]:
    """The sha256 of a file, and how long it is."""
    fd = open_file(path)
    try:
        return hashed(_chunks(fd, path))
    finally:
        os.close(fd)
