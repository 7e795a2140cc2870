"""The `agent:` step of a workflow: turned into the command that does it, and what that left into a result."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from typing import Any

from leftoff.agents.adapters import LIMITS, adapter, custom_agents
from leftoff.engine.project import Project
from leftoff.errors import Invalid, NotFound
from leftoff.host import python
from leftoff.workflow import actions
from leftoff.workflow.actions import Action, Command, exchange
from leftoff.workflow.definition import StepDefinition, Workflow
from leftoff.workflow.templates import Templates, Values, is_template
from leftoff.workflow.yaml_source import Problems


class Agent(Action):
    """`agent:` a headless agent, which keeps its session in the step's record."""

    def __init__(self, project: str) -> None:
        self.project = project

    def command(self, step: StepDefinition, templates: Templates, values: Values, folder: str) -> Command:
        about = step.agent or {}
        settings = Project(self.project).settings
        custom = settings.parsed("agents", custom_agents)
        given = {name: about[name] for name in LIMITS if about.get(name) is not None}
        given.update(
            agents=[adapter(name, custom).name for name in _names(step)],
            prompt=self._prompt(step, templates, values),
            custom=custom,
            wait=settings.section("agents").get("wait"),
        )
        return Command(python("leftoff.agents.agent_step"), exchange(given, folder))

    def _prompt(self, step: StepDefinition, templates: Templates, values: dict[str, Any]) -> str:
        about = step.agent or {}
        if about.get("prompt"):
            return templates.render(about["prompt"], values, f"{step.path}: prompt")
        named = templates.render(str(about.get("prompt_file") or ""), values, f"{step.path}: prompt_file")
        try:
            with open(os.path.join(self.project, named), encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise NotFound(f"{step.path}: the prompt_file {named} cannot be read: {error}.") from None

    def failure(self, folder: str) -> dict[str, Any]:
        try:
            found = self.result(folder)
        except ValueError:
            return {}
        return found if isinstance(found, dict) and "message" in found else {}


def _names(step: StepDefinition) -> list[str]:
    """The agents of a step, in the order in which they are tried."""
    about = step.agent or {}
    given = about.get("agents") or [about.get("agent")]
    return list(dict.fromkeys(given))


def check_agents(workflow: Workflow, project: str, *, prompts: bool) -> None:
    """Raise what is wrong with agent steps before any is started. ``prompts``: also what files they are to read."""
    custom = Project(project).settings.parsed("agents", custom_agents)
    problems = Problems(workflow.path)
    made = [output for step in workflow.leaves() for output in step.outputs]
    for step in workflow.leaves():
        if step.kind != "agent":
            continue
        about = step.agent or {}
        for name in _names(step):
            try:
                adapter(name, custom).check(about)
            except Invalid as error:
                problems.add(step, f"{step.path}: {error.message.rstrip('.')}", error.hint)
        if prompts and not _readable(about.get("prompt_file"), project, made):
            problems.add(
                step,
                f"{step.path}: the prompt_file {about['prompt_file']} does not exist",
                "Write it; or name it among the `outputs` of the step that does.",
            )
    problems.check()


def _readable(path: Any, project: str, made: list[str]) -> bool:
    """Whether a prompt can be read, or will be there when it is: one with a template in it is only known then."""
    if not isinstance(path, str) or is_template(path) or os.path.isfile(os.path.join(project, path)):
        return True
    return any(is_template(output) or fnmatch(path, output) for output in made)


def prepare_agents(workflow: Workflow, project: str, prompts: bool) -> None:
    """Raise what is wrong with agent steps, and make them executable."""
    check_agents(workflow, project, prompts=prompts)
    actions.register_action("agent", Agent(project))
