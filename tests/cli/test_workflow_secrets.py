"""A workflow's secret stays out of the store, whichever face a step of the workflow reports through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.agents.hooking import Session
from tests.agents.stage import Stage
from tests.cli.command import environment, succeed
from tests.cli.test_mcp import Agent, drive
from tests.cli.test_secrets_everywhere import leaks

SECRET = "nothing-that-looks-like-one"
STEP = {"LEFTOFF_SECRETS": "WORKFLOW_SECRET", "WORKFLOW_SECRET": SECRET}  # what a step's process is given


def everything(folder: Path) -> str:
    """All that the store says of all runs, old versions included, and the bytes of its files."""
    runs = succeed("ls", "--all", "--json", cwd=folder).json["runs"]
    told = [succeed("show", run["run_id"], "--json", cwd=folder).out for run in runs]
    told += [succeed("log", run["run_id"], "--json", cwd=folder).out for run in runs]
    files = [
        path.read_bytes().decode("latin-1") for path in (folder / ".leftoff").rglob("*") if path.is_file()
    ]
    return "".join(told + files)


def test_the_command(project: Path) -> None:
    succeed("start", "flow", cwd=project)
    succeed("set", f"it={SECRET}", cwd=project, **STEP)
    succeed("step", "fail", "a", "--error", f"no {SECRET} here", cwd=project, **STEP)
    assert SECRET not in everything(project)


def test_mcp(project: Path) -> None:
    succeed("start", "flow", cwd=project)

    async def work(agent: Agent) -> None:
        await agent.call("set_variables", variables={"it": SECRET})
        await agent.call("report_step", step="a", status="failed", error=f"no {SECRET} here")
        await agent.call("add_note", text=f"it is {SECRET}")

    drive(project, work, **STEP)
    assert SECRET not in everything(project)


def test_hooks(project: Path) -> None:
    (project / ".git").mkdir()
    session = Session(project)
    session.env = STEP
    session.todos(**{f"use_{SECRET}": "in_progress"})
    assert "use " in everything(project)
    assert SECRET not in everything(project)


def test_python(project: Path) -> None:
    program = f"import leftoff\nwith leftoff.run('flow') as run:\n    run.variables['it'] = {SECRET!r}\n"
    (project / "program.py").write_text(program)
    subprocess.run([sys.executable, "program.py"], cwd=project, env=environment(**STEP), check=True)
    assert SECRET not in everything(project)


def test_an_agent_step(project: Path) -> None:
    """What an agent says last is kept before the driver has seen it."""
    stage = Stage(project)
    stage.write("agent: claude\nprompt: x")
    flow = stage.folder / "flow.yaml"
    flow.write_text(flow.read_text().replace("steps:", "secrets: [WORKFLOW_SECRET]\nsteps:"))
    stage.env |= {"WORKFLOW_SECRET": SECRET, "FAKE_RESULT": f"I used {SECRET}."}
    done = stage.run()
    assert 0 == done.code, str(done)
    assert {"redacted": True} == stage.result()["result"]
    assert [] == leaks(stage.folder)
