"""The `agent:` step of a workflow: turned into the command that does it, and what that left into a result."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from leftoff.agents.headless.commands import LIMITS, check_agent, not_able
from leftoff.engine.settings import load
from leftoff.errors import Invalid, NotFound
from leftoff.model.changes import NOTHING
from leftoff.workflow import actions
from leftoff.workflow.actions import LONGEST, Command
from leftoff.workflow.leftovers import ARGS

if TYPE_CHECKING:
    from leftoff.workflow.definition import Step
    from leftoff.workflow.template import Templates


class Agent:
    """`agent:` a headless agent, which keeps its session in the step's record."""

    def __init__(self, project: str) -> None:
        self.project = project

    def command(self, step: Step, templates: Templates, values: dict[str, Any], folder: str) -> Command:
        about = step.agent or {}
        section = load(self.project).section("agents")
        custom = {name: entry for name, entry in section.items() if isinstance(entry, dict)}
        given = {name: about[name] for name in LIMITS if about.get(name) is not None}
        wrong = [why for _, why, _ in problems(about, custom)]
        if wrong:
            hint = "`leftoff run FILE --check` finds it before anything runs."
            raise Invalid(f"{step.path}: {'; '.join(wrong)}.", hint=hint)
        given.update(
            agents=_names(about),
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


def _names(about: dict[str, Any]) -> list[str]:
    """The agents of a step, in the order in which they are tried."""
    given = about.get("agents") or about.get("agent")
    names = given if isinstance(given, list) else [given]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def problems(about: dict[str, Any], custom: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What is wrong with an agent step: the key, what, and what to do. An option is never left out in silence."""
    out: list[tuple[str, str, str]] = []
    for name in _names(about):
        try:
            check_agent(name, custom)
            found = [(key, not_able(name, key, custom)) for key in LIMITS if about.get(key) is not None]
        except Invalid as error:
            out.append(("agents" if about.get("agents") else "agent", error.message.rstrip("."), error.hint))
            continue
        out += [(key, why, f"Leave `{key}` out, or {name}.") for key, why in found if why]
    return out


def check_step(project: str, about: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The same for a project, whose leftoff.toml may name agents of its own."""
    section = load(project).section("agents")
    return problems(about, {name: entry for name, entry in section.items() if isinstance(entry, dict)})


def register(project: str) -> None:
    """Make `agent:` steps executable."""
    actions.register("agent", Agent(project))
