"""Handing a run over: the command line that continues it in another agent, and what that agent is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.agents.commands import (
    check_agent,
    custom_agents,
    session_named,
    templated,
    templated_words,
)
from leftoff.engine.read.quoting import word
from leftoff.errors import CannotResume
from leftoff.model.words import UNFINISHED
from leftoff.operations.checkpoints import told as whole_brief
from leftoff.operations.handover import session_of_agent

if TYPE_CHECKING:
    from leftoff.engine.read.find import Target
    from leftoff.operations import Project

TOLD = (
    "This work was begun by {before} and is handed over to you as run {run_id} of leftoff. Check what is said "
    "here before you build on it, and do not repeat what is done. `leftoff step done STEP` reports a step, "
    "`leftoff next` says which one comes next. What is known:\n\n{brief}"
)
_TALK = {
    "claude": ["claude"],
    "codex": ["codex"],
    "gemini": ["gemini", "-i"],
    "opencode": ["opencode", "run"],
}
_RESUME = {
    "claude": ["claude", "--resume"],
    "codex": ["codex", "resume"],
    "gemini": ["gemini", "--resume"],
    "opencode": ["opencode", "-s"],
}


class Handover:
    """Which agent goes on with which run, by which words, in which environment."""

    def __init__(self, run_id: str, agent: str, words: list[str], session: str | None = None) -> None:
        self.run_id = run_id
        self.agent = agent
        self.words = words
        self.session = session  # the agent's own earlier one, which is resumed
        self.env = {"LEFTOFF_RUN": run_id}

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "to": self.agent, "command": self.words, "env": self.env}


def hand_over(project: Project, target: Target, agent: str) -> Handover:
    """The command that continues a run in an agent: in its own session, where it had one there, else with the brief."""
    row = target.row
    custom = project.settings.parsed("agents", custom_agents)
    check_agent(agent, custom)
    if row.status not in UNFINISHED:
        raise CannotResume(f"Run {row.run_id} is {row.status}.", hint="There is nothing to hand over.")
    session = session_named(session_of_agent(project, row, agent))
    if session and agent in _RESUME and not templated(agent, custom):
        return Handover(row.run_id, agent, [*_RESUME[agent], session], session)
    known = whole_brief(project, target)
    told = TOLD.format(before=word(row.card.get("agent") or "somebody"), run_id=row.run_id, brief=known)
    words = templated_words(agent, told, custom) if templated(agent, custom) else [*_TALK[agent], told]
    return Handover(row.run_id, agent, words)
