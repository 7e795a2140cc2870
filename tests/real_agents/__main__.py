"""`make agents`: the real agents, with leftoff, against a scripted model. See the README beside this file."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from dataclasses import dataclass

from tests.real_agents import cache, namespace, page
from tests.real_agents.agents import AGENTS, Agent
from tests.real_agents.bed import Bed, Broken, Unsupported
from tests.real_agents.page import FAILS, UNSUPPORTED, WORKS, Row
from tests.real_agents.scenarios import ALL, Scenario, deaths, sessions

__all__ = ["deaths", "sessions"]


@dataclass
class Asked:
    agents: list[str]
    only: str
    write: bool


def _asked(words: list[str]) -> Asked:
    parser = argparse.ArgumentParser(prog="make agents", description=__doc__)
    parser.add_argument("--agent", action="append", choices=list(AGENTS), help="only this one")
    parser.add_argument(
        "-k", default="", metavar="WORDS", help="only scenarios whose name has these words; writes no page"
    )
    parser.add_argument("--no-page", action="store_true", help="only print what was found")
    given = parser.parse_args(words)
    whole = not given.k and not given.agent and not given.no_page
    return Asked(given.agent or list(AGENTS), given.k, whole)


def _play(bed: Bed, agent: Agent, scenario: Scenario) -> Row:
    """One scenario with one agent: whatever goes wrong is a row."""
    began = time.monotonic()
    state, note = WORKS, ""
    try:
        note = scenario.play(bed, agent) or ""
    except Unsupported as error:
        state, note = UNSUPPORTED, str(error)
    except Broken as error:
        state, note = FAILS, str(error)
    except Exception as error:
        state, note = FAILS, f"{type(error).__name__}: {error}"
        traceback.print_exc()
    row = Row(scenario, agent.name, state, note, time.monotonic() - began)
    print(f"{agent.name:7} {scenario.name:28} {state} {row.seconds:5.1f} s  {note}", flush=True)
    return row


def main(words: list[str]) -> int:
    asked = _asked(words)
    programs = cache.programs()
    namespace.enter(words)
    rows = []
    for name in asked.agents:
        bed = Bed(cache.cache() / "beds" / name, programs)
        try:
            rows += [_play(bed, AGENTS[name], one) for one in ALL if asked.only in one.name]
        finally:
            bed.close()
    if asked.write:
        page.write(rows)
    return 1 if any(row.state == FAILS for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
