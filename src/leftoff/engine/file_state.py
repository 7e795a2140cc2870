"""What is at a path, and whether it is still what a record says: a file, a symbolic link, a folder, nothing.

A record stores under `seen` the mtime, ctime and inode that a file had when its content was read. If these and the size
are the same, the content is the same, and the file is not read again. That holds only if a later change must show: a
file that was changed in the tick of the clock in which it was read ("racy") could be changed again without a trace. So
the facts are stored only if the last change was before the tick in which reading began, as git does it.
"""

from __future__ import annotations

import os
import stat as bits
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from leftoff.clock import by_time
from leftoff.engine.project_files import place
from leftoff.errors import StoreUnavailable
from leftoff.model.codec import long_sha256 as sha256

T = TypeVar("T")

FILE, LINK, ABSENT, FOLDER, OTHER = "file", "link", "absent", "folder", "other"
SAME, CHANGED, GONE = "same", "changed", "gone"
PERMISSIONS = 0o777  # what is restored of a mode: no record makes a program run as another user
CHUNK = 1 << 18
TICK_NS = 20_000_000  # more than any tick of a kernel's clock
COARSE_NS = 2_000_000_000  # the resolution of file systems that store whole seconds
MOST_BYTES = 32 << 20  # that `look_at_files` reads
MOST_FILES = 2000
_LINUX_TICK = 5  # CLOCK_REALTIME_COARSE: the clock that the kernel stamps files with


class Unreadable(StoreUnavailable):
    """A file that is there and cannot be read."""


class FileState(NamedTuple):
    """What is, was or will be at a path: of a file its hash, size and permissions, of a link its target."""

    kind: str
    hash: str | None = None
    size: int = 0
    mode: int | None = None
    target: str | None = None

    def same(self, other: FileState) -> bool:
        """Return whether both are equal, as far as both are known: git does not know all permissions."""
        if (self.kind, self.hash, self.target) != (other.kind, other.hash, other.target):
            return False
        return self.mode is None or other.mode is None or self.mode == other.mode

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}


NOTHING_THERE = FileState(ABSENT)


def link_to(target: str) -> FileState:
    """Return a symbolic link; its hash is that of its target."""
    raw = os.fsencode(target)
    return FileState(LINK, f"sha256:{sha256(raw).hexdigest()}", len(raw), target=target)


def recorded(about: Mapping[str, Any]) -> FileState:
    """Return what a record says was there."""
    if about.get("status") == "deleted":
        return NOTHING_THERE
    target = about.get("target")
    if isinstance(target, str):
        return link_to(target)
    text = about.get("mode")
    is_mode = isinstance(text, str) and 1 <= len(text) <= 5 and all(c in "01234567" for c in text)
    mode = int(str(text), 8) & PERMISSIONS if is_mode else None
    return FileState(FILE, about.get("hash"), about.get("size") or 0, mode)


def shown_mode(st_mode: int) -> str:
    return f"{st_mode & PERMISSIONS:04o}"


def newest_by_path(records: Iterable[object]) -> dict[str, dict[str, Any]]:
    """Return records of files by their paths; of two with one path, the one that was captured later."""
    out: dict[str, dict[str, Any]] = {}
    for about in records:
        path = about.get("path") if isinstance(about, dict) else None
        if isinstance(about, dict) and isinstance(path, str):
            before = out.get(path)
            if before is None or by_time(before.get("captured_at")) <= by_time(about.get("captured_at")):
                out[path] = about
    return out


def present(project: str, path: str, about: Mapping[str, Any] | None = None) -> FileState:
    """Return what is there now. ``about``: a record of it, by which an unchanged file need not be read."""
    try:
        at = place(project, path)
    except NotADirectoryError:
        at = None
    if at is None:
        return NOTHING_THERE
    with at:
        st = at.lstat()
        if st is None:
            return NOTHING_THERE
        if bits.S_ISLNK(st.st_mode):
            return link_to(os.readlink(at.name, dir_fd=at.folder))
        if not bits.S_ISREG(st.st_mode):
            return FileState(FOLDER if bits.S_ISDIR(st.st_mode) else OTHER)
        if about is not None and "target" not in about and unchanged(about, st):
            return FileState(FILE, about["hash"], st.st_size, st.st_mode & PERMISSIONS)
        (digest, size), st, _ = read_steadily(path, hashed, open_regular(at.name, folder=at.folder))
        return FileState(FILE, f"sha256:{digest.hex()}", size, st.st_mode & PERMISSIONS)


def written_at(project: str, path: str) -> int:
    """Return when a file was last written to, in milliseconds; 0 if it is not there."""
    try:
        return os.lstat(os.path.join(project, path)).st_mtime_ns // 1_000_000
    except OSError:
        return 0


# -- compared with records


def unchanged(about: Mapping[str, Any], st: os.stat_result) -> bool:
    """Return whether the stat alone proves that a file is what its record says; if not, its content decides."""
    seen = about.get("seen")
    now = [st.st_mtime_ns, st.st_ctime_ns, st.st_ino]
    return seen is not None and now == seen and st.st_size == about["size"]


def compare_files(
    project: str, entries: Mapping[str, Mapping[str, Any]], *, deep: bool = False, modes: bool = False
) -> dict[str, str]:
    """Return what became of files, by path: ``same``, ``changed`` or ``gone``.

    ``entries``: the records about them. A file that is known to be unchanged is not read, unless ``deep``. ``modes``:
    other permissions also count as a change.
    """
    out: dict[str, str] = {}
    start, read = project.rstrip("/") + "/", os.stat
    for path, about in entries.items():
        full = path if path[:1] == "/" else start + path
        deleted = about.get("status") == "deleted"
        try:
            st = read(full) if "target" not in about else os.lstat(full)
        except (OSError, ValueError):
            dangling = "target" not in about and os.path.islink(full)
            out[path] = SAME if deleted and not dangling else CHANGED if deleted or dangling else GONE
            continue
        is_same = (not deep and unchanged(about, st)) or (not deleted and _is_same(full, about, st))
        if is_same and modes and bits.S_ISREG(st.st_mode):
            known = about.get("mode")
            is_same = not isinstance(known, str) or shown_mode(st.st_mode) == known
        out[path] = SAME if is_same else CHANGED
    return out


def _is_same(full: str, about: Mapping[str, Any], st: os.stat_result) -> bool:
    """Compare a file that may have changed: its kind, its size, then its content."""
    if "target" in about:
        return bits.S_ISLNK(st.st_mode) and os.readlink(full) == about["target"]
    if "hash" not in about:
        return True  # only its name is known, and it is there
    if not bits.S_ISREG(st.st_mode) or st.st_size != about.get("size"):
        return False
    if os.path.islink(full) and not about.get("followed"):
        return False
    try:
        return f"sha256:{hash_file(full)[0].hex()}" == about.get("hash")
    except StoreUnavailable:
        return False


class FilesSeen(NamedTuple):
    """Paths by what became of them, and how many were not looked at."""

    changed: list[str]
    gone: list[str]
    unseen: int


def look_at_files(project: str, records: Iterable[dict[str, Any]]) -> FilesSeen:
    """Compare files with their records, and read at most ``MOST_BYTES`` of at most ``MOST_FILES`` for it."""
    known = newest_by_path(about for about in records if isinstance(about.get("hash"), str))
    entries, left = {}, MOST_BYTES
    for number, (path, about) in enumerate(sorted(known.items())):
        try:
            st = os.stat(os.path.join(project, path)) if "target" not in about else None
        except (OSError, ValueError):
            st = None
        if st is not None and st.st_size == about.get("size") and not unchanged(about, st):
            if number >= MOST_FILES or st.st_size > left:
                continue
            left -= st.st_size
        entries[path] = about
    seen = compare_files(project, entries)
    changed, gone = ([path for path, what in seen.items() if what == wanted] for wanted in (CHANGED, GONE))
    return FilesSeen(changed, gone, len(known) - len(entries))


# -- reading


def tick() -> int:
    """Return the time that a file which is changed now would get, or an earlier one; nanoseconds."""
    try:
        return time.clock_gettime_ns(_LINUX_TICK)
    except (AttributeError, OSError):
        return time.time_ns() - TICK_NS


def stat_facts(st: os.stat_result, since: int) -> list[int] | None:
    """Return what to store of a file whose content was read from ``since`` on; ``None`` if a change might not show."""
    changed = st.st_ctime_ns
    settled = changed + COARSE_NS if changed % 1_000_000_000 == 0 else changed
    return [st.st_mtime_ns, changed, st.st_ino] if settled < since else None


def read_steadily(path: str, keep: Callable[[Iterable[bytes]], T], fd: int) -> tuple[T, os.stat_result, Any]:
    """Read an open file to its end, and close it: return what ``keep`` makes of it, its stat, and the facts to store.

    A file that changes while it is read is read again. If it changes again, there are no facts.
    """
    try:
        for is_last in (False, True):
            before = os.fstat(fd)
            since = tick()
            while before.st_ctime_ns >= since > before.st_ctime_ns - TICK_NS:  # changed in this very tick
                time.sleep(0.001)
                since = tick()
            kept = keep(_Chunks(fd, path))
            after = os.fstat(fd)
            is_steady = all(
                getattr(before, name) == getattr(after, name)
                for name in ("st_size", "st_mtime_ns", "st_ctime_ns")
            )
            if is_steady or is_last:
                return kept, after, stat_facts(after, since) if is_steady else None
        raise AssertionError
    finally:
        os.close(fd)


def open_regular(path: str, *, folder: int | None = None, follow: bool = False) -> int:
    """Open a regular file for reading. Anything else is refused without waiting for it."""
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


class _Chunks:
    """The content of an open file in pieces. ``fd``: for a store that can clone the file."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        try:
            os.lseek(self.fd, 0, os.SEEK_SET)
            while chunk := os.read(self.fd, CHUNK):
                yield chunk
        except OSError as error:
            raise _unreadable(self._path, error.strerror or str(error)) from None


def _unreadable(path: str, why: str, hint: str = "Check its permissions.") -> Unreadable:
    return Unreadable(f"{path} cannot be read: {why}.", hint=f"Nothing was recorded. {hint}")


def hashed(chunks: Iterable[bytes]) -> tuple[bytes, int]:
    """Return the sha256 of bytes, and how many they are."""
    digest, size = sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return digest.digest(), size


def hash_file(path: str) -> tuple[bytes, int]:
    """Return the sha256 of a file, and its length."""
    fd = open_regular(path, follow=True)
    try:
        return hashed(_Chunks(fd, path))
    finally:
        os.close(fd)
