"""`leftoff hook`, as a command: what it prints and how it ends. What events do is in tests/agents."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call


def test_an_unknown_agent_is_wrong_usage(project: Path) -> None:
    """A person who sets it up by hand is told which there are."""
    result = call("hook", "clod", cwd=project, input="{}")
    assert 2 == result.code and "claude, codex, gemini" in result.err


def test_no_event_is_no_error(project: Path) -> None:
    """Whatever comes on stdin, the agent goes on."""
    for given in ("", "no JSON", "[]", '{"hook_event_name": 3}', '{"session_id": "s"}', "[" * 100_000):
        result = call("hook", "claude", cwd=project, input=given)
        assert (0, "", "") == (result.code, result.out, result.err), given[:20]
        assert [] == list(project.iterdir())


def test_an_unknown_event_does_nothing(project: Path) -> None:
    """An agent may have events that leftoff has never heard of."""
    given = '{"hook_event_name": "Tomorrow", "session_id": "s", "cwd": "/nowhere"}'
    result = call("hook", "gemini", cwd=project, input=given)
    assert (0, "", "") == (result.code, result.out, result.err)
