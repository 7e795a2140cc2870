"""What an agent's own shell tells: whose session a command of leftoff's belongs to; and which commands failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.hooking import Living, Session
from tests.cli.command import succeed


def test_a_run_started_in_codexs_shell_is_that_of_its_session(project: Path) -> None:
    """Codex tells the session in a variable of its own; one of ours goes before it."""
    Session(project, "cx1", "codex").fire("UserPromptSubmit", prompt="Release it")
    succeed("start", "release", "--steps", "a,b", cwd=project, CODEX_THREAD_ID="cx1")
    succeed("start", "other", cwd=project, CODEX_THREAD_ID="cx1", LEFTOFF_SESSION="s2")
    found = succeed("ls", "--all", "--json", cwd=project).json["runs"]
    assert {"release": "cx1", "other": "s2"} == {one["workflow"]: one["session_id"] for one in found}


@pytest.fixture
def gemini(project: Path) -> Iterator[Living]:
    found = Living(project, "g1", "gemini")
    yield found
    found.kill()


@pytest.mark.parametrize(("inside", "session"), [({"GEMINI_CLI": "1"}, "g1"), ({}, None)])
def test_a_run_started_in_geminis_shell_is_that_of_its_process(
    inside: dict[str, str], session: str | None, gemini: Living, project: Path
) -> None:
    """Gemini CLI tells its shell no session, only whose shell it is: the session is known by the process."""
    gemini.fire("BeforeAgent", prompt="Release it")
    gemini.calls("start", "release", "--steps", "a,b", **inside)
    assert session == succeed("show", "release", "--json", cwd=project).json["session_id"]


def executed(turn: str, command: str, code: int, said: str) -> dict[str, Any]:
    """A line of Codex's transcript."""
    item = {
        "type": "CommandExecution",
        "command": ["/bin/bash", "-lc", command],
        "exit_code": code,
        "aggregated_output": said,
    }
    return {"type": "event_msg", "payload": {"type": "item_completed", "turn_id": turn, "item": item}}


def test_commands_that_failed_in_codex_are_in_its_transcript(project: Path) -> None:
    """Its hooks do not tell of exit codes: those of this turn are looked up when it ends, broken lines passed over."""
    lines = [
        executed("t1", "make old", 2, "of an earlier turn"),
        executed("t2", "make test", 3, "1 failed"),
        executed("t2", "make check", 0, "fine"),
    ]
    transcript = project / "rollout.jsonl"
    transcript.write_text(
        "".join(f"{json.dumps(line)}\n" for line in lines) + '{"cut off, "CommandExecution"'
    )
    session = Session(project, "cx1", "codex")
    session.fire("UserPromptSubmit", prompt="Test it", turn_id="t2")
    session.fire("Stop", turn_id="t2", last_assistant_message="It failed.", transcript_path=str(transcript))
    (turn,) = succeed("show", "latest", "--json", cwd=project).json["records"]["turn"].values()
    assert [{"command": "make test", "error": "Exit code 3\n1 failed"}] == turn["failed"]
