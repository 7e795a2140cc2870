"""Resuming in the words of the protocols: what each checks, settles, asks and says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leftoff.clock import SYSTEM, iso
from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal
from tests.protocols.examples import BMAD, CRUNCH, DOTAGENT, SITEBUILDER
from tests.protocols.files import BMAD_STATE, CRUNCH_PLACE, SITEBUILDER_FILE, put


def imported(project: Path, place: str, document: dict[str, Any]) -> None:
    put(project / place, document)
    succeed("import", ".", cwd=project)


def test_bmad_says_where_it_goes_on(project: Path) -> None:
    """`▶️ Reprise du run …`; `--list` and `--checkpoint` too."""
    for name in ("step-01-output.md", "step-02-output.md"):
        path = project / BMAD_STATE
        (path.parent / "artefacts").mkdir(parents=True, exist_ok=True)
        (path.parent / "artefacts" / name).write_text("made")
    imported(project, BMAD_STATE, {**BMAD["state"], "session_branch": "main"})
    line = "▶️ Reprise du run dev-story-20260227-143022 au step 4/8"
    assert line in succeed("resume", "--yes", cwd=project).err
    assert line in succeed("reprendre", "--yes", cwd=project).err
    assert 1 == len(succeed("resume", "--list", "--json", cwd=project).json["checkpoints"])
    succeed("step", "done", "4", cwd=project)
    assert line in succeed("resume", "--checkpoint", "a3f9b2", "--yes", cwd=project).err


def test_sitebuilder_resumes_what_is_resumable(project: Path) -> None:
    """`resumable`, and in progress or blocked; only items that are not complete are left."""
    imported(project, SITEBUILDER_FILE, SITEBUILDER["schema"])
    said = succeed("resume", "migration-T060", "--yes", cwd=project).err
    assert "Continue from post-20.md, source: NatureTrail/NTEnglish/Text/Post20English.pdf" in said
    assert "Left: post-20, post-21" in said
    put(project / SITEBUILDER_FILE, {**SITEBUILDER["schema"], "task_id": "T061", "resumable": False})
    succeed("import", ".", cwd=project)
    refused = call("resume", "migration-T061", "--yes", cwd=project)
    assert (6, True) == (refused.code, "recovery.not_resumable" in refused.err)


def test_crunch_that_cannot_resume(project: Path) -> None:
    """crunch, resume algorithm, CannotResumeError: `can_resume: false` refuses, with its warnings, said once."""
    info = {**CRUNCH["full"]["recovery_info"], "can_resume": False, "warnings": ["Branch no longer exists"]}
    imported(
        project, f"{CRUNCH_PLACE}/CP-enrich-20250114-a3f2.yaml", {**CRUNCH["full"], "recovery_info": info}
    )
    refused = call("resume", "crunch-42", "--yes", cwd=project)
    assert (6, 1) == (refused.code, refused.err.count("Branch no longer exists"))


def report(project: Path, name: str, document: Any) -> None:
    put(project / "memory/reports" / name, document)


def workflow(project: Path, phase: str, done: list[str]) -> None:
    """A dotagent workflow in a phase, with the outputs of those before it."""
    began = iso(SYSTEM.now() - 3_600_000)
    state = {
        **DOTAGENT["phase"]["phase"],
        "started_at": began,
        "last_updated": began,
        "current_phase": phase,
        "completed_phases": [
            {"phase": name, "completed_at": began, "output": f"memory/reports/{name}.json"} for name in done
        ],
        "user_checkpoints": [],
    }
    for name in done:
        report(project, f"{name}.json", {"ok": True})
    imported(project, "memory/state/phase.json", state)


def test_dotagent_next_action_per_phase(project: Path) -> None:
    """Designs without a final one: the roundtable. A final one: the phase is over."""
    workflow(project, "ARCHITECTURE", ["REQUIREMENTS"])
    report(project, "designs/a.json", {})
    assert "run the roundtable" in succeed("resume", "checkout-flow", "--yes", cwd=project).err
    succeed("step", "start", "ARCHITECTURE", "--run", "checkout-flow", cwd=project)
    report(project, "final_design.json", {"design": 1})
    said = succeed("resume", "checkout-flow", "--yes", cwd=project).err
    assert "ARCHITECTURE is completed: its output says so." in said
    assert "Resuming workflow checkout-flow from IMPLEMENTATION phase" in said


def test_an_output_that_says_how_a_task_ended(project: Path) -> None:
    """A crash after the output, before the state: the final status in it settles the task; half a file does not."""
    for part, document in DOTAGENT["with tasks"].items():
        put(project / f"memory/state/{part}.json", document)
    about = {"status": "running", "attempts": 1}
    tasks = [{"id": f"task-{n}", **about, "output": f"memory/reports/task-{n}.json"} for n in range(4)]
    put(project / "memory/state/execution.json", {"workflow_id": "checkout-flow", "tasks": tasks})
    report(project, "task-0.json", {"status": "complete"})
    report(project, "task-1.json", {"status": "failed"})
    report(project, "task-2.json", {"status": "working"})
    (project / "memory/reports/task-3.json").write_text('{"status": "comp')
    for name in ("demand.json", "design.json"):
        report(project, name, {})
    succeed("import", ".", cwd=project)
    succeed("resume", "checkout-flow", "--yes", cwd=project)
    found = succeed("show", "checkout-flow", "--json", cwd=project).json["step_records"]
    steps = {step["step"].partition("/")[2]: step["status"] for step in found if "/" in step["step"]}
    assert {"task-0": "completed", "task-1": "pending", "task-2": "pending", "task-3": "pending"} == steps


def test_a_state_that_looks_wrong(project: Path) -> None:
    """An output that is gone: without a terminal exit 7 and the protocol's question; --yes goes on."""
    workflow(project, "ARCHITECTURE", ["REQUIREMENTS"])
    (project / "memory/reports/REQUIREMENTS.json").unlink()
    asked = call("resume", "checkout-flow", cwd=project)
    assert (7, True) == (asked.code, "State appears corrupted. Start fresh? [y/N]" in asked.err)
    succeed("resume", "checkout-flow", "--yes", cwd=project)


def test_a_person_is_asked(project: Path) -> None:
    """`Resume workflow from {phase}? [Y/n]`: no starts fresh, and the run is abandoned."""
    workflow(project, "ARCHITECTURE", ["REQUIREMENTS"])
    with Terminal("resume", "checkout-flow", cwd=project) as terminal:
        terminal.expect("Resume workflow from ARCHITECTURE? [Y/n]")
        terminal.type("n\n")
        assert 0 == terminal.end()
    assert "abandoned" == succeed("show", "checkout-flow", "--json", cwd=project).json["status"]
    assert json.loads((project / "memory/state/phase.json").read_text())
