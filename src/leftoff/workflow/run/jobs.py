"""The jobs that shims execute for a step: its command, and the checks after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from leftoff.workflow.processes.job import Job
from leftoff.workflow.template.environment import check_environment, is_filled
from leftoff.workflow.template.render import is_ksh, is_posix

if TYPE_CHECKING:
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.turn import ActiveRun
    from leftoff.workflow.run.unit import LiveAttempt


def command(
    active: ActiveRun, live: LiveAttempt, argv: list[str], values: dict[str, Any], extra: dict[str, str]
) -> Job:
    """The command of a step, in the step's folder and environment."""
    step = live.step
    env = environment(active, live, values)
    env.update(extra)
    cwd = os.path.join(active.project, live.cwd)
    return Job(live.token, live.folder, argv, env, cwd, step.timeout, active.grace, _secrets(active))


def check(
    active: ActiveRun, live: LiveAttempt, token: str, folder: str, argv: list[str], values: dict[str, Any]
) -> Job:
    """A check of what the step did: in the project's folder, which declared outputs are relative to, too."""
    env = environment(active, live, values)
    return Job(token, folder, argv, env, active.project, live.step.timeout, active.grace, _secrets(active))


def _secrets(active: ActiveRun) -> tuple[str, ...]:
    return tuple(value for value in active.secrets.values() if value)


def own_environment(active: ActiveRun, step: Step, values: dict[str, Any]) -> dict[str, str]:
    """What the definition puts into a step's environment."""
    own = {
        name: active.templates.render(text, values, f"{step.path}: env: {name}")
        for name, text in step.env.items()
    }
    filled = {name: own[name] for name, text in step.env.items() if is_filled(text)}
    if filled and is_posix(step.shell):
        check_environment(step.scripts, filled, step.path, ksh=is_ksh(step.shell))
    return own


def environment(active: ActiveRun, live: LiveAttempt, values: dict[str, Any]) -> dict[str, str]:
    """What a step's process finds in its environment; with the LEFTOFF_ ones it can report on itself."""
    persist = live.step.persist
    return {
        **active.environ,
        **active.secrets,
        **own_environment(active, live.step, values),
        "LEFTOFF_SECRETS": ",".join(active.secrets),
        "LEFTOFF_RUN": active.ledger.run_id,
        "LEFTOFF_STEP": live.unit,
        "LEFTOFF_ATTEMPT": live.token,
        "LEFTOFF_PROJECT": active.project,
        "LEFTOFF_STORE": active.store_url,
        "LEFTOFF_BRANCH": str(active.state.facts.get("branch") or "main"),
        "LEFTOFF_VARS": os.path.join(live.folder, "vars"),
        "LEFTOFF_PERSIST": "" if persist is None else "\n".join(persist) or "\n",
    }
