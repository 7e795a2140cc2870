"""`leftoff handover`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from leftoff.agents.adapters import StepWishes, adapter
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
        ("opencode", ["opencode", "--prompt"]),
    ],
)
def test_a_command_line_that_can_be_pasted(agent: str, head: list[str], run: str, project: Path) -> None:
    """One line for a shell, the brief in it; nothing is changed by printing it."""
    words = shlex.split(succeed("handover", run, "--to", agent, cwd=project).out)
    assert ["env", f"LEFTOFF_RUN={run}", *head] == words[: 2 + len(head)]
    assert "It's half done" in words[-1] and "Next:\n- b" in words[-1]
    assert [] == succeed("log", run, "--json", cwd=project).json["checkpoints"][1:]


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode"])
def test_a_session_that_would_be_an_option(agent: str, project: Path) -> None:
    """What a run from elsewhere calls a session may allow an agent everything: it gets the brief instead."""
    words = ("--agent", agent, "--session=--dangerously-skip-permissions", "--run-id", "r")
    succeed("start", "flow", *words, "--steps", "a", cwd=project)
    command = succeed("handover", "r", "--to", agent, "--json", cwd=project).json["command"]
    assert (
        "leftoff run r." in command[-1]
        and "handed over to you" in command[-1]
        and "--dangerously-skip-permissions" not in " ".join(command[:-1])
    )


def test_an_agent_is_told_no_option_for_a_session() -> None:
    """Nor is one that a step of a workflow would go on with."""
    for agent in ("claude", "codex", "gemini", "opencode"):
        words = adapter(agent, {}).call("do it", StepWishes(), session="-cnotify=[]", resume=True).words
        assert "-cnotify=[]" not in words, words


@pytest.mark.parametrize(
    ("agent", "command"),
    [
        ("claude", ["claude", "--resume", "s-1"]),
        ("codex", ["codex", "resume", "s-1"]),
        ("gemini", ["gemini", "--resume", "s-1"]),
        ("opencode", ["opencode", "-s", "s-1"]),
    ],
)
def test_back_to_its_own_session(agent: str, command: list[str], project: Path) -> None:
    """An agent that worked on it before goes on in the same conversation."""
    words = ("start", "flow", "--session", "s-1", "--agent", agent)
    run = succeed(*words, cwd=project).out.strip()
    document = succeed("handover", run, "--to", agent, "--json", cwd=project, LEFTOFF_SESSION="s-1").json
    assert command == document["command"]


def fake(project: Path, *names: str) -> str:
    """A PATH with agents that only say how they were called."""
    for name in names:
        path = project / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"#!{sys.executable}\nimport os, sys\nprint(os.environ['LEFTOFF_RUN'], sys.argv[1:])\n"
        )
        path.chmod(0o755)
    return f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"


def test_there_and_back_again(project: Path) -> None:
    """A session is only resumed by the agent whose it is, also after the run was handed over to another and back."""
    run = succeed("start", "flow", "--session", "cx1", "--agent", "codex", cwd=project).out.strip()
    succeed("save", cwd=project, LEFTOFF_SESSION="cx1")
    env = {"PATH": fake(project, "claude", "codex"), "LEFTOFF_SESSION": "cx1"}
    given = succeed("handover", run, "--to", "claude", "--go", cwd=project, **env).out
    assert "agent codex" in given and "--resume" not in given
    assert succeed("show", run, "--json", cwd=project).json["session_id"] is None
    again = succeed("handover", run, "--to", "claude", "--json", cwd=project, **env).json
    assert "cx1" not in again["command"]
    assert (
        f"{run} ['resume', 'cx1']\n"
        == succeed("handover", run, "--to", "codex", "--go", cwd=project, **env).out
    )
    assert "cx1" == succeed("show", run, "--json", cwd=project).json["session_id"]


def test_go(run: str, project: Path) -> None:
    """A checkpoint is saved, then the agent runs with the run in its environment."""
    path = fake(project, "codex")
    told = succeed("handover", run, "--to", "codex", "--go", cwd=project, PATH=path).out
    assert told.startswith(run) and "You continue unfinished work" in told
    newest = succeed("log", run, "--json", cwd=project).json["checkpoints"][0]
    assert "handed over to codex" == newest["note"]


def test_an_archived_run(run: str, project: Path) -> None:
    """It comes back when an agent goes on with it, and not before."""
    succeed("finish", "--status", "failed", "--run", run, cwd=project)
    succeed("archive", run, cwd=project)
    succeed("handover", run, "--to", "codex", cwd=project)
    assert 3 == call("handover", run, "--to", "codex", "--go", cwd=project, PATH="/nowhere").code
    assert [] == succeed("ls", "--json", cwd=project).json["runs"]
    succeed("handover", run, "--to", "codex", "--go", cwd=project, PATH=fake(project, "codex"))
    newest = succeed("log", run, "--json", cwd=project).json["checkpoints"][0]
    assert "handed over to codex" == newest["note"]
    assert [run] == [each["run_id"] for each in succeed("ls", "--json", cwd=project).json["runs"]]


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
