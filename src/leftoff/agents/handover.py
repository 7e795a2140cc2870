"""Handing a run over: the command line that continues it in another agent, and what that agent is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from leftoff.agents.adapters import adapter, custom_agents, session_named
from leftoff.engine.find import Target
from leftoff.engine.project import Project
from leftoff.errors import CannotResume
from leftoff.model.words import UNFINISHED
from leftoff.operations.checkpoints import brief_of as whole_brief
from leftoff.operations.run_lifecycle import session_of_agent

# The brief comes first: by its first words, the hook knows that this prompt is not the user's.
TOLD = (
    "{brief}\nThis work is handed over to you. Check what is said here before you build on it, and do not repeat what "
    "is done. `leftoff step done STEP` reports a step, `leftoff next` says which one comes next."
)


class Handover(NamedTuple):
    """Which agent continues which run, by which words. ``session``: the agent's own earlier one, which is resumed."""

    run_id: str
    agent: str
    words: list[str]
    session: str | None = None

    @property
    def env(self) -> dict[str, str]:
        return {"LEFTOFF_RUN": self.run_id}

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "to": self.agent, "command": self.words, "env": self.env}


def hand_over(project: Project, target: Target, agent: str) -> Handover:
    """Return the command that continues a run in an agent: in its own session if it had one there, else with the
    brief."""
    row = target.row
    how = adapter(agent, project.settings.parsed("agents", custom_agents))
    if row.status not in UNFINISHED:
        raise CannotResume(f"Run {row.run_id} is {row.status}.", hint="There is nothing to hand over.")
    session = session_named(session_of_agent(project, row, agent))
    if session and how.talks_again:
        return Handover(row.run_id, agent, [*how.talks_again, session], session)
    known = whole_brief(project, target)
    return Handover(row.run_id, agent, how.handover(TOLD.format(brief=known)))
