"""What the mirror remembers between calls: which files it wrote, what was in them, and what they displaced.

It lies beside the store and can be lost without harm: then the version that a file was written from is found by the
time or the id that the file carries.

Before a file is replaced, what is about to happen is written down (an *intent*), with a copy of what it will hold.
Whoever dies in between leaves the intent behind, and the next one finishes it: our own write is known as ours, and what
it displaced is looked at.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager

from leftoff.dialects.core.files import stat_of
from leftoff.dialects.mirror import swap
from leftoff.errors import Invalid
from leftoff.model.hashing import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

KEPT_MS = 3_600_000  # how long a displaced file is looked at again, at most
SOON_MS = 1000  # and at least: who is just opening it has it open by then
MOST_KEPT = 2000
QUARANTINE = "quarantine"  # a folder beside the store: what is in there is never deleted
INTENT, BASE, NEXT = ".json", ".base", ".next"  # behind the name of a new version


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class Memory:
    """One project's mirror, as it was left."""

    def __init__(self, project: str, folder: str) -> None:
        self.project = project
        self.folder = folder
        self._pool = os.path.join(folder, "pool")
        self._done: list[str] = []  # intents that are carried out, once what is known is saved
        self.n = 0  # the store-wide number of the last commit that is in the files
        self.files: dict[str, dict[str, Any]] = {}  # by path: run, part, stat
        self.pool: list[dict[str, Any]] = []  # displaced files
        self.runs: dict[str, dict[str, Any]] = {}  # what a dialect remembers of a run
        self.seen: dict[str, list[int] | None] = {}  # files of others, as they were when they were taken in
        self.ours: dict[str, str] = {}  # by the hash of what was written: the run that it says something of
        self.problems: dict[str, str] = {}  # by run or file: why it could not be followed

    @contextmanager
    def open(self) -> Iterator[None]:
        """One at a time; what is changed is kept."""
        os.makedirs(self._pool, mode=0o700, exist_ok=True)
        with open(os.path.join(self.folder, "lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
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
            with open(os.path.join(self.folder, "desk.json"), encoding="utf-8") as file:
                found = json.load(file)
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
        self._before = json.dumps(found)

    def _save(self) -> None:
        known = {"n": self.n, "files": self.files, "pool": self.pool, "runs": self.runs, "seen": self.seen}
        ours = dict(list(self.ours.items())[-MOST_KEPT:])
        known |= {"ours": ours, "problems": self.problems}
        data = json.dumps(known)
        if data != self._before:
            temp = os.path.join(self.folder, "desk.json.part")
            with open(temp, "w", encoding="utf-8") as file:
                file.write(data)
            os.replace(temp, os.path.join(self.folder, "desk.json"))
        swap.forget(*self._done)
        self._done = []

    # -- files

    def full(self, path: str) -> str:
        return os.path.join(self.project, path)

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

    def remember(self, path: str, data: bytes, run_id: str, part: str | None) -> None:
        """This is in the file now, and the store knows it."""
        temp = f"{self._base(path)}.part"
        with open(temp, "wb") as file:
            file.write(data)
        os.replace(temp, self._base(path))
        self.files[path] = {"run": run_id, "part": part, "stat": None, "hash": digest(data)}

    def forget(self, path: str) -> None:
        self.files.pop(path, None)
        swap.forget(self._base(path))

    def set_aside(self, path: str, data: bytes) -> str | None:
        """A lasting copy of what somebody wrote and nobody can read; where it is, unless it was there already."""
        folder = os.path.join(os.path.dirname(self.folder), QUARANTINE, "files")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        stem, suffix = os.path.splitext(os.path.basename(path))
        place = os.path.join(folder, f"{stem}-{digest(data)[:8]}{suffix}")
        if os.path.exists(place):
            return None
        swap.replace_file(place, data)
        return place

    # -- replacing them

    def put(self, path: str, data: bytes, run_id: str, part: str | None, now: int) -> dict[str, Any] | None:
        """Write a file; what it displaced, to be looked at again."""
        about = self._intend(path, data, run_id, part, now)
        try:
            displaced = swap.place(about["place"], self.full(path))
        except BaseException:
            swap.forget(about["name"] + INTENT, about["place"], about["name"] + NEXT, about["name"] + BASE)
            raise
        entry = self._carried_out(about, displaced)
        self.files[path]["stat"] = stat_of(self.full(path))
        return entry

    def _intend(self, path: str, data: bytes, run_id: str, part: str | None, now: int) -> dict[str, Any]:
        """Write down what is about to happen to a file: where its new version is, and what it will hold."""
        place, name = self._new_name(self.full(path))
        inode = swap.write_new(place, data)
        with open(name + NEXT, "wb") as file:
            file.write(data)
        before = self.files.get(path, {}).get("hash", "")
        try:
            os.link(self._base(path), name + BASE)
        except FileNotFoundError:
            before = ""
        self.ours[digest(data)] = run_id
        about = {"name": name, "place": place, "path": path, "run": run_id, "part": part, "at": now}
        about |= {"inode": inode, "hash": digest(data), "before": before}
        with open(name + INTENT + ".part", "w", encoding="utf-8") as file:
            json.dump(about, file)
        os.rename(name + INTENT + ".part", name + INTENT)
        return about

    def _new_name(self, full: str) -> tuple[str, str]:
        """Where a new version of a file is made, and the name of what is known of it."""
        stamp = f"{time.time_ns():016x}{os.urandom(4).hex()}"  # in this order they are finished
        folder, name = os.path.dirname(full), os.path.join(self._pool, stamp)
        if not os.path.normpath(full).startswith(os.path.join(os.path.normpath(self.project), "")):
            raise Invalid(
                f"{full} is outside of the project, and is not written.", hint="Mend the id in the file."
            )
        os.makedirs(folder, exist_ok=True)
        if swap.reaches(self._pool, folder):
            return name, name
        hidden = f".{os.path.basename(full)}.{os.path.basename(name)}.leftoff"
        return os.path.join(folder, hidden), name

    def _carried_out(self, about: dict[str, Any], displaced: bool) -> dict[str, Any] | None:
        name, path = about["name"], about["path"]
        if os.path.exists(name + NEXT):  # else that was done already, and not saved
            os.replace(name + NEXT, self._base(path))
        self.files[path] = {"run": about["run"], "part": about["part"], "stat": None, "hash": about["hash"]}
        self._done.append(name + INTENT)
        if not displaced:
            swap.forget(name + BASE)
            return None
        entry = {key: about[key] for key in ("place", "path", "run", "part", "at")}
        entry |= {"base": name + BASE, "hash": about["before"], "stat": None}
        self.pool.append(entry)
        return entry

    def _finish(self) -> None:
        """What was intended and cut short: carried out, or forgotten."""
        known = {entry["place"] for entry in self.pool}
        there = sorted(entry.path for entry in os.scandir(self._pool))
        for path in there:
            if path.endswith(INTENT):
                about = _intent(self.read(path))
                if about is None or about["place"] in known:
                    self._done.append(path)
                else:
                    self._finish_one(about)
        known = {name for entry in self.pool for name in (entry["place"], entry["base"])}
        for path in there:
            if path not in known and path not in self._done and self._is_old(path):
                swap.forget(path)

    def _is_old(self, path: str) -> bool:
        found = stat_of(path)
        return found is None or time.time_ns() - found[2] > KEPT_MS * 1_000_000

    def _finish_one(self, about: dict[str, Any]) -> None:
        place, name = about["place"], about["name"]
        there = stat_of(self.full(about["path"]))
        if os.path.exists(place + swap.OLD):  # no names could be exchanged
            if there is not None and there[0] == about["inode"]:
                os.rename(place + swap.OLD, place)
            else:
                swap.forget(place + swap.OLD)
        old = stat_of(place)
        if old is not None and old[0] == about["inode"]:
            placed = there is not None and there[0] == about["inode"]
            swap.forget(place)
            if not placed:  # it did not come to it
                self._done += [name + INTENT, name + NEXT, name + BASE]
                return
            old = None
        self._carried_out(about, old is not None)

    def put_alone(self, path: str, data: bytes) -> None:
        """Write a file that nobody else writes, whole or not at all."""
        place, _ = self._new_name(self.full(path))
        swap.write_new(place, data)
        os.replace(place, self.full(path))

    def tidy(self, now: int) -> None:
        """Displaced files that nobody has open, or wrote to for long, are let go."""
        keep = []
        for number, entry in enumerate(reversed(self.pool)):
            age = now - entry["at"]
            if number < MOST_KEPT and 0 <= age < KEPT_MS and not self._is_over(entry, age):
                keep.append(entry)
            else:
                swap.forget(entry["place"], entry["base"])
        self.pool = keep[::-1]

    def _is_over(self, entry: dict[str, Any], age: int) -> bool:
        """Whether nobody can write to a displaced file any more, and all that was written has been looked at."""
        if age < SOON_MS or swap.in_use(entry["place"]):
            return False
        return bool(stat_of(entry["place"]) == entry["stat"])


def _intent(data: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(data or b"")
    except ValueError:
        return None
    needed = {"name", "place", "path", "run", "part", "at", "inode", "hash", "before"}
    return found if isinstance(found, dict) and needed <= found.keys() else None


def _is_ours(found: Any) -> bool:
    """Whether this is what was saved; whatever else is there counts as lost."""
    if not isinstance(found, dict) or type(found.get("n", 0)) is not int:
        return False
    files, runs, pool = found.get("files", {}), found.get("runs", {}), found.get("pool", [])
    maps = (files, runs, *(found.get(name, {}) for name in ("seen", "ours", "problems")))
    if not (all(isinstance(each, dict) for each in maps) and isinstance(pool, list)):
        return False
    known, needed = [*files.values(), *pool], {"run", "part", "stat", "hash"}
    whole = all(isinstance(about, dict) and needed <= about.keys() for about in known)
    return whole and all(isinstance(about, dict) for about in runs.values())
