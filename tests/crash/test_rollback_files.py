"""`kill -9` at any point of a rollback with files: run again, it completes; nothing is lost.

After each kill every file is the old one or the new one; the same call once more, whose REF is relative, completes it;
and the present that was saved brings everything back, byte for byte and mode for mode.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.rolling import Situation, killed, moments
from tests.crash.verdict import Violation

SAMPLE = 6
FULL = 150


@pytest.fixture(scope="module")
def situation(tmp_path_factory: pytest.TempPathFactory) -> Situation:
    return Situation(tmp_path_factory.mktemp("situation") / "project")


@pytest.fixture(scope="module")
def calls(situation: Situation, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    """The calls at which a kill can make a difference, from the first write to the last."""
    found = moments(situation, tmp_path_factory.mktemp("moments"))
    assert len(found) >= 30
    return found


def spread(calls: list[tuple[str, int]], number: int) -> list[tuple[str, int]]:
    """So many of them, evenly, the first and the last among them."""
    step = max(1.0, (len(calls) - 1) / (number - 1))
    return [calls[min(round(at * step), len(calls) - 1)] for at in range(min(number, len(calls)))]


def test_killed_at_a_few_points(situation: Situation, calls: list[tuple[str, int]], tmp_path: Path) -> None:
    """A sample of the full run, over the whole length of a rollback."""
    assert any([killed(situation, tmp_path, *call) for call in spread(calls, SAMPLE)])


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_killed_at_every_point(situation: Situation, calls: list[tuple[str, int]], tmp_path: Path) -> None:
    """Each rename, sync, unlink, mkdir, chmod and write of a rollback may be the last thing that it does."""
    hit = [killed(situation, tmp_path, *call) for call in spread(calls, FULL)]
    assert sum(hit) >= 30


@pytest.mark.parametrize("broken", ["no-mark", "in-place", "not-saved"])
def test_broken_variants_are_caught(
    broken: str, situation: Situation, calls: list[tuple[str, int]], tmp_path: Path
) -> None:
    """Without the mark, the rename, or the saved present, a kill does harm, and is found."""
    files = [call for call in calls if call[0] in ("renameat", "rename", "unlinkat", "write")]
    with pytest.raises(Violation):
        for call in files[::-1]:
            killed(situation, tmp_path, *call, broken=broken)
