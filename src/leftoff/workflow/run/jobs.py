"""The jobs that shims execute for a step: its command, and the checks after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.workflow.processes.job import Job

if TYPE_CHECKING:
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.turn import Stage
    from leftoff.workflow.run.unit import Work


def command(stage: Stage, work: Work, argv: list[str], values: dict[str, Any], extra: dict[str, str]) -> Job:
    """The command of a step, in the step's folder and environment."""
    step = work.step
    env = environment(stage, work, values)
    env.update(extra)
    cwd = os.path.join(stage.project, work.cwd)
    return Job(work.token, work.folder, argv, env, cwd, step.timeout, stage.grace, _secrets(stage))


def check(stage: Stage, work: Work, token: str, folder: str, argv: list[str], values: dict[str, Any]) -> Job:
    """A check of what the step did: in the project's folder, which declared outputs are relative to, too."""
    env = environment(stage, work, values)
    return Job(token, folder, argv, env, stage.project, work.step.timeout, stage.grace, _secrets(stage))


def _secrets(stage: Stage) -> tuple[str, ...]:
    return tuple(value for value in stage.secrets.values() if value)


def own_environment(stage: Stage, step: Step, values: dict[str, Any]) -> dict[str, str]:
    """What the definition puts into a step's environment."""
    return {
        name: stage.templates.render(text, values, f"{step.path}: env: {name}")
        for name, text in step.env.items()
    }


def environment(stage: Stage, work: Work, values: dict[str, Any]) -> dict[str, str]:
    """What a step's process finds in its environment; with the LEFTOFF_ ones it can report on itself."""
    persist = work.step.persist
    return {
        **stage.environ,
        **stage.secrets,
        **own_environment(stage, work.step, values),
        "LEFTOFF_SECRETS": ",".join(stage.secrets),
        "LEFTOFF_RUN": stage.ledger.run_id,
        "LEFTOFF_STEP": work.unit,
        "LEFTOFF_ATTEMPT": work.token,
        "LEFTOFF_PROJECT": stage.project,
        "LEFTOFF_STORE": stage.store_url,
        "LEFTOFF_BRANCH": str(stage.state.facts.get("branch") or "main"),
        "LEFTOFF_VARS": os.path.join(work.folder, "vars"),
        "LEFTOFF_PERSIST": "" if persist is None else "\n".join(persist) or "\n",
    }
