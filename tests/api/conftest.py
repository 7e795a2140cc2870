"""A store of its own for each test, and reports from somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import leftoff


@pytest.fixture
def store(store_path: Path) -> Iterator[leftoff.Store]:
    """An open store; whatever is still driven at the end is paused."""
    with leftoff.open(store_path) as opened:
        yield opened


@pytest.fixture
def run(store: leftoff.Store) -> leftoff.Run:
    """A run that has just been started."""
    return store.start("work", run_id="work-1")
