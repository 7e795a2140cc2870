"""Archiving, removing and bringing back are one transaction each: other processes come before it or after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leftoff.engine.settings import Caller
from leftoff.errors import Conflict, LeaseHeld, NeedsPerson
from leftoff.operations.page_actions import act, dry_run
from leftoff.operations.run_files import Rollback, plan_rollback, rollback_run
from leftoff.operations.store_upkeep import archive_run, list_trash, undelete_run
from leftoff.protocols.project_retention import prune_project
from tests.cli.command import call, succeed
from tests.races.between import Seam, here, note, notes, taken_up

NOBODY = Caller()
BEFORE = "leftoff.engine.run_states.set_aside"  # the run was looked at, and is not archived yet


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


def listed(folder: Path) -> list[tuple[str, bool]]:
    """Every run, and whether it is archived."""
    runs = succeed("ls", "--all", "--json", cwd=folder).json["runs"]
    return sorted((run["run_id"], run.get("archived", False)) for run in runs)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_meanwhile_is_archived_too(over: Path, seam: Seam, times: int) -> None:
    """Archiving begins again with the commit."""
    seam.before(BEFORE, lambda: note(over, "old"), times)
    with here(over) as project:
        archive_run(project, NOBODY, "old")
    assert ["before", *["in between"] * times] == notes(over, "old")
    assert [("old", True)] == listed(over)


def test_a_run_that_goes_on_stays(over: Path, seam: Seam) -> None:
    """A run that was resumed meanwhile is not over any more."""

    def go_on() -> None:
        with here(over) as other:
            rollback_run(other, NOBODY, Rollback("old@2"), lambda run, running: True, lambda plan: True)

    seam.before(BEFORE, go_on)
    with here(over) as project, pytest.raises(Conflict, match="is running"):
        archive_run(project, NOBODY, "old")
    assert [("old", False)] == listed(over)


def test_a_run_that_is_driven_stays(over: Path, seam: Seam) -> None:
    """A lease that was taken after the first look is seen in the transaction."""
    seam.before(BEFORE, lambda: taken_up(over, "old"))
    with here(over) as project, pytest.raises(LeaseHeld):
        archive_run(project, NOBODY, "old")
    assert [("old", False)] == listed(over)


def test_a_driver_makes_it_active(over: Path) -> None:
    """With the lease, before the first commit."""
    succeed("archive", "old", cwd=over)
    taken_up(over, "old")
    assert [("old", False)] == listed(over)


def test_archived_by_two_at_once(over: Path, seam: Seam) -> None:
    """The second one says that it was archived already."""

    def first() -> None:
        note(over, "old")
        with here(over) as other:
            archive_run(other, NOBODY, "old")

    seam.before(BEFORE, first)
    with here(over) as project:
        assert archive_run(project, NOBODY, "old")[1]
    assert ["before", "in between"] == notes(over, "old")


def test_a_new_run_asks_for_its_name(over: Path, seam: Seam) -> None:
    """There are not two runs of one name afterwards."""
    seam.before(BEFORE, lambda: succeed("start", "w", "--run-id", "old", cwd=over))
    with here(over) as project:
        archive_run(project, NOBODY, "old")
    assert [("old", True), ("old-2", False)] == listed(over)


def test_archives_are_counted_by_commits(project: Path) -> None:
    """The run that was archived last is not newer for it."""
    (project / "leftoff.toml").write_text("[retention]\narchives = 1\n")
    for name in ("a", "b"):
        succeed("start", "w", "--run-id", name, cwd=project)
        succeed("finish", "--run", name, cwd=project)
    for name in ("b", "a"):
        succeed("archive", name, cwd=project)
    (gone,) = succeed("prune", "--json", cwd=project).json["removed"]
    assert ("archive", "a") == (gone["kind"], gone["run_id"])


@pytest.mark.parametrize("again", [False, True], ids=["active", "archived again"])
def test_an_archived_run_too_many_that_moved_meanwhile(over: Path, seam: Seam, again: bool) -> None:
    """A run that was brought back since it was chosen stays, even if it was archived again."""
    (over / "leftoff.toml").write_text("[retention]\narchives = 0\n")
    succeed("archive", "old", cwd=over)

    def work() -> None:
        with here(over) as other:
            undelete_run(other, "old")
        if again:
            with here(over) as other:
                archive_run(other, NOBODY, "old")

    seam.before("leftoff.engine.run_states.set_aside", work)
    with here(over) as project:
        assert [] == [gone for gone in prune_project(project).removed if gone["kind"] == "archive"]
        assert [] == list_trash(project)
    assert [("old", again)] == listed(over)


def test_a_look_at_a_rollback_changes_nothing(over: Path) -> None:
    """A preview, on the page or before a question, leaves the run archived."""
    succeed("archive", "old", cwd=over)
    with here(over) as project:
        assert 2 == plan_rollback(project, NOBODY, Rollback("old@2", files=True)).target.seq
    assert 0 == call("rollback", "old@2", "--dry-run", cwd=over).code
    with here(over) as project:
        plan = dry_run(project, NOBODY, "rollback", "old", {"to": "old@2", "files": True}).plan
    assert [("old", True)] == listed(over)
    with here(over) as project:
        act(project, NOBODY, "rollback", "old", {"to": "old@2", "files": True, "plan": plan})
    assert [("old", False)] == listed(over)


@pytest.mark.parametrize("action", ["fork", "rollback"])
def test_an_action_from_a_version_of_an_archived_run(over: Path, action: str) -> None:
    """Rollback makes it active; fork leaves it archived."""
    succeed("archive", "old", cwd=over)
    said: dict[str, Any] = (
        {"at": "old@2", "run_id": "new"} if action == "fork" else {"to": "old@2", "yes": True}
    )
    with here(over) as project:
        act(project, NOBODY, action, "old", said)
    assert ([("new", False), ("old", True)] if action == "fork" else [("old", False)]) == listed(over)


def test_a_checkpoint_of_an_archived_run_is_resumed(over: Path) -> None:
    succeed("archive", "old", cwd=over)
    assert 0 == call("resume", "old", "--checkpoint", "2", "--yes", cwd=over).code
    assert "running" == succeed("show", "old", "--json", cwd=over).json["status"]
    assert [("old", False)] == listed(over)


def test_a_question_on_the_page_leaves_it_there(project: Path) -> None:
    """The run is active once the question has its answer."""
    (project / "made").write_text("made")
    succeed("start", "w", "--run-id", "old", "--steps", "a,b", cwd=project)
    succeed("step", "done", "a", "--output", "made", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    succeed("archive", "old", cwd=project)
    (project / "made").unlink()
    with here(project) as page, pytest.raises(NeedsPerson):
        act(page, NOBODY, "resume", "old", {})
    assert [("old", True)] == listed(project)
    with here(project) as page:
        act(page, NOBODY, "resume", "old", {"accept": ["outputs.missing"]})
    assert [("old", False)] == listed(project)


def test_started_by_an_id_that_is_archived_meanwhile(over: Path, seam: Seam) -> None:
    seam.after("leftoff.operations.run_lifecycle.Opening", lambda: succeed("archive", "old", cwd=over))
    assert "old-2" == succeed("start", "w", "--run-id", "old", cwd=over).out.strip()
