"""Executing a workflow file in a run: starting one, or going on with one that is there.

Here is what both have in common with the world outside: who drives, which processes are left from before, what must be
there (tools, variables, secrets), and which questions a person has to answer before anything goes on.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from leftoff.engine.config.caller import CALLER
from leftoff.engine.lifecycle.opening import Opening, opening_changes, start_in
from leftoff.engine.write.commit import save_blobs
from leftoff.host import this_process
from leftoff.model.fields import Fields
from leftoff.workflow.definition.graph import Graph
from leftoff.workflow.processes.client import Launcher
from leftoff.workflow.run.driver import Driver
from leftoff.workflow.run.ledger import Ledger
from leftoff.workflow.run.records import declared
from leftoff.workflow.run.scheduler import Scheduler
from leftoff.workflow.run.state import State
from leftoff.workflow.run.turn import GRACE, ActiveRun
from leftoff.workflow.template.templates import Templates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leftoff.clock import Clock
    from leftoff.engine.config.settings import Redaction
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.head import Head
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow
    from leftoff.workflow.definition.model import Workflow
    from leftoff.workflow.run.turn import Observer

    Ask = Callable[
        [str, str, str], bool
    ]  # a finding's code, what is the matter, what to do: whether to go on


class Setting(Fields):
    """Where and for whom a run is driven.

    ``folder``: of the store, with the processes' files. ``redaction``: for the processes of steps. ``levels``: how bad
    findings are in this project. ``seen``: what the run's issue is like by now, as `context` records. ``tree``: the
    files that the run knows, for a checkpoint. ``reuse``: steps that an earlier run has are taken from there.
    """

    store: Store
    project: str
    folder: str
    redaction: Redaction
    redactor: Redactor
    clock: Clock
    observer: Observer
    ask: Ask
    store_url: str
    secrets: dict[str, str]
    seen: Callable[[], dict[str, Any]]
    tree: Callable[[RunRow], Found]
    levels: Mapping[str, str]
    most: int | None = None
    heartbeat: float = 30.0
    grace: float = GRACE
    who: str = "leftoff run"
    reuse: bool = False


class Runner:
    """One run of a workflow, driven by this process."""

    def __init__(
        self, setting: Setting, workflow: Workflow, head: Head, epoch: int, overlay: dict[str, Any]
    ) -> None:
        self.setting = setting
        self.workflow = workflow
        self.ledger = Ledger(setting.store, head, epoch, setting.clock, setting.redactor)
        graph = Graph(workflow)
        self.state = State(workflow, graph, self.ledger, setting.project)
        self.state.overlay = overlay
        scheduler = Scheduler(workflow, graph, setting.most)
        self.active = ActiveRun(
            setting, self.state, self.ledger, scheduler, Templates(), Launcher(setting.redaction)
        )
        self.driver = Driver(self.active, heartbeat=setting.heartbeat)

    @property
    def run_id(self) -> str:
        return self.ledger.run_id

    def drive(self) -> int:
        """Until nothing more can be done; the exit code."""
        return self.driver.drive()

    def undecided(self) -> list[tuple[str, str]]:
        """The steps and items that failed under `on_failure: ask`, and why each did."""
        asking = {path for path, step in self.active.scheduler.steps.items() if step.on_failure == "ask"}
        found = []
        for path, record in self.state.steps.items():
            own = path in asking and "items" not in record
            item = "item" in record and any(path.startswith(f"{leaf}/") for leaf in asking)
            if record["status"] == "failed" and (own or item):
                found.append((path, why_failed(record)))
        return found

    def close(self) -> None:
        """Nothing is driven after all."""
        self.driver.close()

    def begin(self) -> None:
        """A new run: nothing is done yet."""
        self.state.load()
        self.active.scheduler.restore({})
        self.tell_start(resumed=False)

    def tell_start(self, *, resumed: bool) -> None:
        total = len(self.state.graph.leaves)
        self.active.tell(
            "start", run_id=self.run_id, workflow=self.workflow.name, resumed=resumed, steps={"total": total}
        )


# -- a new run


def start(
    setting: Setting, workflow: Workflow, opening: Opening, *, alone: Callable[[View], None] | None = None
) -> Runner:
    """Start a run of a workflow; its opening has the facts and the variables, the steps are added here.

    ``alone`` is asked in the transaction that starts it, and raises where it must not be.
    """
    known = _with_steps(opening, workflow)
    at = setting.clock.now()
    changes = opening_changes(known, at, setting.redactor)
    for key, value in context_of(workflow, setting.project).items():
        changes.put("context", key, value)
    changes, blobs = save_blobs(setting.store, changes)
    driver = (this_process(), setting.who)

    def work(tx: Tx) -> tuple[Head, int]:
        if alone is not None:
            alone(tx)
        head, epoch, _ = start_in(tx, known, changes, blobs, at, driver)
        assert epoch is not None
        return head, epoch

    head, epoch = setting.store.write(work)
    runner = Runner(setting, workflow, head, epoch, dict(opening.variables))
    runner.begin()
    return runner


def _with_steps(opening: Opening, workflow: Workflow) -> Opening:
    return Opening(
        opening.workflow,
        title=opening.title,
        branch=opening.branch,
        run_id=opening.run_id,
        steps=[{"id": path, **record} for path, record in records_of(workflow).items()],
        variables=opening.variables,
        facts=opening.facts,
        context=opening.context,
    )


def records_of(workflow: Workflow) -> dict[str, dict[str, Any]]:
    """The record of every step, before anything happened."""
    graph = Graph(workflow)
    return {
        step.path: declared(step, order, graph.level[step.path] + 1 if step.kind != "phase" else None)
        for order, step in enumerate(workflow.walk())
    }


def context_of(workflow: Workflow, project: str) -> dict[str, Any]:
    """The definition and its graph, as the run remembers them."""
    graph = Graph(workflow)
    path = os.path.relpath(os.path.abspath(workflow.path), project)
    return {
        "definition": {"path": path, "digest": workflow.digest, "text": workflow.text},
        "graph": {
            "batches": graph.batches(),
            "needs": {step.path: list(step.needs) for step in workflow.walk() if step.needs},
        },
    }


# -- what must be there


def why_failed(record: Mapping[str, Any]) -> str:
    """What the record of a failed step says of that."""
    return str((record.get("error") or {}).get("message", "no reason is on record"))


def missing(workflow: Workflow, project: str) -> list[str]:
    """What the definition requires and is not there, in words."""
    wanted = workflow.requires
    tools = [f"the tool {name} is not on PATH" for name in wanted.tools if shutil.which(name) is None]
    env = [f"the environment has no {name}" for name in wanted.env if not CALLER.has(name)]
    paths = [
        f"there is no {path}" for path in wanted.paths if not os.path.exists(os.path.join(project, path))
    ]
    return [*tools, *env, *paths]
