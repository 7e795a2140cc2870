"""The `agent:` step of a workflow: turned into the command that does it, and what that left into a result."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from leftoff.agents.headless.commands import check_agent
from leftoff.engine.settings import load
from leftoff.errors import Invalid, NotFound
from leftoff.model.changes import NOTHING
from leftoff.workflow import actions
from leftoff.workflow.actions import LONGEST, Command
from leftoff.workflow.leftovers import ARGS

if TYPE_CHECKING:
    from leftoff.workflow.definition import Step
    from leftoff.workflow.template import Templates

_PASSED = ("model", "turns", "budget", "permissions", "tools")


class Agent:
    """`agent:` a headless agent, which keeps its session in the step's record."""

    def __init__(self, project: str) -> None:
        self.project = project

    def command(self, step: Step, templates: Templates, values: dict[str, Any], folder: str) -> Command:
        about = step.agent or {}
        section = load(self.project).section("agents")
        custom = {name: entry for name, entry in section.items() if isinstance(entry, dict)}
        given = {name: about[name] for name in _PASSED if about.get(name) is not None}
        given.update(
            agents=[check_agent(name, custom) for name in _names(step)],
            prompt=self._prompt(step, templates, values),
            custom=custom,
            wait=section.get("wait"),
        )
        text = json.dumps(given)
        if len(text) > LONGEST:
            path = os.path.join(folder, ARGS)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            text = f"@{path}"
        env = {"LEFTOFF_ARGS": text, "LEFTOFF_RESULT": os.path.join(folder, "result")}
        return Command([sys.executable, "-m", "leftoff.agents.headless.act"], env)

    def _prompt(self, step: Step, templates: Templates, values: dict[str, Any]) -> str:
        about = step.agent or {}
        if about.get("prompt"):
            return templates.render(about["prompt"], values, f"{step.path}: prompt")
        named = templates.render(str(about.get("prompt_file") or ""), values, f"{step.path}: prompt_file")
        try:
            with open(os.path.join(self.project, named), encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise NotFound(f"{step.path}: the prompt_file {named} cannot be read: {error}.") from None

    def result(self, step: Step, folder: str) -> Any:
        try:
            with open(os.path.join(folder, "result"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return NOTHING


def _names(step: Step) -> list[str]:
    """The agents of a step, in the order in which they are tried."""
    about = step.agent or {}
    given = about.get("agents") or about.get("agent")
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise Invalid(f"{step.path}: `agent` names an agent.", hint="For example: agent: claude")
    return list(dict.fromkeys(names))


def register(project: str) -> None:
    """Make `agent:` steps executable."""
    actions.register("agent", Agent(project))
