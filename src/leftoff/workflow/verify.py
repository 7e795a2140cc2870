"""What verification knows of a run of a workflow file: its definition, its requirements, what was in flight."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.engine.verify.finding import REFUSE, WARN, Finding
from leftoff.errors import LeftoffError
from leftoff.model.frozen import marks
from leftoff.workflow.changes import compare
from leftoff.workflow.mentions import mentioned
from leftoff.workflow.parse import parse
from leftoff.workflow.recover import (
    ASK,
    CHECK,
    FORGET,
    NOT_IDEMPOTENT,
    TAKEN,
    orphans,
    step_of,
    was_killed,
)
from leftoff.workflow.reopening import DONE
from leftoff.workflow.resumption import current_definition
from leftoff.workflow.runner import missing as lacking
from leftoff.workflow.template import Templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leftoff.engine.verify.world import World
    from leftoff.workflow.definition import Workflow
    from leftoff.workflow.recover import Orphan

_GO_ON = "Steps that are finished do not run again; --accept definition.changed goes on."
_WORDS = {FORGET: "run", ASK: "ask", CHECK: "adopt"}


def has_secret(record: Mapping[str, Any]) -> bool:
    """Whether a part of a step's result was redacted."""
    return "result" in record and bool(marks(record["result"]))


class _Known:
    """A run's steps, and its definition as it is now."""

    def __init__(self, workflow: Workflow, steps: Mapping[str, dict[str, Any]]) -> None:
        self.workflow = workflow
        self.steps = steps


class RunnerChecks:
    """The checks of one run of a workflow file; it is looked at once, whoever asks first."""

    def __init__(
        self,
        world_known: dict[str, Any],
        project: str,
        store_folder: str,
        given: frozenset[str],
        names: frozenset[str],
    ) -> None:
        self._known = world_known
        self._project = project
        self._folder = store_folder
        self._given = given  # variables that are given again
        self._names = names  # and all that the run has
        self.problem: LeftoffError | None = None
        self.old: Workflow | None = None
        self.new: Workflow | None = None
        self._orphans: list[Orphan] | None = None
        self._load()

    def _load(self) -> None:
        """The definition as it is now, and as it was: ``old`` is ``None`` where nobody knows that."""
        try:
            self.new = current_definition(self._project, self._known, self._names, lambda _: None)
            text = self._known.get("text")
            if self._known.get("digest") == self.new.digest:
                self.old = self.new
            elif text is not None:
                self.old = parse(str(text), self.new.path, given=self._names)
        except LeftoffError as error:
            self.problem = error

    @property
    def all(self) -> tuple[Any, ...]:
        return (self.definition, self.requirements, self.redacted, self.in_flight)

    def definition(self, world: World) -> Iterator[Finding]:
        """The workflow file changed: later steps only is worth a word, finished ones a question."""
        path = self._known.get("path")
        if self.problem is not None or self.new is None:
            wrong = self.problem or LeftoffError("The workflow file cannot be read.")
            yield Finding("definition.changed", wrong.message, wrong.hint, path, level=REFUSE)
            return
        if self.old is None:
            told = (
                f"{path} changed since the run began: what it was is not known, as there was a secret in it."
            )
            yield Finding("definition.changed", told, _GO_ON, path)
            return
        if self.old is self.new:
            return
        done = {path for path in world.steps if world.steps.status(path) in DONE}
        done |= {path.rpartition("/")[0] for path in done if "item" in world.steps[path]}
        done |= {orphan.step.path for orphan in self.orphans(world) if orphan.action in TAKEN}
        differs = compare(self.old, self.new, done)
        if differs:
            yield Finding(
                "definition.changed",
                f"{path} changed since the run began: {differs.told()}.",
                _GO_ON if differs.finished else "",
                path,
                level=None if differs.finished else WARN,
            )

    def requirements(self, world: World) -> Iterator[Finding]:
        for what in lacking(self.new, world.project) if self.new is not None else ():
            yield Finding(
                "prerequisite.missing", f"The workflow needs what is not there: {what}.", "Provide it.", what
            )
        absent = (
            [name for name in self.new.secrets if not os.environ.get(name)] if self.new is not None else []
        )
        if absent:
            names = ", ".join(absent)
            yield Finding(
                "variables.redacted",
                f"The workflow needs secrets that are not in the environment: {names}.",
                f"Secrets are never stored. Set {absent[0]} in the environment.",
                absent[0],
                choices=("type them", "stop"),
            )

    def redacted(self, world: World) -> Iterator[Finding]:
        """Secret variables and results that steps which are left mention, and that nobody has given again."""
        missing = [name for name in world.redacted if name not in self._given]
        lost = [
            p for p, known in world.steps.open.items() if known.get("status") in DONE and has_secret(known)
        ]
        if self.new is None or not (missing or lost):
            return
        templates, used, texts = Templates(), set[str](), list[str]()
        for step in self.new.leaves():
            if world.steps.status(step.path) not in DONE:
                found = mentioned(templates, step)
                used |= found
                texts += [str(step.key_facts())] if "results" in found else []
        for name in missing:
            if name in used:
                message = f"The variable {name} is a secret, and was not stored."
                yield Finding("variables.redacted", message, f"Give it again: --var {name}=…", name)
        for path in lost:
            if any(path in text or path.rpartition("/")[2] in text for text in texts):
                message = (
                    f"The result of step {path} has a secret in it, which was not stored, and is needed."
                )
                hint = f"`leftoff resume {world.run_id} --from-step {path}` does that step again."
                yield Finding("variables.redacted", message, hint, path)

    def orphans(self, world: World) -> list[Orphan]:
        if self._orphans is None:
            if self.new is None:
                return []
            known = _Known(self.new, world.steps)
            self._orphans, _ = orphans(known, self.old or self.new, world.attempts, self._folder)
        return self._orphans

    def in_flight(self, world: World) -> Iterator[Finding]:
        """Steps that must not simply run again: in flight, cut off, or to be ended because it goes further back."""
        asked = {o.unit: (o.code or NOT_IDEMPOTENT, o.why) for o in self.orphans(world) if o.action == ASK}
        for path, record in world.steps.open.items():
            if was_killed(record) and self._must_ask(path, record):
                asked.setdefault(path, (NOT_IDEMPOTENT, "it was cut off, and it must not simply run again"))
        for attempt in () if world.is_head else world.attempts:
            if attempt.step not in asked and self._must_ask(attempt.step, world.steps.get(attempt.step, {})):
                asked[attempt.step] = (
                    NOT_IDEMPOTENT,
                    "it was in flight later on, and it must not simply run again",
                )
        for path, (code, why) in asked.items():
            hint = (
                f"Look whether it is done: `leftoff step done {path} --run {world.run_id}` says so; "
                f"--accept {code} runs it again."
            )
            yield Finding(code, f"Step {path}: {why}.", hint, path)

    def _must_ask(self, path: str, record: dict[str, Any]) -> bool:
        step = step_of(self.new, path, record) if self.new is not None else None
        return step is not None and not step.idempotent

    def known(self, world: World) -> dict[str, tuple[str, str]]:
        """What would be done about each step that was in flight, and why."""
        return {o.unit: (_WORDS.get(o.action, o.action), o.why) for o in self.orphans(world)}
