"""The jobs that shims execute for a step: its command, and the checks after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.workflow.processes.attempt_folder import VARS, AttemptFolder
from leftoff.workflow.processes.job import Job

if TYPE_CHECKING:
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.actions import Command
    from leftoff.workflow.run.turn import ActiveRun
    from leftoff.workflow.run.unit import LiveAttempt
    from leftoff.workflow.template.templates import Templates


def command(active: ActiveRun, live: LiveAttempt, command: Command, values: dict[str, Any]) -> Job:
    """The command of a step, in the step's folder and environment."""
    env = {**environment(active, live, values), **command.env, **command.values}
    cwd = os.path.join(active.project, live.cwd)
    return Job(
        live.token,
        live.folder.path,
        command.argv,
        env,
        cwd,
        live.step.timeout,
        active.grace,
        _secrets(active),
    )


def check(
    active: ActiveRun,
    live: LiveAttempt,
    token: str,
    folder: AttemptFolder,
    command: Command,
    values: dict[str, Any],
) -> Job:
    """A check of what the step did: in the project's folder, which declared outputs are relative to, too."""
    env = {**environment(active, live, values), **command.values}
    timeout = live.step.timeout
    return Job(token, folder.path, command.argv, env, active.project, timeout, active.grace, _secrets(active))


def _secrets(active: ActiveRun) -> tuple[str, ...]:
    return tuple(value for value in active.secrets.values() if value)


def own_environment(templates: Templates, step: Step, values: dict[str, Any]) -> dict[str, str]:
    """Return what the definition puts into a step's environment."""
    return {
        name: templates.render(text, values, f"{step.path}: env: {name}") for name, text in step.env.items()
    }


def environment(active: ActiveRun, live: LiveAttempt, values: dict[str, Any]) -> dict[str, str]:
    """What a step's process finds in its environment; with the LEFTOFF_ ones it can report on itself."""
    persist = live.step.persist
    return {
        **active.environ,
        **active.secrets,
        **own_environment(active.templates, live.step, values),
        "LEFTOFF_SECRETS": ",".join(active.secrets),
        "LEFTOFF_RUN": active.ledger.run_id,
        "LEFTOFF_STEP": live.unit,
        "LEFTOFF_ATTEMPT": live.token,
        "LEFTOFF_PROJECT": active.project,
        "LEFTOFF_STORE": active.store_url,
        "LEFTOFF_BRANCH": str(active.state.facts.get("branch") or "main"),
        "LEFTOFF_VARS": live.folder.file(VARS),
        "LEFTOFF_PERSIST": "" if persist is None else "\n".join(persist) or "\n",
    }
