"""What the tests of agents share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.hooking import Living
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


@pytest.fixture
def living(repository: Path) -> Iterator[Living]:
    """A session that can be killed."""
    agent = Living(repository, "dead")
    yield agent
    if agent.process.returncode is None:
        agent.kill()
