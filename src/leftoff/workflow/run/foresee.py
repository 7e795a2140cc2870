"""What a run of a workflow would do, step by step, before it is started: ``run --dry-run``.

Steps that an earlier run has are supposed to be as they were there, so that those after them can be filled in and
looked for, too. After the first one that would run, nobody knows what it will leave: what needs it would run as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.errors import LeftoffError
from leftoff.model.changes import NOTHING
from leftoff.model.fields import Fields
from leftoff.model.ids import unquote_part, with_item
from leftoff.workflow.definition.graph import Graph
from leftoff.workflow.processes.attempt_folder import AttemptFolder
from leftoff.workflow.run import items
from leftoff.workflow.run.actions import action_of
from leftoff.workflow.run.jobs import own_environment
from leftoff.workflow.run.ledger import Records
from leftoff.workflow.run.reuse import Reuse, wanted
from leftoff.workflow.run.state import State
from leftoff.workflow.run.unit import LiveAttempt, outputs_of
from leftoff.workflow.template.templates import Templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.store.base import Store
    from leftoff.workflow.definition.model import Step, Workflow
    from leftoff.workflow.run.reuse import Decision

RUN, SKIP, ASK = "run", "skip", "ask"
EVERY_TIME = "every run does it; `cache: true` or --reuse takes it from an earlier one"


class Foreseen(Fields):
    """A step, what would become of it, and why; and the item that it would be for."""

    step: str
    action: str
    why: str
    item: str | None = None

    def to_json(self) -> dict[str, Any]:
        about = {"step": self.step, "action": self.action, "why": self.why}
        return with_item(about, self.step, {"item": self.item})


class Foresight:
    """Goes through a definition in the order of its batches. ``folder``: for what is too long for a command line."""

    def __init__(
        self, workflow: Workflow, store: Store, project: str, redactor: Redactor, folder: str
    ) -> None:
        graph = Graph(workflow)
        self._workflow = workflow
        self._graph = graph
        self._redactor = redactor
        self._folder = folder
        self._templates = Templates()
        self._state = State(workflow, graph, Records(store, -1, ""), project)
        self._reuse = Reuse(store, self._state, self._templates, everything=False)
        self._running: dict[str, None] = {}  # steps that would run, or may

    def plan(self, variables: dict[str, Any], *, reuse: bool) -> list[Foreseen]:
        self._state.suppose(variables)
        self._reuse.everything = reuse
        order = sorted(self._graph.leaves, key=lambda path: self._graph.level[path])
        found = {path: list(self._step(self._workflow.by_path[path])) for path in order}
        return [one for path in self._graph.leaves for one in found[path]]

    def _step(self, step: Step) -> Iterator[Foreseen]:
        try:
            if step.kind in ("approval", "manual"):
                yield Foreseen(
                    step.path, ASK, "a person does it" if step.kind == "manual" else "a person decides"
                )
                return
            before = next((path for path in self._running if path in self._graph.before[step.path]), None)
            if before is not None:
                yield self._would_run(step, step.path, f"{before}, which it needs, would run")
            elif step.when and not self._templates.test(
                step.when, self._state.values(step), f"{step.path}: when"
            ):
                self._state.steps[step.path] = {"status": "skipped"}
                yield Foreseen(step.path, SKIP, f"when: {step.when}")
            elif step.foreach is not None:
                yield from self._items(step)
            else:
                yield self._unit(step, step.path, NOTHING)
        except LeftoffError as error:
            yield self._would_run(step, step.path, f"that it can be skipped is not known: {error.message}")

    def _items(self, step: Step) -> Iterator[Foreseen]:
        values = self._state.values(step)
        found = items.find(step, self._templates, values, self._state.project)
        if found is None:
            yield self._would_run(step, step.path, "its items are known once its command has run")
            return
        named = items.name(step, found, self._templates, values, self._redactor)
        self._state.set_items(step.path, named)
        for unit, item in named:
            name = unquote_part(unit.rpartition("/")[2])  # a secret in an item is not in its name
            yield self._unit(step, unit, item).but(item=name)

    def _unit(self, step: Step, unit: str, item: Any) -> Foreseen:
        decision = self._judged(step, unit, item)
        if decision is None:
            return self._would_run(step, unit, EVERY_TIME)
        if decision.earlier is None:
            return self._would_run(step, unit, decision.why)
        self._state.steps[unit] = decision.earlier.record
        self._reuse.know(decision.earlier.outputs.values())
        self._state.suppose({**self._state.variables, **decision.earlier.variables})
        return Foreseen(unit, SKIP, decision.why)

    def _judged(self, step: Step, unit: str, item: Any) -> Decision | None:
        if not wanted(step, self._reuse.everything):
            return None
        values = self._state.values(step, item)
        live = LiveAttempt(unit, step, item, "", AttemptFolder(self._folder))
        command = action_of(step).command(step, self._templates, values, self._folder)
        live.outputs, live.cwd = outputs_of(self._templates, values, step)
        env = own_environment(self._templates, step, values)
        return self._reuse.judge(unit, self._reuse.parts(step, live, command, env))

    def _would_run(self, step: Step, unit: str, why: str) -> Foreseen:
        self._running[step.path] = None
        return Foreseen(unit, RUN, why)
