"""What the mirror remembers between calls: which files it wrote, what was in them, and what they displaced.

It lies beside the store and can be lost without harm: then the version that a file was written from is found by the
time or the id that the file carries. A folder that somebody else made may bring one along: so it says which files, and
never where anything of ours lies, which is worked out from names that are checked. What looks like a secret is in
none of it (`kept`).

Before a file is replaced, what is about to happen is written down (an *intent*), with a copy of what it will hold.
Whoever dies in between leaves the intent behind, and the next one finishes it: our own write is known as ours, and what
it displaced is looked at.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress

from leftoff.dialects.mirror import swap
from leftoff.engine.workspace.paths import Place
from leftoff.engine.workspace.project_files import ProjectFiles, mode_at, write_new
from leftoff.errors import UnsafePath
from leftoff.files import lock_within, make_private, sync
from leftoff.lock_holder import held_by_another
from leftoff.model.hashing import sha256
from leftoff.store.base import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.dialects.mirror.kept import Keeper

KEPT_MS = 3_600_000  # how long a displaced file is looked at again, at most
SOON_MS = 1000  # and at least: who is just opening it has it open by then
MOST_KEPT = 2000
LARGE = 1 << 14  # bytes of a document whose copies are compressed
PACKED = b"\x78\x01"  # how those begin, and no document does
QUARANTINE = "quarantine"  # a folder beside the store: what is in there is never deleted
INTENT, BASE, NEXT = ".json", ".base", ".next"  # behind the name of a new version
_TEXTS = ("ours", "problems", "refused", "written")  # each a text by a name
_SAVED = ("n", "files", "pool", "runs", "seen", *_TEXTS)
SUM = "sum"  # beside these, in the file


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class Memory:
    """One project's mirror, as it was left."""

    def __init__(self, project: str, folder: str, keeper: Keeper) -> None:
        self.project = project
        self.folder = folder
        self.keeper = keeper
        self.project_files = ProjectFiles(project)
        self._pool = os.path.join(folder, "pool")
        self._aside = ProjectFiles(self._pool)
        self._done: list[str] = []  # intents that are carried out, once what is known is saved
        self.n = 0  # the store-wide number of the last commit that is in the files
        self.files: dict[str, dict[str, Any]] = {}  # by path: run, part, stat
        self.pool: list[dict[str, Any]] = []  # displaced files
        self.runs: dict[str, dict[str, Any]] = {}  # what a dialect remembers of a run
        self.seen: dict[str, list[int] | None] = {}  # files of others, as they were when they were taken in
        self.ours: dict[str, str] = {}  # by the hash of what was written: the run that it says something of
        self.problems: dict[str, str] = {}  # by run or file: why it could not be followed
        self.written: dict[str, str] = {}  # further files: the run that they belong to
        self.refused: dict[str, str] = {}  # files that could not be written: the run that they belong to

    @contextmanager
    def open(self, patience: float = Store.patience) -> Iterator[None]:
        """One at a time; what is changed is kept. ``patience``: seconds to wait for others."""
        for folder in (self.folder, self._pool):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if os.path.islink(folder):
                raise UnsafePath(f"{folder} is a symbolic link, which leftoff does not follow.")
            make_private(folder)
        with open(os.path.join(self.folder, "lock"), "ab", opener=_private) as lock:
            if not lock_within(lock.fileno(), fcntl.LOCK_EX, patience):
                raise held_by_another(os.path.join(self.folder, "lock"), lock.fileno())
            try:
                self._load()
                self._finish()
                try:
                    yield
                finally:
                    self._save()
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too

    def _saved(self) -> dict[str, Any]:
        try:
            with open(os.path.join(self.folder, "desk.json"), encoding="utf-8", opener=_private) as file:
                found = _proved(json.load(file))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if _is_ours(found) else {}

    def remembered(self, name: str) -> dict[str, Any]:
        """What was saved under a name, for those who only look."""
        found: dict[str, Any] = self._saved().get(name, {})
        return found

    def _load(self) -> None:
        found = self._saved()
        self.n = found.get("n", 0)
        self.files, self.pool = found.get("files", {}), found.get("pool", [])
        self.runs, self.seen = found.get("runs", {}), found.get("seen", {})
        self.ours, self.problems = found.get("ours", {}), {**found.get("problems", {}), **self.problems}
        self.refused, self.written = found.get("refused", {}), found.get("written", {})
        self._before = json.dumps(found)

    def _save(self) -> None:
        self.ours = dict(list(self.ours.items())[-MOST_KEPT:])
        known = {name: getattr(self, name) for name in _SAVED}
        if json.dumps(known) != self._before:
            _keep(os.path.join(self.folder, "desk.json"), _with_sum(known))
        _forget(*self._done)
        self._done = []

    # -- files

    def full(self, path: str) -> str:
        return os.path.join(self.project, path)

    def read(self, path: str) -> bytes | None:
        """What a file of the project holds; ``None`` where there is no plain one."""
        return self.project_files.read(path)

    def stat(self, path: str) -> list[int] | None:
        """What tells a file from another, or from what it was; ``None``: there is no plain one."""
        return _stat(self.project_files, path)

    def base(self, path: str) -> bytes | None:
        """What was last known to be in a file; ``None`` also where that is not what was kept of it."""
        data, about = _unpacked(_bytes(self._base(path))), self.files.get(path, {})
        return data if data is None or about.get("kept", digest(data)) == digest(data) else None

    def _base(self, path: str) -> str:
        return os.path.join(self.folder, digest(path.encode())[:32])

    def remember(self, path: str, data: bytes, run_id: str, part: str | None) -> None:
        """This is in the file now, and the store knows it."""
        kept = self.keeper.keep(path, data)
        _keep(self._base(path), _packed(kept))
        known = {"run": run_id, "part": part, "stat": None, "hash": digest(data)}
        self.files[path] = {**known, "kept": digest(kept)}

    def forget(self, path: str) -> None:
        self.files.pop(path, None)
        _forget(self._base(path))

    def set_aside(self, path: str, data: bytes) -> str | None:
        """A lasting copy of what somebody wrote and nobody can read; where it is, unless it was there already."""
        stem, suffix = os.path.splitext(os.path.basename(path))
        private, name = ProjectFiles(os.path.dirname(self.folder)), f"{stem}-{digest(data)[:8]}{suffix}"
        kept = f"{QUARANTINE}/files/{name}"
        if private.is_file(kept):
            return None
        private.replace(kept, self.keeper.masked(data))
        return os.path.join(private.root, kept)

    # -- replacing them

    def put(self, path: str, data: bytes, run_id: str, part: str | None, now: int) -> dict[str, Any] | None:
        """Write a file; what it displaced, to be looked at again."""
        with self.project_files.open(path) as at:
            mode = mode_at(at)
            about = {"path": path, "run": run_id, "part": part, "at": now, "stamp": _stamp()}
            with self._new(at, about) as new:
                self._intend(new, about, data, mode)
                try:
                    displaced = swap.place(new, at)
                except BaseException:
                    os.unlink(new.name, dir_fd=new.folder)
                    name = self._name(about)
                    _forget(name + INTENT, name + NEXT, name + BASE)
                    raise
        entry = self._carried_out(about, displaced)
        self.files[path]["stat"] = self.stat(path)
        return entry

    def _new(self, at: Place, about: dict[str, Any]) -> Place:
        """Where a new version is made: among what is aside, or beside its place where that is on another disk."""
        new = self._aside.open(about["stamp"])
        about["hidden"] = not swap.reaches(new.folder, at.folder)
        if not about["hidden"]:
            return new
        os.close(new.folder)
        return Place(_hidden(about), os.dup(at.folder))

    def _intend(self, new: Place, about: dict[str, Any], data: bytes, mode: int | None) -> None:
        """Write down what is about to happen to a file: what it will hold, and what tells that it came to it."""
        name = self._name(about)
        about["inode"] = write_new(new, new.name, [data], mode)
        kept = self.keeper.keep(about["path"], data)
        about["kept"] = digest(kept)
        _write(name + NEXT, _packed(kept))
        about["before"] = self.files.get(about["path"], {}).get("hash", "")
        try:
            os.link(self._base(about["path"]), name + BASE)
        except FileNotFoundError:
            about["before"] = ""
        about["hash"] = digest(data)
        self.ours[about["hash"]] = about["run"]
        _keep(name + INTENT, _with_sum(about), durable=True)

    def _name(self, about: dict[str, Any]) -> str:
        """The name of what is known of a new version, without what stands behind it."""
        return os.path.join(self._pool, about["stamp"])

    def _where(self, about: dict[str, Any]) -> tuple[ProjectFiles, str]:
        """Where a new version is made, and what it displaced lies."""
        return (self.project_files, _hidden(about)) if about["hidden"] else (self._aside, about["stamp"])

    def _carried_out(self, about: dict[str, Any], displaced: bool) -> dict[str, Any] | None:
        name, path = self._name(about), about["path"]
        if os.path.exists(name + NEXT):  # else that was done already, and not saved
            os.replace(name + NEXT, self._base(path))
        self.files[path] = {key: about[key] for key in ("run", "part", "hash", "kept")} | {"stat": None}
        self._done.append(name + INTENT)
        if not displaced:
            _forget(name + BASE)
            return None
        entry = {key: about[key] for key in ("stamp", "hidden", "path", "run", "part", "at")}
        entry |= {"hash": about["before"], "stat": None}
        self.pool.append(entry)
        self._make_private(entry)
        return entry

    def _make_private(self, entry: dict[str, Any]) -> None:
        """What was displaced is among our own from now on."""
        files, path = self._where(entry)
        with files.open(path) as at, suppress(OSError):
            fd = os.open(
                at.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at.folder
            )
            try:
                os.fchmod(fd, 0o600)
            finally:
                os.close(fd)

    # -- what was displaced

    def displaced(self, entry: dict[str, Any]) -> bytes | None:
        """What a displaced file holds by now."""
        files, path = self._where(entry)
        return files.read(path)

    def displaced_stat(self, entry: dict[str, Any]) -> list[int] | None:
        return _stat(*self._where(entry))

    def displaced_base(self, entry: dict[str, Any]) -> bytes | None:
        """What was known to be in it."""
        return _unpacked(_bytes(self._name(entry) + BASE))

    def _finish(self) -> None:
        """What was intended and cut short: carried out, or forgotten."""
        known = {entry["stamp"] for entry in self.pool}
        there = sorted(entry.path for entry in os.scandir(self._pool) if _is_made(entry.name))
        for path in there:
            if path.endswith(INTENT):
                about = _intent(_bytes(path), os.path.basename(path))
                if about is None or about["stamp"] in known:
                    self._done.append(path)
                else:
                    self._finish_one(about)
        kept = {self._name(entry) + end for entry in self.pool for end in ("", BASE)}
        for path in there:
            if path not in kept and path not in self._done and _is_old(path):
                _forget(path)

    def _finish_one(self, about: dict[str, Any]) -> None:
        (files, aside), name = self._where(about), self._name(about)
        there = self.stat(about["path"])
        placed = there is not None and there[0] == about["inode"]
        if files.stat(aside + swap.OLD) is not None:  # no names could be exchanged
            if placed:
                files.move(aside + swap.OLD, aside)
            else:
                files.remove(aside + swap.OLD)
        old = _stat(files, aside)
        if old is not None and old[0] == about["inode"]:
            files.remove(aside)
            if not placed:  # it did not come to it
                self._done += [name + INTENT, name + NEXT, name + BASE]
                return
            old = None
        self._prove_next(about)
        self._carried_out(about, old is not None)

    def _prove_next(self, about: dict[str, Any]) -> None:
        """The intent was synced, the copy of what a file will hold was not: a power cut may have left less of it."""
        copy = self._name(about) + NEXT
        kept, now = _unpacked(_bytes(copy)), self.read(about["path"])
        if kept is None or digest(kept) == about["kept"]:
            return
        if now is not None and digest(now) == about["hash"]:
            _write(copy, _packed(self.keeper.keep(about["path"], now)))
        else:  # nobody knows what was in the file: as where all of this memory is lost
            _forget(copy, self._base(about["path"]))

    def put_alone(self, path: str, data: bytes) -> None:
        """Write a file that nobody else writes, whole or not at all."""
        self.project_files.replace(path, data)

    def tidy(self, now: int) -> None:
        """Displaced files that nobody has open, or wrote to for long, are let go; those with a secret at once."""
        keep = []
        for number, entry in enumerate(reversed(self.pool)):
            age = now - entry["at"]
            if number < MOST_KEPT and 0 <= age < KEPT_MS and not self._is_over(entry, age):
                keep.append(entry)
            else:
                files, path = self._where(entry)
                with suppress(OSError):
                    files.remove(path)
                _forget(self._name(entry) + BASE)
        self.pool = keep[::-1]

    def _is_over(self, entry: dict[str, Any], age: int) -> bool:
        """Whether nobody can write to a displaced file any more, and all that was written has been looked at."""
        if (age < SOON_MS and not entry.get("secret")) or self.displaced_stat(entry) != entry["stat"]:
            return False
        files, path = self._where(entry)
        with files.open(path) as at:
            return not swap.in_use(at)


# -- what is only ours


def _private(path: str, flags: int) -> int:
    """No link is followed, and no pipe waited for."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _keep(path: str, data: bytes, *, durable: bool = False) -> None:
    """Whole or not at all. Synced under its last name, which takes the name to disk too."""
    with open(f"{path}.part", "wb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.replace(f"{path}.part", path)
        if durable:
            sync(file.fileno())


def _write(path: str, data: bytes) -> None:
    with open(path, "wb", opener=_private) as file:
        file.write(data)


def _bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=_private) as file:
            return file.read()
    except OSError:
        return None


def _packed(data: bytes) -> bytes:
    """A copy of a large document takes less room than the document."""
    if len(data) < LARGE:
        return data
    import zlib

    return zlib.compress(data, 1)


def _unpacked(data: bytes | None) -> bytes | None:
    """What was kept; a copy that was cut short is what it is, and nobody's document."""
    if data is None or data[:2] != PACKED:
        return data
    import zlib

    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


def _forget(*paths: str) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            pass


def _is_old(path: str) -> bool:
    try:
        return time.time_ns() - os.lstat(path).st_mtime_ns > KEPT_MS * 1_000_000
    except OSError:
        return True


def _stat(files: ProjectFiles, path: str) -> list[int] | None:
    info = files.stat(path)
    if info is None or info.st_mode & 0o170000 != 0o100000:
        return None
    return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def _stamp() -> str:
    """In the order of their stamps they are finished."""
    return f"{time.time_ns():016x}{os.urandom(4).hex()}"


def _is_stamp(stamp: Any) -> bool:
    return isinstance(stamp, str) and len(stamp) == 24 and all(char in "0123456789abcdef" for char in stamp)


def _is_made(name: str) -> bool:
    """Whether a file among what is aside has a name of ours: the store may be in a folder that others use, too."""
    return _is_stamp(name.partition(".")[0])


def _hidden(about: dict[str, Any]) -> str:
    """Beside the file itself."""
    folder, slash, name = about["path"].rpartition("/")
    return f"{folder}{slash}.{name}.{about['stamp']}.leftoff"


def _intent(data: bytes | None, name: str) -> dict[str, Any] | None:
    try:
        found = _proved(json.loads(data or b""))
    except ValueError:
        return None
    needed = {"path", "run", "part", "at", "inode", "hash", "kept", "before", *_ASIDE}
    whole = isinstance(found, dict) and needed <= found.keys() and _is_aside(found)
    return found if whole and name == found["stamp"] + INTENT else None


_ASIDE = ("stamp", "hidden")


def _is_aside(about: dict[str, Any]) -> bool:
    """Whether this names something aside, and nothing else."""
    plain = isinstance(about.get("hidden"), bool) and isinstance(about.get("path"), str)
    return plain and _is_stamp(about.get("stamp"))


def _with_sum(about: dict[str, Any]) -> bytes:
    """What is remembered, with what proves it."""
    return json.dumps({**about, SUM: digest(json.dumps(about).encode())[:16]}).encode()


def _proved(found: Any) -> Any:
    """The same without its sum; ``ValueError`` where it is not what was written. What is of old has none."""
    said = found.pop(SUM, None) if isinstance(found, dict) else None
    if said is not None and said != digest(json.dumps(found).encode())[:16]:
        raise ValueError("not what was written")
    return found


def _is_ours(found: Any) -> bool:
    """Whether this is what was saved; whatever else is there counts as lost."""
    if not isinstance(found, dict) or type(found.get("n", 0)) is not int:
        return False
    files, runs, pool = found.get("files", {}), found.get("runs", {}), found.get("pool", [])
    seen, texts = found.get("seen", {}), [found.get(name, {}) for name in _TEXTS]
    if not (all(isinstance(each, dict) for each in (files, runs, seen, *texts)) and isinstance(pool, list)):
        return False
    if not all(isinstance(text, str) for each in texts for text in each.values()):
        return False
    if not all(stat is None or isinstance(stat, list) for stat in seen.values()):
        return False
    known, needed = [*files.values(), *pool], {"run", "part", "stat", "hash"}
    whole = all(isinstance(about, dict) and needed <= about.keys() for about in known)
    return whole and all(isinstance(about, dict) for about in runs.values()) and all(map(_is_aside, pool))
