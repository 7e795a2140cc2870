"""Archiving has two halves: the bundle is written, then the run leaves the store. Nothing falls between them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leftoff.engine.config.caller import Caller
from leftoff.engine.retention.archive import bundle_of, take_out
from leftoff.errors import Conflict, LeaseHeld
from leftoff.files import sync_folder
from leftoff.host import this_process
from leftoff.operations.files import Rollback, rollback
from leftoff.operations.upkeep import archive
from leftoff.store.bundle.write import PART, open_part, sweep_parts
from tests.cli.command import call, succeed
from tests.races.between import Seam, here, note, notes, taken_up

NOBODY = Caller()
EXPORTED = "leftoff.engine.retention.archive.export"


@pytest.fixture
def over(project: Path) -> Path:
    """A run that is over, with one note."""
    succeed("start", "w", "--run-id", "old", cwd=project)
    succeed("note", "before", cwd=project)
    succeed("finish", cwd=project)
    return project


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_after_the_export_is_in_the_bundle(over: Path, seam: Seam, times: int) -> None:
    """However often somebody reports meanwhile, the bundle that stays has it all."""
    seam.after(EXPORTED, lambda: note(over, "old"), times)
    with here(over) as project:
        archive(project, NOBODY, "old")
    assert ["before", *["in between"] * times] == notes(over, "old")
    assert [] == succeed("ls", "--json", cwd=over).json["runs"]


def test_a_run_that_goes_on_stays(over: Path, seam: Seam) -> None:
    """Resumed while it was exported, it is not over any more, and no bundle of an older state is left."""

    def go_on() -> None:
        with here(over) as other:
            rollback(other, NOBODY, Rollback("old@2"), lambda run, running: True, lambda plan: True)

    seam.after(EXPORTED, go_on)
    with here(over) as project, pytest.raises(Conflict, match="is running"):
        archive(project, NOBODY, "old")
    assert "running" == succeed("show", "old", "--json", cwd=over).json["status"]
    assert [] == os.listdir(over / ".leftoff/archive")


def test_a_run_that_is_taken_up_stays(over: Path, seam: Seam) -> None:
    """A lease that was taken after the first look is seen in the transaction that would remove the run."""
    seam.after(EXPORTED, lambda: taken_up(over, "old"))
    with here(over) as project, pytest.raises(LeaseHeld):
        archive(project, NOBODY, "old")
    assert ["before"] == notes(over, "old")


def test_a_run_that_moves_without_end_stays(over: Path, seam: Seam) -> None:
    """Somebody is at work on it: that is told, and nothing is lost."""
    seam.after(EXPORTED, lambda: note(over, "old"), 1000)
    with here(over) as project, pytest.raises(Conflict, match="went on"):
        archive(project, NOBODY, "old")
    assert 10 == notes(over, "old").count("in between")


def test_archived_again_while_it_is_taken_out(over: Path, seam: Seam) -> None:
    """Whoever takes a run back removes only the bundle of a run that is in the store."""
    succeed("archive", "old", cwd=over)

    def again() -> None:
        with here(over) as project:
            archive(project, NOBODY, "old")

    seam.after("leftoff.engine.retention.archive.import_bundle", again)
    with here(over) as project:
        path = bundle_of(project.store, "old")
        assert path is not None
        take_out(project.store, path, project.store, project.now, (this_process(), "somebody"))
    assert ["before"] == notes(over, "old")


def test_taken_out_while_it_is_archived_again(over: Path, seam: Seam) -> None:
    """A bundle that somebody took away is written again before the run leaves the store."""
    path = over / ".leftoff/archive/old.leftoff"
    seam.after("leftoff.engine.retention.archive._write_page", path.unlink)
    with here(over) as project:
        archive(project, NOBODY, "old")
    assert path.exists()
    assert ["before"] == notes(over, "old")


def test_the_folder_is_durable_before_the_run_goes(over: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of `archive/` in the store's folder is synced, and so are the names in it."""
    synced: list[str] = []

    def sync(path: str) -> None:
        synced.append(path)
        sync_folder(path)

    for module in ("leftoff.engine.retention.archive", "leftoff.files"):
        monkeypatch.setattr(f"{module}.sync_folder", sync)
    succeed("archive", "old", cwd=over)
    assert [str(over / ".leftoff"), str(over / ".leftoff/archive")] == synced


def test_archives_are_counted_by_commits_not_by_files(project: Path) -> None:
    """A bundle that was copied or touched is not newer for it."""
    (project / "leftoff.toml").write_text("[retention]\narchives = 1\n")
    for name in ("a", "b"):
        succeed("start", "w", "--run-id", name, cwd=project)
        succeed("finish", "--run", name, cwd=project)
    for name in ("b", "a"):
        succeed("archive", name, cwd=project)
    os.utime(project / ".leftoff/archive/b.leftoff", (0, 0))
    (gone,) = succeed("prune", "--json", cwd=project).json["removed"]
    assert ("archive", "a") == (gone["kind"], gone["run_id"])


def test_parts_of_the_killed_are_swept(over: Path) -> None:
    """What a killed export left goes with the next one; what is being written stays."""
    folder = over / "out"
    folder.mkdir()
    left = folder / "ab12".join(PART)
    left.write_bytes(b"half")
    mine, fd = open_part(str(folder))
    assert 0 == call("export", "old", "-o", str(folder / "old.leftoff"), cwd=over).code
    assert {"old.leftoff", os.path.basename(mine)} == set(os.listdir(folder))
    os.close(fd)
    sweep_parts(str(folder))
    assert ["old.leftoff"] == os.listdir(folder)


def test_parts_in_the_archive_are_swept(over: Path) -> None:
    """By `prune`, too, which may be the next that comes by."""
    left = over / ".leftoff/archive" / "ab12".join(PART)
    succeed("archive", "old", cwd=over)
    left.write_bytes(b"half")
    succeed("prune", cwd=over)
    assert not left.exists()
