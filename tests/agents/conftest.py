"""What the tests of agents share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.stage import Stage


@pytest.fixture
def stage(project: Path, trusted: None) -> Stage:
    return Stage(project)
