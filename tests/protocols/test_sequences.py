"""Whatever is done to a protocol's files, and in whatever order: a sync never stops a verb, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.protocols.sequences import Game
from tests.protocols.test_company import OWN

MOVES = 12


@pytest.mark.parametrize("protocol", OWN)
def test_verbs_beside_files_that_change(tmp_path: Path, protocol: str) -> None:
    """A sample of the thousand."""
    Game(tmp_path / "project", protocol, 1).play(MOVES)


@pytest.mark.crash_full
@pytest.mark.parametrize("protocol", OWN)
@pytest.mark.parametrize("hundred", range(2))
def test_a_thousand_sequences(tmp_path: Path, protocol: str, hundred: int) -> None:
    """1,000 sequences."""
    for seed in range(hundred * 100, hundred * 100 + 100):
        Game(tmp_path / str(seed), protocol, seed).play(MOVES)
