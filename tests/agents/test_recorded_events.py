"""What the real agents tell, recorded: the events of their hooks, as their programs sent them in scripted sessions.

`$CWD` stands for the project's folder, `$HOME` for the agent's. Each file is named for the version that it is of.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.hooking import Living, Session
from tests.cli.command import succeed
from tests.workspace.trees import git

RECORDED = Path(__file__).parent / "recorded"
WRITTEN = ("Write", "write_file", "apply_patch")


def events(agent: str) -> list[dict[str, Any]]:
    """All events of an agent, in order."""
    (path,) = RECORDED.glob(f"{agent}-*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def session_of(agent: str, prompt: str) -> list[dict[str, Any]]:
    """The events of the session that was asked that."""
    found = events(agent)
    asked = next(one["session_id"] for one in found if one.get("prompt") == prompt)
    return [one for one in found if one["session_id"] == asked]


def play(cwd: Path, agent: str, told: list[dict[str, Any]]) -> list[str]:
    """Call the hooks as the agent did, and write the files that it wrote; what the hooks answered."""
    out = []
    for one in told:
        given = json.loads(json.dumps(one).replace("$CWD", str(cwd)).replace("$HOME", str(cwd / ".agent")))
        if one["hook_event_name"] in ("PostToolUse", "AfterTool") and one["tool_name"] in WRITTEN:
            (cwd / "guide.md").write_text("# Guide\n")
        name, session = given.pop("hook_event_name"), given.pop("session_id")
        given.pop("cwd")
        out.append(Session(cwd, session, agent).fire(name, **given).out)
    return out


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    (project / "notes.txt").write_text("alpha\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project


def shown(cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = succeed("show", "latest", "--json", cwd=cwd).json
    return found


@pytest.mark.parametrize(
    ("agent", "prompt"),
    [("claude", "Write the guide"), ("codex", "write the guide"), ("gemini", "write the guide")],
)
def test_a_turn_that_ended_well(agent: str, prompt: str, repository: Path) -> None:
    """What was asked, what was written, what failed where the agent tells that, what was said last; and it is over."""
    play(repository, agent, session_of(agent, prompt))
    run = shown(repository)
    (turn,) = run["records"]["turn"].values()
    plan = agent == "codex"  # which has a step left
    assert "paused" if plan else "completed" == run["status"]
    assert (prompt, "completed", ["guide.md"]) == (turn["prompt"], turn["status"], turn["files"])
    assert turn["said"].endswith("The guide is written.")
    failed = [failure["command"] for failure in turn.get("failed", [])]
    assert ([] if plan else ["echo no; exit 3"]) == failed
    assert 3 >= len(succeed("log", "latest", "--json", cwd=repository).json["checkpoints"])


@pytest.mark.parametrize(
    ("agent", "prompt", "status", "why"),
    [
        ("claude", "Break", "failed", "API Error: 400 prompt is too bad"),
        ("claude", "Break2", "failed", "API Error: 529 Overloaded"),
        ("codex", "break", "interrupted", "was cut off"),
        ("codex", "break2", "interrupted", "was cut off"),
    ],
)
def test_a_turn_that_ended_in_an_error(
    agent: str, prompt: str, status: str, why: str, repository: Path
) -> None:
    """Of the service: the session is paused, and any next one is told. Codex does not even tell that there was one."""
    play(repository, agent, session_of(agent, prompt))
    run = shown(repository)
    assert ("paused", status) == (run["status"], run["records"]["turn"]["000001"]["status"])
    assert why in succeed("brief", cwd=repository).out
    told = Session(repository, "next", "gemini").context("SessionStart", source="startup")
    assert told is not None and prompt in told


def test_gemini_that_died_of_an_error(repository: Path) -> None:
    """It tells neither of the error nor of its end: its process is gone."""
    dead = Living(repository, "dead", "gemini")
    for one in session_of("gemini", "break"):
        more = {
            key: value for key, value in one.items() if key not in ("session_id", "cwd", "hook_event_name")
        }
        dead.fire(one["hook_event_name"], **more)
    dead.kill()
    other = events("gemini")[-1]
    assert other["prompt"].startswith("<hook_context>")  # what an earlier hook said stands before the prompt
    told = Session(repository, "next", "gemini").context("BeforeAgent", prompt=other["prompt"])
    assert told is not None and "what turn 1 was asked: “break”" in told


def test_a_compaction_and_a_helper(repository: Path) -> None:
    """The helper that compacts is nobody; one that is asked for is a member, and its turn goes on until it is done."""
    answers = play(repository, "claude", session_of("claude", "Start"))
    run = shown(repository)
    assert ["aaa3fa9ce033299d9"] == list(run["records"]["member"])
    (turn,) = run["records"]["turn"].values()  # the first, in which only was talked, left nothing
    assert ("ask a helper", "All done.") == (turn["prompt"], turn["said"])
    assert "completed" == run["status"] and [""] == sorted(set(answers))
