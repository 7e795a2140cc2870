"""A report that undoes a finished step says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import succeed


@pytest.mark.parametrize("action", ["start", "skip", "fail", "block"])
def test_a_finished_step_that_is_reported_on_again(project: Path, action: str) -> None:
    """An agent that lost its context does just that."""
    succeed("start", "w", "--steps", "a,b", cwd=project)
    assert "" == succeed("step", "start", "a", cwd=project).err
    succeed("step", "done", "a", cwd=project)
    assert "a was completed" in succeed("step", action, "a", cwd=project).err
    assert "" == succeed("step", "done", "b", cwd=project).err
