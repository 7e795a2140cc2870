"""What the tests of agents share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.stage import Stage
from tests.workspace.trees import git


@pytest.fixture
def stage(project: Path, trusted: None) -> Stage:
    return Stage(project)


@pytest.fixture
def repository(project: Path) -> Path:
    """A project under git with one file."""
    git(project, "init", "-q", "-b", "main")
    (project / "notes.txt").write_text("alpha\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    return project
