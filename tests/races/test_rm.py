"""Removing has two halves: somebody is asked, then the run goes. What is removed is what was asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.engine.settings import Caller
from leftoff.errors import LeaseHeld
from leftoff.operations.store_upkeep import remove_runs
from leftoff.store.rows import RunRow
from tests.cli.command import call, succeed
from tests.races.between import here, note, notes, taken_up


@pytest.fixture
def failed(project: Path) -> Path:
    succeed("start", "w", "--run-id", "r", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    return project


def test_a_run_that_went_on_is_asked_about_again(failed: Path) -> None:
    """The answer was about another state: what came since is shown, and may be kept."""
    asked: list[RunRow] = []

    def agree(rows: list[RunRow]) -> bool:
        asked.extend(rows)
        if len(asked) == 1:
            note(failed, "r", "precious")
        return len(asked) == 1

    with here(failed) as project:
        assert remove_runs(project, Caller(), ["r"], agree) is None
    assert [2, 3] == [row.seq for row in asked]
    assert ["precious"] == notes(failed, "r")


def test_a_lease_taken_after_the_question_counts(failed: Path) -> None:
    """It is looked at in the transaction that removes."""

    def agree(rows: list[RunRow]) -> bool:
        taken_up(failed, "r")
        return True

    with here(failed) as project, pytest.raises(LeaseHeld):
        remove_runs(project, Caller(), ["r"], agree)
    assert 0 == call("show", "r", cwd=failed).code


def test_removed_by_somebody_else(failed: Path) -> None:
    """Gone is gone: exit 3, not a success."""

    def agree(rows: list[RunRow]) -> bool:
        with here(failed) as other:
            remove_runs(other, Caller(), ["r"], lambda rows: True)
        return True

    with here(failed) as project, pytest.raises(LookupError):
        remove_runs(project, Caller(), ["r"], agree)


def test_an_archived_run_that_went_on_is_asked_about_again(failed: Path) -> None:
    """Brought back, reported on and archived again since it was shown: the user sees what came since."""
    succeed("archive", "r", cwd=failed)
    asked: list[RunRow] = []

    def agree(rows: list[RunRow]) -> bool:
        asked.extend(rows)
        if len(asked) == 1:
            succeed("undelete", "r", cwd=failed)
            note(failed, "r", "precious")
            succeed("archive", "r", cwd=failed)
        return len(asked) == 1

    with here(failed) as project:
        assert remove_runs(project, Caller(), ["r"], agree) is None
    assert 2 == len(asked) and ["precious"] == notes(failed, "r")
