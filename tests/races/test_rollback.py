"""Bringing files back has several halves: plan and answer, the present saved, the files, the records."""

from __future__ import annotations

from pathlib import Path

import pytest

from leftoff.engine.restoring import RestorePlan
from leftoff.engine.settings import Caller
from leftoff.operations.run_files import Rollback, restore_files, rollback_run
from tests.cli.command import succeed
from tests.races.between import Seam, here, note, notes

SAVED = "leftoff.engine.restoring.Restorer._place"
PLACED = "leftoff.engine.restoring.put_in_place"


@pytest.fixture
def changed(project: Path) -> Path:
    """A tracked file that was "old" at checkpoint 3, and is "new"."""
    file = project / "file"
    succeed("start", "w", "--run-id", "r", cwd=project)
    file.write_text("old")
    succeed("track", "file", cwd=project)
    succeed("save", cwd=project)
    file.write_text("new")
    succeed("note", "later", cwd=project)
    return project


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


@pytest.mark.parametrize("where", ["asked", SAVED, PLACED])
def test_a_report_during_a_rollback(changed: Path, seam: Seam, where: str) -> None:
    """It was not known when somebody agreed: they are asked again, it is in a checkpoint, and can be gone back to."""
    asked: list[int] = []

    def agree(plan: RestorePlan) -> bool:
        asked.append(len(plan.touched))
        if where == "asked" and len(asked) == 1:
            note(changed, "r")
        return True

    if where != "asked":
        seam.after(where, lambda: note(changed, "r"))
    with here(changed) as project:
        rollback_run(project, Caller(), Rollback("r@3", files=True), lambda run, running: True, agree)
    assert 2 == len(asked)
    assert "old" == (changed / "file").read_text()
    checkpoints = succeed("log", "r", "--json", cwd=changed).json["checkpoints"]
    assert "rollback" == checkpoints[0]["trigger"]
    assert ["later", "in between"] == notes(changed, f"r@{checkpoints[1]['seq']}")


def test_a_report_while_a_file_is_restored(changed: Path, seam: Seam) -> None:
    """Single files change no other record: the report stays as it is."""
    seam.after(PLACED, lambda: note(changed, "r"))
    with here(changed) as project:
        restore_files(project, Caller(), "r@3", ["file"], lambda plan: True)
    assert "old" == (changed / "file").read_text()
    assert ["later", "in between"] == notes(changed, "r")
