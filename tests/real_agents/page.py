"""The page that a run writes: which versions, each scenario, each agent."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from leftoff._version import __version__
from tests.real_agents.agents import AGENTS
from tests.real_agents.cache import versions
from tests.real_agents.scenarios import Scenario

PAGE = Path(__file__).parents[2] / "docs" / "agents" / "compatibility.md"
WORKS, UNSUPPORTED, FAILS = "works", "not supported", "FAILS"
HEAD = """\
# Which agents it was tried with

This page is written by `make agents` ([how](../../tests/real_agents/README.md)): the real programs, in the versions
below, play each scenario against a scripted model on the loopback, and what they leave behind is read with leftoff's
own command. It shows how the programs and leftoff get along, not what a model would choose to do.

Last run: {day}, leftoff {version}, in {minutes:.0f} minutes.

| | {titles} |
| --- | {dashes} |
| version | {versions} |
"""


@dataclass(frozen=True)
class Row:
    """What was found in one scenario with one agent."""

    scenario: Scenario
    agent: str
    state: str
    note: str
    seconds: float


def write(rows: list[Row]) -> None:
    PAGE.write_text(text(rows))


def text(rows: list[Row]) -> str:
    """The page."""
    pinned = versions()
    agents = [name for name in AGENTS if any(row.agent == name for row in rows)]
    out = HEAD.format(
        day=datetime.datetime.now(datetime.UTC).date(),
        version=__version__,
        minutes=sum(row.seconds for row in rows) / 60,
        titles=" | ".join(AGENTS[name].title for name in agents),
        dashes=" | ".join("---" for _ in agents),
        versions=" | ".join(pinned[name] for name in agents),
    )
    notes: list[str] = []
    for one in dict.fromkeys(row.scenario for row in rows):
        cells = [
            _cell(row, notes) for name in agents for row in rows if (row.scenario, row.agent) == (one, name)
        ]
        out += f"| **{one.name}**: {one.promise} | {' | '.join(cells)} |\n"
    if notes:
        out += (
            "\n## Notes\n\n" + "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1)) + "\n"
        )
    return out


def _cell(row: Row, notes: list[str]) -> str:
    if not row.note:
        return row.state
    told = f"{AGENTS[row.agent].title}, {row.scenario.name}: {row.note}"
    notes.append(" ".join(told.split()))
    return f"{row.state} ({len(notes)})"
