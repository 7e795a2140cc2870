"""What the tests of the runner share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.driving import Flow


@pytest.fixture
def flow(tmp_path: Path) -> Iterator[Flow]:
    """A project for a workflow. Nothing of its steps may run when the test is over."""
    made = Flow(tmp_path)
    yield made
    left = made.close()
    assert [] == left, "these processes of steps were left running"
