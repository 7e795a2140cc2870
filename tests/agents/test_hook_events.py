"""What each event of the table does to the session's run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agents.hooking import Session
from tests.cli.command import succeed


@pytest.fixture
def session(project: Path) -> Session:
    """A session with a run: one thing done, one under way."""
    made = Session(project)
    made.todos(write_parser="completed", test_parser="in_progress", ship="pending")
    return made


def shown(cwd: Path) -> dict[str, Any]:
    """The only run."""
    document: dict[str, Any] = succeed("show", "latest", "--json", cwd=cwd).json
    return document


def steps(cwd: Path) -> dict[str, str]:
    return {record["step"]: record["status"] for record in shown(cwd)["step_records"]}


def sealed(cwd: Path) -> list[tuple[str, str | None]]:
    """Trigger and note of its checkpoints, newest first, without the one that every session begins with."""
    found = succeed("log", shown(cwd)["run_id"], "--json", cwd=cwd).json["checkpoints"]
    assert "agent_start" == found[-1]["trigger"]
    return [(entry["trigger"], entry["note"]) for entry in found[:-1]]


# -- lists


def test_todos_are_steps(session: Session, project: Path) -> None:
    """In their order, with their text as title; no checkpoint is made for it."""
    assert {"write-parser": "completed", "test-parser": "running", "ship": "pending"} == steps(project)
    assert ["write parser", "test parser", "ship"] == [r["title"] for r in shown(project)["step_records"]]
    assert [] == sealed(project)


def test_the_latest_list_counts(session: Session, project: Path) -> None:
    """What it leaves out is dropped if it was not done; what was done stays on record."""
    session.todos(ship="in_progress", celebrate="pending")
    assert {"write-parser": "completed", "ship": "running", "celebrate": "pending"} == steps(project)
    assert ["write-parser", "ship", "celebrate"] == [r["step"] for r in shown(project)["step_records"]]


def test_the_same_list_again_changes_nothing(session: Session, project: Path) -> None:
    """Not even a version is made."""
    before = shown(project)["head"]["seq"]
    session.todos(write_parser="completed", test_parser="in_progress", ship="pending")
    assert before == shown(project)["head"]["seq"]


def test_an_entry_that_is_done_at_once_was_a_try(session: Session, project: Path) -> None:
    """As a report that a step is done which nobody began: its try begins and ends then."""
    record = next(r for r in shown(project)["step_records"] if r["step"] == "write-parser")
    assert (1, record["completed_at"]) == (record["attempt"], record["started_at"])


def test_a_list_decides_nothing_for_a_person(session: Session, project: Path) -> None:
    """An entry that is called as a decision leaves it to whoever decides."""
    waiting = '{"kind": "approval", "status": "waiting"}'
    succeed("put", "step", "ship", waiting, "--run", shown(project)["run_id"], cwd=project)
    session.todos(write_parser="completed", test_parser="completed", ship="completed")
    assert {"write-parser": "completed", "test-parser": "completed", "ship": "waiting"} == steps(project)


def test_an_entry_that_is_done_leaves_no_error(session: Session, project: Path) -> None:
    """What the command said to have failed is settled when the list says that it is done, or drops it."""
    for step in ("ship", "test-parser"):
        succeed("step", "fail", step, "--error", "no", "--run", shown(project)["run_id"], cwd=project)
    assert {"ship", "test-parser"} == set(shown(project)["records"]["error"])
    session.todos(write_parser="completed", test_parser="completed")
    assert "error" not in shown(project)["records"]


def test_equal_texts_are_different_steps(project: Path) -> None:
    """A list may say the same thing twice."""
    todos = [{"content": "Run tests.", "status": status} for status in ("completed", "pending")]
    Session(project).fire("PostToolUse", tool_name="TodoWrite", tool_input={"todos": todos})
    assert {"run-tests": "completed", "run-tests-2": "pending"} == steps(project)


@pytest.mark.parametrize(
    ("agent", "event", "tool", "given"),
    [
        ("codex", "PostToolUse", "update_plan", {"plan": [{"step": "Do it", "status": "in_progress"}]}),
        (
            "gemini",
            "AfterTool",
            "write_todos",
            {"todos": [{"description": "Do it", "status": "in_progress"}]},
        ),
    ],
)
def test_lists_of_other_agents(
    agent: str, event: str, tool: str, given: dict[str, Any], project: Path
) -> None:
    """Each has its own tool and its own words for the same."""
    Session(project, "s", agent).fire(event, tool_name=tool, tool_input=given)
    assert {"do-it": "running"} == steps(project)


def test_a_plan_becomes_steps(project: Path) -> None:
    """The entries of an accepted plan are what there is to do."""
    plan = "# Plan\n\n1. Read the code\n   - all of it\n2. Change it\n\nDone."
    Session(project).fire("PostToolUse", tool_name="ExitPlanMode", tool_input={"plan": plan})
    assert {"read-the-code": "pending", "change-it": "pending"} == steps(project)


def test_tasks_one_by_one(project: Path) -> None:
    """Created and completed tasks are steps, known by their id; a completed one is a checkpoint."""
    session = Session(project)
    session.fire("TaskCreated", task_id="7", task_subject="Fix login", task_description="…")
    session.fire("TaskCreated", task_id="8", task_subject="Fix logout")
    session.fire("PostToolUse", tool_name="TaskUpdate", tool_input={"taskId": "8", "status": "in_progress"})
    assert {"fix-login": "pending", "fix-logout": "running"} == steps(project)
    session.fire("TaskCompleted", task_id="7", task_subject="Fix login")
    assert {"fix-login": "completed", "fix-logout": "running"} == steps(project)
    assert [("step_complete", "Fix login")] == sealed(project)


def test_secrets_in_a_list_are_masked(project: Path) -> None:
    """What an agent writes down may hold what must not be kept: neither in a title, nor a name, nor a note."""
    key = "ghp_" + "a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8"
    session = Session(project)
    todos = [{"content": f"use {key}", "status": "pending"}]
    session.fire("PostToolUse", tool_name="TodoWrite", tool_input={"todos": todos})
    session.fire("TaskCompleted", task_id="7", task_subject=f"used {key}")
    made = {"subject": f"once more {key}"}
    session.fire("PostToolUse", tool_name="TaskCreate", tool_input=made, tool_response={"id": 8})
    assert key not in str(shown(project)) and key not in str(sealed(project))
    assert 3 == len(steps(project))


# -- files


def test_a_file_before_and_after(session: Session, project: Path) -> None:
    """As it was before the first change, then as it is; no checkpoint for it."""
    (project / "a.txt").write_text("old")
    before = shown(project)["head"]["seq"]
    session.writes("a.txt", "new", "Edit")
    sizes = [
        succeed("show", f"{shown(project)['run_id']}@{seq}", "--json", cwd=project).json["files"][0]["hash"]
        for seq in (before + 1, before + 2)
    ]
    assert 2 == len(set(sizes))
    session.writes("a.txt", "newer", "Edit")
    assert before + 3 == shown(project)["head"]["seq"]
    assert [] == sealed(project)


def test_the_first_write_starts_a_run(project: Path) -> None:
    """Its beginning is a checkpoint."""
    (project / "a.txt").write_text("old")
    Session(project).writes("a.txt", "new")
    assert [] == sealed(project)
    assert ["a.txt"] == [about["path"] for about in shown(project)["files"]]


def test_a_patch_names_its_files(project: Path) -> None:
    """Codex edits by patches."""
    patch = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: sub/old.txt\n*** End Patch"
    (project / "sub").mkdir()
    (project / "sub" / "old.txt").write_text("old")
    (project / "new.txt").write_text("x")
    Session(project, "s", "codex").fire("PostToolUse", tool_name="apply_patch", tool_input={"input": patch})
    assert ["new.txt", "sub/old.txt"] == sorted(about["path"] for about in shown(project)["files"])


def test_files_elsewhere_are_not_ours(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Outside of the project, or in the store: neither captured nor worth a run."""
    other = tmp_path_factory.mktemp("other") / "a.txt"
    other.write_text("x")
    for path in (str(other), str(project / ".leftoff" / "hook.log")):
        Session(project).fire("PostToolUse", tool_name="Write", tool_input={"file_path": path})
    assert [] == list(project.iterdir())


# -- turns


def test_stop_seals_only_changes(session: Session, project: Path) -> None:
    """The end of a turn is a checkpoint if anything changed in it."""
    for _ in range(3):
        assert "" == session.fire("Stop", stop_hook_active=False, last_assistant_message="Done.").out
    assert 1 == len(sealed(project))


def test_compaction(session: Session, project: Path) -> None:
    """A checkpoint before; the summary is a note; then the session is told again where it is."""
    assert "" == session.fire("PreCompact", trigger="auto").out
    assert "" == session.fire("PostCompact", compact_summary="We are in the parser.").out
    told = session.context("SessionStart", source="compact")
    assert [("manual", "before the context is compacted (auto)")] == sealed(project)
    assert told is not None and "We are in the parser." in told


def test_a_subagent(session: Session, project: Path) -> None:
    """Its end is a checkpoint, and what it said last is kept."""
    facts = {"agent_id": "a1", "agent_type": "Explore", "last_assistant_message": "Found it."}
    assert "" == session.fire("SubagentStop", **facts).out
    assert [("agent_complete", "Explore")] == sealed(project)
    assert "Found it." == shown(project)["records"]["member"]["a1"]["message"]


def test_a_failure_is_known_until_the_next_turn(session: Session, project: Path) -> None:
    """Why it stopped is on record, and over once the session goes on."""
    assert "" == session.fire("StopFailure", error="rate_limit").out
    assert [("error", "rate_limit")] == sealed(project)
    assert "rate_limit" == shown(project)["records"]["error"]["session"]["type"]
    session.fire("UserPromptSubmit", prompt="go on")
    assert "error" not in shown(project)["records"]


def test_the_end(session: Session, project: Path) -> None:
    """A `session_end` checkpoint; what is open stays open."""
    assert "" == session.fire("SessionEnd", reason="prompt_input_exit").out
    assert [("session_end", "prompt_input_exit")] == sealed(project)
    assert "paused" == shown(project)["status"]


def test_gemini_has_other_words(project: Path) -> None:
    """The same table, its names of the events."""
    session = Session(project, "g", "gemini")
    session.fire("AfterTool", tool_name="write_todos", tool_input={"todos": [{"description": "x"}]})
    session.fire("PreCompress", trigger="manual")
    session.fire("AfterAgent")
    session.fire("SessionEnd", reason="exit")
    assert ["session_end", "manual"] == [trigger for trigger, _ in sealed(project)]


@pytest.mark.parametrize(
    "name", ["PreCompact", "PostCompact", "Stop", "StopFailure", "SubagentStop", "SessionEnd"]
)
def test_without_a_run_nothing_is_made(name: str, project: Path) -> None:
    """No event but a todo or a write is worth a store."""
    Session(project).fire(name, compact_summary="x", error="rate_limit", reason="exit")
    assert [] == list(project.iterdir())
