"""Handing a run over: the command line that continues it in another agent, and what that agent is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.agents.headless.commands import Asked, check_agent, command_of
from leftoff.engine.brief import brief
from leftoff.errors import CannotResume
from leftoff.model.words import UNFINISHED

if TYPE_CHECKING:
    from leftoff.agents.desk import Desk
    from leftoff.engine.find import Target

TOLD = (
    "This work was begun by {before} and is handed over to you as run {run_id} of leftoff. Check that what is said "
    "here is so before you build on it; what is done need not be done again. `leftoff step done STEP` reports a step, "
    "`leftoff next` says which one comes next. What is known:\n\n{brief}"
)
_TALK = {"claude": ["claude"], "codex": ["codex"], "gemini": ["gemini", "-i"]}
_RESUME = {"claude": ["claude", "--resume"], "codex": ["codex", "resume"], "gemini": ["gemini", "--resume"]}


class Handover:
    """Which agent goes on with which run, by which words, in which environment."""

    def __init__(self, run_id: str, agent: str, words: list[str], resumes: bool) -> None:
        self.run_id = run_id
        self.agent = agent
        self.words = words
        self.resumes = resumes  # the agent's own earlier session
        self.env = {"LEFTOFF_RUN": run_id}

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "to": self.agent, "command": self.words, "env": self.env}


def hand_over(desk: Desk, target: Target, agent: str) -> Handover:
    """The command that continues a run in an agent: in its own session, where it had one there, else with the brief."""
    row = target.row
    section = desk.settings.section("agents")
    custom = {name: entry for name, entry in section.items() if isinstance(entry, dict)}
    check_agent(agent, custom)
    if row.status not in UNFINISHED:
        raise CannotResume(f"Run {row.run_id} is {row.status}.", hint="There is nothing to hand over.")
    before = row.card.get("agent")
    if agent == before and agent in _RESUME and agent not in custom and row.session:
        return Handover(row.run_id, agent, [*_RESUME[agent], row.session], True)
    known = brief(desk.store, target, desk.at, desk.project)
    told = TOLD.format(before=before or "somebody", run_id=row.run_id, brief=known)
    if agent in custom or agent not in _TALK:
        words = command_of(agent, told, Asked({}), custom)
    else:
        words = [*_TALK[agent], told]
    return Handover(row.run_id, agent, words, False)
