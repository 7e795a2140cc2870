"""What leftoff knows about the synced files of one work tree, in `.leftoff/sync/`.

For each file it stores the document that was last written or read, without its secrets: the base of a three-way merge.
The folder may be lost without harm. Then the stamps in a document name the version that it was written from.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from leftoff.engine.project_files import ProjectFiles, exchange_at, mode_at
from leftoff.engine.redactor import MASK, Redactor
from leftoff.errors import LeftoffError
from leftoff.files import held_by_another, lock_within, write_private
from leftoff.model.codec import sha256
from leftoff.protocols.document_text import read_document
from leftoff.protocols.loose_values import Repairs
from leftoff.store.base import SqlStore

FOLDER, BASE = "sync", ".base"

Stat = list[int]


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


@dataclass
class SyncedFile:
    """A file of a run. ``part``: which part of its document; ``hash``: of the bytes last written or read.

    ``edited``: those bytes were read. ``deleted``: the file is missing, and that was reported. ``coming``: the hash of
    an incomplete document that leftoff was about to write: if a kill left it in the file, no user has edited that.
    """

    run: str
    part: str | None
    hash: str
    stat: Stat | None = None
    edited: bool = False
    deleted: bool = False
    coming: str = ""


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
        self._state = os.path.join(self.folder, "state")
        self.secrets = secrets
        self.project_files = ProjectFiles(project)
        self.n = 0  # the store-wide number of the last commit that is in the files
        self.files: dict[str, SyncedFile] = {}
        self.runs: dict[str, dict[str, Any]] = {}  # what a protocol remembers about a run
        self.seen: dict[str, Stat | None] = {}  # files that are not synced, as they were last seen
        self.written: dict[str, str] = {}  # all files that were written, with their run
        self.problems: dict[str, Problem] = {}  # by run or file

    @contextmanager
    def open(self, patience: float = SqlStore.patience) -> Iterator[None]:
        """Lock the state, load it, and save it at the end. ``patience``: seconds to wait for the lock."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path = os.path.join(self.folder, "lock")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as lock:
            if not lock_within(lock.fileno(), fcntl.LOCK_EX, patience):
                raise held_by_another(path, lock.fileno())
            try:
                self._load()
                before = self._dumped()
                try:
                    yield
                finally:
                    if self._dumped() != before:
                        self.save()
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too

    def save(self) -> None:
        write_private(self._state, [self._dumped()], durable=False)

    def saved(self) -> SyncBase:
        """Return the state as it was saved, without a lock, for callers that only look."""
        found = SyncBase(self.project, self._store_folder, self.secrets)
        found._load()
        return found

    def _load(self) -> None:
        """Load the state. A damaged one counts as lost."""
        found = _read_json(self._state) or {}
        self.n = found.get("n", 0)
        self.files = {path: SyncedFile(**each) for path, each in found.get("files", {}).items()}
        self.runs, self.seen, self.written = (found.get(name, {}) for name in ("runs", "seen", "written"))
        problems = {about: Problem(**each) for about, each in found.get("problems", {}).items()}
        self.problems = {**problems, **self.problems}

    def _dumped(self) -> bytes:
        return json.dumps(
            {
                "n": self.n,
                "files": {path: asdict(each) for path, each in self.files.items()},
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
        if info is None or info.st_mode & 0o170000 != 0o100000:
            return None
        return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]

    def base(self, path: str) -> dict[str, Any] | None:
        """Return the document that was last written to a file or read from it, without secrets."""
        return _read_json(self._base(path))

    def remember(self, path: str, data: bytes, run_id: str, part: str | None) -> SyncedFile:
        """Store what a file holds, as far as the store knows it now."""
        file = self.files[path] = SyncedFile(run_id, part, digest(data))
        try:
            document = self.secrets.clean(read_document(data, path, Repairs()))
            write_private(self._base(path), [json.dumps(document).encode()], durable=False)
        except LeftoffError:  # not a document
            _unlink(self._base(path))
        return file

    def forget(self, path: str) -> None:
        """Stop syncing a file. If it stays, it is not a new run."""
        self.files.pop(path, None)
        self.seen[path] = self.stat(path)
        _unlink(self._base(path))

    def follow(self, path: str, to: str) -> None:
        """Sync a file under its new name: the user moved it."""
        old = self.files[path]
        with suppress(OSError):
            os.replace(self._base(path), self._base(to))
        self.forget(path)
        self.files[to] = SyncedFile(old.run, old.part, old.hash)

    def _base(self, path: str) -> str:
        return os.path.join(self.folder, digest(path.encode())[:32] + BASE)

    def save_edited(self, path: str, data: bytes) -> str | None:
        """Save an edited file next to the file. Return the path, or ``None`` if it was saved before."""
        copy = f"{path}.{digest(data)[:8]}.edited"
        if self.project_files.stat(copy) is not None:
            return None
        self.project_files.replace(copy, data)
        return copy

    def replace(self, path: str, data: bytes) -> bytes | None:
        """Replace a file. Return what was there: it may have an edit that was not read yet."""
        with self.project_files.open(path) as at:
            return exchange_at(at, data, mode_at(at))


def own_folder(store: str, project: str) -> str:
    """Return the folder of the state. Work trees that share a store have one each."""
    own = os.path.realpath(project)
    if os.path.dirname(os.path.realpath(store)) == own:
        return os.path.join(store, FOLDER)
    return os.path.join(store, f"{FOLDER}-{digest(own.encode())[:12]}")


def _read_json(path: str) -> dict[str, Any] | None:
    """Return what a file holds; ``None`` if there is none, or a power cut left it damaged."""
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


# -- secrets: they are left out of the bases, and stay in the user's files

_MARK = {"redacted": True}


class SecretFilter:
    """Removes secrets from the documents of a project, and restores them."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

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
        shown = str(document)
        if there is None or not (str(_MARK) in shown or MASK in shown):
            return document
        try:
            found: dict[str, Any] = self._filled(document, read_document(there, path, Repairs()))
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
