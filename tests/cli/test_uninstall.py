"""`leftoff uninstall` undoes `leftoff install`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.test_install import everything


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_the_folder_is_as_it_was(agent: str, project: Path) -> None:
    """Nothing remains, and --dry-run changes nothing."""
    before = everything(project)
    succeed("install", agent, cwd=project)
    installed = everything(project)
    assert installed != before
    assert "would change" in succeed("uninstall", agent, "--dry-run", cwd=project).err
    assert installed == everything(project)
    assert succeed("uninstall", agent, "--json", cwd=project).json["agent"] == agent
    assert before == everything(project)


def test_an_unknown_agent_is_named(project: Path) -> None:
    """The agents that leftoff knows are listed."""
    result = call("uninstall", "nosuch", cwd=project)
    assert 2 == result.code and "claude" in result.err
