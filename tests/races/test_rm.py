"""Removing has two halves: somebody is asked, then the run goes. What is removed is what was asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.engine.config.caller import Caller
from leftoff.errors import Conflict, LeaseHeld
from leftoff.operations.upkeep.retention import remove
from tests.cli.command import call, succeed
from tests.races.between import Seam, here, note, notes, taken_up


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
        assert remove(project, Caller(), "r", agree) is None
    assert [2, 3] == [row.seq for row in asked]  # type: ignore[attr-defined]
    assert ["precious"] == notes(failed, "r")


def test_a_lease_taken_after_the_question_counts(failed: Path) -> None:
    """It is looked at in the transaction that removes."""

    def agree(row: object) -> bool:
        taken_up(failed, "r")
        return True

    with here(failed) as project, pytest.raises(LeaseHeld):
        remove(project, Caller(), "r", agree)
    assert 0 == call("show", "r", cwd=failed).code


def test_removed_by_somebody_else(failed: Path) -> None:
    """Gone is gone: exit 3, not a success."""

    def agree(row: object) -> bool:
        with here(failed) as other:
            remove(other, Caller(), "r", lambda row: True)
        return True

    with here(failed) as project, pytest.raises(LookupError):
        remove(project, Caller(), "r", agree)


def test_an_archived_run_that_went_on_stays(failed: Path) -> None:
    """Taken out of the archive, reported on and archived anew since it was shown: what is removed is what was seen."""
    succeed("archive", "r", cwd=failed)

    def agree(row: object) -> bool:
        succeed("undelete", "r", cwd=failed)
        note(failed, "r", "precious")
        succeed("archive", "r", cwd=failed)
        return True

    with here(failed) as project, pytest.raises(Conflict, match="not the one"):
        remove(project, Caller(), "r", agree)
    assert ["precious"] == notes(failed, "r")


def test_an_archived_run_that_went_on_before_it_was_shown(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same between the look at the run and the question about it."""
    succeed("archive", "r", cwd=failed)

    def work() -> None:
        succeed("undelete", "r", cwd=failed)
        note(failed, "r", "precious")
        succeed("archive", "r", cwd=failed)

    Seam(monkeypatch).after("leftoff.operations.upkeep.retention.target", work)
    with here(failed) as project, pytest.raises(Conflict, match="not the one"):
        remove(project, Caller(), "r", lambda row: True)
    assert ["precious"] == notes(failed, "r")


def test_another_run_that_got_the_id(failed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the attempts of a new run leave is not removed with those of the old one."""
    seam, log = Seam(monkeypatch), failed / ".leftoff/attempts/r/token/log"

    def start() -> None:
        succeed("start", "w", "--run-id", "r", cwd=failed)
        log.parent.mkdir(parents=True)
        log.write_text("new")

    seam.after("leftoff.store.sqlite.store.SqliteStore.remove", start)
    with here(failed) as project:
        remove(project, Caller(), "r", lambda row: True)
    assert "new" == log.read_text()
