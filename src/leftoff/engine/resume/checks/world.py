"""What a run says of itself, read in one snapshot: everything that the checks compare the world with."""

from __future__ import annotations

import os

from leftoff.clock import iso
from leftoff.engine.config.project import home_of
from leftoff.engine.read.show import in_order, inner_steps
from leftoff.engine.read.state import Reader, need_version, whole
from leftoff.engine.resume.checks.steps import Steps
from leftoff.engine.write.head import need_run
from leftoff.errors import Corrupt, Unsupported
from leftoff.model.codec import JSON, MASK
from leftoff.model.words import AS_WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.resume.request import ResumeRequest
    from leftoff.model.codec import Row
    from leftoff.model.versions import Version
    from leftoff.store.base import View
    from leftoff.store.rows import Attempt, Lease, RunRow

_LOOKED_AT = 10  # checkpoints, for one that is whole
_READ = ("run", "file", "context", "criterion", "error", "extra")
_WANTED = {*_READ, "step", "artifact", "variable"}


class World:
    """One run at one version, and where it is looked at from."""

    def __init__(self, project: Project, request: ResumeRequest, session: str | None = None) -> None:
        target = request.target
        self.store = project.store
        self.target = target
        self.now = project.now
        self.settings = project.settings
        self.deep = request.deep
        self.proves_copies = bool(request.deep or request.yes or request.answers)
        self.session = session  # whose the run may be without standing in the way
        self.row: RunRow
        self.version: Version
        self.lease: Lease | None = None
        self.attempts: list[Attempt] = []
        self.records: dict[str, dict[str, Any]] = {}
        self.steps = Steps((), lambda rows: {}, "")
        self._adds = request.adds
        self.artifact_rows: list[Row] = []  # as they are stored: most need not be decoded
        self._artifacts: dict[str, Any] | None = None
        self._sound: set[bytes] = set()  # values in blobs that were read
        self._inner: set[str] | None = None
        self._leaves: list[str] | None = None
        self.damage: list[tuple[str, Corrupt | Unsupported]] = []  # a code, and what is wrong
        self.redacted: list[str] = []
        self.redacted_steps: list[str] = []  # something in their records is, or may be
        self.is_head = True
        self.row = target.row
        self._seq = target.row.seq if target.version is None else target.version.seq
        try:
            self.store.read(self._read)
        except Corrupt as error:  # of a page: nothing more can be read
            self._damaged(error)
        self.project = home_of(self.records.get("run", {}), project.folder, project.store.folder)

    def own_files(self) -> frozenset[str]:
        """What leftoff itself writes: a protocol's files, and the page of `[status] file`."""
        from leftoff.engine.workspace.tracking import own_files

        page = self.settings.section("status").get("file")
        return own_files(self.store) | ({os.path.normpath(page)} if isinstance(page, str) else set())

    def _read(self, view: View) -> None:
        row = need_run(view, self.target.row.run, self.target.row.run_id)
        self.row = row
        seq = row.seq if self.target.version is None else self.target.version.seq
        self.is_head = seq == row.seq
        self._seq = seq
        self.version = need_version(view, row.run, row.run_id, seq)
        self.lease = view.lease(row.run)
        self.attempts = [attempt for attempt in view.attempts(row.run) if attempt.ended_at is None]
        reader = Reader(self.store, view, row.run, row.run_id, seq)
        self._take_all(reader)
        for path, known in self._adds.items():
            self.steps.add(path, {"status": "pending", **known})

    def _take_all(self, reader: Reader) -> None:
        """Each collection once: its bytes against their hashes, all against the digest; what is needed is decoded."""
        self._reader, total = reader, 0
        for collection in reader.collections():
            try:
                if collection not in _WANTED:
                    total += reader.part(collection)
                    continue
                rows, part = reader.bulk(collection)
            except Corrupt as error:
                self._damaged(error)
                continue
            total += part
            self._take(reader, collection, rows)
        if not self.damage and (total & MASK).to_bytes(32, "big") != self.version.digest:
            where = f"run {self.row.run_id}@{self.version.seq}"
            self.damage.append(
                ("integrity.digest", Corrupt(f"The digest of {where} does not match.", where=where))
            )

    def _take(self, reader: Reader, collection: str, rows: list[Row]) -> None:
        """As much of a collection as the checks need."""
        try:
            if collection == "step":
                self.redacted_steps = [path for path, _, stored in rows if stored[:1] != JSON]
                self.steps = Steps(rows, lambda some: reader.plain_of("step", some), iso(self.now))
            elif collection == "artifact":
                self.artifact_rows = rows
            elif collection in _READ:
                self.records[collection] = reader.plain_of(collection, rows)
            elif collection == "variable" and any(stored[:1] != JSON for _, _, stored in rows):
                self.redacted += reader.redacted_variables()
        except Corrupt as error:
            self._damaged(error)

    def _damaged(self, error: Corrupt) -> None:
        code = "integrity.blob" if "blob" in error.where else "integrity.record"
        number = f"of run {self.row.run}"
        if error.where.endswith(number):  # the store knows runs by their numbers
            error.message = error.message.replace(number, f"of run {self.run_id}")
            error.where = error.where.replace(number, f"of run {self.run_id}")
        if all(known.message != error.message for _, known in self.damage):
            self.damage.append((code, error))

    def last_whole(self) -> str | None:
        """The newest checkpoint before this version that reads as it was committed; a few are looked at."""

        def look(view: View) -> str | None:
            older = view.versions(self.row.run, sealed=True, before=self._seq, limit=_LOOKED_AT)
            return next(
                (f"{self.run_id}@{version.seq}" for version in older if self._is_whole(view, version)), None
            )

        try:
            return self.store.read(look)
        except Corrupt:
            return None

    def _is_whole(self, view: View, version: Version) -> bool:
        reader = Reader(self.store, view, self.row.run, self.run_id, version.seq)
        try:
            names = reader.collections()
            total = sum(map(reader.part, names))
            for name in names:
                for record in view.records_at(self.row.run, version.seq, name):
                    self._prove_value(view, record.stored)
        except Corrupt:
            return False
        return (total & MASK).to_bytes(32, "big") == version.digest

    def _prove_value(self, view: View, stored: bytes) -> None:
        """``Corrupt`` where a value lay in a blob that is damaged or gone; each is read once."""
        if stored not in self._sound:
            full = whole(self.store, view, stored, "a value")
            if full is not stored:
                self._sound.add(stored)

    # -- as the checks ask

    @property
    def run_id(self) -> str:
        return str(self.row.run_id)

    @property
    def seq(self) -> int | None:
        """The version, where it is not the newest."""
        return None if self.is_head else self.version.seq

    @property
    def facts(self) -> dict[str, Any]:
        """The run's own records."""
        return self.records.get("run", {})

    def inner(self) -> set[str]:
        """The steps that have others below them."""
        if self._inner is None:
            self._inner = inner_steps(self.steps) if "/" in "\0".join(self.steps) else set()
        return self._inner

    def leaves(self) -> list[str]:
        """Leaf steps in declared order."""
        if self._leaves is None:
            inner = self.inner()
            self._leaves = [path for path in in_order(self.steps) if path not in inner]
        return self._leaves

    def artifact_records(self) -> dict[str, dict[str, Any]]:
        """What is known of artifacts, by name."""
        if self._artifacts is None:
            found = self._reader.plain_of("artifact", self.artifact_rows)
            self._artifacts = {key: about for key, about in found.items() if isinstance(about, dict)}
        return self._artifacts

    def said(self, *names: str) -> Any:
        """What the run, or the document it came from, says under one of these names; ``None`` where it says nothing."""
        return self.stated(*names)[0]

    def stated(self, *names: str) -> tuple[Any, tuple[str, ...]]:
        """The same, and the record that says no more than that: collection and key, where there is such a one."""
        for collection in ("run", "context", "extra"):
            for name in names:
                if name in self.records.get(collection, {}):
                    return self.records[collection][name], (collection, name)
        form = self.records.get("extra", {}).get(AS_WRITTEN)
        levels = [form["said"]] if isinstance(form, dict) and isinstance(form.get("said"), dict) else []
        while levels:  # values that the document has in another form than ours
            level = levels.pop()
            for name in names:
                if name in level:
                    return level[name], ("extra", AS_WRITTEN)
            levels += [inner for inner in level.values() if isinstance(inner, dict)]
        for nested in ("recovery", "metadata", "context"):
            inner = self.records.get("extra", {}).get(nested, self.records.get("context", {}).get(nested))
            if isinstance(inner, dict):
                for name in names:
                    if name in inner:
                        return inner[name], ()
        return None, ()

    def in_flight(self) -> bool:
        """Whether a step was running when the run stopped being driven; one that was told to stop is put back."""
        return any(
            step.get("status") == "running" or (step.get("status") == "pending" and "interrupted_at" in step)
            for step in self.steps.open.values()
        )
