"""What a step does, as a command line: one action per kind of step.

An action turns a step's definition into the command that a shim executes, and what the command left into a result.
The kinds that only wait for a person have none. A kind of step that comes from elsewhere (a headless agent) registers
its action here; the runner knows nothing else of it.
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
from leftoff.workflow.processes.attempt_folder import ARGS, SCRIPT

if TYPE_CHECKING:
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.template.templates import Templates

LONGEST = 100_000  # of a script on a command line; a longer one goes through a file
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
        """The command line for a try whose files are in ``folder``."""
        raise NotImplementedError

    def result(self, folder: str) -> Any:
        """What the step returned, once its command ended well; ``NOTHING`` where it returns nothing."""
        try:
            with open(os.path.join(folder, "result"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return NOTHING

    def failure(self, folder: str) -> dict[str, Any]:
        """What its command has left to say about its failure, besides how it ended: its `message`, and facts."""
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
    """The environment that gives a process its arguments, and says where to leave its result."""
    text = json.dumps(args)
    if len(text) > LONGEST:  # JSON is ASCII
        text = "@" + _kept(os.path.join(folder, ARGS), text)
    return {"LEFTOFF_ARGS": text, "LEFTOFF_RESULT": os.path.join(folder, "result")}


def _kept(path: str, text: str) -> str:
    """The path of a file that has this text in it."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def shell_of(step: Step) -> list[str]:
    """The shell: bash where there is one, ending at the first failure; or what the step asks for."""
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
    """Arguments with the templates in them rendered; a text that is one template keeps its value's type."""
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
