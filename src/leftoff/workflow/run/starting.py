"""Starting a run of a workflow file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

from leftoff.engine.config.caller import CALLER
from leftoff.engine.lifecycle.opening import Opening, opening_changes, start_in
from leftoff.engine.steps import lifecycle
from leftoff.engine.write.commit import save_blobs
from leftoff.engine.write.head import Head
from leftoff.host import this_process
from leftoff.store.base import Tx, View
from leftoff.workflow.definition.graph import Graph
from leftoff.workflow.definition.model import Workflow
from leftoff.workflow.run.driver import Driver, Setting


def start(
    setting: Setting, workflow: Workflow, opening: Opening, *, alone: Callable[[View], None] | None = None
) -> Driver:
    """Start a run of a workflow. The opening has the facts and the variables; the steps are added here.

    ``alone`` is called in the transaction that starts the run, and raises if it must not start.
    """
    known = Opening(
        opening.workflow,
        title=opening.title,
        branch=opening.branch,
        run_id=opening.run_id,
        steps=[{"id": path, **record} for path, record in records_of(workflow).items()],
        variables=opening.variables,
        facts=opening.facts,
        context=opening.context,
    )
    at = setting.clock.now()
    changes = opening_changes(known, at, setting.redactor)
    for key, value in context_of(workflow, setting.project).items():
        changes.put("context", key, value)
    changes, blobs = save_blobs(setting.store, changes)

    def work(tx: Tx) -> tuple[Head, int]:
        if alone is not None:
            alone(tx)
        head, epoch, _ = start_in(tx, known, changes, blobs, at, (this_process(), setting.who))
        assert epoch is not None
        return head, epoch

    head, epoch = setting.store.write(work)
    driver = Driver(setting, workflow, head, epoch, dict(opening.variables))
    driver.begin()
    return driver


def records_of(workflow: Workflow) -> dict[str, dict[str, Any]]:
    """Return the record of every step, before anything happened."""
    graph, out = Graph(workflow), {}
    for order, step in enumerate(workflow.walk()):
        known = {
            "title": step.title,
            "kind": step.kind,
            "type": step.label,
            "description": step.description,
            "instructions": step.instructions,
            "estimate": step.estimate,
            "batch": graph.level[step.path] + 1 if step.kind != "phase" else None,
        }
        known = {key: value for key, value in known.items() if value not in (None, "")}
        out[step.path] = lifecycle.declare(order, known)
    return out


def context_of(workflow: Workflow, project: str) -> dict[str, Any]:
    """Return the `context` records of a definition and its graph."""
    graph = Graph(workflow)
    path = os.path.relpath(os.path.abspath(workflow.path), project)
    return {
        "definition": {"path": path, "digest": workflow.digest, "text": workflow.text},
        "graph": {
            "batches": graph.batches(),
            "needs": {step.path: list(step.needs) for step in workflow.walk() if step.needs},
        },
    }


def missing(workflow: Workflow, project: str) -> list[str]:
    """Return what the definition requires and is missing, in words."""
    wanted = workflow.requires
    tools = [f"the tool {name} is not on PATH" for name in wanted.tools if shutil.which(name) is None]
    env = [f"the environment has no {name}" for name in wanted.env if not CALLER.has(name)]
    paths = [
        f"there is no {path}" for path in wanted.paths if not os.path.exists(os.path.join(project, path))
    ]
    return [*tools, *env, *paths]
