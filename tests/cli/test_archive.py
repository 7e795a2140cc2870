"""`leftoff archive`: one file per run, opened again by whoever names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed


@pytest.fixture
def archived(project: Path) -> Path:
    """A finished run in the archive."""
    succeed("start", "w", "--run-id", "old", "--var", "x=1", "--steps", "a,b", cwd=project)
    succeed("step", "done", "a", cwd=project)
    succeed("finish", "--status", "failed", cwd=project)
    succeed("archive", "old", cwd=project)
    return project


def test_listed_no_more(archived: Path) -> None:
    """Only `ls --all` lists it, and says that it is archived."""
    assert [] == succeed("ls", "--json", cwd=archived).json["runs"]
    (run,) = succeed("ls", "--all", "--json", cwd=archived).json["runs"]
    assert ("old", True, "failed") == (run["run_id"], run["archived"], run["status"])
    assert "archived: old (failed)" in succeed("ls", "--all", cwd=archived).err


def test_show_and_log_look_into_it(archived: Path) -> None:
    """Every byte is there; looking changes nothing."""
    assert {"x": 1} == succeed("show", "old", "--json", cwd=archived).json["variables"]
    assert {"x": 1} == succeed("show", "old@1", "--json", cwd=archived).json["variables"]
    assert 2 == len(succeed("log", "old", "--json", cwd=archived).json["checkpoints"])
    assert (archived / ".leftoff/archive/old.leftoff").exists()
    assert [] == succeed("ls", "--json", cwd=archived).json["runs"]


def test_resume_takes_it_back(archived: Path) -> None:
    """It is in the store again, and no longer in the archive."""
    succeed("resume", "old", "--yes", cwd=archived)
    assert ["old"] == [run["run_id"] for run in succeed("ls", "--json", cwd=archived).json["runs"]]
    assert not (archived / ".leftoff/archive/old.leftoff").exists()
    assert "b" == succeed("next", "--run", "old", "--json", cwd=archived).json["step"]


def test_import_opens_it(archived: Path) -> None:
    """An archived run is a bundle like any other."""
    succeed("import", ".leftoff/archive/old.leftoff", cwd=archived)
    assert {"x": 1} == succeed("show", "old", "--json", cwd=archived).json["variables"]


def test_a_run_in_progress_is_not_archived(project: Path) -> None:
    """Only one that is over."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    assert 5 == call("archive", "r", cwd=project).code
    assert 3 == call("archive", "nobody", cwd=project).code
    succeed("save", cwd=project)
    assert 2 == call("archive", "r~0", cwd=project).code


def test_a_fork_of_an_archived_run_is_kept(project: Path) -> None:
    """Whatever changes something brings the run back first; only looking is done aside."""
    succeed("start", "flow", "--run-id", "old", cwd=project)
    succeed("finish", "--run", "old", cwd=project)
    succeed("archive", "old", cwd=project)
    made = succeed("fork", "old", "--branch", "other", cwd=project).out.split()[0]
    assert made in succeed("ls", "--branch", "other", cwd=project).out
