"""`leftoff handover`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.command import call, succeed


@pytest.fixture
def run(project: Path) -> str:
    """A run with something done and something left."""
    name = succeed("start", "flow", "--title", "It's half done", "--steps", "a,b", cwd=project).out.strip()
    succeed("step", "done", "a", cwd=project)
    return name


@pytest.mark.parametrize(
    ("agent", "head"),
    [
        ("claude", ["claude"]),
        ("codex", ["codex"]),
        ("gemini", ["gemini", "-i"]),
        ("opencode", ["opencode", "run"]),
    ],
)
def test_a_command_line_that_can_be_pasted(agent: str, head: list[str], run: str, project: Path) -> None:
    """One line for a shell, the brief in it; nothing is changed by printing it."""
    words = shlex.split(succeed("handover", run, "--to", agent, cwd=project).out)
    assert ["env", f"LEFTOFF_RUN={run}", *head] == words[: 2 + len(head)]
    assert "It's half done" in words[-1] and "Next:\n- b" in words[-1]
    assert [] == succeed("log", run, "--json", cwd=project).json["checkpoints"][1:]


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("claude", ["claude", "--resume", "s-1"]),
        ("codex", ["codex", "resume", "s-1"]),
        ("gemini", ["gemini", "--resume", "s-1"]),
    ],
)
def test_back_to_its_own_session(agent: str, words: list[str], project: Path) -> None:
    """An agent that worked on it before goes on in the same conversation; another one does not get that."""
    given = ("start", "flow", "--session", "s-1", "--agent", agent)
    run = succeed(*given, cwd=project).out.strip()
    document = succeed("handover", run, "--to", agent, "--json", cwd=project, LEFTOFF_SESSION="s-1").json
    assert words == document["command"]
    other = "codex" if agent == "claude" else "claude"
    told = succeed("handover", run, "--to", other, "--json", cwd=project, LEFTOFF_SESSION="s-1").json
    assert "s-1" not in told["command"] and f"begun by {agent}" in told["command"][-1]


def test_a_session_of_one_agent_is_not_resumed_in_another(project: Path) -> None:
    """Handed over and never taken up: the session that the run had is not that of the agent it went to."""
    run = succeed(
        "start", "flow", "--agent", "codex", "--steps", "a", cwd=project, LEFTOFF_SESSION="cx-1"
    ).out.strip()
    fake = project / "bin" / "claude"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    succeed("handover", run, "--to", "claude", "--go", cwd=project, PATH=path, LEFTOFF_SESSION="cx-1")
    document = succeed("handover", run, "--to", "claude", "--json", cwd=project).json
    assert "cx-1" not in document["command"]


def test_go(run: str, project: Path) -> None:
    """A checkpoint is saved, then the agent runs with the run in its environment."""
    fake = project / "bin" / "codex"
    fake.parent.mkdir()
    fake.write_text(f"#!{sys.executable}\nimport os, sys\nprint(os.environ['LEFTOFF_RUN'], len(sys.argv))\n")
    fake.chmod(0o755)
    path = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    assert f"{run} 2\n" == succeed("handover", run, "--to", "codex", "--go", cwd=project, PATH=path).out
    newest = succeed("log", run, "--json", cwd=project).json["checkpoints"][0]
    assert "handed over to codex" == newest["note"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("latest", "--to", "clod"), 2, "no agent 'clod'"),
        (("nobody", "--to", "codex"), 3, "nobody"),
        (("latest",), 2, "--to"),
        (("latest", "--to", "gemini", "--go"), 3, "not installed"),
    ],
)
def test_wrong_words(words: tuple[str, ...], code: int, said: str, run: str, project: Path) -> None:
    """Each is told, and nothing is changed."""
    result = call("handover", *words, cwd=project, PATH="/nowhere")
    assert code == result.code and said in result.err


def test_a_finished_or_driven_run_is_not_handed_over(run: str, project: Path) -> None:
    """There is nothing left, or somebody is at it."""
    other = succeed("start", "other", "--session", "s-2", cwd=project).out.strip()
    assert 5 == call("handover", other, "--to", "codex", cwd=project, LEFTOFF_SESSION="s-3").code
    succeed("finish", "--run", run, cwd=project)
    assert 6 == call("handover", run, "--to", "codex", cwd=project).code
