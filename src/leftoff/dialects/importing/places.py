"""Finding documents: which files of a folder are a dialect's, which of them belong together, and in what order."""

from __future__ import annotations

import os
import re

from leftoff.dialects.core.draft import Source
from leftoff.dialects.core.reading import read_bytes, read_document
from leftoff.dialects.core.registry import dialects, recognise
from leftoff.dialects.core.repairs import Rejected, Repairs, rejecting, shown
from leftoff.errors import LeftoffError
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.repairs import Reject

_SKIPPED = frozenset((".git", ".leftoff", "node_modules", ".venv", "__pycache__"))
_SUFFIXES = (".json", ".yaml", ".yml", ".yaml.gz", ".json.gz")
MOST_FILES = 100_000
_LONGEST_POINTER = 300  # bytes of a file that holds a name
_POINTER = re.compile(r"[^\n/\0]{1,255}\Z")


class Loaded(Fields):
    """One document as it was read, its bytes' hash, and how it was sealed."""

    document: dict[str, Any]
    source: Source
    repairs: Repairs
    hash: str
    trigger: str | None = None


class Unit(Fields):
    """The files that make up one run. ``ready``: the only one, where it had to be read to see what it is."""

    dialect: Dialect
    paths: list[str]
    ready: tuple[bytes, dict[str, Any], Repairs] | None = None

    def load(self, path: str) -> Loaded:
        """One of them, read; not twice, for it may be large."""
        ready, self.ready = self.ready, None
        return load(path, self.dialect, ready if [path] == self.paths else None)

    @property
    def path(self) -> str:
        return self.paths[0]


def find(paths: list[str], wanted: Dialect | None, reject: Reject) -> Iterator[Unit]:
    """What there is to be read, one after the other; ``reject(path, error)`` is told what is not."""
    for path in paths:
        units: list[Unit] = []
        with rejecting(path, reject):
            units = _in_folder(path, wanted, reject) if os.path.isdir(path) else _one_file(path, wanted)
        yield from units


def _in_folder(folder: str, wanted: Dialect | None, reject: Reject) -> list[Unit]:
    files = documents_under(folder)
    units: list[Unit] = []
    taken: set[str] = set()
    for each in [wanted] if wanted is not None else dialects():
        own = [path for path in files if path not in taken and each.owns(os.path.abspath(path))]
        taken.update(own)
        units += [Unit(each, paths) for paths in each.group(own)]
    if not taken:
        units += _unplaced(folder, files, wanted, reject)
    return units


def _unplaced(folder: str, files: list[str], wanted: Dialect | None, reject: Reject) -> list[Unit]:
    """Nothing lies where a dialect keeps its documents: files are tried for what they hold, if they are few enough."""
    near = [path for path in files if wanted is not None or os.path.dirname(path) == folder.rstrip("/")]
    if not near:
        here = f"none of the {len(files)} files in it lies where" if files else "nothing in it lies where"
        raise Rejected(
            f"{folder}: {here} a dialect keeps its checkpoints.",
            hint="Name the file itself, or say what it is: --dialect D.",
        )
    units: list[Unit] = []
    for path in near:
        with rejecting(path, reject):
            units += [unit.but(ready=None) for unit in _one_file(path, wanted)]  # there may be many
    return units


def documents_under(folder: str) -> list[str]:
    """Files that may be documents, in order of their paths; what only points to one of them is that one."""
    found: list[str] = []
    for parent, folders, names in os.walk(folder.rstrip("/") or "/"):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        found += [os.path.join(parent, name) for name in sorted(names) if name.endswith(_SUFFIXES)]
        if len(found) > MOST_FILES:
            raise Rejected(f"{folder} has more than {MOST_FILES:,} files; name the ones that are meant.")
    real = {os.path.realpath(path) for path in found if not os.path.islink(path)}
    return [path for path in found if not _points_to_one_of(path, real)]


def _points_to_one_of(path: str, files: set[str]) -> bool:
    """Whether a file is a symlink to one of these, or holds its name."""
    if os.path.islink(path):
        return os.path.realpath(path) in files
    try:
        target = _pointed(path)
    except LeftoffError:  # it cannot be read: told when it is
        return False
    return target != path and os.path.realpath(target) in files


def _one_file(path: str, wanted: Dialect | None) -> list[Unit]:
    """A file that was named: what it is shows in what it says."""
    repairs = Repairs()
    path = _pointed(path)
    data = read_bytes(path)
    document = read_document(data, path, repairs, lenient=True)
    found = wanted if wanted is not None else recognise(document, os.path.abspath(path))
    units = [Unit(found, paths, (data, document, repairs)) for paths in found.group([path])]
    if not units or not found.accepts(document, os.path.abspath(path)):
        keys = ", ".join(shown(key) for key in list(document)[:5])
        raise Rejected(
            found.foreign(path, keys),
            hint="Nothing of it was imported. `leftoff dialects` shows what the files of each one look like.",
        )
    return units


def _pointed(path: str) -> str:
    """`latest` as a text file that holds the name of the newest one: that one, in the same folder."""
    if not os.path.basename(path).startswith("latest") or os.path.islink(path):
        return path
    data = read_bytes(path, _LONGEST_POINTER)
    try:
        name = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        return path
    if name[:1] == name[-1:] == '"':  # a JSON text
        name = name[1:-1]
    if not _POINTER.match(name) or name in (".", ".."):
        return path
    for suffix in ("", *_SUFFIXES):  # some name the id
        target = os.path.join(os.path.dirname(path), name + suffix)
        if os.path.isfile(target) and not os.path.islink(target) and not os.path.samefile(target, path):
            return target
    return path


def load(path: str, dialect: Dialect, ready: tuple[bytes, dict[str, Any], Repairs] | None = None) -> Loaded:
    """One file, read; ``ready``: as it was just now."""
    from leftoff.model.hashing import sha256

    repairs = Repairs()
    data = read_bytes(path) if ready is None else ready[0]
    document = read_document(data, path, repairs) if ready is None else ready[1]
    repairs = repairs if ready is None else ready[2]
    modified = int(os.stat(path).st_mtime * 1000)
    source = Source(path, modified, **dialect.hints(os.path.abspath(path)))
    return Loaded(document, source, repairs, sha256(data).hexdigest())
