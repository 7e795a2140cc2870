"""What a run says of itself, read in one snapshot, and the checks of that: bytes, state, times, order, lease.

A long run costs little. Most of its steps ended well, in time, and left at most one file. That is seen from their
bytes, as the codec writes what leftoff itself records of such a step: keys in order, nothing between them, every quote
inside a text escaped. Only steps that look different are decoded (`LazySteps`).
"""

from __future__ import annotations

import re
from _collections_abc import Mapping
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any

from leftoff.clock import ago, iso, millis
from leftoff.engine.find import need_run
from leftoff.engine.findings import WARN, Finding, some
from leftoff.engine.lease import stands_in_the_way, state, unseen
from leftoff.engine.project import Project, home_of
from leftoff.engine.resume_answers import DONE, ResumeRequest, Selection
from leftoff.engine.run_reader import Reader, met, need_version, proved_version, whole
from leftoff.engine.settings import CALLER
from leftoff.engine.show import in_order, inner_steps, leaf_steps
from leftoff.errors import Corrupt, NotFound, Unsupported
from leftoff.model.changes import Version
from leftoff.model.codec import JSON, MASK, Row, marks, place_of
from leftoff.model.ids import shown_step
from leftoff.model.words import AS_WRITTEN, ONCE_MORE, REPAIRED, STEP_ENDED
from leftoff.store.base import View
from leftoff.store.rows import Attempt, Lease, RunRow

STALE_MS = 7 * 86_400_000
SLACK_MS = 120_000  # two clocks of one project may differ so much
_SHOWN = 5
_ALLOW = "If it is not a secret, allow it in leftoff.toml ([redaction] allow) and run the step again."
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


class LazySteps(Mapping):  # type: ignore[type-arg]
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
        self.steps = LazySteps((), lambda rows: {}, "")
        self.artifact_rows: list[Row] = []  # as they are stored: most need not be decoded
        self.damage: list[tuple[str, Corrupt | Unsupported]] = []  # a code, and what is wrong
        self.redacted: list[str] = []  # variables
        self.redacted_steps: list[str] = []  # steps whose records have, or may have, a redacted part
        self.is_head = True
        self._adds = request.adds
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
                if collection == "step":
                    self.redacted_steps = [path for path, _, stored in rows if stored[:1] != JSON]
                    self.steps = LazySteps(rows, lambda some: reader.plain_of("step", some), iso(self.now))
                elif collection == "artifact":
                    self.artifact_rows = rows
                elif collection in _READ:
                    self.records[collection] = reader.plain_of(collection, rows)
                elif any(stored[:1] != JSON for _, _, stored in rows):
                    self.redacted += reader.redacted_variables()
            except Corrupt as error:
                self._damaged(error)
        if not self.damage and (total & MASK).to_bytes(32, "big") != self.version.digest:
            where = f"run {row.run_id}@{self.version.seq}"
            self.damage.append(
                ("integrity.digest", Corrupt(f"The digest of {where} does not match.", where=where))
            )
        for path, known in self._adds.items():
            self.steps.add(path, {"status": "pending", **known})

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

        def look(view: View) -> str | None:
            for version in view.versions(self.row.run, sealed=True, before=self._seq, limit=_LOOKED_AT):
                try:
                    _, records = proved_version(view, self.row.run, self.run_id, version.seq)
                    for record in records.values():
                        whole(self.store, view, record.stored, "a value")
                except Corrupt:
                    continue
                return f"{self.run_id}@{version.seq}"
            return None

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

    @cached_property
    def inner(self) -> set[str]:
        """Return the steps that have others below them."""
        return inner_steps(self.steps) if "/" in "\0".join(self.steps) else set()

    def leaves(self) -> list[str]:
        """Return the leaf steps in declared order."""
        if self._leaves is None:
            self._leaves = [path for path in in_order(self.steps) if path not in self.inner]
        return self._leaves

    @cached_property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """Return the records of artifacts by name."""
        found = self._reader.plain_of("artifact", self.artifact_rows)
        return {key: about for key, about in found.items() if isinstance(about, dict)}

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
        """Return whether a step was running when the last driver ended. One that was asked to stop is put back."""
        return any(
            step.get("status") == "running" or (step.get("status") == "pending" and "interrupted_at" in step)
            for step in self.steps.open.values()
        )


# -- checks


def integrity(world: World) -> Iterator[Finding]:
    for code, error in world.damage:
        yield Finding(code, error.message, _hint_of_damage(world), getattr(error, "where", None) or None)
    if world.damage:
        return
    required = ["workflow", "status"]
    if "imported" not in world.facts:  # not every document that a run is imported from has it
        required.append("created_at")
    missing = [name for name in required if world.facts.get(name) is None]
    if missing:
        names = ", ".join(missing)
        yield Finding("integrity.fields", f"The run's state lacks: {names}.", _hint_of_damage(world), names)


def blobs(world: World) -> Iterator[Finding]:
    """Read the copies of files that the run has, if every byte is to be looked at."""
    known = {**world.records.get("file", {}), **world.artifacts} if world.deep else {}
    for path, about in known.items():
        hash = about.get("hash") if isinstance(about, dict) and about.get("captured") else None
        if not isinstance(hash, str):
            continue
        try:
            for _ in world.store.load_blob(bytes.fromhex(hash.partition(":")[2])):
                pass
        except (Corrupt, NotFound) as error:
            message = f"The run's copy of {about.get('path') or path} is damaged or missing: {error.message}"
            yield Finding("integrity.blob", message, _hint_of_damage(world), str(about.get("path") or path))


def _hint_of_damage(world: World) -> str:
    whole = world.last_whole()
    back = "No earlier checkpoint is intact."
    if whole is not None:
        back = f"{whole} is intact: `leftoff resume {whole}` continues from there."
    return f"{back} `leftoff fsck --repair` sets damage aside and says where."


def incomplete_write(world: World) -> Iterator[Finding]:
    safe, record = world.stated("interruption_safe")
    if safe is False:
        yield Finding(
            "integrity.incomplete_write",
            "The document this run was imported from says that it was cut short while being written "
            "(interruption_safe is false).",
            "Check its last step, then resume with --accept integrity.incomplete_write.",
            clears=record,
        )


def salvaged(world: World) -> Iterator[Finding]:
    about = world.context.get(REPAIRED)
    if about is None:
        return
    message = about.get("message") if isinstance(about, dict) else None
    yield Finding(
        "integrity.salvaged",
        f"What the run did last may be lost. {message or ''}".rstrip(),
        "Finished steps may run again. Check what it did last, then resume with --accept integrity.salvaged.",
        clears=("context", REPAIRED),
    )


def not_resumable(world: World) -> Iterator[Finding]:
    if world.said("can_resume", "resumable") is not False:
        return
    warnings = world.said("warnings", "recovery_warnings", "resume_warnings")
    if not warnings:
        warnings = [_message_of(error) for error in world.records.get("error", {}).values()]
    told = "; ".join(map(str, warnings)) if isinstance(warnings, list) else str(warnings)
    message = "The run is marked as not resumable" + (f": {told}." if told else ".")
    yield Finding("recovery.not_resumable", message, "Resume an older checkpoint, or start a new run.")


def _message_of(error: Any) -> Any:
    return error.get("message") if isinstance(error, dict) else error


def times(world: World) -> Iterator[Finding]:
    """Find clocks that went wrong: recorded times are in the past, and ends after beginnings."""
    latest = world.now + SLACK_MS
    known = {name: millis(world.facts.get(name)) for name in ("created_at", "updated_at", "last_activity")}
    future = [f"{name} ({iso(when)})" for name, when in known.items() if when is not None and when > latest]
    order = []
    for path, step in world.steps.open.items():
        began, ended = millis(step.get("started_at")), millis(step.get("completed_at"))
        if max(began or 0, ended or 0) > latest:
            future.append(path)
        if began is not None and ended is not None and ended < began:
            order.append(path)
    began, ended = known["created_at"], millis(world.facts.get("completed_at"))
    if began is not None and ended is not None and ended < began:
        order.append(f"the run itself ({iso(ended)}, started {iso(began)})")
    if world.version.at > latest:
        future.append(f"version {world.version.seq} ({iso(world.version.at)})")
    for code, what, wrong in (
        ("time.future", "Dated in the future", future),
        ("time.order", "Completed before they started", order),
    ):
        if wrong:
            hint = f"Was a clock wrong? If everything else is right, resume with --accept {code}."
            yield Finding(code, f"{what}: {some(wrong)}.", hint, wrong[0])


def age(world: World) -> Iterator[Finding]:
    last = last_activity(world)
    if world.now - last > STALE_MS:
        yield Finding(
            "age.stale",
            f"The last activity was {ago(last, world.now, words=True)}, on {iso(last)[:10]}.",
            "Is it still relevant? --accept age.stale resumes it; `leftoff run --fresh` or `start` begins a new run.",
        )


def last_activity(world: World) -> int:
    """Return when it was, as the run, or the document that it came from, states it; else its last commit."""
    stated = [millis(world.said(name)) for name in ("last_activity", "last_updated", "last_heartbeat")]
    known = [when for when in stated if when is not None]
    beat = world.lease.beat if world.lease is not None and world.lease.beat is not None else 0
    return max(known) if known else max(world.version.at, beat if world.is_head else 0)


def progress(world: World) -> Iterator[Finding]:
    """Find steps that are completed though what they need is not, and phases that were passed over."""
    wrong = []
    for path, wanted in world.needs().items():
        if world.steps.status(path) != "completed" or not isinstance(wanted, list):
            continue
        for other in wanted:
            undone = world.steps.status(other) in ("pending", "running", "waiting", "blocked")
            if undone and ONCE_MORE not in world.steps[other]:
                wrong.append(f"{shown_step(path)} is completed before {shown_step(other)}, which it needs")
    # Phases follow one another, unless the run has a graph: none begins while one before it is untouched.
    open_phases = [step for step in world.steps.open.values() if step.get("kind") == "phase"]
    has_graph = isinstance(world.context.get("graph"), dict)
    if not has_graph and any(step.get("status") == "pending" for step in open_phases):
        phases = [
            path for path, step in world.steps.items() if step.get("kind") == "phase" and "/" not in path
        ]
        phases.sort(key=lambda path: world.steps[path].get("order", 0))
        begun = [world.steps[path].get("status") in (*DONE, "running") for path in phases]
        for index, path in enumerate(phases):
            untouched = world.steps[path].get("status") == "pending" and ONCE_MORE not in world.steps[path]
            if untouched and any(begun[index + 1 :]):
                wrong.append(f"{shown_step(path)} was passed over")
    if wrong:
        yield Finding(
            "progress.illegal",
            f"These steps are out of order: {some(wrong)}.",
            "Check them (`leftoff show --steps`). --from-step STEP runs one and the later ones again; "
            "--accept progress.illegal resumes anyway.",
            wrong[0].partition(" ")[0],
        )


def lease(world: World) -> Iterator[Finding]:
    """Report a driver that is alive, or that cannot be seen from here and has been silent for long."""
    if world.lease is None or not world.lease.held:
        return
    who = world.lease
    if stands_in_the_way(world.lease, world.now, world.session):
        hint = unseen(world.lease, world.now) or f"Wait for it, or stop it: `leftoff stop {world.run_id}`."
        yield Finding("lease.held", f"Run {world.run_id} is driven by {who}.", hint, world.run_id)
    elif world.lease.kind == "process" and state(world.lease, world.now) == "silent":
        message = f"Run {world.run_id} was driven by {who}, which cannot be seen from here."
        hint = "If it is gone, --accept lease.silent (or --yes) takes the run over."
        yield Finding("lease.silent", message, hint, world.run_id)


def criteria(world: World) -> Iterator[Finding]:
    if world.facts.get("status") != "completed":
        return
    unmet = {name: about for name, about in world.records.get("criterion", {}).items() if met(about) is False}
    if not unmet:
        return
    named = [about.get("step") for about in unmet.values() if isinstance(about, dict)]
    steps = dict.fromkeys(step for step in named if isinstance(step, str)) or world.leaves()
    could = f" These steps could meet them: {some([*map(shown_step, steps)], between=', ')}."
    yield Finding(
        "criteria.unmet",
        f"The run is completed, but these criteria are not met: {some([*unmet])}.{could}",
        f"`leftoff resume {world.run_id} --only STEP` runs a step again.",
        next(iter(unmet)),
        level=WARN,
    )


def blocked(world: World) -> Iterator[Finding]:
    """Report open errors, also of a blocked run that was paused: that resolves nothing."""
    status = world.facts.get("status")
    paused = status == "paused" and any(step.get("status") == "blocked" for step in world.steps.open.values())
    if status != "blocked" and not paused:
        return
    errors = world.records.get("error", {})
    told = [f"{shown_step(path)}: {_message_of(error)}" for path, error in errors.items()]
    yield Finding(
        "blocked.errors",
        f"The run is blocked: {some(told)}." if told else "The run is blocked.",
        f"Once it is resolved: `leftoff unblock {world.run_id}`. "
        "--accept blocked.errors runs what does not depend on it.",
        next(iter(errors), None),
        choices=("clear them", "go on without", "stop"),
    )


def prerequisites(world: World) -> Iterator[Finding]:
    met, record = world.stated("prerequisites_met")
    if met is False:
        yield Finding(
            "prerequisite.missing",
            "The document this run was imported from says that its prerequisites are not met.",
            "Provide them, then resume with --accept prerequisite.missing.",
            clears=record,
        )


def redacted(world: World, given: Collection[str]) -> Iterator[Finding]:
    """Find secret variables of a reported run that are neither given again nor in the environment."""
    for name in world.redacted:
        if name not in given and not CALLER.has(name):
            message = f"The variable {name} is a secret and was not stored."
            hint = f"Give it again: --var {name}=…, or {name} in the environment; "
            hint += "--accept variables.redacted resumes without it."
            yield Finding("variables.redacted", message, hint, name, secrets=(name,))


def results(world: World) -> Iterator[Finding]:
    """Find results of finished steps that were stored without what looked like a secret."""
    found = {}
    for path in world.redacted_steps:
        record = world.steps[path]
        holes = marks(record.get("result")) if record.get("status") == "completed" else []
        if holes:
            found[path] = [place_of(hole).lstrip(".") for hole in holes]
    for path in list(found)[:_SHOWN]:
        what = some([place or "all of it" for place in found[path]], between=", ")
        message = (
            f"The result of step {shown_step(path)} was stored without what looked like a secret: {what}."
        )
        yield Finding("result.redacted", f"{message} Reading it raises Redacted.", _ALLOW, path)
    if len(found) > _SHOWN:
        message = f"So were the results of {len(found) - _SHOWN} more steps."
        yield Finding("result.redacted", message, _ALLOW, list(found)[_SHOWN])


def again(world: World, selection: Selection, runs_once: Callable[[str], bool]) -> Iterator[Finding]:
    """Ask about finished steps that would run again. ``runs_once``: whether a step is not safe to repeat."""
    meant = bool(selection.repeat) or selection.only is not None
    if world.is_head and not meant and world.facts.get("status") == "abandoned":
        yield Finding(
            "recovery.not_resumable",
            f"Run {world.run_id} is abandoned.",
            f"`leftoff history {world.run_id}` lists its checkpoints, `leftoff resume RUN@SEQ` goes back to one; "
            f"`leftoff fork {world.run_id}` continues in a new run.",
            world.run_id,
        )
    repeated = _repeated(world, selection)
    if repeated and selection.only is None:  # else they were named one by one
        number = f"{len(repeated)} finished step{'s' if len(repeated) > 1 else ''}"
        message = f"{number} would run again: {some([*map(shown_step, repeated)], 6, ', ')}."
        level = "" if selection.resumes else WARN
        yield Finding("step.again", message, "--yes goes back anyway.", repeated[0], level=level)
    for path in repeated:
        if runs_once(path):
            yield Finding(
                "step.not_idempotent",
                f"Step {shown_step(path)}: it is finished, and it is not safe to repeat.",
                "If repeating it is fine, --accept step.not_idempotent runs it again.",
                path,
            )


def _repeated(world: World, selection: Selection) -> list[str]:
    """Return the steps that are finished now, and would run once more."""

    def ended(record: Any) -> bool:
        return record.get("status") in STEP_ENDED

    if world.is_head:
        leaves = world.leaves() if selection.repeat else ()
        return [path for path in leaves if path in selection.repeat and ended(world.steps[path])]
    row, then = world.row, world.steps
    try:
        now = world.store.read(lambda view: Reader(world.store, view, row.run, row.run_id).plain("step"))
    except Corrupt:  # the head is damaged: its steps are not known
        return []
    finished = [path for path in leaf_steps(now) if ended(now[path])]
    return [path for path in finished if path in selection.repeat or not ended(then.get(path, {}))]
