"""`start … --resume`, which is how the protocols dispatch: their rules hold there as they do for `resume`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.agents.mcp_tools import Tools
from leftoff.errors import CannotResume
from tests.cli.command import call, succeed
from tests.protocols.examples import DOTAGENT
from tests.protocols.files import SITEBUILDER_FILE, put


def follow(project: Path, name: str) -> None:
    succeed("init", "--protocol", name, cwd=project)


def edit(path: Path, **changes: Any) -> None:
    put(path, {**json.loads(path.read_text()), **changes})


def test_sitebuilder(project: Path) -> None:
    """`resumable` must be true; only items that are not complete are left. The server's tool keeps to it too."""
    follow(project, "sitebuilder")
    words = ("start", "migration", "--task", "T060", "--steps", "post-01,post-02")
    succeed(*words, cwd=project)
    succeed("step", "done", "post-01", cwd=project)
    edit(project / SITEBUILDER_FILE, resumable=False)
    refused = call(*words, "--resume", cwd=project)
    assert (6, "", True) == (refused.code, refused.out, "not resumable" in refused.err)
    with pytest.raises(CannotResume, match="not resumable"):
        Tools(str(project), None).start_run("migration", task="T060", resume=True)
    edit(project / SITEBUILDER_FILE, resumable=True)
    gone_on = succeed(*words, "--resume", cwd=project)
    assert "migration-T060\n" == gone_on.out
    assert "Continue from post-02" in gone_on.err and "Left: post-02" in gone_on.err


def test_sitebuilder_blocked(project: Path) -> None:
    """Errors are reviewed and cleared first, in the file as the protocol has it."""
    follow(project, "sitebuilder")
    words = ("start", "migration", "--task", "T060", "--steps", "post-01,post-02")
    succeed(*words, cwd=project)
    succeed("step", "block", "post-01", "--error", "no pdf", cwd=project)
    asked = call(*words, "--resume", "--json", cwd=project)
    assert (7, True) == (asked.code, "--accept blocked.errors" in asked.err)
    edit(project / SITEBUILDER_FILE, errors=[])
    assert 0 == call("verify", "@", cwd=project).code == call("resume", "--dry-run", cwd=project).code
    succeed(*words, "--resume", cwd=project)


def test_sitebuilder_blocked_then_resumed(project: Path) -> None:
    """Once its errors are cleared, `resume` goes on as `verify` says."""
    follow(project, "sitebuilder")
    succeed("start", "migration", "--task", "T060", "--steps", "post-01,post-02", cwd=project)
    succeed("step", "block", "post-01", "--error", "no pdf", cwd=project)
    assert 7 == call("resume", cwd=project).code
    edit(project / SITEBUILDER_FILE, errors=[])
    succeed("resume", cwd=project)


@pytest.fixture
def workflow(project: Path) -> Path:
    """A dotagent workflow whose tasks are being done; its `phase.json`."""
    follow(project, "dotagent")
    succeed("start", "dotagent", cwd=project)
    for phase in ("REQUIREMENTS", "ARCHITECTURE"):
        succeed("step", "done", phase, cwd=project)
    succeed("step", "start", "IMPLEMENTATION/task-001", cwd=project)
    return project / "memory/state/phase.json"


def test_dotagent_that_was_cut_short(workflow: Path, project: Path) -> None:
    """`interruption_safe: false` asks, in the protocol's words."""
    edit(workflow, interruption_safe=False)
    asked = call("start", "dotagent", "--resume", cwd=project)
    assert (7, True) == (asked.code, "State appears corrupted. Start fresh? [y/N]" in asked.err)


def test_dotagent_puts_back_what_was_cut_short(workflow: Path, project: Path) -> None:
    """Scenario 1: attempts incremented, back to pending; the phase stays in progress. Trying again counts no more."""
    told = succeed("start", "dotagent", "--resume", cwd=project).err
    assert "from IMPLEMENTATION phase" in told and "Next: continue the executor" in told
    execution = workflow.with_name("execution.json")
    (task,) = json.loads(execution.read_text())["tasks"]
    assert ("pending", 2) == (task["status"], task["attempts"])
    there = json.loads(workflow.read_text())
    assert ("IMPLEMENTATION", "in_progress") == (there["current_phase"], there["phase_status"])
    document = json.loads(execution.read_text())
    put(execution, {**document, "tasks": [{**task, "status": "running"}]})
    succeed("step", "fail", "IMPLEMENTATION/task-001", "--error", "no disk", cwd=project)
    (task,) = json.loads(execution.read_text())["tasks"]
    assert ("failed", 2) == (task["status"], task["attempts"])


def test_dotagent_is_complete_once_it_was_reflected_on(workflow: Path, project: Path) -> None:
    """The file of the last phase is there: nothing is done again."""
    for phase in ("IMPLEMENTATION", "VERIFICATION"):
        succeed("step", "done", phase, cwd=project)
    succeed("step", "start", "REFLECTION", cwd=project)
    reports = project / "memory/reports"
    reports.mkdir(exist_ok=True)
    (reports / "reflection-1.md").write_text("Learned a lot.\n")
    done = call("resume", "--accept", "outputs.missing", cwd=project)
    assert 0 == done.code and "is complete" in done.err and "re-run" not in done.err, str(done)
    assert ["completed"] == [
        run["status"] for run in succeed("ls", "--all", "--json", cwd=project).json["runs"]
    ]


@pytest.mark.parametrize("then", ["in_progress", "failed"])
def test_dotagent_a_phase_that_was_passed_over(project: Path, then: str) -> None:
    """IMPLEMENTATION has begun, and ARCHITECTURE was never completed: that is asked about."""
    document = {**DOTAGENT["with tasks"]["phase"], "current_phase": "IMPLEMENTATION", "phase_status": then}
    document["completed_phases"] = [document["completed_phases"][0]]
    put(project / "memory/state/phase.json", document)
    follow(project, "dotagent")
    found = call("verify", document["workflow_id"], "--json", cwd=project)
    assert 7 == found.code and "progress.illegal" in [each["code"] for each in found.json["findings"]]


def test_dotagent_designs_wait_for_a_choice(project: Path) -> None:
    """They are listed, and nobody goes on in silence without a person."""
    follow(project, "dotagent")
    succeed("start", "dotagent", "--run-id", "d", cwd=project)
    succeed("step", "done", "REQUIREMENTS", cwd=project)
    succeed("step", "start", "ARCHITECTURE", cwd=project)
    designs = project / "memory/reports/designs"
    designs.mkdir(parents=True)
    for name in ("one.md", "two.md"):
        (designs / name).write_text("x")
    asked = call("resume", "d", cwd=project)
    assert 7 == asked.code and "one.md" in asked.err and "two.md" in asked.err, str(asked)
    assert 0 == call("resume", "d", "--accept", "approval.waiting", cwd=project).code


def test_claude_is_found_by_its_description_however_it_is_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program, and `start --resume`, go on with the checkpoint that matches the description but for its capitals."""
    follow(project, "claude-checkpoints")
    words = ("start", "orchestrate", "--title", "Implement Authentication", "--steps", "plan,build")
    run_id = succeed(*words, cwd=project).out.strip()
    succeed("start", "orchestrate", "--title", "Something else", cwd=project)
    found = succeed("start", "orchestrate", "--title", "implement authentication", "--resume", cwd=project)
    assert run_id == found.out.strip()
    monkeypatch.chdir(project)
    with leftoff.run("orchestrate", title="IMPLEMENT authentication") as run:
        assert run_id == run.id
