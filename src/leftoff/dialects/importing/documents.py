"""Importing a protocol's files: they are found, read and told of, and become runs, each whole or not at all."""

from __future__ import annotations

import os

from leftoff import log
from leftoff.dialects.core.base import read
from leftoff.dialects.core.files import FileHashes
from leftoff.dialects.core.notes import masked
from leftoff.dialects.core.repairs import Rejected, Repairs, rejecting
from leftoff.dialects.core.versions import IMPORTED, run_named
from leftoff.dialects.importing import places
from leftoff.dialects.importing.document_edit import ChangedDocument, DocumentEdit, take_beat
from leftoff.engine.lifecycle.bulk_import import create_runs, imported_versions, redacted, weight
from leftoff.engine.steps.artifacts import relative
from leftoff.engine.write.commit import Seal
from leftoff.errors import Conflict, LeftoffError
from leftoff.model.words import TRIGGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import Decoded, Records, Source
    from leftoff.dialects.core.repairs import Reject
    from leftoff.dialects.importing.places import Loaded
    from leftoff.engine.lifecycle.bulk_import import ImportedVersion
    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow

TOGETHER = 600  # records that are written in one transaction


class ImportedRun:
    """A run that is imported: its documents in order, and what is told of them."""

    def __init__(self, dialect: Dialect, path: str, run_id: str) -> None:
        self.dialect = dialect
        self.path = path
        self.run_id = run_id
        self.loaded: list[Loaded] = []
        self.decoded: list[Decoded] = []
        self.repairs = Repairs()
        self.new = True
        self.changed = True

    def let_go(self) -> None:
        """It is taken in: its documents are needed no more, and there may be many others."""
        self.loaded, self.decoded = [], []

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "path": self.path,
            "dialect": self.dialect.name,
            "repairs": self.repairs.lines,
            "new": self.new,
            "changed": self.changed,
        }


class Importer:
    """One import into one store."""

    def __init__(
        self, store: Store, project: str, scrubber: Scrubber | None, now: int, reject: Reject
    ) -> None:
        self._follower = store.follower
        self.store = store if self._follower is None else self._follower.store
        self.project = project
        self.scrubber = scrubber
        self.now = now
        self._reject = reject
        self._rejected = 0

    def reject(self, path: str, error: LeftoffError) -> None:
        """Somebody is told why a file does not come in."""
        self._rejected += 1
        self._reject(path, error)

    def read(
        self, paths: list[str], wanted: Dialect | None, *, strict: bool = False
    ) -> Iterator[ImportedRun]:
        """What the paths hold, each run with its documents, one after the other; nothing is written."""
        for unit in places.find(paths, wanted, self.reject):
            found: list[ImportedRun] = []
            with rejecting(unit.path, self.reject):
                found = self._some(unit)
            for each in found:
                if strict and len(each.repairs):
                    self.reject(each.path, _refused(each))
                else:
                    yield each

    def read_unit(self, paths: list[str], dialect: Dialect) -> list[ImportedRun]:
        """What files hold that belong to one run."""
        found: list[ImportedRun] = []
        with rejecting(paths[0], self.reject):
            found = self._unit(places.Unit(dialect, paths))
        return found

    def _some(self, unit: places.Unit) -> list[ImportedRun]:
        """The runs of files that belong together; that there is none is told, too."""
        before, found = self._rejected, self._unit(unit)
        if not found and self._rejected == before:
            raise Rejected(f"{unit.path} holds no checkpoint of {unit.dialect.name}.")
        return found

    def _unit(self, unit: places.Unit) -> list[ImportedRun]:
        dialect = unit.dialect
        runs: dict[str, ImportedRun] = {}
        for loaded in dialect.load(unit.paths, unit.load, self.reject):
            decoded = self._decoded(dialect, loaded, runs)
            if decoded is None:
                continue
            path = loaded.source.path if len(unit.paths) == 1 else unit.path
            run_id = self._written_for(loaded) or decoded.run_id
            each = runs.setdefault(run_id, ImportedRun(dialect, path, run_id))
            each.loaded.append(loaded)
            each.decoded.append(decoded)
            for line in loaded.repairs.lines:
                each.repairs.add(line if len(unit.paths) == 1 else f"{loaded.source.name}: {line}")
        return list(runs.values())

    def _written_for(self, loaded: Loaded) -> str | None:
        """The run whose file we keep in step, which a document need not name."""
        if self._follower is None:
            return None
        run_id = self._follower.run_of_file(relative(self.project, os.path.abspath(loaded.source.path)))
        return run_id if run_id is not None and self._row(run_id) is not None else None

    def _decoded(self, dialect: Dialect, loaded: Loaded, runs: dict[str, ImportedRun]) -> Decoded | None:
        """A document of several is rejected alone."""
        known = next(iter(runs.values())).decoded[-1].state() if runs else None
        loaded.repairs.hide(loaded.document, self.scrubber)
        try:
            return read(dialect, loaded.document, loaded.source, loaded.repairs, known)
        except LeftoffError as error:
            self.reject(loaded.source.path, error)
        except Exception as error:  # of a package that is not ours: the other documents come in all the same
            log.debug("the dialect %s, %s: %r", dialect.name, loaded.source.path, error)
            why = f"{loaded.source.path}: the dialect {dialect.name} stumbled over it, with {type(error).__name__}."
            self.reject(loaded.source.path, Rejected(why))
        return None

    # -- writing

    def plan(self, found: Iterable[ImportedRun]) -> list[ImportedRun]:
        """Which of them would be new, or changed."""
        seen: set[str] = set()
        out = []
        for each in found:
            self._plan(each, seen)
            each.let_go()
            out.append(each)
        return out

    def _plan(self, each: ImportedRun, seen: set[str]) -> None:
        row = self._row(each.run_id)
        each.new = row is None and each.run_id not in seen
        each.changed = each.new or row is None or self._hash(row) != each.loaded[-1].hash
        seen.add(each.run_id)

    def write(self, found: Iterable[ImportedRun]) -> list[ImportedRun]:
        """Write them, a few at a time; those that came in."""
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
                    each.let_go()
                done.append(each)
        self._create(waiting)
        if self._follower is not None and done:  # in the files once all of them are here
            self._follower.sync(look=False)
        return done

    def _create(self, waiting: list[tuple[ImportedRun, list[ImportedVersion]]]) -> None:
        """Those that are new, together; where somebody else took one of them in meanwhile, one by one."""
        try:
            if waiting:
                create_runs(self.store, [(each.run_id, history) for each, history in waiting], self.now)
        except Conflict:
            for each, history in waiting:
                with rejecting(each.path, self.reject):
                    self._create_or_update(each, history)
        for each, _ in waiting:
            if each.new:
                take_beat(self.store, run_named(each.run_id), each.decoded[-1].beat, self.now)
            each.let_go()
        waiting.clear()

    def _create_or_update(self, each: ImportedRun, history: list[ImportedVersion]) -> None:
        each.new = self._row(each.run_id) is None
        if each.new:
            create_runs(self.store, [(each.run_id, history)], self.now)
        else:
            self._update(each)

    def _versions(self, each: ImportedRun) -> list[ImportedVersion]:
        versions = []
        for loaded, decoded in zip(each.loaded, each.decoded, strict=True):
            records = masked(decoded.records, self.scrubber, each.repairs)
            records = self._hashed(records, loaded.source)
            records["run", IMPORTED] = self._origin(each, loaded)
            seal = Seal(self._trigger(loaded, each.repairs), aliases=tuple(decoded.aliases))
            versions.append((records, decoded.at or self.now, seal))
        history = imported_versions(versions, self.scrubber)
        for name in dict.fromkeys(name for version in history for name in redacted(version.changes)):
            each.repairs.add(f"{name} holds what looks like a secret, which is not stored.")
        return history

    def _hashed(self, records: Records, source: Source) -> Records:
        hashes = FileHashes(self.project, source, tries=0)  # nobody waits: what was read counts
        return hashes.reading(lambda: hashes.put_in(records, self.now))

    def _origin(self, each: ImportedRun, loaded: Loaded) -> dict[str, Any]:
        return {
            "dialect": each.dialect.name,
            "path": relative(self.project, os.path.abspath(loaded.source.path)),
            "hash": loaded.hash,
        }

    @staticmethod
    def _trigger(loaded: Loaded, repairs: Repairs) -> str:
        if loaded.trigger is None:
            return "external"
        if loaded.trigger in TRIGGERS:
            return loaded.trigger
        repairs.add(f"{loaded.source.name}: the trigger {loaded.trigger!r} is unknown; read as manual.")
        return "manual"

    def _update(self, each: ImportedRun) -> None:
        """A run that is here: each document that is not, as a checkpoint of its own."""
        each.changed = False
        for loaded, decoded in zip(each.loaded, each.decoded, strict=True):
            if self._known(each, loaded):
                continue
            changed = ChangedDocument(each.dialect, loaded.document, loaded.source, loaded.repairs)
            changed.origin, changed.trigger = self._origin(each, loaded), self._trigger(loaded, each.repairs)
            edit = DocumentEdit(self.store, self.project, self.scrubber, changed)
            own = each.dialect.id_names_version or len(each.loaded) > 1
            at = decoded.at if own and decoded.at else self.now
            done = edit.report(run_named(each.run_id), at)
            each.changed = each.changed or done.version is not None
            for both in edit.edits.contradictions if edit.edits is not None else ():
                each.repairs.add(f"{both.name} was changed here too; the store's value stays.")
            for name in edit.redacted:
                each.repairs.add(f"{name} holds what looks like a secret, which is not stored.")

    def _known(self, each: ImportedRun, loaded: Loaded) -> bool:
        """Whether a document was taken in before, exactly so; of a history, only the newest one may have changed."""
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


def _refused(each: ImportedRun) -> Rejected:
    lines = each.repairs.lines
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return Rejected(f"{each.path} needs repairs, and --strict refuses them: {lines[0]}{more}")
