"""`make agents`: the real agents, with leftoff, against a scripted model. See the README beside this file."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.real_agents import cache, namespace, page, record
from tests.real_agents.agents import AGENTS, Agent
from tests.real_agents.bed import Bed, Broken, Unsupported
from tests.real_agents.page import FAILS, TOGETHER, UNSUPPORTED, WORKS, Row
from tests.real_agents.scenarios import (
    ALL,
    Scenario,
    crowd,
    deaths,
    facts,
    inner,
    kills,
    protocols,
    sessions,
    shared,
    steps,
    terminals,
)

SLOWEST = ["opencode", "gemini", "qwen"]  # they begin first, so that all end at about the same time
PLAYED = [sessions, deaths, facts, inner, steps, shared, terminals, kills, protocols, crowd]  # in this order


@dataclass
class Asked:
    agents: list[str]
    only: str
    jobs: int
    write: bool
    record: bool
    merge: bool


def _asked(words: list[str]) -> Asked:
    parser = argparse.ArgumentParser(prog="make agents", description=__doc__)
    parser.add_argument("--agent", action="append", choices=list(AGENTS), help="only this one")
    parser.add_argument(
        "-k",
        default="",
        metavar="WORDS",
        help="only scenarios whose name has this regular expression; writes no page",
    )
    parser.add_argument("--jobs", type=int, default=1, help="agents that are tried at the same time")
    parser.add_argument("--no-page", action="store_true", help="only print what was found")
    parser.add_argument(
        "--record", action="store_true", help="also record what the agents say, for the tests"
    )
    parser.add_argument(
        "--merge", action="store_true", help="put what was played again into the page that is there"
    )
    given = parser.parse_args(words)
    whole = not (given.k or given.agent or given.no_page or given.merge)
    return Asked(given.agent or list(AGENTS), given.k, given.jobs, whole, given.record or whole, given.merge)


def _play(bed: Bed, agent: Agent, scenario: Scenario, *, merge: bool) -> Row:
    """One scenario with one agent: whatever goes wrong is a row. ``merge``: of the page, too."""
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
    who = TOGETHER if scenario.once else agent.name
    row = Row(scenario, who, state, note, time.monotonic() - began)
    print(f"{who:7} {scenario.name:28} {state} {row.seconds:5.1f} s  {note}", flush=True)
    if merge:
        page.merge(row)
    return row


def _all_of(asked: Asked, place: Path, name: str, played: list[Scenario]) -> list[Row]:
    """Every scenario with one agent, in a bed of its own; what it says is recorded where that is asked."""
    bed = Bed(place / name, cache.programs())
    try:
        who = AGENTS.get(name, AGENTS["claude"])
        rows = [_play(bed, who, one, merge=asked.merge) for one in played]
        if asked.record and name in AGENTS:
            record.record(bed, AGENTS[name])
        return rows
    finally:
        bed.close()


def main(words: list[str]) -> int:
    asked, began = _asked(words), time.monotonic()
    if asked.write and not namespace.inside():
        cache.newest()
    cache.programs()
    namespace.enter(words)
    beds = cache.cache() / "beds"
    beds.mkdir(exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=beds))
    chosen = [one for one in ALL if re.search(asked.only, one.name)]
    with ThreadPoolExecutor(asked.jobs) as pool:
        each = [one for one in chosen if not one.once]
        ordered = sorted(asked.agents, key=lambda name: name not in SLOWEST)
        rows = [
            row
            for found in pool.map(lambda name: _all_of(asked, place, name, each), ordered)
            for row in found
        ]
    together = [one for one in chosen if one.once]
    if together and len(asked.agents) == len(AGENTS):
        rows += _all_of(asked, place, TOGETHER, together)
    if asked.write:
        minutes = (time.monotonic() - began) / 60
        page.write(rows, f"All rows come from one uninterrupted run of {minutes:.0f} minutes.")
    if any(row.state == FAILS for row in rows):
        print(f"What failed is kept in {place}.", file=sys.stderr)
        return 1
    shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
