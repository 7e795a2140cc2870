"""`store copy`: somebody reports in the source, or begins something in the target, while rows are on their way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.errors import Conflict
from leftoff.operations.store_upkeep import copy_all
from leftoff.store.sqlite import SqliteStore
from leftoff.store.store_copy import TABLES, Tables
from tests.cli.command import Called, call, succeed
from tests.races.between import Seam, here, note, notes, taken_up
from tests.seams import SEAMS


@pytest.fixture
def old(project: Path) -> Path:
    """A project with a store that is to be moved."""
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("set", "x=1", cwd=project)
    return project


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


def move(folder: Path, act: Callable[[], object], target: Path, at: str = "version") -> None:
    """Copy the project's store into an empty one; somebody acts once, when the rows of a table were copied."""
    left = [act]

    def tell(table: str, rows: int, total: int) -> None:
        if table == at and left:
            left.pop()()

    with here(folder) as project:
        copy_all(project, str(folder / ".leftoff"), str(target / ".leftoff"), tell)


def test_a_report_in_the_source(old: Path, tmp_path: Path) -> None:
    """Goes with it: whoever moves leaves nothing behind."""
    target = tmp_path / "new"
    move(old, lambda: note(old, "r"), target)
    assert ["in between"] == notes(target, "r")


def test_a_source_that_never_rests(old: Path, tmp_path: Path) -> None:
    """Is told, and nothing is seen in the target."""
    target = tmp_path / "new"
    with here(old) as project, pytest.raises(Conflict, match="went on"):
        copy_all(
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
    target, other = tmp_path / "new", stranger(tmp_path)
    with pytest.raises(Conflict, match="another copy"):
        move(old, lambda: move(other, lambda: None, target), target)
    assert {"theirs"} == {run["run_id"] for run in succeed("ls", "--json", cwd=target).json["runs"]}
    assert 0 == call("fsck", cwd=target).code


def test_a_report_while_the_runs_arrive(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits: behind the last look at the source nothing is acknowledged that the copy has not."""
    seen: list[Called] = []

    def report() -> None:
        seen.append(call("note", "late", "--run", "r", cwd=old, LEFTOFF_LOCK_TIMEOUT="0.05"))

    Seam(monkeypatch).before(SEAMS["transfer._reveal"], report)
    move(old, lambda: None, tmp_path / "new")
    assert 8 == seen[0].code, seen[0]
    succeed("note", "afterwards", "--run", "r", cwd=old)


def test_somebody_takes_a_run_up(old: Path, tmp_path: Path) -> None:
    """What they commit next would be in the old store only: nothing is copied."""
    with pytest.raises(Conflict, match="driven by somebody"):
        move(old, lambda: taken_up(old, "r"), tmp_path / "new")
    assert [] == succeed("ls", "--all", "--json", cwd=tmp_path / "new").json["runs"]


def test_another_copy_while_this_one_is_given_up(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other one brought stays."""
    target, other = tmp_path / "new", stranger(tmp_path)
    monkeypatch.setattr(SEAMS["transfer.TRIES"], 1)
    Seam(monkeypatch).before(SEAMS["transfer._give_up"], lambda: move(other, lambda: None, target))
    with pytest.raises(Conflict, match="another copy"):
        move(old, lambda: note(old, "r"), target)
    assert ["theirs"] == [run["run_id"] for run in succeed("ls", "--json", cwd=target).json["runs"]]
    assert 0 == call("fsck", cwd=target).code


def test_another_store_of_the_same_name(old: Path, tmp_path: Path) -> None:
    """A copy that was cut short is gone on with from the same store only, whatever lies in its place by now."""
    target, other = tmp_path / "new", stranger(tmp_path)
    succeed("set", "y=2", cwd=other)

    def cut() -> None:
        raise Conflict("cut")

    with pytest.raises(Conflict, match="cut"):
        move(old, cut, target, "record")
    (old / ".leftoff").rename(tmp_path / "aside")
    (other / ".leftoff").rename(old / ".leftoff")
    move(old, lambda: None, target)
    assert tables(old) == tables(target)


def test_two_copies_of_the_same(old: Path, tmp_path: Path) -> None:
    """The second goes on with what the first has done; the first hears of it."""
    target = tmp_path / "new"
    with pytest.raises(Conflict, match="another copy"):
        move(old, lambda: move(old, lambda: None, target, "none"), target, "record")
    assert tables(old) == tables(target)


def test_a_run_that_is_removed_meanwhile(old: Path, tmp_path: Path) -> None:
    """Does not come back by being copied."""
    target = tmp_path / "new"
    succeed("start", "w2", "--run-id", "gone", cwd=old)
    move(old, lambda: succeed("rm", "gone", "--yes", cwd=old), target)
    assert ["r"] == [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=target).json["runs"]]


def stranger(folder: Path) -> Path:
    """Another project, with a store of its own."""
    other = folder / "other"
    other.mkdir()
    succeed("--project", str(other), "start", "w", "--run-id", "theirs", cwd=other)
    return other


def tables(folder: Path) -> dict[str, object]:
    """All rows of a store but what it says of itself."""
    with here(folder) as project:
        return project.store.read(
            lambda view: {
                "run": Tables(view).runs(),
                **{name: Tables(view).rows(name, None, 1000) for name in TABLES},
            }
        )


@pytest.mark.parametrize("closed", ["", "store.db", "lock"])
def test_a_source_that_is_only_for_reading(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """The folder or a file in it: it is looked at, and not written to."""
    source, may, write = old / ".leftoff", os.access, SqliteStore.write
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != source / closed and may(path, mode))

    def refused(store: SqliteStore, *words: Any, **named: Any) -> Any:
        assert store.folder != str(source)
        return write(store, *words, **named)

    monkeypatch.setattr(SEAMS["SqliteStore.write"], refused)
    move(old, lambda: None, tmp_path / "new")
    assert "1" == succeed("get", "x", cwd=tmp_path / "new").out.strip()


def test_a_run_that_is_archived_meanwhile(old: Path, tmp_path: Path) -> None:
    """It is archived in the copy, too."""
    succeed("finish", "--run", "r", cwd=old)
    succeed("start", "w", "--run-id", "other", cwd=old)
    target = tmp_path / "new"
    move(old, lambda: succeed("archive", "r", cwd=old), target)
    assert {"x": 1} == succeed("show", "r", "--json", cwd=target).json["variables"]
