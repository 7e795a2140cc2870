"""What a run says of itself, read in one snapshot: everything that the checks compare the world with.

A long run costs little. Most of its steps ended well, in time, and left at most one file. That is seen from their
bytes, as the codec writes what leftoff itself records of such a step: keys in order, nothing between them, every quote
inside a text escaped. Only steps that look different are decoded (`Steps`).
"""

from __future__ import annotations

import re
from _collections_abc import Mapping

from leftoff.clock import iso
from leftoff.engine.find import need_run
from leftoff.engine.project import home_of
from leftoff.engine.run_reader import Reader, need_version, proved_version, whole
from leftoff.engine.show import in_order, inner_steps
from leftoff.errors import Corrupt, Unsupported
from leftoff.hints import Any, Callable, Iterator, Sequence
from leftoff.model.codec import JSON, MASK
from leftoff.model.words import AS_WRITTEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.project import Project
    from leftoff.engine.resume_answers import ResumeRequest
    from leftoff.model.changes import Version
    from leftoff.model.codec import Row
    from leftoff.store.base import View
    from leftoff.store.rows import Attempt, Lease, RunRow

_LOOKED_AT = 10  # checkpoints, for one that is whole
_READ = ("run", "file", "context", "criterion", "error", "extra")
_WANTED = {*_READ, "step", "artifact", "variable"}
# What follows the status says nothing about whether the step is settled.
_SETTLED = re.compile(
    rb'J\{(?:"args":\{(?:[^"{}\\]|"[^"\\]*")*+\},)?(?:"attempt":\d+,)?(?:"batch":\d+,)?"completed_at":"([^"]{24})",'
    rb'(?:"digest":"[\w:]+",)?(?:"kind":"\w+",)?(?:"order":\d+,)?'
    rb'(?:"outputs":\["([^"\\]*)"\],)?(?:"result":(?:"[^"\\]*"|[\w.+-]+),)?'
    rb'"started_at":"([^"]{24})","status":"completed"'
).match


class Steps(Mapping):  # type: ignore[type-arg]
    """A run's steps by path, in the order of their keys.

    ``open``: those that are not settled. ``wrote``: the paths of the files that the settled ones left.
    """

    def __init__(
        self, rows: Sequence[Row], decode: Callable[[Sequence[Row]], dict[str, Any]], now: str
    ) -> None:
        """``now``: as times are written."""
        self._given = rows
        self._by_path: dict[str, Row] | None = None
        self._decode = decode
        self._decoded: dict[str, Any] = {}
        self.wrote: list[str] = []
        unsettled, wrote, latest = [], [], now.encode()
        for row in rows:
            found = _SETTLED(row[2])
            ended, path, began = found.groups() if found is not None else (b"", None, b"")
            if found is None or not began <= ended <= latest:
                unsettled.append(row)
            elif path is not None:
                wrote.append(path)
        if wrote:  # decoded together: a newline in a path would be escaped
            self.wrote = b"\n".join(wrote).decode().split("\n")
        self.open: dict[str, dict[str, Any]] = decode(unsettled)

    def add(self, path: str, record: dict[str, Any]) -> None:
        """Add a step, unless it is there."""
        if path not in self._rows:
            self._given, self._by_path = [*self._given, (path, b"", b"")], None
            self.open[path] = record

    @property
    def _rows(self) -> dict[str, Row]:
        if self._by_path is None:
            self._by_path = {row[0]: row for row in self._given}
        return self._by_path

    def status(self, path: str) -> str | None:
        """Return the status of a step, None if there is no such step."""
        known = self.open.get(path)
        if known is not None:
            found: str | None = known.get("status")
            return found
        return "completed" if path in self._rows else None

    def __getitem__(self, path: str) -> dict[str, Any]:
        known = self.open.get(path) or self._decoded.get(path)
        if known is None:
            known = self._decoded[path] = self._decode([self._rows[path]])[path]
        return known

    def __iter__(self) -> Iterator[str]:
        return (row[0] for row in self._given)

    def __len__(self) -> int:
        return len(self._given)


class World:
    """One run at one version, and the project that it is compared with."""

    version: Version

    def __init__(self, project: Project, request: ResumeRequest, session: str | None = None) -> None:
        target = request.target
        self.store = project.store
        self.target = target
        self.now = project.now
        self.settings = project.settings
        self.deep = request.deep
        self.proves_copies = bool(request.deep or request.yes or request.answers)
        self.session = session  # whose the run may be without standing in the way
        self.row: RunRow = target.row
        self.lease: Lease | None = None
        self.attempts: list[Attempt] = []  # that have not ended
        self.records: dict[str, dict[str, Any]] = {}
        self.steps = Steps((), lambda rows: {}, "")
        self.artifact_rows: list[Row] = []  # as they are stored: most need not be decoded
        self.damage: list[tuple[str, Corrupt | Unsupported]] = []  # a code, and what is wrong
        self.redacted: list[str] = []  # variables
        self.redacted_steps: list[str] = []  # steps whose records have, or may have, a redacted part
        self.is_head = True
        self._adds = request.adds
        self._artifacts: dict[str, Any] | None = None
        self._inner: set[str] | None = None
        self._leaves: list[str] | None = None
        self._seq = target.row.seq if target.version is None else target.version.seq
        try:
            self.store.read(self._read)
        except Corrupt as error:  # of a page: nothing more can be read
            self._damaged(error)
        self.project = home_of(self.facts, project.folder, project.store.folder)

    def _read(self, view: View) -> None:
        row = self.row = need_run(view, self.target.row.run, self.target.row.run_id)
        self._seq = row.seq if self.target.version is None else self.target.version.seq
        self.is_head = self._seq == row.seq
        self.version = need_version(view, row.run, row.run_id, self._seq)
        self.lease = view.lease(row.run)
        self.attempts = [attempt for attempt in view.attempts(row.run) if attempt.ended_at is None]
        self._reader = reader = Reader(self.store, view, row.run, row.run_id, self._seq)
        total = 0
        for collection in reader.collections():  # once: bytes against hashes; what the checks need is decoded
            try:
                if collection not in _WANTED:
                    total += reader.part(collection)
                    continue
                rows, part = reader.bulk(collection)
                total += part
                self._take(reader, collection, rows)
            except Corrupt as error:
                self._damaged(error)
        if not self.damage and (total & MASK).to_bytes(32, "big") != self.version.digest:
            where = f"run {row.run_id}@{self.version.seq}"
            self.damage.append(
                ("integrity.digest", Corrupt(f"The digest of {where} does not match.", where=where))
            )
        for path, known in self._adds.items():
            self.steps.add(path, {"status": "pending", **known})

    def _take(self, reader: Reader, collection: str, rows: list[Row]) -> None:
        if collection == "step":
            self.redacted_steps = [path for path, _, stored in rows if stored[:1] != JSON]
            self.steps = Steps(rows, lambda some: reader.plain_of("step", some), iso(self.now))
        elif collection == "artifact":
            self.artifact_rows = rows
        elif collection in _READ:
            self.records[collection] = reader.plain_of(collection, rows)
        elif any(stored[:1] != JSON for _, _, stored in rows):
            self.redacted += reader.redacted_variables()

    def _damaged(self, error: Corrupt) -> None:
        code = "integrity.blob" if "blob" in error.where else "integrity.record"
        number = f"of run {self.row.run}"
        if error.where.endswith(number):  # the store knows runs by their numbers
            error.message = error.message.replace(number, f"of run {self.run_id}")
            error.where = error.where.replace(number, f"of run {self.run_id}")
        if all(known.message != error.message for _, known in self.damage):
            self.damage.append((code, error))

    def last_whole(self) -> str | None:
        """Return the newest checkpoint before this version that reads as it was committed. Only a few are read."""

        def is_whole(view: View, version: Version) -> bool:
            try:
                _, records = proved_version(view, self.row.run, self.run_id, version.seq)
                for record in records.values():
                    whole(self.store, view, record.stored, "a value")
            except Corrupt:
                return False
            return True

        def look(view: View) -> str | None:
            older = view.versions(self.row.run, sealed=True, before=self._seq, limit=_LOOKED_AT)
            found = (version.seq for version in older if is_whole(view, version))
            return next((f"{self.run_id}@{seq}" for seq in found), None)

        try:
            return self.store.read(look)
        except Corrupt:
            return None

    @property
    def run_id(self) -> str:
        return str(self.row.run_id)

    @property
    def seq(self) -> int | None:
        """Return the version, None if it is the newest."""
        return None if self.is_head else self.version.seq

    @property
    def facts(self) -> dict[str, Any]:
        """Return the run's own records."""
        return self.records.get("run", {})

    @property
    def context(self) -> dict[str, Any]:
        return self.records.get("context", {})

    def needs(self) -> dict[str, list[str]]:
        """Return which steps each step needs, as the run's graph has it."""
        graph = self.context.get("graph")
        needs = graph.get("needs") if isinstance(graph, dict) else None
        return needs if isinstance(needs, dict) else {}

    def inner(self) -> set[str]:
        """Return the steps that have others below them."""
        if self._inner is None:
            self._inner = inner_steps(self.steps) if "/" in "\0".join(self.steps) else set()
        return self._inner

    def leaves(self) -> list[str]:
        """Return the leaf steps in declared order."""
        if self._leaves is None:
            inner = self.inner()
            self._leaves = [path for path in in_order(self.steps) if path not in inner]
        return self._leaves

    def artifact_records(self) -> dict[str, dict[str, Any]]:
        """Return the records of artifacts by name."""
        if self._artifacts is None:
            found = self._reader.plain_of("artifact", self.artifact_rows)
            self._artifacts = {key: about for key, about in found.items() if isinstance(about, dict)}
        return self._artifacts

    def said(self, *names: str) -> Any:
        """Return what the run, or the document it came from, says under one of these names, or None."""
        return self.stated(*names)[0]

    def stated(self, *names: str) -> tuple[Any, tuple[str, ...]]:
        """Return the same, and the record that says only that, as collection and key, if there is one."""
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
            inner = self.records.get("extra", {}).get(nested, self.context.get(nested))
            if isinstance(inner, dict):
                for name in names:
                    if name in inner:
                        return inner[name], ()
        return None, ()

    def in_flight(self) -> bool:
        """Return whether a step was running when the last driver ended. One that was told to stop is put back."""
        return any(
            step.get("status") == "running" or (step.get("status") == "pending" and "interrupted_at" in step)
            for step in self.steps.open.values()
        )
