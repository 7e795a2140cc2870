"""The page that a run writes: which versions, each scenario, each agent."""

from __future__ import annotations

import datetime
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from leftoff._version import __version__
from tests.real_agents.agents import AGENTS
from tests.real_agents.cache import versions
from tests.real_agents.scenarios import ALL, Scenario
from tests.real_agents.scenarios.protocols import FAILING

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agent-compatibility.md"
WORKS, UNSUPPORTED, FAILS = "works", "not supported", "FAILS"
NOT_PLAYED = "not tried"
TOGETHER = "all"
_ONE = threading.Lock()
HEAD = """\
# Agent compatibility

`make agents` writes this page (`tests/real_agents/README.md` explains how). The real programs, in the versions below,
play each scenario against a scripted model on the loopback. leftoff's own command then reads what they left. The page
shows how the programs and leftoff work together, not what a model would choose to do.

Last run: {day}, leftoff {version}. {how}

| Scenario | {titles} |
| --- | {dashes} |
| version | {versions} |
"""
MERGED = "`--merge` has replaced single rows: they come from several runs of these versions."


@dataclass(frozen=True)
class Row:
    """What was found in one scenario with one agent, or with all of them together."""

    scenario: Scenario
    agent: str
    state: str
    note: str
    seconds: float


def write(rows: list[Row], how: str = MERGED) -> None:
    """Write the page. ``how``: how the rows were found."""
    PAGE.write_text(text(rows, how))


def merge(row: Row) -> None:
    """Put what was found into the page that is there, instead of what it says of the same."""
    with _ONE:
        old = read(PAGE.read_text()) if PAGE.exists() else []
        others = [one for one in old if (one.scenario, one.agent) != (row.scenario, row.agent)]
        write(sorted([*others, row], key=lambda one: ALL.index(one.scenario)))


def read(page: str) -> list[Row]:
    """The rows of a page."""
    notes = dict(re.findall(r"^(\d+)\. [^:]*: (.*)$", page, re.MULTILINE))
    scenarios, rows = {one.name: one for one in ALL}, []
    titles = next(iter(re.findall(r"^\| Scenario \| (.*) \|$", page, re.MULTILINE)), "").split(" | ")
    columns = [name for title in titles for name, agent in AGENTS.items() if agent.title == title]
    for name, rest in re.findall(r"^\| \*\*(.+?)\*\*: (.*) \|$", page, re.MULTILINE):
        cells = rest.split(" | ")[1:]
        for agent, cell in zip(columns if len(cells) > 1 else [TOGETHER], cells, strict=True):
            state, _, number = cell.rstrip(")").partition(" (")
            if name in scenarios and cell != NOT_PLAYED:
                rows.append(Row(scenarios[name], agent, state, notes.get(number, ""), 0))
    return rows


def text(rows: list[Row], how: str = MERGED) -> str:
    """The page."""
    pinned, notes = versions(), list[str]()
    agents = list(AGENTS)
    out = HEAD.format(
        day=datetime.datetime.now(datetime.UTC).date(),
        version=__version__,
        how=how,
        titles=" | ".join(AGENTS[name].title for name in agents),
        dashes=" | ".join("---" for _ in agents),
        versions=" | ".join(pinned[name] for name in agents),
    )
    found = {(row.scenario, row.agent): row for row in rows}
    each = dict.fromkeys(row.scenario for row in rows if row.agent != TOGETHER)
    for one in each:
        cells = [_cell(found[one, name], notes) if (one, name) in found else NOT_PLAYED for name in agents]
        out += f"| **{one.name}**: {one.promise} | {' | '.join(cells)} |\n"
    together = [row for row in rows if row.agent == TOGETHER]
    if together:
        out += "\n| Scenario | All agents together |\n| --- | --- |\n"
    for row in together:
        out += f"| **{row.scenario.name}**: {row.scenario.promise} | {_cell(row, notes)} |\n"
    if notes:
        out += (
            "\n## Notes\n\n" + "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1)) + "\n"
        )
    if any(row.scenario.name == "MCP conformance" for row in rows):
        out += "\n## Conformance cases that fail\n\n| Why | Cases |\n| --- | --- |\n"
        out += "".join(f"| {why} | {', '.join(names)} |\n" for why, names in FAILING.items())
    return out


_MOST = 200  # characters of what failed


def _cell(row: Row, notes: list[str]) -> str:
    if not row.note:
        return row.state
    whose = AGENTS[row.agent].title if row.agent in AGENTS else "All"
    note = row.note if row.state != FAILS or len(row.note) <= _MOST else f"{row.note[:_MOST]} …"
    notes.append(" ".join(f"{whose}, {row.scenario.name}: {note}".split()))
    return f"{row.state} ({len(notes)})"
