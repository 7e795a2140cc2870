"""Which steps need not run again, because an earlier run has them; and the plan of ``run --dry-run``.

The parts of a step's cache key are its rendered command, its own environment, the content of its inputs, and its
declared outputs. Its inputs are the files that it names and the outputs of the steps before it; a step without output
files stands for itself. Every completed step keeps its parts. With ``cache: true`` or ``run --reuse``, a step whose
parts equal those of a completed step of an earlier run is taken from there: its result, its variables, and its outputs,
which must be unchanged or are restored from the store's copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from leftoff.engine.file_state import compare_files, hash_file
from leftoff.engine.file_versions import has_copy
from leftoff.engine.imported_runs import may_run
from leftoff.engine.redactor import Redactor
from leftoff.engine.restoring import put_file_back
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import CALLER
from leftoff.errors import Invalid, LeftoffError
from leftoff.model.changes import NOTHING
from leftoff.model.codec import marks, sha256
from leftoff.model.codec import text as json_text
from leftoff.model.ids import shown_step, unquote_part, with_item
from leftoff.store.base import View
from leftoff.store.rows import RunRow
from leftoff.workflow.actions import Command, LiveAttempt, action_of, outputs_of, own_environment
from leftoff.workflow.attempt_folder import AttemptFolder
from leftoff.workflow.definition import StepDefinition
from leftoff.workflow.run_state import RunState, input_files

RUN, SKIP, ASK = "run", "skip", "ask"
EVERY_TIME = "every run does it; `cache: true` or --reuse takes it from an earlier one"
MOST_RUNS = 20  # earlier runs that are looked at, newest first
MOST_NAMED = 50  # inputs whose hashes are kept one by one, so that a change can be named


class Earlier(NamedTuple):
    """A completed step of an earlier run with the same parts."""

    run_id: str
    record: dict[str, Any]
    outputs: dict[str, dict[str, Any]]  # the records of its artifacts, by path
    missing: list[str]  # of them: they have to be brought back

    @property
    def variables(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record["cache"].get("variables") or {}
        return found


class ReuseDecision(NamedTuple):
    """Whether a step is taken from an ``earlier`` run. ``why``: why not (``None``: no run has done it); else which
    outputs are restored."""

    why: str | None
    earlier: Earlier | None = None


def wanted(step: StepDefinition, everything: bool) -> bool:
    """Return whether a step may be taken from an earlier run: it says so, or everything may and it does not say no."""
    if step.cache is not None:
        return step.cache
    return everything and step.kind != "agent"


class Reuse:
    """Looks for the steps of one run in others of the same workflow."""

    def __init__(self, state: RunState, *, everything: bool) -> None:
        self.everything = everything
        self.hashes: dict[str, str] = {}  # of outputs, if they are known from this run
        self._store = state.store
        self._state = state
        self._runs: list[RunRow] | None = None

    # -- parts

    def parts(
        self, step: StepDefinition, live: LiveAttempt, command: Command, env: dict[str, str]
    ) -> dict[str, Any]:
        """Return the parts of a step's cache key, hashed."""
        inputs = dict(self._inputs(step, live))
        argv = [_content(word, live.folder.path) for word in command.argv]
        arguments = _content(command.env.get("LEFTOFF_ARGS", "").removeprefix("@"), live.folder.path)
        return {
            "command": _hash(
                [argv, command.values, arguments, live.cwd, [*step.checks], step.criteria, step.agent]
            ),
            "environment": _hash(env),
            "inputs": inputs if len(inputs) <= MOST_NAMED else {"": _hash(inputs)},
            "outputs": _hash(live.outputs),
        }

    def _inputs(self, step: StepDefinition, live: LiveAttempt) -> Iterator[tuple[str, str]]:
        project = self._state.project
        values = self._state.values(step, live.item)
        for text in step.inputs:
            pattern = self._state.templates.render(text, values, f"{step.path}: inputs")
            for path in input_files(project, pattern, step.path):
                yield path, _file_hash(project, path)
        if step.python:
            module = step.python.partition(":")[0].replace(".", "/")
            for name in (f"{module}.py", f"{module}/__init__.py", f"src/{module}.py"):
                if os.path.isfile(os.path.join(project, name)):
                    yield name, _file_hash(project, name)
        for leaf in sorted(self._state.graph.before.get(step.path, ())):
            for path in self._state.at_or_below(leaf):
                yield from self._left_by(path)

    def _left_by(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the output files of a step with their hashes; without any, the step itself."""
        record, project, found = self._state.steps.get(path, {}), self._state.project, False
        for name in record.get("outputs") or ():
            if name in self.hashes or os.path.isfile(os.path.join(project, name)):
                found = True
                yield name, self.hashes.get(name) or _file_hash(project, name)
        if not found:
            yield f"step {path}", _hash([(record.get("cache") or {}).get("parts"), record.get("result")])

    # -- earlier runs

    def judge(self, unit: str, parts: dict[str, Any]) -> ReuseDecision:
        """Decide whether an earlier run has this step with these parts, and outputs that exist or can be restored."""
        latest: dict[str, Any] | None = None
        for row in self._others():
            record = self._completed(row, unit)
            if record is None:
                continue
            latest = latest or record
            if record["cache"].get("parts") == parts:
                return self._with_outputs(row, record)
        if latest is None:
            return ReuseDecision(None)
        return ReuseDecision(_difference(latest["cache"].get("parts") or {}, parts))

    def _completed(self, row: RunRow, unit: str) -> dict[str, Any] | None:
        """Return the record of a completed step with its parts; None if something in it was redacted."""

        def read(view: View) -> Any:
            found = Reader(self._store, view, row.run, row.run_id).value("step", unit)
            return None if found is None else found.plain

        try:
            record = self._store.read(read)
        except LeftoffError:
            return None
        if record is None or record.get("status") != "completed" or not isinstance(record.get("cache"), dict):
            return None
        return None if marks(record) else dict(record)

    def _others(self) -> list[RunRow]:
        if self._runs is None:
            where = {"workflow": self._state.workflow.name}
            if not self._store.exists():
                return []
            found = self._store.read(lambda view: view.list_runs(where, MOST_RUNS + 1))
            others = [row for row in found if row.run_id != self._state.run_id]
            # An imported run does not decide which steps need not run, unless the user agreed to it.
            trusted = CALLER.trusts(self._state.project)
            self._runs = [row for row in others if trusted or may_run(self._store, row)]
        return self._runs

    def _with_outputs(self, row: RunRow, record: dict[str, Any]) -> ReuseDecision:
        def read(view: View) -> dict[str, dict[str, Any]]:
            reader = Reader(self._store, view, row.run, row.run_id)
            found = {path: reader.value("artifact", path) for path in record.get("outputs") or ()}
            return {path: value.plain if value is not None else {} for path, value in found.items()}

        outputs = self._store.read(read)
        became = compare_files(self._state.project, outputs)
        changed = [path for path, state in became.items() if state == "changed"]
        missing = [path for path, state in became.items() if state == "gone"]
        lost = [path for path in missing if not has_copy(self._store, outputs[path], whole=True)]
        if changed:
            return ReuseDecision(f"{changed[0]} is not as it was left")
        if lost:
            return ReuseDecision(f"{lost[0]} is missing, and no copy of it is kept")
        more = f", and {len(missing) - 1} more" if missing[1:] else ""
        restored = f"; {missing[0]} is brought back{more}" if missing else ""
        return ReuseDecision(restored, Earlier(row.run_id, record, outputs, missing))

    def know(self, artifacts: Iterable[dict[str, Any]]) -> None:
        """Remember the hashes of outputs of this run, so that they need not be read again."""
        self.hashes.update((about["path"], about["hash"][7:39]) for about in artifacts if "hash" in about)

    def bring_back(self, earlier: Earlier) -> None:
        """Restore the missing outputs from their copies."""
        for path in earlier.missing:
            try:
                put_file_back(self._store, self._state.project, path, earlier.outputs[path])
            except OSError as error:
                raise Invalid(f"{path} cannot be brought back: {error.strerror or error}.") from None


class Foreseen(NamedTuple):
    """What would happen to a step, and why; and the item that it is for."""

    step: str
    action: str
    why: str
    item: str | None = None

    def to_json(self) -> dict[str, Any]:
        about = {"step": self.step, "action": self.action, "why": self.why}
        return with_item(about, self.step, {"item": self.item})


class Foresight:
    """Plans a run of a workflow without starting it: ``run --dry-run``.

    Steps that an earlier run has are supposed to be as they were there, so that the steps after them can be rendered
    and looked up, too. What a step that would run will leave is unknown, so every step that needs it would run as well.
    ``folder``: for input that is too long for a command line.
    """

    def __init__(self, state: RunState, redactor: Redactor, folder: str) -> None:
        self._state = state
        self._redactor = redactor
        self._folder = folder
        self._reuse = Reuse(state, everything=False)
        self._running: dict[str, None] = {}  # steps that would run

    def plan(self, variables: dict[str, Any], *, reuse: bool) -> list[Foreseen]:
        state, graph = self._state, self._state.graph
        state.suppose(variables)
        self._reuse.everything = reuse
        order = sorted(graph.leaves, key=lambda path: graph.level[path])
        found = {path: list(self._step(state.workflow.by_path[path])) for path in order}
        return [one for path in graph.leaves for one in found[path]]

    def _step(self, step: StepDefinition) -> Iterator[Foreseen]:
        state, path = self._state, step.path
        try:
            before = next((other for other in self._running if other in state.graph.before[path]), None)
            if step.kind in ("approval", "manual"):
                yield Foreseen(path, ASK, "a person does it" if step.kind == "manual" else "a person decides")
            elif before is not None:
                yield self._would_run(step, path, f"{before}, which it needs, would run")
            elif step.when and not state.templates.test(step.when, state.values(step), f"{path}: when"):
                state.steps[path] = {"status": "skipped"}
                yield Foreseen(path, SKIP, step.why_skipped())
            elif step.foreach is None:
                yield self._unit(step, path, NOTHING)
            else:
                found = state.find_items(step)
                if found is None:
                    yield self._would_run(step, path, "its items are known once its command has run")
                    return
                named = state.name_items(step, found, self._redactor)
                state.set_items(path, named)
                for unit, item in named:
                    name = unquote_part(unit.rpartition("/")[2])  # has no secret in it
                    yield self._unit(step, unit, item)._replace(item=name)
        except LeftoffError as error:
            yield self._would_run(step, path, f"that it can be skipped is not known: {error.message}")

    def _unit(self, step: StepDefinition, unit: str, item: Any) -> Foreseen:
        state = self._state
        if not wanted(step, self._reuse.everything):
            return self._would_run(step, unit, EVERY_TIME)
        values = state.values(step, item)
        live = LiveAttempt(unit, step, item, "", AttemptFolder(self._folder))
        command = action_of(step).command(step, state.templates, values, self._folder)
        live.outputs, live.cwd = outputs_of(state, step, item)
        env = own_environment(state.templates, step, values)
        decision = self._reuse.judge(unit, self._reuse.parts(step, live, command, env))
        if decision.earlier is None:
            return self._would_run(step, unit, decision.why or "it has not been done before")
        state.steps[unit] = decision.earlier.record
        self._reuse.know(decision.earlier.outputs.values())
        state.suppose({**state.variables, **decision.earlier.variables})
        return Foreseen(unit, SKIP, f"as in {decision.earlier.run_id}{decision.why}")

    def _would_run(self, step: StepDefinition, unit: str, why: str) -> Foreseen:
        self._running[step.path] = None
        return Foreseen(unit, RUN, why)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    if old.get("command") != new["command"]:
        return "its command changed"
    if old.get("environment") != new["environment"]:
        return "its environment changed"
    before, now = old.get("inputs") or {}, new["inputs"]
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            what = ("changed" if path in before else "is new") if path in now else "is no longer an input"
            if path.startswith("step "):
                return f"{shown_step(path.removeprefix('step '))}, which it needs, {what}"
            return f"input {path} {what}" if path else f"an input {what}"
    return "it declares other outputs"


def _hash(value: Any) -> str:
    return sha256(json_text(value).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _file_hash(project: str, path: str) -> str:
    return hash_file(os.path.join(project, path))[0].hex()[:32]


def _content(word: str, folder: str) -> str:
    """Return a word of a command line; if it names a file of the attempt, the content of that file."""
    if not folder or not word.startswith(folder + os.sep):
        return word
    with open(word, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
