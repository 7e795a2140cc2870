"""What the mirror remembers between calls: which files it wrote, what was in them, and what they displaced.

It lies beside the store and can be lost without harm: then the version that a file was written from is found by the
time or the id that the file carries.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager

from leftoff.dialects import swap
from leftoff.model.hashing import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

KEPT_MS = 3_600_000  # how long a displaced file is looked at again
MOST_KEPT = 2000


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class Desk:
    """One project's mirror, as it was left."""

    def __init__(self, project: str, folder: str) -> None:
        self.project = project
        self.folder = folder
        self.n = 0  # the store-wide number of the last commit that is in the files
        self.files: dict[str, dict[str, Any]] = {}  # by path: run, part, stat
        self.pool: list[dict[str, Any]] = []  # displaced files
        self.runs: dict[str, dict[str, Any]] = {}  # what a dialect remembers of a run
        self.seen: dict[str, list[int] | None] = {}  # files of others, as they were when they were taken in

    @contextmanager
    def open(self) -> Iterator[None]:
        """One at a time; what is changed is kept."""
        os.makedirs(os.path.join(self.folder, "pool"), mode=0o700, exist_ok=True)
        with open(os.path.join(self.folder, "lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._load()
            try:
                yield
            finally:
                self._save()

    def _load(self) -> None:
        found: Any = {}
        try:
            with open(os.path.join(self.folder, "desk.json"), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError, RecursionError):
            pass
        if not _is_ours(found):
            found = {}
        self.n = found.get("n", 0)
        self.files, self.pool = found.get("files", {}), found.get("pool", [])
        self.runs, self.seen = found.get("runs", {}), found.get("seen", {})
        self._before = json.dumps(found)

    def _save(self) -> None:
        known = {"n": self.n, "files": self.files, "pool": self.pool, "runs": self.runs, "seen": self.seen}
        data = json.dumps(known)
        if data != self._before:
            temp = os.path.join(self.folder, "desk.json.part")
            with open(temp, "w", encoding="utf-8") as file:
                file.write(data)
            os.replace(temp, os.path.join(self.folder, "desk.json"))

    # -- files

    def full(self, path: str) -> str:
        return os.path.join(self.project, path)

    def stat(self, full: str) -> list[int] | None:
        try:
            info = os.stat(full)
        except OSError:
            return None
        return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]

    def read(self, full: str) -> bytes | None:
        try:
            with open(full, "rb") as file:
                return file.read()
        except OSError:
            return None

    def base(self, path: str) -> bytes | None:
        """What was last known to be in a file."""
        return self.read(self._base(path))

    def _base(self, path: str) -> str:
        return os.path.join(self.folder, digest(path.encode())[:32])

    def know(self, path: str, data: bytes, run_id: str, part: str | None) -> None:
        """This is in the file now, and the store knows it."""
        temp = f"{self._base(path)}.part"
        with open(temp, "wb") as file:
            file.write(data)
        os.replace(temp, self._base(path))
        self.files[path] = {"run": run_id, "part": part, "stat": None, "hash": digest(data)}

    def forget(self, path: str) -> None:
        self.files.pop(path, None)
        try:
            os.unlink(self._base(path))
        except OSError:
            pass

    def put(self, path: str, data: bytes, run_id: str, part: str | None, now: int) -> dict[str, Any] | None:
        """Write a file; what it displaced, to be looked at again."""
        before = self.base(path)
        old = swap.put(self.full(path), data)
        entry = self._keep(old, path, before, run_id, part, now) if old is not None else None
        self.know(path, data, run_id, part)
        self.files[path]["stat"] = self.stat(self.full(path))
        return entry

    def _keep(
        self, old: str, path: str, before: bytes | None, run_id: str, part: str | None, now: int
    ) -> dict[str, Any]:
        name = os.path.join(self.folder, "pool", os.urandom(8).hex())
        place = swap.aside(old, name)
        if before is not None:
            with open(f"{name}.base", "wb") as file:
                file.write(before)
        about = {"place": place, "base": f"{name}.base", "path": path, "run": run_id, "part": part}
        entry = {**about, "hash": digest(before) if before is not None else "", "stat": None, "at": now}
        self.pool.append(entry)
        return entry

    def tidy(self, now: int) -> None:
        """Displaced files that nobody wrote to for long are let go."""
        keep = []
        for number, entry in enumerate(reversed(self.pool)):
            if number < MOST_KEPT and now - entry["at"] < KEPT_MS:
                keep.append(entry)
                continue
            for name in (entry["place"], entry["base"]):
                try:
                    os.unlink(name)
                except OSError:
                    pass
        self.pool = keep[::-1]


def _is_ours(found: Any) -> bool:
    """Whether this is what was saved; whatever else is there counts as lost."""
    if not isinstance(found, dict) or type(found.get("n", 0)) is not int:
        return False
    files, runs = found.get("files", {}), found.get("runs", {})
    pool, seen = found.get("pool", []), found.get("seen", {})
    if not (_is_dict(files) and _is_dict(runs) and isinstance(pool, list) and _is_dict(seen)):
        return False
    known = [*files.values(), *pool]
    needed = ("run", "part", "stat", "hash")
    whole = all(_is_dict(about) and all(key in about for key in needed) for about in known)
    return whole and all(map(_is_dict, runs.values()))


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)
