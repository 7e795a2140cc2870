"""`store copy`: somebody reports in the source, or begins something in the target, while files or rows are copied."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leftoff.errors import Conflict, Invalid
from leftoff.operations.store_upkeep import copy_all
from leftoff.store.sqlite import SqliteStore
from leftoff.store.store_copy import TABLES, table_rows
from tests.cli.command import Called, call, succeed
from tests.races.between import Seam, here, note, notes, taken_up
from tests.seams import SEAMS

QUICK = "0.05"  # seconds that a process waits here for the one that copies


@pytest.fixture
def old(project: Path) -> Path:
    """A project with a store that is to be moved."""
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=project)
    succeed("set", "x=1", cwd=project)
    return project


def copied(folder: Path, target: Path, act: Callable[[], object] = lambda: None) -> None:
    """Copy the project's store into an empty one; somebody acts once, while the rows are copied."""
    left = [act]

    def tell(table: str, rows: int, total: int) -> None:
        if table == "version" and left:
            left.pop()()

    with here(folder) as project:
        copy_all(project, str(folder / ".leftoff"), str(target / ".leftoff"), tell)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets somebody act after the files were copied, and before the rows are."""
    return lambda act: Seam(monkeypatch).after(SEAMS["store_copy.files"], act)


Between = Callable[[Callable[[], object]], None]


def test_a_report_in_the_source(old: Path, tmp_path: Path, between: Between) -> None:
    """It is copied, too."""
    between(lambda: note(old, "r"))
    copied(old, tmp_path / "new")
    assert ["in between"] == notes(tmp_path / "new", "r")


def test_a_report_while_rows_are_copied(old: Path, tmp_path: Path) -> None:
    """It waits: nothing is acknowledged that the copy does not have."""
    seen: list[Called] = []
    report = ("note", "late", "--run", "r")
    copied(
        old,
        tmp_path / "new",
        lambda: seen.append(call(*report, cwd=old, LEFTOFF_LOCK_TIMEOUT=QUICK)),
    )
    assert 8 == seen[0].code, seen[0]
    succeed(*report, cwd=old)


def test_a_run_that_is_begun_in_the_target(old: Path, tmp_path: Path) -> None:
    """It waits, and gets a number that no copied run has."""
    target, seen = tmp_path / "new", list[Called]()
    begin = ("start", "mine", "--run-id", "mine")
    copied(old, target, lambda: seen.append(call(*begin, cwd=target, LEFTOFF_LOCK_TIMEOUT=QUICK)))
    assert 8 == seen[0].code, seen[0]
    succeed(*begin, cwd=target)
    runs = {run["run_id"] for run in succeed("ls", "--json", cwd=target).json["runs"]}
    assert {"r", "mine"} == runs
    assert 0 == call("fsck", cwd=target).code


def test_another_copy_was_faster(old: Path, tmp_path: Path, between: Between) -> None:
    """The second one fails, and what the first one copied stays."""
    target, other = tmp_path / "new", stranger(tmp_path)
    between(lambda: copied(other, target))
    with pytest.raises(Invalid, match="has runs already"):
        copied(old, target)
    assert {"theirs"} == {run["run_id"] for run in succeed("ls", "--json", cwd=target).json["runs"]}
    assert 0 == call("fsck", cwd=target).code


def test_somebody_takes_a_run_up(old: Path, tmp_path: Path, between: Between) -> None:
    """Their next commits would be in the old store only, so nothing is copied."""
    between(lambda: taken_up(old, "r"))
    with pytest.raises(Conflict, match="driven by somebody"):
        copied(old, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_copy_that_is_cut_short(old: Path, tmp_path: Path) -> None:
    """Nothing of it is seen, and the next one has everything."""

    def cut() -> None:
        raise Conflict("cut")

    target = tmp_path / "new"
    with pytest.raises(Conflict, match="cut"):
        copied(old, target, cut)
    assert [] == succeed("ls", "--all", "--json", cwd=target).json["runs"]
    copied(old, target)
    assert tables(old) == tables(target)


def test_a_run_that_is_removed_meanwhile(old: Path, tmp_path: Path, between: Between) -> None:
    """It does not come back by being copied."""
    target = tmp_path / "new"
    succeed("start", "w2", "--run-id", "gone", cwd=old)
    between(lambda: succeed("rm", "gone", "--yes", cwd=old))
    copied(old, target)
    assert ["r"] == [run["run_id"] for run in succeed("ls", "--all", "--json", cwd=target).json["runs"]]


def test_a_run_that_is_archived_meanwhile(old: Path, tmp_path: Path, between: Between) -> None:
    """It is archived in the copy, too."""
    succeed("finish", "--run", "r", cwd=old)
    succeed("start", "w", "--run-id", "other", cwd=old)
    between(lambda: succeed("archive", "r", cwd=old))
    copied(old, tmp_path / "new")
    assert {"x": 1} == succeed("show", "r", "--json", cwd=tmp_path / "new").json["variables"]


def stranger(folder: Path) -> Path:
    """Another project, with a store of its own."""
    other = folder / "other"
    other.mkdir()
    succeed("--project", str(other), "start", "w", "--run-id", "theirs", cwd=other)
    return other


def tables(folder: Path) -> dict[str, object]:
    """All rows of a store but what it says of itself."""
    with here(folder) as project:
        return project.store.read(lambda view: {name: table_rows(view, name, None, 1000) for name in TABLES})


@pytest.mark.parametrize("closed", ["", "store.db", "lock"])
def test_a_source_that_is_only_for_reading(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """The folder or a file in it: it is read, and not written to."""
    source, may, write = old / ".leftoff", os.access, SqliteStore.write
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != source / closed and may(path, mode))

    def refused(store: SqliteStore, *words: Any, **named: Any) -> Any:
        assert store.folder != str(source)
        return write(store, *words, **named)

    monkeypatch.setattr(SEAMS["SqliteStore.write"], refused)
    copied(old, tmp_path / "new")
    assert "1" == succeed("get", "x", cwd=tmp_path / "new").out.strip()
