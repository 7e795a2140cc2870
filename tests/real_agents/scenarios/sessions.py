"""A session that nobody disturbs: what is kept of it."""

from __future__ import annotations

from typing import Any

from tests.real_agents.agents import Agent, calls, flat
from tests.real_agents.bed import Bed, Project, expect, must
from tests.real_agents.model.answers import Answer
from tests.real_agents.scenarios import scenario

SHELL = "sed -i s/beta/BETA/ notes.txt && echo made by a shell > shell.txt && rm untracked.bin"


def last_turn(run: dict[str, Any]) -> dict[str, Any]:
    """The record of the last turn of a run."""
    turns = run["records"].get("turn") or {}
    must("the run has a turn", turns)
    found: dict[str, Any] = turns[max(turns)]
    return found


def states(run: dict[str, Any]) -> dict[str, str]:
    """The steps by their titles."""
    return {record["title"] or record["step"]: record["status"] for record in run["step_records"]}


def worked(bed: Bed, agent: Agent) -> Project:
    """A session that wrote a file, and changed, made and deleted others by a command."""
    project = bed.project(agent.name)
    guide = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(*calls(guide, agent.shell(SHELL)), Answer("The guide is written."))
    life = agent.tell(project, "Write the guide")
    expect("the agent's exit code", 0, life.process.returncode)
    return project


@scenario("install", "its hooks fire, and `install --check` sees it")
def install(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    expect("--check before the first session", 7, project.call("install", agent.name, "--check").code)
    bed.model.script(Answer("Hello."))
    agent.tell(project, "hello")
    project.leftoff("install", agent.name, "--check")
    expect("runs that only talk leaves", [], project.runs())
    project.sound()


@scenario("a turn", "the prompt, the files written and changed by a shell, and the last words are recorded")
def turn(bed: Bed, agent: Agent) -> None:
    project = worked(bed, agent)
    run = project.show()
    expect("status", "completed", run["status"])
    found = last_turn(run)
    expect("prompt", "Write the guide", found["prompt"])
    expect("its state", "completed", found["status"])
    expect("files", ["guide.md", "notes.txt", "shell.txt", "untracked.bin"], sorted(found["files"]))
    must(f"last words: {found.get('said')!r}", "The guide is written." in found.get("said", ""))
    project.sound()


@scenario("failed commands", "a command that fails is kept, with what it said")
def failed_command(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    bed.model.script(*calls(agent.shell("echo no such luck; exit 3")), Answer("It failed."))
    agent.tell(project, "Try it")
    found = last_turn(project.show()).get("failed") or []
    expect("failed commands", ["echo no such luck; exit 3"], [one["command"] for one in found])
    must(f"what it said: {found[0]['error']!r}", "no such luck" in found[0]["error"])
    project.sound()


@scenario("todo list", "its entries are steps, with their states")
def todo_list(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    first = {"Write the guide": "in_progress", "Fix notes": "pending", "Ship it": "pending"}
    later = {"Write the guide": "completed", "Fix notes": "in_progress", "Ship it": "pending"}
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(
        *flat(agent.lists(first), calls(write), agent.lists(later, first)), Answer("One of three.")
    )
    agent.tell(project, "Write the guide", todo=True)
    run = project.show()
    wanted = {"Write the guide": "completed", "Fix notes": "running", "Ship it": "pending"}
    expect("steps", wanted, states(run))
    expect("status", "paused", run["status"])
    project.sound()


@scenario("rollback to the start", "every file is as it was at the prompt, byte by byte")
def rollback(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    before = project.files()
    guide = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(*calls(guide, agent.shell(SHELL)), Answer("Done."))
    agent.tell(project, "Write the guide")
    must("files were changed", before != project.files())
    first = project.leftoff("log", "latest", "--json").json["checkpoints"][-1]
    expect("the first checkpoint", "agent_start", first["trigger"])
    project.leftoff("rollback", first["checkpoint_id"], "--files", "--yes")
    after = project.files()
    expect(
        "files that differ",
        [],
        sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n)),
    )


@scenario("MCP", "tools that the model calls reach the run of its session")
def mcp(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    bed.model.script(
        *calls(
            agent.mcp("start_run", workflow="release", title="Release 2", steps=["collect", "build"]),
            agent.mcp("report_step", step="collect", status="completed"),
            agent.mcp("save_checkpoint", note="half way"),
            agent.write(str(project.folder / "guide.md"), "# Guide\n"),
        ),
        Answer("Half of it."),
    )
    bed.model.insists = "unsupported call: mcp__leftoff"  # Codex does not wait for servers that start
    life = agent.tell(project, "Use leftoff")
    run = project.show("Release 2")
    expect("the session of the run", agent.session(life), run["session_id"])
    expect("steps", {"collect": "completed", "build": "pending"}, states(run))
    expect("runs", ["release"], [one["workflow"] for one in project.runs()])
    expect("status after its end", "paused", run["status"])
    notes = [one["note"] for one in project.leftoff("log", run["run_id"], "--json").json["checkpoints"]]
    must(f"the checkpoint: {notes}", "half way" in notes)
    project.sound()


@scenario("its own run", "`leftoff start` in the agent's shell begins the run of its session")
def own_run(bed: Bed, agent: Agent) -> None:
    project = bed.project(agent.name)
    begin = agent.shell(
        "leftoff start release --title 'Release 3' --steps collect,build && leftoff step done collect"
    )
    write = agent.write(str(project.folder / "guide.md"), "# Guide\n")
    bed.model.script(*calls(begin, write), Answer("Half of it."))
    life = agent.tell(project, "Release it")
    run = project.show("Release 3")
    expect("the session of the run", agent.session(life), run["session_id"])
    expect("runs", ["release"], [one["workflow"] for one in project.runs() if one["status"] != "completed"])
    expect("status after its end", "paused", run["status"])
    project.sound()


@scenario("uninstall", "the agent's files are as they were, byte by byte")
def uninstall(bed: Bed, agent: Agent) -> str | None:
    project = bed.project()
    before = project.files()
    project.leftoff("install", agent.name)
    bed.model.script(Answer("Hello."))
    agent.tell(project, "hello")
    project.leftoff("install", agent.name, "--uninstall")
    expect("files after it", before, project.files())
    own = [path.name for path in project.folder.glob(".*code/*")]
    must(f"its own folder has nothing of leftoff: {own}", set(own) <= {".gitignore"})
    return "it leaves a .gitignore of its own" if own else None
