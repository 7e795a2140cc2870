"""A workflow of three agent steps, of which anything is killed at any moment."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

from tests.real_agents.agents import Agent
from tests.real_agents.bed import Bed, Broken, Project, expect, must
from tests.real_agents.life import Life, end, parents, words_of
from tests.real_agents.model.answers import Answer, Request
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.steps import flow, play

MOMENTS = 20
WHO = ("driver", "launcher", "child", "all")
PROGRAMS = {
    "claude": r"claude(\.exe)? -p ",
    "codex": r"codex exec ",
    "gemini": r"gemini -p ",
    "opencode": r"opencode run ",
    "qwen": r"qwen -p ",
}
PARTS = 3


class Work:
    """What the model does for part N: one thing after the other, by what is there already."""

    def __init__(self, project: Project, agent: Agent) -> None:
        self.project, self.agent = project, agent
        self.done: set[int] = set()  # parts whose step is on record as completed
        self.again: list[int] = []  # parts that were worked on nevertheless

    def __call__(self, request: Request) -> Answer:
        part = [int(found) for text in request.texts for found in re.findall(r"This is part (\d)", text)][-1]
        if part in self.done:
            self.again.append(part)
        folder = self.project.folder
        if not (folder / f"begun-{part}").exists():
            marks = "echo in $$ >> log; sleep 0.3; echo out $$ >> log"
            return Answer(calls=(self.agent.shell(f"{marks}; touch begun-{part}"),))
        if not (folder / f"part-{part}.txt").exists():
            return Answer(calls=(self.agent.write(str(folder / f"part-{part}.txt"), f"part {part}\n"),))
        return Answer(f"Part {part} is done.")

    def look(self) -> str:
        """What the run says by now; its status."""
        runs = self.project.runs()
        if not runs:
            return ""
        records = self.project.show()["step_records"]
        self.done = {int(one["step"][1:]) for one in records if one["status"] == "completed"}
        return str(runs[0]["status"])


def _inside(folder: Path) -> list[int]:
    """The processes that work in a folder."""
    found = []
    for pid in parents():
        try:
            there = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if there == str(folder):
            found.append(pid)
    return found


def _victims(who: str, life: Life, project: Project, agent: Agent) -> tuple[str, list[int]]:
    """Who is killed: of the agent's processes the first or the last; the driver, where there is no agent yet."""
    inside, known = _inside(project.folder), parents()
    if who == "all":
        return who, inside
    programs = [pid for pid in inside if re.search(PROGRAMS[agent.name], words_of(pid))]
    first = [pid for pid in programs if known.get(pid) not in programs]
    last = [pid for pid in programs if pid not in {known.get(other) for other in programs}]
    if who == "launcher" and first:
        return who, first[:1]
    if who == "child" and last:
        return who, last[-1:]
    return "driver", [life.pid]


def _never_two(project: Project) -> None:
    """No command of an agent's ends after that of its successor has begun."""
    log = project.folder / "log"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("out ") and before != line.replace("out", "in"):
            raise Broken(f"two agents at once: {lines}")


def _one_kill(work: Work, who: str, seconds: float) -> str:
    """The workflow goes on, or begins anew, until somebody is killed; who that was."""
    project = work.project
    unfinished = work.look() not in ("", "completed")
    words = ("resume", "--yes") if unfinished else ("run", "flow.yaml", "--yes", "--trust")
    if not unfinished:
        work.done = set()
        for old in [
            *project.folder.glob("begun-*"),
            *project.folder.glob("part-*"),
            *project.folder.glob("log"),
        ]:
            old.unlink()
    life = project.start(["leftoff", *words])
    time.sleep(seconds)
    found, pids = _victims(who, life, project, work.agent)
    over = life.process.poll() is not None
    end([pid for pid in pids if pid != os.getpid()])
    if found in ("driver", "all"):
        life.process.wait()
    else:
        expect(f"exit code after the {found} was killed ({life.err[-200:]})", 0, life.wait())
    _never_two(project)
    return "" if over else found


@scenario(
    f"steps killed at {MOMENTS} moments",
    "the workflow ends well, no finished step is done again, never two agents at once",
)
def kills(bed: Bed, agent: Agent) -> str:
    project = bed.project()
    about = f"agent: {agent.name}\nprompt: This is part {{}}.\npermissions: bypass\noutputs: [part-{{}}.txt]"
    flow(project, "parts", *(about.format(number, number) for number in range(1, PARTS + 1)))
    work = Work(project, agent)
    bed.model.script()
    bed.model.replies = work
    began = time.monotonic()
    expect("exit code, undisturbed", 0, play(project))
    length = time.monotonic() - began
    dice, found = random.Random(20), list[str]()
    while len(found) < MOMENTS:
        left = length * (1 - len(work.done) % PARTS / PARTS)
        hit = _one_kill(work, WHO[len(found) % len(WHO)], dice.uniform(0.2, left))
        found += [hit] if hit else []  # it was done before
        must("the store is sound", project.leftoff("fsck", "--json").json["ok"])
    if work.look() not in ("", "completed"):
        expect("exit code of the last resume", 0, play(project, "resume", "--yes"))
    expect("status", "completed", work.look())
    expect("finished steps that were done again", [], work.again)
    expect("processes that are left", [], [words_of(pid)[:80] for pid in _inside(project.folder)])
    return ", ".join(f"{who} {found.count(who)}" for who in WHO)
