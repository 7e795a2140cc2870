"""A run keeps to the work tree that it was started in, wherever the command is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.workspace.trees import git


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """The main work tree, with a store; and a linked one."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    git(main, "init", "-q")
    (main / ".gitignore").write_text(".leftoff\n")
    (main / "t.txt").write_text("first\n")
    (main / "flow.yaml").write_text(
        "name: w\nsteps:\n  - {id: a, run: 'true'}\n  - {id: b, run: 'test -e go && pwd > where'}\n"
    )
    git(main, "add", ".")
    git(main, "commit", "-q", "-m", "one")
    git(main, "worktree", "add", "-q", str(linked), "-b", "side")
    succeed("init", cwd=main)
    return main, linked


@pytest.mark.parametrize("started_in", [0, 1], ids=["main", "linked"])
def test_resumed_from_the_other(trees: tuple[Path, Path], started_in: int) -> None:
    """Its steps run where the run belongs, and that is said."""
    home, other = trees[started_in], trees[1 - started_in]
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=home).code
    (home / "go").touch()
    done = succeed("resume", "r", cwd=other)
    assert [str(home)] == (home / "where").read_text().split()
    assert f"r belongs to the work tree {home}." in done.err
    assert not (other / "where").exists()


@pytest.mark.parametrize("started_in", [0, 1], ids=["main", "linked"])
def test_rolled_back_from_the_other(trees: tuple[Path, Path], started_in: int) -> None:
    """The files of the run's own work tree are restored, those of the other are left alone."""
    home, other = trees[started_in], trees[1 - started_in]
    succeed("start", "w", "--run-id", "r", "--steps", "a,b", cwd=home)
    succeed("track", "t.txt", cwd=home)
    succeed("step", "done", "a", cwd=home)
    (home / "t.txt").write_text("second\n")
    succeed("track", "t.txt", cwd=home)
    succeed("step", "done", "b", cwd=home)
    succeed("restore", "r~1", "t.txt", "--yes", cwd=other)
    assert ("first\n", "first\n") == ((home / "t.txt").read_text(), (other / "t.txt").read_text())
    (home / "t.txt").write_text("third\n")
    (other / "t.txt").write_text("other\n")
    assert 0 == call("rollback", "r~1", "--files", "--yes", cwd=other).code
    assert "other\n" == (other / "t.txt").read_text()
    assert "third\n" != (home / "t.txt").read_text()


def test_a_work_tree_that_is_gone(trees: tuple[Path, Path]) -> None:
    """What its branch was made into is looked at here: there is nowhere else."""
    main, linked = trees
    succeed("start", "w", "--run-id", "r", "--steps", "a", cwd=linked)
    git(main, "worktree", "remove", "--force", str(linked))
    said = call("verify", "r", "--json", cwd=main)
    assert "git.branch_other" in [finding["code"] for finding in said.json["findings"]]


def test_an_archived_run_from_the_other(trees: tuple[Path, Path]) -> None:
    """Is judged by the files of its own work tree, and those are restored, wherever it is looked at meanwhile."""
    main, linked = trees
    succeed("start", "w", "--run-id", "r", "--steps", "a", cwd=main)
    succeed("track", "t.txt", cwd=main)
    succeed("finish", "--status", "failed", "--run", "r", cwd=main)
    succeed("archive", "r", cwd=main)
    (main / "t.txt").write_text("second\n")
    said = call("verify", "r", "--json", cwd=linked)
    assert (7, ["files.changed"]) == (said.code, [found["code"] for found in said.json["findings"]])
    (linked / "t.txt").write_text("other\n")
    succeed("restore", "r", "t.txt", "--yes", cwd=linked)
    assert ("first\n", "other\n") == ((main / "t.txt").read_text(), (linked / "t.txt").read_text())


# -- worktrees and repositories inside a project


BUILD = "name: build\nsteps:\n  - {id: x, run: 'pwd > where && git branch --show-current >> where'}\n"


def test_a_worktree_inside_the_repository(trees: tuple[Path, Path]) -> None:
    """Its steps run in it, on its branch. The main work tree's store records the run."""
    main, _ = trees
    inside = main / "wt"
    git(main, "worktree", "add", "-q", str(inside), "-b", "inner")
    (inside / "sub").mkdir()
    (inside / "build.yaml").write_text(BUILD)
    succeed("run", "../build.yaml", "--run-id", "r", cwd=inside / "sub")
    assert [str(inside), "inner"] == (inside / "where").read_text().split()
    assert not (main / "where").exists()
    assert not (inside / ".leftoff").exists()
    assert ["r"] == [run["run_id"] for run in succeed("ls", "--json", cwd=main).json["runs"]]


def test_a_worktree_inside_the_repository_with_its_own_store(trees: tuple[Path, Path]) -> None:
    """A worktree that has a `.leftoff` keeps using it."""
    main, _ = trees
    inside = main / "wt"
    git(main, "worktree", "add", "-q", str(inside), "-b", "inner")
    succeed("init", "--project", str(inside), "--store", str(inside / ".leftoff"), cwd=main)
    (inside / "build.yaml").write_text(BUILD)
    succeed("run", "build.yaml", cwd=inside)
    assert (inside / "where").exists()
    assert [] == succeed("ls", "--json", cwd=main).json["runs"]


@pytest.mark.parametrize("kind", ["repository", "submodule"])
def test_a_repository_inside_a_project(trees: tuple[Path, Path], kind: str) -> None:
    """A repository is a project of its own: a store in a folder above it is not used."""
    main, _ = trees
    inner = main / "inner"
    if kind == "repository":
        inner.mkdir()
        git(inner, "init", "-q", "-b", "trunk")
    else:
        git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(main), "inner")
        git(inner, "checkout", "-q", "-b", "trunk")
    (inner / "build.yaml").write_text(BUILD)
    succeed("run", "build.yaml", cwd=inner)
    assert [str(inner), "trunk"] == (inner / "where").read_text().split()
    assert (inner / ".leftoff").is_dir()
    assert [] == succeed("ls", "--json", cwd=main).json["runs"]


@pytest.mark.parametrize("content", ["", "gitdir: nowhere\n", "\0\xff"])
def test_a_git_file_that_is_broken(tmp_path: Path, content: str) -> None:
    """It ends the search as any other does: steps run in its folder."""
    succeed("init", cwd=tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".git").write_bytes(content.encode("latin-1"))
    (inner / "flow.yaml").write_text("name: w\nsteps:\n  - {id: x, run: 'pwd > where'}\n")
    succeed("run", "flow.yaml", cwd=inner)
    assert [str(inner)] == (inner / "where").read_text().split()
