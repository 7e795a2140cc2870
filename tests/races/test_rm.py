"""Removing has two halves: somebody is asked, then the run goes. What is removed is what was asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.engine.settings import Caller
from leftoff.errors import LeaseHeld
from leftoff.operations.store_upkeep import remove_run
from tests.cli.command import call, succeed
from tests.races.between import here, note, notes, taken_up


@pytest.fixture
def failed(project: Path) -> Path:
    succeed("start", "w", "--run-id", "r", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    return project


def test_a_run_that_went_on_is_asked_about_again(failed: Path) -> None:
    """The answer was about another state: what came since is shown, and may be kept."""
    asked = []

    def agree(row: object) -> bool:
        asked.append(row)
        if len(asked) == 1:
            note(failed, "r", "precious")
        return len(asked) == 1

    with here(failed) as project:
        assert remove_run(project, Caller(), "r", agree) is None
    assert [2, 3] == [row.seq for row in asked]  # type: ignore[attr-defined]
    assert ["precious"] == notes(failed, "r")


def test_a_lease_taken_after_the_question_counts(failed: Path) -> None:
    """It is looked at in the transaction that removes."""

    def agree(row: object) -> bool:
        taken_up(failed, "r")
        return True

    with here(failed) as project, pytest.raises(LeaseHeld):
        remove_run(project, Caller(), "r", agree)
    assert 0 == call("show", "r", cwd=failed).code


def test_removed_by_somebody_else(failed: Path) -> None:
    """Gone is gone: exit 3, not a success."""

    def agree(row: object) -> bool:
        with here(failed) as other:
            remove_run(other, Caller(), "r", lambda row: True)
        return True

    with here(failed) as project, pytest.raises(LookupError):
        remove_run(project, Caller(), "r", agree)


def test_an_archived_run_that_went_on_is_asked_about_again(failed: Path) -> None:
    """Brought back, reported on and archived again since it was shown: the user sees what came since."""
    succeed("archive", "r", cwd=failed)
    asked = []

    def agree(row: object) -> bool:
        asked.append(row)
        if len(asked) == 1:
            succeed("undelete", "r", cwd=failed)
            note(failed, "r", "precious")
            succeed("archive", "r", cwd=failed)
        return len(asked) == 1

    with here(failed) as project:
        assert remove_run(project, Caller(), "r", agree) is None
    assert 2 == len(asked) and ["precious"] == notes(failed, "r")
