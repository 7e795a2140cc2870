"""`leftoff restore`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import files_below, started
from tests.workspace.trees import tree


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A checkpoint with files, of which each has changed since."""
    started(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).write_text(f"{name} then\n")
    (tmp_path / "link").symlink_to("a")
    succeed("track", "a", "b", "sub/c", "link", cwd=tmp_path)
    found = succeed("save", cwd=tmp_path).out.strip()
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).write_text(f"{name} now\n")
        (tmp_path / name).chmod(0o600)
    (tmp_path / "link").unlink()
    succeed("track", "a", "b", "sub/c", "link", cwd=tmp_path)
    succeed("set", "x=1", cwd=tmp_path)
    return found


def test_only_those_that_are_named(checkpoint: str, tmp_path: Path) -> None:
    """Content, permissions and links of the named files; every other file and record stays."""
    before = tree(tmp_path)
    done = succeed("restore", checkpoint, "a", "link", cwd=tmp_path)
    assert ("", True) == (done.out, "2 of 2" in done.err)
    expected = {**before, "a": ("file", 0o644, b"a then\n"), "link": ("link", 0, b"a")}
    assert expected == tree(tmp_path)
    assert "1" == succeed("get", "x", cwd=tmp_path).out.strip()


def test_the_present_was_saved(checkpoint: str, tmp_path: Path) -> None:
    """A rollback to the checkpoint made before brings back what was there."""
    before = tree(tmp_path)
    succeed("restore", checkpoint, "a", "link", cwd=tmp_path)
    log = succeed("log", "--json", cwd=tmp_path).json["checkpoints"]
    assert ["rollback", "rollback_begin"] == [entry["trigger"] for entry in log[:2]]
    succeed("rollback", log[1]["checkpoint_id"], "--files", cwd=tmp_path)
    assert before == tree(tmp_path)


def test_paths_are_relative_to_here(checkpoint: str, tmp_path: Path) -> None:
    """As a shell completes them."""
    succeed("restore", checkpoint, "c", cwd=tmp_path / "sub")
    assert "sub/c then\n" == (tmp_path / "sub/c").read_text()


def test_changes_from_outside_need_a_yes(checkpoint: str, tmp_path: Path) -> None:
    """What was changed since it was recorded is shown, and exit 7 without a terminal; --yes restores."""
    (tmp_path / "a").write_text("by hand\n")
    result = call("restore", checkpoint, "a", cwd=tmp_path)
    assert 7 == result.code and "+by hand" in result.err, str(result)
    assert "by hand\n" == (tmp_path / "a").read_text()
    found = succeed("restore", checkpoint, "a", "--yes", "--json", cwd=tmp_path).json
    assert ("a then\n", ["a"]) == (
        (tmp_path / "a").read_text(),
        [one["path"] for one in found["files"]["restore"]],
    )
    assert [] == succeed("restore", checkpoint, "a", "--json", cwd=tmp_path).json["files"]["restore"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("CP",), 2),
        (("nothing", "a"), 3),
        (("CP", "unknown"), 3),
        (("CP", "../a"), 4),
        (("CP", ".git/x"), 4),
    ],
)
def test_wrong_words(words: tuple[str, ...], code: int, checkpoint: str, tmp_path: Path) -> None:
    """Wrong usage is exit 2, what is not there exit 3, what is not the project's exit 4; nothing is written."""
    before, head = tree(tmp_path), succeed("show", "--json", cwd=tmp_path).json["head"]
    given = [checkpoint if word == "CP" else word for word in words]
    assert code == call("restore", *given, cwd=tmp_path).code
    assert (before, head) == (tree(tmp_path), succeed("show", "--json", cwd=tmp_path).json["head"])


def test_one_that_cannot_be_restored_is_kept(checkpoint: str, tmp_path: Path) -> None:
    """Where there is a folder with something in it, it stays, and that is said."""
    os.unlink(tmp_path / "a")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/mine").write_text("mine")
    result = call("restore", checkpoint, "a", "--yes", cwd=tmp_path)
    assert 3 == result.code and "keep    a" in result.err and "a/mine" in result.err
    assert "mine" == (tmp_path / "a/mine").read_text()


def test_no_store_is_made(tmp_path: Path) -> None:
    """A REF is resolved before anything is written."""
    assert 3 == call("restore", "latest", "a", cwd=tmp_path).code
    assert [] == files_below(tmp_path)


def test_what_restores_nothing(project: Path) -> None:
    """A file that cannot be as it was is exit 3, also for a rollback that can restore none; as it was already is 0."""
    (project / ".env").write_text("a=1\n")
    (project / "f").write_text("f\n")
    succeed("start", "w", "--run-id", "w", cwd=project)
    succeed("start", "other", "--run-id", "other", cwd=project)
    succeed("track", ".env", "f", "--run", "w", cwd=project)
    succeed("save", "--run", "w", cwd=project)
    same = succeed("restore", "w", "f", cwd=project)
    assert "nothing was restored" in same.err and "unfinished runs" not in same.err, str(same)
    (project / ".env").write_text("b=2\n")
    lost = call("restore", "w", ".env", "--json", cwd=project)
    assert 3 == lost.code and ".env (it may hold secrets" in lost.json["error"]["message"]
    back = call("rollback", "w~0", "--files", "--yes", cwd=project)
    assert 3 == back.code and "The run itself is back there" in back.err
    (project / "f").write_text("g\n")
    succeed("rollback", "w~0", "--files", "--yes", cwd=project)
    assert ("f\n", "b=2\n") == ((project / "f").read_text(), (project / ".env").read_text())


def test_an_archived_run_is_back_only_once_something_is_restored(tmp_path: Path) -> None:
    """A file that it does not have, a version that is not there, a question without an answer: nothing is changed."""
    started(tmp_path, "w", "--run-id", "old")
    (tmp_path / "a").write_text("then\n")
    succeed("track", "a", cwd=tmp_path)
    succeed("save", cwd=tmp_path)
    succeed("finish", cwd=tmp_path)
    succeed("archive", "old", cwd=tmp_path)
    (tmp_path / "a").write_text("now\n")
    assert 3 == call("restore", "old", "b", "--yes", cwd=tmp_path).code
    assert 3 == call("restore", "b", "--yes", cwd=tmp_path, LEFTOFF_RUN="old").code
    assert 3 == call("restore", "old@99", "a", "--yes", cwd=tmp_path).code
    asked = call("restore", "old", "a", cwd=tmp_path)
    assert 7 == asked.code and "-then\n+now\n" in asked.err
    assert [] == succeed("ls", "--json", cwd=tmp_path).json["runs"]
    succeed("restore", "old", "a", "--yes", cwd=tmp_path)
    assert "then\n" == (tmp_path / "a").read_text()
    assert ["old"] == [run["run_id"] for run in succeed("ls", "--json", cwd=tmp_path).json["runs"]]
