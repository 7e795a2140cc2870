"""What leftoff knows about the synced files of one work tree, in `.leftoff/sync/`, and how it replaces them.

For each file it stores the bytes that were last written or read: the base of a three-way merge. Secrets are left out of
them. The folder may be lost without harm. Then the stamps in a document name the version that it was written from.

A file is replaced by exchanging two names in one step. So an edit that was made at the last moment is not lost: it is
in `displaced/` under the other name, and is merged from there. It stays there for a minute, because an editor that
writes in place may have it open.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from leftoff.engine.project_files import (
    Place,
    ProjectFiles,
    mode_at,
    read_at,
    replace_at,
    write_new,
)
from leftoff.engine.redactor import MASK, Redactor
from leftoff.errors import LeftoffError, UnsafePath
from leftoff.files import held_by_another, lock_within, make_private
from leftoff.model.codec import sha256
from leftoff.protocols.document_text import pack, read_packed, unpack
from leftoff.protocols.loose_values import Repairs
from leftoff.protocols.protocol import Dialect
from leftoff.store.base import Store

FOLDER, STATE, DISPLACED = "sync", "state", "displaced"
BASE = ".base"
KEPT_MS = 60_000  # how long a displaced file is watched for further edits
MOST_KEPT = 50  # displaced files at once
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EXDEV)

Stat = list[int]


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


@dataclass
class SyncedFile:
    """A file of a run. ``part``: which part of its document; ``hash``: of the bytes last written or read.

    ``edited``: those bytes were read. ``deleted``: the file is missing, and that was reported.
    """

    run: str
    part: str | None
    hash: str
    stat: Stat | None = None
    edited: bool = False
    deleted: bool = False


@dataclass
class DisplacedFile:
    """A file that was replaced. ``hash``: of the bytes that are known to the store; ``at``: when it was replaced."""

    name: str
    path: str
    run: str
    part: str | None
    hash: str
    at: int
    stat: Stat | None = None
    secret: bool = False
    edited: bool = False


@dataclass
class Problem:
    """Why a run or a file could not be synced. ``run``: whose files must be written again."""

    why: str
    run: str | None


class SyncBase:
    """The state of one work tree. Change it only inside `open`."""

    def __init__(self, project: str, store_folder: str, secrets: SecretFilter) -> None:
        self.project = project
        self._store_folder = store_folder
        self.folder = own_folder(store_folder, project)
        self.secrets = secrets
        self.project_files = ProjectFiles(project)
        self._aside = os.path.join(self.folder, DISPLACED)
        self.n = 0  # the store-wide number of the last commit that is in the files
        self.files: dict[str, SyncedFile] = {}
        self.displaced: list[DisplacedFile] = []
        self.runs: dict[str, dict[str, Any]] = {}  # what a protocol remembers about a run
        self.seen: dict[str, Stat | None] = {}  # files that are not synced, as they were last seen
        self.written: dict[str, str] = {}  # all files that were written, with their run
        self.problems: dict[str, Problem] = {}  # by run or file

    @contextmanager
    def open(self, patience: float = Store.patience) -> Iterator[None]:
        """Lock the state, load it, and save it at the end. ``patience``: seconds to wait for the lock."""
        for folder in (self.folder, self._aside):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if os.path.islink(folder):
                raise UnsafePath(f"{folder} is a symbolic link, which leftoff does not follow.")
            make_private(folder)
        path = os.path.join(self.folder, "lock")
        with open(path, "ab", opener=_private) as lock:
            if not lock_within(lock.fileno(), fcntl.LOCK_EX, patience):
                raise held_by_another(path, lock.fileno())
            try:
                self._load()
                before = self._dumped()
                try:
                    yield
                finally:
                    if (now := self._dumped()) != before:
                        _replace(os.path.join(self.folder, STATE), f"{digest(now)}\n".encode() + now)
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too

    def saved(self) -> SyncBase:
        """Return the state as it was saved, without a lock, for callers that only look."""
        found = SyncBase(self.project, self._store_folder, self.secrets)
        found._load()
        return found

    def _load(self) -> None:
        """Load the state. A damaged one counts as lost."""
        sum, _, data = (_read(os.path.join(self.folder, STATE)) or b"").partition(b"\n")
        found = json.loads(data) if sum and sum.decode("latin-1") == digest(data) else {}
        self.n = found.get("n", 0)
        self.files = {path: SyncedFile(**each) for path, each in found.get("files", {}).items()}
        self.displaced = [DisplacedFile(**each) for each in found.get("displaced", [])]
        self.runs, self.seen, self.written = (found.get(name, {}) for name in ("runs", "seen", "written"))
        problems = {about: Problem(**each) for about, each in found.get("problems", {}).items()}
        self.problems = {**problems, **self.problems}

    def _dumped(self) -> bytes:
        return json.dumps(
            {
                "n": self.n,
                "files": {path: asdict(each) for path, each in self.files.items()},
                "displaced": [asdict(each) for each in self.displaced],
                "runs": self.runs,
                "seen": self.seen,
                "written": self.written,
                "problems": {about: asdict(each) for about, each in self.problems.items()},
            }
        ).encode()

    # -- files and their base

    def read(self, path: str) -> bytes | None:
        """Return what a file of the project holds; ``None`` if there is no plain file."""
        return self.project_files.read(path)

    def stat(self, path: str) -> Stat | None:
        """Return what changes if a file is written; ``None`` if there is no plain file."""
        info = self.project_files.stat(path)
        return _stat(info) if info is not None else None

    def base(self, path: str) -> bytes | None:
        """Return what was last written to a file or read from it, without secrets."""
        return _read(self._base(path))

    def remember(self, path: str, data: bytes, run_id: str, part: str | None) -> SyncedFile:
        """Store what a file holds, as far as the store knows it now."""
        file = self.files[path] = SyncedFile(run_id, part, digest(data))
        _replace(self._base(path), self.secrets.keep(path, data))
        return file

    def forget(self, path: str) -> None:
        """Stop syncing a file. If it stays, it is not a new run."""
        self.files.pop(path, None)
        self.seen[path] = self.stat(path)
        _unlink(self._base(path))

    def _base(self, path: str) -> str:
        return os.path.join(self.folder, digest(path.encode())[:32] + BASE)

    def save_edited(self, path: str, data: bytes) -> str | None:
        """Save an edited file next to the file. Return the path, or ``None`` if it was saved before."""
        copy = f"{path}.{digest(data)[:8]}.edited"
        if self.project_files.stat(copy) is not None:
            return None
        self.project_files.replace(copy, data)
        return copy

    # -- writing

    def put(self, path: str, data: bytes, run_id: str, part: str | None, now: int) -> DisplacedFile | None:
        """Replace a file. Return what was displaced, which may have an edit that nobody has read yet."""
        name = f"{time.time_ns():016x}{os.urandom(4).hex()}"
        before = self.files.get(path)
        known = before.hash if before is not None else ""
        with self.project_files.open(path) as at:
            mode = mode_at(at)
            if before is not None:
                with suppress(OSError):
                    os.link(self._base(path), os.path.join(self._aside, name + BASE))
            try:
                displaced = place(self._aside, name, at, data, mode)
            except BaseException:
                _unlink(*self._names(name))
                raise
        self.remember(path, data, run_id, part).stat = self.stat(path)
        if not displaced:
            _unlink(*self._names(name))
            return None
        with suppress(OSError):
            os.chmod(os.path.join(self._aside, name), 0o600, follow_symlinks=False)
        edited = before is not None and before.edited
        self.displaced.append(DisplacedFile(name, path, run_id, part, known, now, edited=edited))
        return self.displaced[-1]

    def _names(self, name: str) -> tuple[str, str]:
        return os.path.join(self._aside, name), os.path.join(self._aside, name + BASE)

    # -- displaced files

    def read_displaced(self, entry: DisplacedFile) -> bytes | None:
        return _read(self._names(entry.name)[0])

    def displaced_stat(self, entry: DisplacedFile) -> Stat | None:
        try:
            return _stat(os.lstat(self._names(entry.name)[0]))
        except OSError:
            return None

    def displaced_base(self, entry: DisplacedFile) -> bytes | None:
        return _read(self._names(entry.name)[1])

    def tidy(self, now: int) -> None:
        """Delete displaced files after a minute, and at once if they contain secrets and were merged.

        Also delete those of a process that was killed before it saved the state.
        """
        stay = []
        for number, entry in enumerate(reversed(self.displaced)):
            over = entry.secret and entry.stat == self.displaced_stat(entry)
            if number < MOST_KEPT and 0 <= now - entry.at < KEPT_MS and not over:
                stay.append(entry)
        self.displaced = stay[::-1]
        names = {entry.name for entry in stay}
        for file in os.scandir(self._aside):
            if file.name.removesuffix(BASE) not in names:
                _unlink(file.path)


def own_folder(store: str, project: str) -> str:
    """Return the folder of the state. Work trees that share a store have one each."""
    own = os.path.realpath(project)
    if os.path.dirname(os.path.realpath(store)) == own:
        return os.path.join(store, FOLDER)
    return os.path.join(store, f"{FOLDER}-{digest(own.encode())[:12]}")


# -- exchanging names


def place(folder: str, name: str, at: Place, data: bytes, mode: int | None) -> bool:
    """Write a file. Return whether there was one, which is ``name`` in ``folder`` then.

    If the system cannot exchange names, the old file is copied there just before it is replaced.
    """
    with Place(name, os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as new:
        write_new(new, name, [data], mode)
        while True:
            try:
                exchange(new, at)
                return True
            except FileNotFoundError:
                try:
                    os.link(name, at.name, src_dir_fd=new.folder, dst_dir_fd=at.folder, follow_symlinks=False)
                    return False
                except FileExistsError:
                    continue
                except OSError as error:
                    if error.errno not in _NO_EXCHANGE:
                        raise
            except OSError as error:
                if error.errno not in _NO_EXCHANGE:
                    raise
            there = read_at(at)
            replace_at(at, [data], mode)
            if there is not None:
                _write(os.path.join(folder, name), there)
            return there is not None


def exchange(new: Place, at: Place) -> None:
    """Exchange two names with `renameat2`. Raise ``OSError`` with ``ENOSYS`` if there is none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, "no renameat2")
    if call(new.folder, os.fsencode(new.name), at.folder, os.fsencode(at.name), 2) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), at.path)


# -- files of the folder


def _private(path: str, flags: int) -> int:
    """Open a file without following a link or waiting for a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", opener=_private) as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, data: bytes) -> None:
    with open(path, "wb", opener=_private) as file:
        file.write(data)


def _replace(path: str, data: bytes) -> None:
    _write(f"{path}.part", data)
    os.replace(f"{path}.part", path)


def _unlink(*paths: str) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def _stat(info: os.stat_result) -> Stat | None:
    if info.st_mode & 0o170000 != 0o100000:
        return None
    return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


# -- secrets: they are left out of the bases, and stay in the user's files

_MARK = {"redacted": True}


class SecretFilter:
    """Removes secrets from the documents of a project, and restores them."""

    def __init__(self, redactor: Redactor, dialect: Dialect) -> None:
        self._redactor = redactor
        self._dialect = dialect

    def keep(self, path: str, data: bytes) -> bytes:
        """Return the bytes of a document without secrets; the same object if there are none."""
        try:
            plain = unpack(data, path) if path.endswith(".gz") else data
            text = plain.decode("utf-8", "surrogateescape")
            if not self._redactor.suspicious("", text) and "\\" not in text:
                return data
            document = read_packed(data, path, Repairs())
        except LeftoffError:  # not a document
            text = data.decode("utf-8", "surrogateescape")
            masked = self._redactor.mask(text)
            return data if masked is text else masked.encode("utf-8", "surrogateescape")
        clean = self.clean(document)
        return data if clean is document else pack(self._dialect.dump(clean).encode(), path)

    def clean(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document without secrets; the same object if there are none."""
        found: dict[str, Any] = self._masked(self._redactor.scrub("", document)[0])
        return found

    def _masked(self, value: Any) -> Any:
        """Mask secrets that stand next to their name in a text."""
        if isinstance(value, str):
            return self._redactor.mask(value)
        if isinstance(value, dict):
            new = {key: self._masked(item) for key, item in value.items()}
            return value if all(new[key] is item for key, item in value.items()) else new
        if isinstance(value, list):
            items = [self._masked(item) for item in value]
            return value if all(one is other for one, other in zip(items, value, strict=True)) else items
        return value

    def with_secrets(self, document: dict[str, Any], path: str, there: bytes | None) -> dict[str, Any]:
        """Return a document with the file's own values where the stored ones were redacted."""
        if there is None or not (_has_marks(document) or MASK in str(document)):
            return document
        try:
            found: dict[str, Any] = self._filled(document, read_packed(there, path, Repairs()))
        except LeftoffError:
            return document
        return found

    def _filled(self, value: Any, there: Any) -> Any:
        if isinstance(value, dict):
            if value == _MARK:
                return value if there is None else there
            known = there if isinstance(there, dict) else {}
            return {key: self._filled(item, known.get(key)) for key, item in value.items()}
        if isinstance(value, list):
            items = there if isinstance(there, list) and len(there) == len(value) else [None] * len(value)
            return [self._filled(*pair) for pair in zip(value, items, strict=True)]
        if isinstance(value, str) and isinstance(there, str) and MASK in value:
            masked = self._redactor.mask(there)  # text that was appended to it is appended there, too
            return there + value[len(masked) :] if value.startswith(masked) else value
        return value


def _has_marks(value: Any) -> bool:
    if isinstance(value, dict):
        return value == _MARK or any(map(_has_marks, value.values()))
    return isinstance(value, list) and any(map(_has_marks, value))
