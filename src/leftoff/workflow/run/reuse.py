"""Steps that need not run again: what decides that, and the earlier run that has them.

A step is known by its parts: its command with everything filled in, what the definition puts into its environment, the
content of its inputs, and the outputs that it declares. Its inputs are the files that it names, and the outputs of the
steps before it; one that leaves no files stands for itself. Every completed step keeps its parts. With ``cache: true``,
or ``run --reuse``, one whose parts are those of a completed step of an earlier run is taken from there: its outputs if
they are as they were, or brought back from the copies that the store keeps, its result and its variables.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.engine.config.caller import CALLER
from leftoff.engine.lifecycle.origin import is_ours
from leftoff.engine.read.state import Reader
from leftoff.engine.workspace.file_state import hash_file, look
from leftoff.engine.workspace.file_versions import has_copy
from leftoff.engine.workspace.restoring import put_file_back
from leftoff.errors import Invalid, LeftoffError
from leftoff.model.codec import sha256
from leftoff.model.codec import text as json_text
from leftoff.model.fields import Fields
from leftoff.model.frozen import marks
from leftoff.model.ids import shown_step
from leftoff.workflow.run.items import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.actions import Command
    from leftoff.workflow.run.state import State
    from leftoff.workflow.run.unit import LiveAttempt
    from leftoff.workflow.template.templates import Templates

MOST_RUNS = 20  # that are looked at, newest first
MOST_NAMED = 50  # inputs whose hashes are kept one by one, so that a change can be told


class Earlier(Fields):
    """A completed step of an earlier run with the same parts."""

    run_id: str
    record: dict[str, Any]
    outputs: dict[str, dict[str, Any]]  # the records of its artifacts, by path
    missing: list[str]  # of them: they have to be brought back

    @property
    def variables(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record["cache"].get("variables") or {}
        return found


class Decision(Fields):
    """Whether a step is taken from an ``earlier`` run, and why or why not."""

    why: str
    earlier: Earlier | None = None


def wanted(step: Step, everything: bool) -> bool:
    """Whether a step may be taken from an earlier run: it says so, or everything may that does not say no."""
    if step.cache is not None:
        return step.cache
    return everything and step.kind != "agent"


class Reuse:
    """Looks for the steps of one run in others of the same workflow."""

    def __init__(self, store: Store, state: State, templates: Templates, *, everything: bool) -> None:
        self.everything = everything
        self.hashes: dict[str, str] = {}  # of outputs, where they are known from this run
        self._store = store
        self._state = state
        self._templates = templates
        self._runs: list[RunRow] | None = None

    # -- parts

    def parts(self, step: Step, live: LiveAttempt, command: Command, env: dict[str, str]) -> dict[str, Any]:
        """What decides what a step does, hashed."""
        argv = [_content(word, live.folder.path) for word in command.argv]
        arguments = _content(command.env.get("LEFTOFF_ARGS", "").removeprefix("@"), live.folder.path)
        return {
            "command": _hash(
                [argv, command.values, arguments, live.cwd, step.checks, step.criteria, step.agent]
            ),
            "environment": _hash(env),
            "inputs": _short(dict(self._inputs(step, live))),
            "outputs": _hash(live.outputs),
        }

    def _inputs(self, step: Step, live: LiveAttempt) -> Iterator[tuple[str, str]]:
        project = self._state.project
        values = self._state.values(step, live.item)
        for text in step.inputs:
            pattern = self._templates.render(text, values, f"{step.path}: inputs")
            for path in files_of(project, pattern, step.path):
                yield path, _file_hash(project, path)
        if step.python:
            module = step.python.partition(":")[0].replace(".", "/")
            for name in (f"{module}.py", f"{module}/__init__.py", f"src/{module}.py"):
                if os.path.isfile(os.path.join(project, name)):
                    yield name, _file_hash(project, name)
        for leaf in sorted(self._state.graph.before.get(step.path, ())):
            yield from self._left_by(leaf)

    def _left_by(self, leaf: str) -> Iterator[tuple[str, str]]:
        project = self._state.project
        for path in self._state.at_or_below(leaf):
            record = self._state.steps.get(path, {})
            outputs = record.get("outputs") or ()
            files = [
                name for name in outputs if name in self.hashes or os.path.isfile(os.path.join(project, name))
            ]
            for name in files:
                yield name, self.hashes.get(name) or _file_hash(project, name)
            if not files:
                yield f"step {path}", _hash([(record.get("cache") or {}).get("parts"), record.get("result")])

    # -- earlier runs

    def judge(self, unit: str, parts: dict[str, Any]) -> Decision:
        """Whether an earlier run has this step, with these parts and with outputs that are there or can be."""
        latest: dict[str, Any] | None = None
        for row in self._others():
            record = self._store.read(lambda view, row=row: _completed(self._reader(view, row), unit))  # type: ignore[misc]
            if record is None:
                continue
            latest = latest or record
            if record["cache"].get("parts") == parts:
                return self._with_outputs(row, record)
        if latest is None:
            return Decision("it has not been done before")
        return Decision(_difference(latest["cache"].get("parts") or {}, parts))

    def _others(self) -> list[RunRow]:
        if self._runs is None:
            where = {"workflow": self._state.workflow.name}
            if not self._store.exists():
                return []
            found = self._store.read(lambda view: view.list_runs(where, MOST_RUNS + 1))
            others = [row for row in found if row.run_id != self._state.ledger.run_id]
            # Else only what was begun here says what need not run.
            trusted = CALLER.trusts(self._state.project)
            self._runs = [row for row in others if trusted or is_ours(self._store, row)]
        return self._runs

    def _reader(self, view: View, row: RunRow) -> Reader:
        return Reader(self._store, view, row.run, row.run_id)

    def _with_outputs(self, row: RunRow, record: dict[str, Any]) -> Decision:
        def read(view: View) -> dict[str, dict[str, Any]]:
            reader = self._reader(view, row)
            found = {path: reader.value("artifact", path) for path in record.get("outputs") or ()}
            return {path: value.plain if value is not None else {} for path, value in found.items()}

        outputs = self._store.read(read)
        became = look(self._state.project, outputs)
        changed = [path for path, state in became.items() if state == "changed"]
        missing = [path for path, state in became.items() if state == "gone"]
        lost = [path for path in missing if not has_copy(self._store, outputs[path], whole=True)]
        if changed:
            return Decision(f"{changed[0]} is not as it was left")
        if lost:
            return Decision(f"{lost[0]} is missing, and no copy of it is kept")
        why = f"as in {row.run_id}"
        if missing:
            why += f"; {missing[0]} is brought back" + (
                f", and {len(missing) - 1} more" if missing[1:] else ""
            )
        return Decision(why, Earlier(row.run_id, record, outputs, missing))

    def know(self, artifacts: Iterable[dict[str, Any]]) -> None:
        """Outputs of steps of this run, by their records: they need not be read again."""
        self.hashes.update((about["path"], about["hash"][7:39]) for about in artifacts if "hash" in about)

    def bring_back(self, earlier: Earlier) -> None:
        """The outputs that are missing, from the copies of them."""
        for path in earlier.missing:
            try:
                put_file_back(self._store, self._state.project, path, earlier.outputs[path])
            except OSError as error:
                raise Invalid(f"{path} cannot be brought back: {error.strerror or error}.") from None


def _completed(reader: Reader, unit: str) -> dict[str, Any] | None:
    """A completed step with its parts, and nothing in it that was redacted."""
    try:
        found = reader.value("step", unit)
        record = found.plain if found is not None else None
    except LeftoffError:
        return None
    if record is None or record.get("status") != "completed" or not isinstance(record.get("cache"), dict):
        return None
    return None if marks(record) else dict(record)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    if old.get("command") != new["command"]:
        return "its command changed"
    if old.get("environment") != new["environment"]:
        return "its environment changed"
    before, now = old.get("inputs") or {}, new["inputs"]
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            what = "changed" if path in before and path in now else "is new" if path in now else "is gone"
            if path.startswith("step "):
                return f"{shown_step(path.removeprefix('step '))}, which it needs, {what}"
            return f"{path or 'an input'} {what}"
    return "it declares other outputs"


def _short(inputs: dict[str, str]) -> dict[str, str]:
    return inputs if len(inputs) <= MOST_NAMED else {"": _hash(inputs)}


def _hash(value: Any) -> str:
    return sha256(json_text(_plain(value)).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _plain(value: Any) -> Any:
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _file_hash(project: str, path: str) -> str:
    return hash_file(os.path.join(project, path))[0].hex()[:32]


def _content(word: str, folder: str) -> str:
    """A word of a command line; where it names a file of the attempt, what is in that."""
    if not folder or not word.startswith(folder + os.sep):
        return word
    with open(word, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
