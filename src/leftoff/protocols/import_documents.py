"""Import a protocol's files: find them, read them, report repairs, and create or update runs. A run comes in whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leftoff.engine.commit import Seal
from leftoff.engine.opening import (
    ImportedVersion,
    create_runs,
    imported_versions,
    redacted_records,
    weight,
)
from leftoff.engine.tracking import relative
from leftoff.errors import Conflict, LeftoffError
from leftoff.host import debug
from leftoff.model.changes import Scrubber
from leftoff.model.codec import sha256
from leftoff.protocols.document_draft import Source, State
from leftoff.protocols.document_edit import (
    DocumentEdit,
    hash_named_files,
    masked,
    take_beat,
    with_hashes,
)
from leftoff.protocols.document_text import read_bytes, read_document
from leftoff.protocols.loose_values import Reject, Rejected, Repairs, rejecting
from leftoff.protocols.protocol import IMPORTED, Protocol, decode_document, foreign, run_named
from leftoff.protocols.registry import protocols, recognise
from leftoff.store.base import SqlStore
from leftoff.store.rows import RunRow

MOST_FILES = 100_000
TOGETHER = 600  # records that are written in one transaction
_SKIPPED = frozenset((".git", ".leftoff", "node_modules", ".venv", "__pycache__"))
_SUFFIXES = (".json", ".yaml", ".yml", ".yaml.gz", ".json.gz")
_LONGEST_POINTER = 300  # bytes of a file that holds the name of another
_POINTER = re.compile(r"[^\n/\0]{1,255}\Z")


# -- finding files


@dataclass
class Loaded:
    """One document as it was read, the hash of its bytes, the trigger of its checkpoint, and the run it describes."""

    document: dict[str, Any]
    source: Source
    repairs: Repairs
    hash: str
    trigger: str = "external"
    state: State = field(init=False)


def _load(path: str) -> Loaded:
    repairs, data = Repairs(), read_bytes(path)
    document = read_document(data, path, repairs)
    source = Source(path, int(os.stat(path).st_mtime * 1000))
    return Loaded(document, source, repairs, sha256(data).hexdigest())


class Unit(NamedTuple):
    """The files that make up one run. ``known``: the file that was read to see what it is."""

    protocol: Protocol
    paths: list[str]
    known: Loaded | None = None

    def load(self, path: str) -> Loaded:
        """Read one of the files."""
        known = self.known
        loaded = known if known is not None and known.source.path == path else _load(path)
        loaded.source.hints = self.protocol.hints(os.path.abspath(path))
        return loaded


def find_units(paths: list[str], wanted: Protocol | None, reject: Reject) -> Iterator[Unit]:
    """Return what files and folders hold, run by run."""
    for path in paths:
        named = [path]
        if os.path.isdir(path):
            named = []
            with rejecting(path, reject):
                units, named = _in_folder(path, wanted)
                yield from units
        for each in named:
            with rejecting(each, reject):
                yield from _one_file(each, wanted)


def _in_folder(folder: str, wanted: Protocol | None) -> tuple[list[Unit], list[str]]:
    """Return the files that are where a protocol stores them; if there are none, files to know by their content."""
    files = documents_under(folder)
    units: list[Unit] = []
    taken: set[str] = set()
    for each in [wanted] if wanted is not None else protocols():
        own = [path for path in files if path not in taken and each.owns(os.path.abspath(path))]
        taken.update(own)
        units += [Unit(each, paths) for paths in each.group(own)]
    if taken:
        return units, []
    near = [path for path in files if wanted is not None or os.path.dirname(path) == folder.rstrip("/")]
    if not near:
        here = f"none of the {len(files)} files in it lies where" if files else "nothing in it lies where"
        raise Rejected(
            f"{folder}: {here} a protocol keeps its checkpoints.",
            hint="Name the file itself, or say what it is: --protocol D.",
        )
    return [], near


def documents_under(folder: str) -> list[str]:
    """Return the files of a folder that may be documents, by path. A pointer to one of them is left out."""
    found: list[str] = []
    for parent, folders, names in os.walk(folder.rstrip("/") or "/"):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        found += [os.path.join(parent, name) for name in sorted(names) if name.endswith(_SUFFIXES)]
        if len(found) > MOST_FILES:
            raise Rejected(f"{folder} has more than {MOST_FILES:,} files; name the ones that are meant.")
    real = {os.path.realpath(path) for path in found if not os.path.islink(path)}
    out = []
    for path in found:
        target = path
        with suppress(LeftoffError):  # reported when it is read
            target = _pointed(path)
        points = os.path.islink(path) or target != path
        if not points or os.path.realpath(target) not in real:
            out.append(path)
    return out


def _one_file(path: str, wanted: Protocol | None) -> list[Unit]:
    """Return a file that the user named. Its content says what it is."""
    path = _pointed(path)
    loaded, place = _load(path), os.path.abspath(path)
    found = wanted if wanted is not None else recognise(loaded.document, place)
    units = [Unit(found, paths, loaded) for paths in found.group([path])]
    if not units or not found.accepts(loaded.document, place):
        raise foreign(found, loaded.document, path)
    return units


def _pointed(path: str) -> str:
    """Return the file that a text file `latest…` names, in the same folder; else the path itself."""
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
    for suffix in ("", *_SUFFIXES):  # some hold the id
        target = os.path.join(os.path.dirname(path), name + suffix)
        if os.path.isfile(target) and not os.path.islink(target) and not os.path.samefile(target, path):
            return target
    return path


# -- importing


@dataclass
class ImportedRun:
    """A run that is imported: its documents in order, and what is reported about them."""

    protocol: Protocol
    path: str
    run_id: str
    loaded: list[Loaded] = field(default_factory=list)
    repairs: Repairs = field(default_factory=Repairs)
    new: bool = True
    changed: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "path": self.path,
            "protocol": self.protocol.name,
            "dialect": self.protocol.name,
            "repairs": self.repairs.lines,
            "new": self.new,
            "changed": self.changed,
        }


class Importer:
    """One import into one store. ``reject(path, error)`` is called for each file that is not imported."""

    def __init__(
        self, store: SqlStore, project: str, scrubber: Scrubber | None, now: int, reject: Reject
    ) -> None:
        self._follower = store.follower
        self.store = store if self._follower is None else self._follower.store
        self.project = project
        self.scrubber = scrubber
        self.now = now
        self._reject = reject
        self._rejected = 0

    def reject(self, path: str, error: LeftoffError) -> None:
        self._rejected += 1
        self._reject(path, error)

    def read(
        self, paths: list[str], wanted: Protocol | None, *, strict: bool = False
    ) -> Iterator[ImportedRun]:
        """Return the runs of files and folders, one after the other. Writes nothing."""
        for unit in find_units(paths, wanted, self.reject):
            with rejecting(unit.paths[0], self.reject):
                before, found = self._rejected, self._unit(unit)
                if not found and self._rejected == before:
                    raise Rejected(f"{unit.paths[0]} holds no checkpoint of {unit.protocol.name}.")
                for each in found:
                    lines = each.repairs.lines
                    if strict and lines:
                        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
                        why = f"{each.path} needs repairs, and --strict refuses them: {lines[0]}{more}"
                        self.reject(each.path, Rejected(why))
                    else:
                        yield each

    def read_unit(self, paths: list[str], protocol: Protocol) -> list[ImportedRun]:
        """Return the runs of files that belong together."""
        with rejecting(paths[0], self.reject):
            return self._unit(Unit(protocol, paths))
        return []

    def _unit(self, unit: Unit) -> list[ImportedRun]:
        runs: dict[str, ImportedRun] = {}
        for loaded in unit.protocol.load(unit.paths, unit.load, self.reject):
            known = next(iter(runs.values())).loaded[-1].state if runs else None
            if not self._decode(unit.protocol, loaded, known):
                continue
            path = loaded.source.path if len(unit.paths) == 1 else unit.paths[0]
            run_id = loaded.state.run_id
            if self._follower is not None:  # the document in a synced file need not name its run
                place = relative(self.project, os.path.abspath(loaded.source.path))
                own = self._follower.run_of_file(place)
                run_id = own if own is not None and self._row(own) is not None else run_id
            each = runs.setdefault(run_id, ImportedRun(unit.protocol, path, run_id))
            each.loaded.append(loaded)
            for line in loaded.repairs.lines:
                line = self.scrubber.mask(line) if self.scrubber is not None else line
                each.repairs.add(line if len(unit.paths) == 1 else f"{loaded.source.name}: {line}")
        return list(runs.values())

    def _decode(self, protocol: Protocol, loaded: Loaded, known: State | None) -> bool:
        """Find out which run a document describes. Return whether it is one."""
        try:
            loaded.state = decode_document(protocol, loaded.document, loaded.source, loaded.repairs, known)
            return True
        except LeftoffError as error:
            self.reject(loaded.source.path, error)
        except Exception as error:  # no document may stop the import of the others
            debug("the protocol %s, %s: %r", protocol.name, loaded.source.path, error)
            why = f"{loaded.source.path}: the reader of {protocol.name} failed with {type(error).__name__}."
            self.reject(loaded.source.path, Rejected(why))
        return False

    # -- writing

    def plan(self, found: Iterable[ImportedRun]) -> list[ImportedRun]:
        """Return the runs, each with whether it would be new or changed."""
        seen: set[str] = set()
        out = []
        for each in found:
            self._plan(each, seen)
            each.loaded.clear()  # there may be many others
            out.append(each)
        return out

    def _plan(self, each: ImportedRun, seen: set[str]) -> None:
        row = self._row(each.run_id)
        each.new = row is None and each.run_id not in seen
        each.changed = each.new or row is None or self._hash(row) != each.loaded[-1].hash
        seen.add(each.run_id)

    def write(self, found: Iterable[ImportedRun]) -> list[ImportedRun]:
        """Write the runs, a few at a time. Return those that were imported."""
        waiting: list[tuple[ImportedRun, list[ImportedVersion]]] = []
        seen: set[str] = set()
        done, load = [], 0
        for each in found:
            with rejecting(each.path, self.reject):
                self._plan(each, seen)
                if each.new:
                    waiting.append((each, self._versions(each)))
                    load += weight(waiting[-1][1])
                if not each.new or load >= TOGETHER:
                    self._create(waiting)
                    load = 0
                if not each.new:
                    self._update(each)
                    each.loaded.clear()  # there may be many others
                done.append(each)
        self._create(waiting)
        if self._follower is not None and done:  # files are written when all runs are in the store
            self._follower.sync(look=False)
        return done

    def _create(self, waiting: list[tuple[ImportedRun, list[ImportedVersion]]]) -> None:
        """Create the new runs in one transaction; one by one, if another process imported one of them first."""
        try:
            if waiting:
                create_runs(self.store, [(each.run_id, history) for each, history in waiting])
        except Conflict:
            for each, history in waiting:
                with rejecting(each.path, self.reject):
                    each.new = self._row(each.run_id) is None
                    if each.new:
                        create_runs(self.store, [(each.run_id, history)])
                    else:
                        self._update(each)
        for each, _ in waiting:
            if each.new:
                take_beat(self.store, run_named(each.run_id), each.loaded[-1].state.told, self.now)
            each.loaded.clear()  # there may be many others
        waiting.clear()

    def _versions(self, each: ImportedRun) -> list[ImportedVersion]:
        versions = []
        for loaded in each.loaded:
            decoded = loaded.state
            records = masked(decoded.records, self.scrubber, each.repairs)
            hashes = hash_named_files(self.project, loaded.source, records)
            records = with_hashes(records, hashes, self.now)
            records["run", IMPORTED] = self._origin(each, loaded)
            seal = Seal(loaded.trigger, aliases=tuple(decoded.aliases))
            versions.append((records, decoded.at or self.now, seal))
        history = imported_versions(versions, self.scrubber)
        for name in dict.fromkeys(name for version in history for name in redacted_records(version.changes)):
            each.repairs.add(f"{name} holds what looks like a secret, which is not stored.")
        return history

    def _origin(self, each: ImportedRun, loaded: Loaded) -> dict[str, Any]:
        return {
            "protocol": each.protocol.name,
            "dialect": each.protocol.name,
            "path": relative(self.project, os.path.abspath(loaded.source.path)),
            "hash": loaded.hash,
        }

    def _update(self, each: ImportedRun) -> None:
        """Import each new document of a known run as a checkpoint."""
        each.changed = False
        for loaded in each.loaded:
            if self._known(each, loaded):
                continue
            about = (each.protocol, loaded.document, loaded.source, loaded.repairs)
            edit = DocumentEdit(self.store, self.project, self.scrubber, *about)
            edit.origin, edit.trigger = self._origin(each, loaded), loaded.trigger
            own = each.protocol.id_names_version or len(each.loaded) > 1
            at = loaded.state.at if own and loaded.state.at else self.now
            done = edit.report(run_named(each.run_id), at)
            each.changed = each.changed or done.version is not None
            for both in edit.edits.contradictions:
                each.repairs.add(f"{both.name} was changed here too; the store's value stays.")
            for name in edit.redacted:
                each.repairs.add(f"{name} holds what looks like a secret, which is not stored.")

    def _known(self, each: ImportedRun, loaded: Loaded) -> bool:
        """Return whether exactly this document was imported. Of a history, only the newest one may have changed."""
        row = self._row(each.run_id)
        if row is None or self._hash(row) == loaded.hash:
            return row is not None
        name = loaded.document.get("checkpoint_id")
        if len(each.loaded) < 2 or not isinstance(name, str) or loaded is each.loaded[-1]:
            return False
        return self.store.read(lambda view: view.aliased(name, row.run)) is not None

    def _row(self, run_id: str) -> RunRow | None:
        return self.store.read(lambda view: view.find_run(run_id)) if self.store.exists() else None

    @staticmethod
    def _hash(row: RunRow) -> Any:
        origin = row.card.get(IMPORTED)
        return origin.get("hash") if isinstance(origin, dict) else None
