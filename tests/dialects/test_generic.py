"""State files of no protocol: read as far as they tell of steps, with a word on how; else rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.terminal import Terminal
from tests.dialects.files import put

UNDERSTOOD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "steps with a status": (
        {"steps": [{"name": "plan", "status": "done"}, {"name": "build", "status": "🔄"}, {"name": "ship"}]},
        {"plan": "completed", "build": "running", "ship": "pending"},
    ),
    "phases by name": (
        {"state": {"phases": {"plan": {"completed": True}, "build": {"completed": False}}}},
        {"plan": "completed", "build": "pending"},
    ),
    "what is done, and what is left": (
        {"completed_todos": ["plan"], "pending_todos": ["build", "ship"]},
        {"plan": "completed", "build": "pending", "ship": "pending"},
    ),
    "what is done, what is left, and the current one of it": (
        {
            "work": {
                "phases_completed": ["plan"],
                "phases_remaining": ["build", "ship"],
                "currentPhase": "build",
            }
        },
        {"plan": "completed", "build": "running", "ship": "pending"},
    ),
    "what is done, beside what is at work": (
        {
            "completedTasks": [{"id": "plan", "notes": "x"}],
            "activeTasks": [{"id": "build", "status": "active"}],
        },
        {"plan": "completed", "build": "running"},
    ),
    "entries with nothing but the time of their end": (
        {"standard_tasks": [{"id": "plan", "completed_at": "2026-01-01"}, {"id": "build"}]},
        {"plan": "completed", "build": "pending"},
    ),
    "what is worked on, with more than its name": (
        {"active_issue": {"number": 55, "title": "plan", "analysis_complete": True}},
        {"plan": "running"},
    ),
    "only the current one": ({"currentPhase": "plan", "completedTasks": []}, {"plan": "running"}),
    "a log by numbers": (
        {"P1": "designer 10:45 approved:pending", "P2": "✓ tester 16:06 status:red", "DONE": "2026-01-02"},
        {"P1": "pending", "P2": "completed"},
    ),
    "workflows with the file that they made": (
        {"workflow_status": {"prd": "docs/prd.md", "design": "required", "check": "optional"}},
        {"prd": "completed", "design": "pending", "check": "skipped"},
    ),
    "a list, what is done of it, and the current one": (
        {"tasks": ["plan", "build", "ship"], "completed_tasks": ["plan"], "current_task": "build"},
        {"plan": "completed", "build": "running", "ship": "pending"},
    ),
}
SPRINT = """# made by hand
project: shop
development_status:
  epic-1: in-progress
  1-1-cart: done
  1-2-pay: ready-for-dev
  epic-1-retrospective: optional
"""


@pytest.mark.parametrize("title", UNDERSTOOD)
def test_what_is_understood(project: Path, title: str) -> None:
    document, steps = UNDERSTOOD[title]
    path = put(
        project / "session-state.json", {**document, "id": "work-1", "updated_at": "2026-01-02T03:04:05Z"}
    )
    found = succeed("import", str(path), "--dialect", "generic", "--json", cwd=project).json["imported"][0]
    assert "work-1" == found["run_id"]
    assert any(f"{len(steps)} steps from" in line for line in found["repairs"])
    shown = succeed("show", "work-1", "--json", cwd=project).json
    assert steps == {step["step"]: step["status"] for step in shown["step_records"]}
    assert 0 == call("brief", "work-1", cwd=project).code


def test_it_must_be_asked_for(project: Path) -> None:
    path = put(project / "session-state.json", UNDERSTOOD["steps with a status"][0])
    refused = call("import", str(path), cwd=project)
    assert 4 == refused.code and "--dialect generic` reads 3 steps from steps." in refused.err
    assert 2 == call("init", "--dialect", "generic", cwd=project).code


@pytest.mark.parametrize(
    "document", [{"checkpoint_at": "x", "summary": "y"}, {"steps": 3}, {"tasks": [], "status": "done"}]
)
def test_what_tells_of_no_steps_is_rejected(project: Path, document: dict[str, Any]) -> None:
    path = put(project / "state.json", document)
    assert 4 == call("import", str(path), "--dialect", "generic", cwd=project).code


def test_sprint_status_is_known_by_itself(project: Path) -> None:
    (project / "sprint-status.yaml").write_text(SPRINT)
    succeed("import", "sprint-status.yaml", cwd=project)
    steps = {
        s["step"]: s["status"] for s in succeed("show", "shop", "--json", cwd=project).json["step_records"]
    }
    assert {
        "epic-1": "running",
        "1-1-cart": "completed",
        "1-2-pay": "pending",
        "epic-1-retrospective": "skipped",
    } == steps


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 4)])
def test_on_a_terminal_a_yes_is_enough(project: Path, typed: str, code: int) -> None:
    """It is asked with how the file would be understood."""
    path = put(project / "session-state.json", UNDERSTOOD["steps with a status"][0])
    with Terminal("import", str(path), cwd=project) as terminal:
        terminal.expect("3 steps from steps could be read. Read it that way? [y/N]:")
        terminal.type(f"{typed}\n")
        assert code == terminal.end()
    assert (code == 0) == (0 == call("show", "session-state", cwd=project).code)


def test_a_file_without_steps_is_told_why(project: Path) -> None:
    put(project / "state.json", {"saved_at": "2026-07-15", "branch": "x"})
    refused = call("import", "state.json", "--dialect", "generic", cwd=project)
    assert (
        4 == refused.code
        and "tells of no steps, phases or tasks" in refused.err
        and "saved_at" in refused.err
    )
