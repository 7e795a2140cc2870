"""What the real agents tell, recorded by `make agents`: the events of their hooks, and the lines that they print.

`$CWD` stands for the project's folder, `$HOME` for the agent's; ids are numbered. Each file is named for the version
that it is of. What is played here is a sample of what `tests/real_agents` plays with the programs themselves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leftoff.agents.adapters import adapter
from leftoff.agents.agent_outcome import Outcome
from tests.agents.hooking import Living, Session
from tests.cli.command import succeed

RECORDED = Path(__file__).parent / "recorded"
AGENTS = ("claude", "codex", "gemini", "opencode", "qwen")
WRITTEN = ("Write", "write_file", "apply_patch")
GOOD, BAD, BUSY = "Write the guide", "Break it", "Break it again"


def recorded(agent: str, kind: str) -> list[dict[str, Any]]:
    """All events of an agent, or the lines of each of its lives, in order."""
    (path,) = RECORDED.glob(f"{agent}-*.{kind}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def session_of(agent: str, prompt: str) -> list[dict[str, Any]]:
    """The events of the session that was asked that."""
    found = recorded(agent, "events")
    asked = next(one["session_id"] for one in found if one.get("prompt", "").endswith(prompt))
    return [one for one in found if one["session_id"] == asked]


def play(
    cwd: Path, agent: str, told: list[dict[str, Any]], file: str = "guide.md", *, twice: bool = False
) -> list[str]:
    """Call the hooks as the agent did, and write the file that it wrote; what the hooks answered. ``twice``: leftoff is
    installed for the project and for the user, too."""
    out, names = [], {"$CWD": str(cwd), "$HOME": str(cwd / ".agent"), "guide.md": file}
    for one in told:
        text = json.dumps(one)
        for name, real in names.items():
            text = text.replace(name, real)
        given = json.loads(text)
        if one["hook_event_name"] in ("PostToolUse", "AfterTool") and one["tool_name"] in WRITTEN:
            (cwd / file).write_text("# Guide\n")
        name, session = given.pop("hook_event_name"), given.pop("session_id")
        given.pop("cwd")
        for options in ([], ["--user"]) if twice else ([],):
            out.append(Session(cwd, f"{agent}-{session}", agent, *options).fire(name, **given).out)
    return out


def shown(cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = succeed("show", "latest", "--json", cwd=cwd).json
    return found


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_that_ended_well(agent: str, repository: Path) -> None:
    """What was asked and planned, what was written, what failed where the event tells that, what was said last."""
    play(repository, agent, session_of(agent, GOOD))
    run = shown(repository)
    (turn,) = run["records"]["turn"].values()
    assert (GOOD, "completed", ["guide.md"]) == (turn["prompt"], turn["status"], turn["files"])
    assert turn["said"].endswith("The guide is written.")
    failed = [failure["command"] for failure in turn.get("failed", [])]
    assert ([] if agent == "codex" else ["echo no; exit 3"]) == failed  # it tells that in its transcript
    steps = {record["title"]: record["status"] for record in run["step_records"]}
    assert {"Write the guide": "completed", "Ship it": "running"} == steps
    assert ("running" if agent == "qwen" else "paused") == run["status"]  # `qwen -p` reports no end


@pytest.mark.parametrize("agent", AGENTS)
def test_hooks_of_the_project_and_of_the_user_keep_an_event_once(agent: str, repository: Path) -> None:
    """Every event comes twice, and only one of the hooks keeps it and answers."""
    play(repository, agent, session_of(agent, GOOD), twice=True)
    (turn,) = shown(repository)["records"]["turn"].values()
    assert ("completed", ["guide.md"]) == (turn["status"], turn["files"])
    assert len(turn.get("failed", [])) == (0 if agent == "codex" else 1)
    versions = succeed("log", "latest", "--json", cwd=repository).json["checkpoints"]
    notes = [one["note"] for one in versions]
    assert len(set(notes)) == len(notes), notes
    assert not (repository / ".leftoff" / "pending").exists()


@pytest.mark.parametrize(
    ("agent", "prompt", "status", "why"),
    [
        ("claude", BAD, "failed", "API Error: 400 prompt is too bad"),
        ("claude", BUSY, "failed", "API Error: 529 Overloaded"),
        ("codex", BAD, "interrupted", "Codex was interrupted in mid-task"),
        ("codex", BUSY, "interrupted", "Codex was interrupted in mid-task"),
        ("opencode", BAD, "failed", "prompt is too bad"),
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
    """It tells neither of the error nor of its end: its process is gone. What hooks said stands before its prompts."""
    dead = Living(repository, "dead", "gemini")
    for one in session_of("gemini", BAD):
        more = {
            key: value for key, value in one.items() if key not in ("session_id", "cwd", "hook_event_name")
        }
        dead.fire(one["hook_event_name"], **more)
    dead.kill()
    asked = next(one["prompt"] for one in session_of("gemini", "continue") if "prompt" in one)
    assert asked.startswith("<hook_context>")
    told = Session(repository, "next", "gemini").context("BeforeAgent", prompt=asked)
    assert told is not None and f"Task: “{BAD}”" in told


def test_a_compaction_and_a_helper(repository: Path) -> None:
    """The helper that compacts is nobody; one that is asked for is a member, and its turn goes on until it is done."""
    answers = play(repository, "claude", session_of("claude", "Start"))
    run = shown(repository)
    (member,) = run["records"]["member"].values()
    assert ("Explore", "I looked around.") == (member["type"], member["message"])
    (turn,) = run["records"]["turn"].values()  # the first, in which only was talked, left nothing
    assert ("Ask a helper", "All done.") == (turn["prompt"], turn["said"])
    assert "completed" == run["status"] and [""] == sorted(set(answers))


# -- the lines that they print


def lived(agent: str, prompt: str) -> tuple[Outcome, dict[str, Any]]:
    """How a recorded life looks, and what is known of it."""
    about = next(life for life in recorded(agent, "lines") if life["prompt"] == prompt)
    out = Outcome()
    for line in about["lines"]:
        adapter(agent, {}).feed(json.dumps(line), out)
    out.warned = about["stderr"]
    out.close(about["exit"])
    return out, about


@pytest.mark.parametrize("agent", AGENTS)
def test_the_lines_of_a_turn_that_ended_well(agent: str) -> None:
    """It did what it was asked, in as many turns as the model counted, in a session that it names."""
    out, about = lived(agent, GOOD)
    assert out.done(about["exit"]) and out.text == "The guide is written."
    assert (about["turns"], True) == (out.turns, bool(out.session))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("prompt", "words"), [(BAD, "prompt is too bad"), (BUSY, "")])
def test_the_lines_of_a_turn_that_failed(agent: str, prompt: str, words: str) -> None:
    """It failed, with the words of the service; one that is overloaded is waited for, one that refuses is not."""
    out, about = lived(agent, prompt)
    assert not out.done(about["exit"]) and words in out.said
    assert (
        (prompt == BUSY) == out.limited
        and not out.refused
        and not out.misused(about["exit"], adapter(agent, {}).misuses)
    )
