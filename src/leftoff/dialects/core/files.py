"""Files that a document names: as records, and as lists of paths."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.dialects.core.repairs import shown
from leftoff.engine.steps.artifacts import hash_file
from leftoff.engine.workspace.tracking import DELETED, WAS
from leftoff.errors import StoreUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from leftoff.dialects.core.draft import Draft, Records, Source, State

    T = TypeVar("T")

PLACE = "place"  # of a file record: where its path stands in the list of a document
HASHED = 64 << 20  # bytes of files that are read for one document
TRIES = 3  # of reading a file that changes meanwhile
# What leftoff adds when it looks at a file.
_OURS = ("hash", "size", "mode", "seen", "followed", "captured", "captured_at", WAS, PLACE)


def about_file(about: dict[str, Any]) -> dict[str, Any]:
    """What was said of a file, without what leftoff found when it looked at it."""
    return (
        {key: value for key, value in about.items() if key not in _OURS} if "captured_at" in about else about
    )


def decode_files(draft: Draft, entries: list[Any], status: str | None, where: str) -> None:
    """Records of `file`, by path; a file that is known as an artifact is one already."""
    made = _artifact_paths(draft.known) if draft.known is not None and status == "created" else {}
    for number, entry in enumerate(entries):
        about = dict(entry) if isinstance(entry, dict) else {"path": entry}
        path = about.get("path")
        if not isinstance(path, str) or not path:
            draft.repairs.add(f"{where}: {shown(entry)} names no file; kept as it is written.")
        elif path not in made:
            if status is not None:
                about |= {"status": status, PLACE: number}
            if not draft.put("file", path, about):
                draft.repairs.add(f"{where}: {shown(path)} is there twice, or cannot be a name.")


def entry_of(path: str, about: dict[str, Any]) -> dict[str, Any]:
    """A file as the protocols list it: its path, its status, then the rest."""
    rest = {key: value for key, value in about_file(about).items() if key not in ("path", "status")}
    return {"path": path, **({"status": about["status"]} if "status" in about else {}), **rest}


def created(state: State) -> list[str]:
    """Files that came about: those that say so, and every artifact; new ones behind those that were there."""
    own = {key: about for key, about in state.of("file").items() if _came_about(about)}
    made = _artifact_paths(state)
    return _in_order(own, sorted(set(made) - set(own), key=lambda path: (made[path], path)))


def modified(state: State) -> list[str]:
    return _in_order({key: about for key, about in state.of("file").items() if not _came_about(about)}, [])


def _in_order(files: dict[str, Any], others: list[str]) -> list[str]:
    """Each of the files that has a place at that place, the others around them."""
    placed = [(about[PLACE], key) for key, about in files.items() if isinstance(_field(about, PLACE), int)]
    out = [*others, *(key for key, about in files.items() if not isinstance(_field(about, PLACE), int))]
    for place, key in sorted(placed):
        out.insert(place, key)
    return out


def _came_about(about: Any) -> bool:
    """Whether a file was created by the run; one that is gone by now, too."""
    status = _field(about, "status")
    return bool((_field(about, WAS) if status == DELETED else status) == "created")


def _field(about: Any, name: str) -> Any:
    return about.get(name) if isinstance(about, dict) else None


def _artifact_paths(state: State) -> dict[str, str]:
    """By path, when each was captured."""
    found = [about for about in state.of("artifact").values() if isinstance(about, dict)]
    return {
        about["path"]: str(about.get("captured_at", ""))
        for about in found
        if isinstance(about.get("path"), str)
    }


class Unread(Exception):
    """Files that must be read, or read again, before what asked for them can be done."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths


class FileHashes:
    """What the files hold that a document names, if they are in the project and not too large together.

    A transaction asks for hashes and reads no file: one that was not read, or that changed since, raises ``Unread``.
    """

    def __init__(self, project: str, source: Source, most: int = HASHED, tries: int = TRIES) -> None:
        self._project = project
        self._starts = (project, os.path.join(project, os.path.dirname(source.path)))
        self._left = most
        self._tries = tries
        self._known: dict[str, tuple[Any, dict[str, Any]]] = {}

    def reading(self, work: Callable[[], T]) -> T:
        """Do work, as often as it takes to have read the files that it asks for."""
        while True:
            try:
                return work()
            except Unread as need:
                self._tries -= 1
                for path in need.paths:
                    self._known[path] = self._read(path)

    def put_in(self, records: Records, now: int) -> Records:
        """The records, their artifacts with the hashes of the files."""
        named = {
            address: about["path"]
            for address, about in records.items()
            if address[0] == "artifact" and isinstance(about, dict) and isinstance(about.get("path"), str)
        }
        unread = [path for path in named.values() if not self._is_current(path)]
        if unread:
            raise Unread(unread)
        hashed = {address: self._known[path][1] for address, path in named.items()}
        seen = {"captured": False, "captured_at": iso(now)}
        return records | {a: {**records[a], **found, **seen} for a, found in hashed.items() if found}

    def _is_current(self, path: str) -> bool:
        """Whether a file is the one that was read; of one that changes all the time, what was read last counts."""
        return path in self._known and (self._tries <= 0 or self._known[path][0] == self._look(path))

    def _read(self, path: str) -> tuple[Any, dict[str, Any]]:
        """What tells the file from another one, and its hash, if it is to have one."""
        there = self._look(path)
        if there is None or there[1][1] > self._left:
            return there, {}
        full, (_, size, *_) = there
        self._left -= size
        try:
            digest, size = hash_file(full)
        except StoreUnavailable:
            return there, {}
        return there, {"hash": f"sha256:{digest.hex()}", "size": size}

    def _look(self, path: str) -> tuple[str, list[int]] | None:
        """A file of the project: named from its top, or from where the document lies."""
        for start in self._starts if "\0" not in path else ():
            if os.path.isfile(full := os.path.join(start, path)):
                real = os.path.realpath(full)
                stat = stat_of(real)
                if stat is not None and real.startswith(os.path.realpath(self._project) + os.sep):
                    return real, stat
        return None


def stat_of(full: str) -> list[int] | None:
    """What tells a file from another, or from what it was; ``None``: there is none."""
    try:
        info = os.stat(full)
    except OSError:
        return None
    return [info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]
