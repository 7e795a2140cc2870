"""What the tests of verification share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verify.situations import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A git repository to work in. Nothing of its steps may run when the test is over."""
    made = Place(tmp_path)
    yield made
    left = made.close()
    assert [] == left, "these processes of steps were left running"
