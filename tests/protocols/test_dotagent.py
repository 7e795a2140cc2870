"""dotagent: what a person approves, chooses or declines, and what is left of it in a clone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal
from tests.protocols.test_start_resume import follow


def dotagent(project: Path, *approvals: str) -> Path:
    """A workflow `d` in which the requirements are complete; its state file."""
    follow(project, "dotagent")
    with (project / "leftoff.toml").open("a") as file:
        file.write(f"approvals = {json.dumps(approvals)}\n" if approvals else "")
    succeed("start", "dotagent", "--run-id", "d", cwd=project)
    succeed("step", "start", "REQUIREMENTS", cwd=project)
    succeed("step", "done", "REQUIREMENTS", cwd=project)
    return project / "memory/state/phase.json"


def test_dotagent_a_phase_waits_for_its_approval(project: Path) -> None:
    """`[protocol] approvals`: nothing comes next, and `--yes` is no approval; then it is in the file."""
    state = dotagent(project, "REQUIREMENTS")
    waits = succeed("next", "--start", "--json", cwd=project).json
    assert waits["step"] is None and "leftoff approve d REQUIREMENTS" in waits["why"]
    asked = call("resume", "d", "--yes", cwd=project)
    assert 7 == asked.code and "REQUIREMENTS is complete, and nobody has approved it" in asked.err
    succeed("approve", "d", "REQUIREMENTS", cwd=project)
    assert "ARCHITECTURE" == succeed("next", "--json", cwd=project).json["step"]
    assert 0 == call("resume", "d", cwd=project).code
    assert ["REQUIREMENTS"] == [each["phase"] for each in json.loads(state.read_text())["user_checkpoints"]]


def test_dotagent_a_file_does_not_approve_a_phase(project: Path) -> None:
    """An entry in `user_checkpoints` is no decision, and changes none: only a person approves."""
    state = dotagent(project, "REQUIREMENTS")
    entry = {"phase": "REQUIREMENTS", "approved_at": "2026-01-01T00:00:00Z", "status": "approved"}
    state.write_text(json.dumps({**json.loads(state.read_text()), "user_checkpoints": [entry]}))
    assert succeed("next", "--json", cwd=project).json["step"] is None
    assert 7 == call("resume", "d", cwd=project).code
    succeed("approve", "d", "REQUIREMENTS", cwd=project)
    state.write_text(json.dumps({**json.loads(state.read_text()), "user_checkpoints": []}))
    assert "ARCHITECTURE" == succeed("next", "--json", cwd=project).json["step"]


def test_dotagent_approvals_are_of_its_phases(project: Path) -> None:
    follow(project, "dotagent")
    (project / "leftoff.toml").write_text('[protocol]\nname = "dotagent"\napprovals = ["DESIGN"]\n')
    wrong = call("status", cwd=project)
    assert 2 == wrong.code and "[protocol] approvals is wrong" in wrong.err and "ARCHITECTURE" in wrong.err
    (project / "leftoff.toml").write_text('[protocol]\nname = "bmad"\napprovals = ["a"]\n')
    assert "bmad has no phases to approve" in call("status", cwd=project).err
    (project / "leftoff.toml").unlink()


def test_dotagent_a_design_is_chosen_once(project: Path) -> None:
    """Of several one is named; then nobody is asked again, and the next one at work hears which it is."""
    state = dotagent(project)
    designs = project / "memory/reports/designs"
    designs.mkdir(parents=True)
    for name in ("one.md", "two.md"):
        (designs / name).write_text("x")
    succeed("step", "start", "ARCHITECTURE", cwd=project)
    guessed = call("approve", "d", "ARCHITECTURE", cwd=project)
    assert 2 == guessed.code and "one.md, two.md" in guessed.err
    assert 2 == call("approve", "d", "ARCHITECTURE", "--choice", "three.md", cwd=project).code
    succeed("approve", "d", "ARCHITECTURE", "--choice", "two.md", cwd=project)
    assert "run the roundtable with two.md" in succeed("resume", "d", cwd=project).err
    (said,) = json.loads(state.read_text())["user_checkpoints"]
    assert ("ARCHITECTURE", "two.md") == (said["phase"], said["choice"])


def test_dotagent_what_lay_there_before_is_of_another_workflow(project: Path) -> None:
    """An output that is older than the run settles no phase of it, and an older design is not offered."""
    reports = project / "memory/reports"
    (reports / "designs").mkdir(parents=True)
    for path in (reports / "demand.json", reports / "designs/old.md"):
        path.write_text("{}")
        os.utime(path, (1, 1))
    follow(project, "dotagent")
    succeed("start", "dotagent", "--run-id", "d", cwd=project)
    succeed("step", "start", "REQUIREMENTS", cwd=project)
    assert "re-run PM" in succeed("resume", "d", cwd=project).err
    succeed("step", "done", "REQUIREMENTS", cwd=project)
    succeed("step", "start", "ARCHITECTURE", cwd=project)
    assert "re-run architects" in succeed("resume", "d", cwd=project).err


def test_dotagent_a_checkpoint_before_each_agent(project: Path) -> None:
    """Whatever the agent of a phase costs: there is a checkpoint to go back to."""
    dotagent(project)
    succeed("step", "start", "ARCHITECTURE", cwd=project)
    succeed("step", "start", "ARCHITECTURE", cwd=project)
    made = succeed("log", "d", "--json", cwd=project).json["checkpoints"]
    assert [
        ("agent_start", "ARCHITECTURE"),
        ("step_complete", "REQUIREMENTS"),
        ("agent_start", "REQUIREMENTS"),
    ] == [(each["trigger"], each["step"]) for each in made]


def test_dotagent_declined_archived_and_started_afresh(project: Path) -> None:
    """Who declines to resume has a new workflow at once; the old one is in the archive, and in a clone it is over."""
    state = dotagent(project)
    with Terminal("resume", "d", cwd=project) as terminal:
        terminal.expect("[Y/n]")
        terminal.type("n\n")
        terminal.expect("d is abandoned and archived")
        assert 0 == terminal.end()
    new = json.loads(state.read_text())
    assert ("pending", []) == (new["phase_status"], new["completed_phases"]) and new["workflow_id"] != "d"
    (old,) = project.glob("memory/state/.archive/d_*/phase.json")
    assert "abandoned" == json.loads(old.read_text())["workflow_status"]
    shutil.rmtree(project / ".leftoff")
    found = {
        run["run_id"]: run["status"] for run in succeed("ls", "--all", "--json", cwd=project).json["runs"]
    }
    assert {"d": "abandoned", new["workflow_id"]: "running"} == found


def test_dotagent_finished_with_phases_left(project: Path) -> None:
    """In a clone it is as finished as where that was said."""
    dotagent(project)
    succeed("finish", "--run", "d", cwd=project)
    shutil.rmtree(project / ".leftoff")
    assert "completed" == succeed("show", "d", "--json", cwd=project).json["status"]
