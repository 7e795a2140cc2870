"""`store copy`: somebody reports in the source, or begins something in the target, while rows are on their way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from leftoff.errors import Conflict
from leftoff.operations.stores import copy
from tests.cli.command import Called, call, succeed
from tests.races.between import here, note, notes


@pytest.fixture
def old(project: Path) -> Path:
    """A project with a store that is to be moved."""
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("set", "x=1", cwd=project)
    return project


def move(folder: Path, act: Callable[[], object], target: Path, at: str = "version") -> None:
    """Copy the project's store into an empty one; somebody acts once, when the rows of a table were copied."""
    left = [act]

    def tell(table: str, rows: int, total: int) -> None:
        if table == at and left:
            left.pop()()

    with here(folder) as project:
        copy(project, str(folder / ".leftoff"), str(target / ".leftoff"), tell)


def test_a_report_in_the_source(old: Path, tmp_path: Path) -> None:
    """Goes with it: whoever moves leaves nothing behind."""
    target = tmp_path / "new"
    move(old, lambda: note(old, "r"), target)
    assert ["in between"] == notes(target, "r")


def test_a_source_that_never_rests(old: Path, tmp_path: Path) -> None:
    """Is told, and nothing is seen in the target."""
    target = tmp_path / "new"
    with here(old) as project, pytest.raises(Conflict, match="went on"):
        copy(
            project,
            str(old / ".leftoff"),
            str(target / ".leftoff"),
            lambda table, rows, total: note(old, "r") if table == "version" else None,
        )
    assert [] == succeed("ls", "--all", "--json", cwd=target).json["runs"]


def test_a_run_that_is_begun_in_the_target(old: Path, tmp_path: Path) -> None:
    """Is refused: it would get the number of one whose records are there already. The copy is complete then."""
    target, seen = tmp_path / "new", list[Called]()
    move(old, lambda: seen.append(call("start", "mine", cwd=target)), target)
    assert (5, True) == (seen[0].code, "copy" in seen[0].err), seen[0]
    assert {"r"} == {run["run_id"] for run in succeed("ls", "--json", cwd=target).json["runs"]}
    succeed("start", "mine", cwd=target)


def test_two_copies_into_one(old: Path, tmp_path: Path) -> None:
    """Of two sources only one arrives, whole; the other is told."""
    target, other = tmp_path / "new", tmp_path / "other"
    other.mkdir()
    succeed("--project", str(other), "start", "w", "--run-id", "theirs", cwd=other)
    with pytest.raises(Conflict, match="another copy"):
        move(old, lambda: move(other, lambda: None, target), target)
    assert {"theirs"} == {run["run_id"] for run in succeed("ls", "--json", cwd=target).json["runs"]}
    assert 0 == call("fsck", cwd=target).code
