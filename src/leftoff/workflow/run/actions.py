"""What a step does, as a command line: one action per kind of step.

An action turns a step's definition into the command that a shim executes, and what the command left into a result.
Kinds that only wait for a person have none. Headless agents register their action here; the driver knows nothing else
of them.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leftoff.errors import Invalid, Unsupported
from leftoff.host import python
from leftoff.model.changes import NOTHING
from leftoff.workflow.definition.model import Step
from leftoff.workflow.processes.attempt_folder import ARGS, RESULT, SCRIPT, VARS, AttemptFolder
from leftoff.workflow.processes.job import Job
from leftoff.workflow.run.live_attempt import LiveAttempt
from leftoff.workflow.template.templates import Templates

if TYPE_CHECKING:
    from leftoff.workflow.run.driver import Driver

LONGEST = 100_000  # bytes of a script on a command line; a longer one goes through a file
_BASH = ("-eo", "pipefail")
_INLINE = {
    "perl": "-e",
    "ruby": "-e",
    "node": "-e",
    "lua": "-e",
    "Rscript": "-e",
    "php": "-r",
}  # -c is another thing


@dataclass
class Command:
    """What to execute, and what to add to its environment.

    ``values`` are the variables that hold the values of its script. They decide what the command does, so they are a
    part of the step's cache key.
    """

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)


class Action:
    """A way to do a step."""

    def command(self, step: Step, templates: Templates, values: dict[str, Any], folder: str) -> Command:
        """Return the command line of an attempt whose files are in ``folder``."""
        raise NotImplementedError

    def result(self, folder: str) -> Any:
        """Return the step's result after its command ended well; ``NOTHING`` if there is none."""
        try:
            with open(os.path.join(folder, RESULT), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return NOTHING

    def failure(self, folder: str) -> dict[str, Any]:
        """Return what the command reports about its failure: a `message`, and facts."""
        return {}


class Shell(Action):
    """`run:` a script for the shell."""

    def command(self, step: Step, templates: Templates, values: dict[str, Any], folder: str) -> Command:
        return script(step, step.run, templates, values, folder, f"{step.path}: run")

    def result(self, folder: str) -> Any:
        return NOTHING


class Python(Action):
    """`python:` a function, called in a process of its own."""

    def command(self, step: Step, templates: Templates, values: dict[str, Any], folder: str) -> Command:
        env = exchange(_filled(step.args, templates, values, f"{step.path}: with"), folder)
        return Command([*python("leftoff.workflow.processes.python_step"), step.python], env)


KNOWN: dict[str, Action] = {"run": Shell(), "python": Python()}


def register(kind: str, action: Action) -> None:
    """Make a kind of step executable."""
    KNOWN[kind] = action


def action_of(step: Step) -> Action:
    found = KNOWN.get(step.kind)
    if found is None:
        raise Unsupported(
            f"{step.path}: this leftoff cannot execute `{step.kind}:` steps.",
            hint="Give the step `run:` or `python:`, or no action at all and do it by hand.",
        )
    return found


def script(
    step: Step, text: str, templates: Templates, values: dict[str, Any], folder: str, where: str
) -> Command:
    """Return the command that executes a script of a step, with the script's values in its environment."""
    shell = shell_of(step)
    rendered, held = templates.shell(text, values, where, shell=shell)
    if isinstance(step.shell, list):
        argv = [*shell, rendered]
    elif len(rendered.encode("utf-8", "surrogateescape")) <= LONGEST:
        argv = [*shell, _INLINE.get(os.path.basename(shell[0]), "-c"), rendered]
    else:
        argv = [*shell, _kept(os.path.join(folder, f"{SCRIPT}{abs(hash(where)) % 10_000}"), rendered)]
    return Command(argv, values=held)


def exchange(args: Any, folder: str) -> dict[str, str]:
    """Return the environment with the arguments of a process and the path for its result."""
    text = json.dumps(args)
    if len(text) > LONGEST:  # JSON is ASCII
        text = "@" + _kept(os.path.join(folder, ARGS), text)
    return {"LEFTOFF_ARGS": text, "LEFTOFF_RESULT": os.path.join(folder, RESULT)}


def _kept(path: str, text: str) -> str:
    """Write a text to a file. Return its path."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def shell_of(step: Step) -> list[str]:
    """Return the step's shell; by default bash if there is one, which ends at the first failure."""
    if isinstance(step.shell, list):
        return list(step.shell)
    if step.shell:
        words = shlex.split(step.shell)
        if not words:
            raise Invalid(f"{step.path}: `shell:` is empty.")
        return words
    bash = shutil.which("bash")
    return [bash, *_BASH] if bash else [shutil.which("sh") or "/bin/sh", "-e"]


def _filled(value: Any, templates: Templates, values: dict[str, Any], where: str) -> Any:
    """Render the templates in arguments. A text that is one template keeps its value's type."""
    if isinstance(value, dict):
        return {key: _filled(entry, templates, values, where) for key, entry in value.items()}
    if isinstance(value, list):
        return [_filled(entry, templates, values, where) for entry in value]
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1:
        return templates.value(text[2:-2].strip(), values, where)
    return templates.render(value, values, where)


# -- jobs


def attempt_job(driver: Driver, live: LiveAttempt, command: Command, values: dict[str, Any]) -> Job:
    """Return the job of a step's command, in the step's folder and environment."""
    cwd = os.path.join(driver.setting.project, live.cwd)
    return _job(driver, live, live.token, live.folder, command, values, cwd)


def check_job(
    driver: Driver,
    live: LiveAttempt,
    token: str,
    folder: AttemptFolder,
    command: Command,
    values: dict[str, Any],
) -> Job:
    """Return the job of a check, in the project's folder, to which declared outputs are relative too."""
    return _job(driver, live, token, folder, command, values, driver.setting.project)


def _job(
    driver: Driver,
    live: LiveAttempt,
    token: str,
    folder: AttemptFolder,
    command: Command,
    values: dict[str, Any],
    cwd: str,
) -> Job:
    setting, step = driver.setting, live.step
    env = {
        **driver.environ,
        **setting.secrets,
        **own_environment(driver.templates, step, values),
        "LEFTOFF_SECRETS": ",".join(setting.secrets),
        "LEFTOFF_RUN": driver.run_id,
        "LEFTOFF_STEP": live.unit,
        "LEFTOFF_ATTEMPT": live.token,
        "LEFTOFF_PROJECT": setting.project,
        "LEFTOFF_STORE": setting.store_url,
        "LEFTOFF_BRANCH": str(driver.state.facts.get("branch") or "main"),
        "LEFTOFF_VARS": live.folder.file(VARS),
        "LEFTOFF_PERSIST": "" if step.persist is None else "\n".join(step.persist) or "\n",
        **command.env,
        **command.values,
    }
    secrets = tuple(value for value in setting.secrets.values() if value)
    return Job(token, folder.path, command.argv, env, cwd, step.timeout, setting.grace, secrets)


def own_environment(templates: Templates, step: Step, values: dict[str, Any]) -> dict[str, str]:
    """Return what the definition puts into a step's environment."""
    return {
        name: templates.render(text, values, f"{step.path}: env: {name}") for name, text in step.env.items()
    }
