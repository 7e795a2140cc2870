"""Folders that share a repository: a colleague's clone without leftoff, and linked worktrees."""

from __future__ import annotations

import copy
import os
import subprocess
from pathlib import Path

from tests.real_agents.agents import Agent, calls
from tests.real_agents.bed import BIN, Bed, Project, expect, must
from tests.real_agents.life import Life
from tests.real_agents.model.answers import Answer
from tests.real_agents.scenarios import scenario
from tests.real_agents.scenarios.deaths import BRIEF, told
from tests.real_agents.scenarios.sessions import last_turn


def _git(project: Project, *words: str) -> None:
    subprocess.run(["git", *words], cwd=project.folder, env=project.bed.env, check=True, capture_output=True)


@scenario(
    "a clone without leftoff", "settings that git shares name no place, and an agent works as without them"
)
def without_leftoff(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    for path in project.folder.rglob("*"):
        shared = path.is_file() and path.relative_to(project.folder).parts[0] not in (".git", ".leftoff")
        names = shared and any(str(place).encode() in path.read_bytes() for place in (BIN, bed.home))
        must(f"{path.name} names no place of this machine", not names)
    rest = os.pathsep.join(one for one in bed.env["PATH"].split(os.pathsep) if one != str(BIN))
    bed.model.script(*calls(agent.write(str(project.folder / "guide.md"), "# Guide\n")), Answer("Written."))
    life = project.start(agent.words("Write the guide", None, False), PATH=rest)
    expect("its exit code", 0, life.wait())
    expect("the file", "# Guide\n", (project.folder / "guide.md").read_text())
    expect("requests", 2, len(bed.model.main))
    must("no store is made", not (project.folder / ".leftoff").exists())


def _worktree(project: Project, place: Path) -> Project:
    """Return a linked worktree, with the settings of the repository."""
    _git(project, "worktree", "add", "-q", "-b", f"side-{place.name}", str(place))
    project.bed.trust(place)
    made = copy.copy(project)
    made.folder = place
    return made


def _cut_off(bed: Bed, agent: Agent, project: Project, name: str) -> Life:
    """Return a session that has written a file and waits for the model."""
    bed.model.script(*calls(agent.write(str(project.folder / name), "# It\n")), Answer(waits=True))
    life = agent.ask(project, f"Write {name}")
    bed.model.wait_for_wait()
    return life


def _play(bed: Bed, agent: Agent, inside: bool) -> None:
    project = bed.project(agent.name)
    _git(project, "add", "-A")
    _git(project, "commit", "-qm", "settings")
    place = (
        project.folder / "trees" / "side"
        if inside
        else project.folder.with_name(f"{project.folder.name}-side")
    )
    side = _worktree(project, place)
    lives: dict[str, Life] = {}
    for where, name in ((project, "main.md"), (side, "side.md")):
        # The first one goes on to wait: the script of the second one must not let it go.
        if lives:
            bed.model.more(*calls(agent.write(str(where.folder / name), "# It\n")), Answer(waits=True))
            life = agent.ask(where, f"Write {name}")
            bed.model.wait_for_wait(2)
        else:
            life = _cut_off(bed, agent, where, name)
        lives[name] = life
    seen = [sorted(run["run_id"] for run in one.runs()) for one in (project, side)]
    expect("runs", 2, len(seen[0]))
    expect("runs, seen from the worktree", seen[0], seen[1])
    runs = {}
    for name, life in lives.items():
        session = agent.session(life)
        runs[name] = next(run["run_id"] for run in project.runs() if run["session_id"] == session)
        expect(f"files of the run of {name}", [name], last_turn(project.show(runs[name]))["files"])
    for life in lives.values():
        life.kill()
    taken = []
    for where in (side, project):
        bed.model.script(Answer("Shall I?"))
        life = agent.tell(where, "continue")
        found = [run["run_id"] for run in project.runs() if run["session_id"] == agent.session(life)]
        must("it is told the brief of what it took", found and told(bed, f"{BRIEF} {found[0]}"))
        taken += found
    expect("runs that were taken, each once", sorted(runs.values()), sorted(taken))
    must("no file is in the other's folder", not (side.folder / "main.md").exists())
    must("nor the other way", not (project.folder / "side.md").exists())
    must("one store", not (side.folder / ".leftoff").exists())
    project.sound()


for _inside, _where in ((True, "inside the repository"), (False, "next to the repository")):

    def _one(bed: Bed, agent: Agent, inside: bool = _inside) -> None:
        _play(bed, agent, inside)

    scenario(
        f"worktree {_where}",
        "sessions there and in the main folder: runs are seen from both, none is taken twice, no files are mixed",
    )(_one)
