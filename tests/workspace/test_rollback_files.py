"""`leftoff rollback --files`: the files are what they were, nothing is lost, and it can be undone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import call, succeed
from tests.cli.runs import driven, started
from tests.cli.terminal import Terminal
from tests.workspace.trees import begun, git, tree


def saved(cwd: Path) -> str:
    """Seal a checkpoint; its id."""
    return succeed("save", cwd=cwd).out.strip()


def two_states(cwd: Path) -> tuple[str, Any, Any]:
    """A run whose files changed in every way since a checkpoint: the checkpoint, the tree then, the tree now."""
    started(cwd)
    (cwd / "deep/er").mkdir(parents=True)
    for name, text in {"text": "one\n", "tool": "#!/bin/sh\n", "deep/er/x": "x", "goes": "gone\n"}.items():
        (cwd / name).write_text(text)
    (cwd / "bytes").write_bytes(bytes(range(256)) * 10)
    (cwd / "link").symlink_to("text")
    (cwd / "tool").chmod(0o755)
    succeed("track", "text", "tool", "bytes", "link", "goes", cwd=cwd)
    checkpoint, then = saved(cwd), tree(cwd)
    (cwd / "text").write_text("two\n")
    (cwd / "text").chmod(0o600)
    (cwd / "tool").chmod(0o644)
    (cwd / "bytes").write_bytes(b"\0")
    (cwd / "link").unlink()
    (cwd / "link").symlink_to("../elsewhere")
    (cwd / "goes").unlink()
    (cwd / "new/folder").mkdir(parents=True)
    (cwd / "new/folder/file").write_text("new\n")
    succeed("track", "text", "tool", "bytes", "link", "goes", "new/folder/file", cwd=cwd)
    return checkpoint, then, tree(cwd)


def test_there_and_back(tmp_path: Path) -> None:
    """Content, permissions and links are what they were; going back to the saved present undoes every byte and mode."""
    checkpoint, then, now = two_states(tmp_path)
    found = succeed("rollback", checkpoint, "--files", "--json", cwd=tmp_path).json
    assert then == tree(tmp_path)
    assert ["bytes", "goes", "link", "text", "tool"] == [one["path"] for one in found["files"]["restore"]]
    assert ["new/folder/file"] == [one["path"] for one in found["files"]["delete"]]
    log = succeed("log", "--json", cwd=tmp_path).json["checkpoints"]
    assert ["rollback", "rollback_begin"] == [entry["trigger"] for entry in log[:2]]
    assert log[2]["digest"] == log[0]["digest"], "the records are those of the checkpoint"
    succeed("rollback", log[1]["checkpoint_id"], "--files", cwd=tmp_path)
    assert now == tree(tmp_path)
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert then == tree(tmp_path)


def test_nothing_to_do(tmp_path: Path) -> None:
    """Where every file is as it was, only the records go back, and no checkpoint of the files is made."""
    checkpoint, then, _ = two_states(tmp_path)
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    before = len(succeed("log", "--json", cwd=tmp_path).json["checkpoints"])
    result = succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert "already as it was" in result.err
    assert (before + 1, then) == (
        len(succeed("log", "--json", cwd=tmp_path).json["checkpoints"]),
        tree(tmp_path),
    )


def test_dry_run_shows_the_plan(tmp_path: Path) -> None:
    """As text and as JSON: what would be restored, deleted and kept, and why; nothing happens."""
    checkpoint, _, now = two_states(tmp_path)
    head = succeed("show", "--json", cwd=tmp_path).json["head"]
    shown = succeed("rollback", checkpoint, "--files", "--dry-run", cwd=tmp_path).err
    assert (
        "restore text  (as it was then)" in shown
        and "delete  new/folder/file  (it was created since)" in shown
    )
    found = succeed("rollback", checkpoint, "--files", "--dry-run", "--json", cwd=tmp_path).json
    assert {"restore", "delete", "keep", "diffs"} == set(found["files"])
    assert (now, head) == (tree(tmp_path), succeed("show", "--json", cwd=tmp_path).json["head"])


def test_changes_from_outside_need_a_yes(tmp_path: Path) -> None:
    """What somebody changed since it was recorded is shown as a diff; without a terminal it is exit 7."""
    checkpoint, then, _ = two_states(tmp_path)
    (tmp_path / "text").write_text("two\nby hand\n")
    changed = tree(tmp_path)
    result = call("rollback", checkpoint, "--files", cwd=tmp_path)
    assert 7 == result.code, str(result)
    assert "+by hand" in result.err and "--- text (as recorded)" in result.err and "--yes" in result.err
    assert changed == tree(tmp_path)
    succeed("rollback", checkpoint, "--files", "--yes", cwd=tmp_path)
    assert then == tree(tmp_path)
    saved = succeed("log", "--json", cwd=tmp_path).json["checkpoints"][1]["checkpoint_id"]
    succeed("rollback", saved, "--files", cwd=tmp_path)
    assert changed == tree(tmp_path), "what was changed by hand was saved first"


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 7)])
def test_a_person_is_asked(answer: str, code: int, tmp_path: Path) -> None:
    """On a terminal the question is asked; a no leaves everything alone."""
    checkpoint, then, _ = two_states(tmp_path)
    (tmp_path / "text").write_text("by hand\n")
    changed = tree(tmp_path)
    with Terminal("rollback", checkpoint, "--files", cwd=tmp_path) as terminal:
        terminal.expect("Go on? [y/N]:")
        terminal.type(f"{answer}\n")
        assert code == terminal.end(), terminal.shown
    assert (then if answer == "y" else changed) == tree(tmp_path)


def test_files_that_were_there_before_are_kept(tmp_path: Path) -> None:
    """A file that was not tracked then, but was last written before, is not deleted."""
    (tmp_path / "old").write_text("older than the run")
    time.sleep(0.05)
    run = started(tmp_path)
    checkpoint = saved(tmp_path)
    succeed("track", "old", cwd=tmp_path)
    found = succeed("rollback", checkpoint, "--files", "--json", cwd=tmp_path).json["files"]
    assert (["old"], []) == ([one["path"] for one in found["keep"]], found["delete"])
    assert "older than the run" == (tmp_path / "old").read_text()
    assert run in succeed("ls", cwd=tmp_path).out


def test_outputs_of_steps_come_back(tmp_path: Path) -> None:
    """What a step wrote is restored as it was recorded; what a later step made is deleted."""
    started(tmp_path, "release", "--steps", "a,b")
    (tmp_path / "out.txt").write_text("of a")
    succeed("step", "done", "a", "--output", "out.txt", cwd=tmp_path)
    checkpoint = succeed("log", "--json", cwd=tmp_path).json["checkpoints"][0]["checkpoint_id"]
    (tmp_path / "out.txt").write_text("of b")
    (tmp_path / "later.txt").write_text("of b")
    succeed("step", "done", "b", "--output", "out.txt", "--output", "later.txt", cwd=tmp_path)
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert {"out.txt": ("file", 0o644, b"of a")} == tree(tmp_path)


def test_empty_folders(tmp_path: Path) -> None:
    """A folder goes with its last file only where leftoff deleted that file; one that was empty before stays."""
    started(tmp_path)
    checkpoint = saved(tmp_path)
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "c/d").mkdir(parents=True)
    (tmp_path / "c/file").write_text("x")
    succeed("track", "a/b/file", "c/file", cwd=tmp_path)
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert ["c", "c/d"] == sorted(tree(tmp_path))


def test_a_file_for_a_folder_and_back(tmp_path: Path) -> None:
    """Where a folder took a file's place, or a file a folder's, the old one comes back if nothing else is in there."""
    started(tmp_path)
    (tmp_path / "x").write_text("a file")
    (tmp_path / "y").mkdir()
    (tmp_path / "y/inner").write_text("in a folder")
    succeed("track", "x", "y/inner", cwd=tmp_path)
    checkpoint, then = saved(tmp_path), tree(tmp_path)
    (tmp_path / "x").unlink()
    (tmp_path / "x").mkdir()
    (tmp_path / "x/inner").write_text("in a folder")
    (tmp_path / "y/inner").unlink()
    (tmp_path / "y").rmdir()
    (tmp_path / "y").write_text("a file")
    succeed("track", "x/inner", "y", "y/inner", cwd=tmp_path)
    now = tree(tmp_path)
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert then == tree(tmp_path)
    succeed("rollback", begun(tmp_path), "--files", cwd=tmp_path)
    assert now == tree(tmp_path)


def test_secret_and_large_files_are_left_alone(tmp_path: Path) -> None:
    """Of files whose content was never copied only the hash is known: they are kept, and that is said."""
    (tmp_path / "leftoff.toml").write_text('[files]\nmax_file = "10 B"\n')
    started(tmp_path)
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "large").write_text("x" * 11)
    succeed("track", ".env", "large", cwd=tmp_path)
    checkpoint = saved(tmp_path)
    (tmp_path / ".env").write_text("KEY=2")
    (tmp_path / "large").write_text("y" * 11)
    before = tree(tmp_path)
    done = call("rollback", checkpoint, "--files", "--json", cwd=tmp_path)
    assert 3 == done.code and "Not restored" in done.err
    found = done.json["files"]
    assert ([".env", "large"], []) == ([one["path"] for one in found["keep"]], found["restore"])
    assert before == tree(tmp_path)


def test_a_large_file_that_must_go_is_saved_whole(tmp_path: Path) -> None:
    """The limits of capturing do not count for what a rollback is about to overwrite."""
    (tmp_path / "leftoff.toml").write_text('[files]\nmax_file = "10 B"\n')
    started(tmp_path)
    (tmp_path / "f").write_text("small")
    succeed("track", "f", cwd=tmp_path)
    checkpoint = saved(tmp_path)
    (tmp_path / "f").write_text("large " * 100)
    succeed("track", "f", cwd=tmp_path)
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert "small" == (tmp_path / "f").read_text()
    succeed("rollback", begun(tmp_path), "--files", cwd=tmp_path)
    assert "large " * 100 == (tmp_path / "f").read_text()


def test_an_untracked_file_is_never_touched(tmp_path: Path) -> None:
    """What nobody tracked is nobody's business."""
    checkpoint, _, _ = two_states(tmp_path)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "new/folder/mine").write_text("mine")
    succeed("rollback", checkpoint, "--files", cwd=tmp_path)
    assert ["mine", "mine"] == [(tmp_path / name).read_text() for name in ("mine", "new/folder/mine")]


def test_not_while_somebody_drives_it(tmp_path: Path) -> None:
    """A run that another live process drives is exit 5, before any file is touched."""
    with driven(tmp_path) as run:
        (tmp_path / "f").write_text("then")
        succeed("track", "f", cwd=tmp_path)
        (tmp_path / "f").write_text("now")
        assert 5 == call("rollback", f"{run}@2", "--files", "--yes", cwd=tmp_path).code
        assert "now" == (tmp_path / "f").read_text()


@pytest.mark.parametrize("shape", ['{{"met": {}}}', "{}"], ids=["an object", "plain"])
def test_good_is_the_last_known_good_state(shape: str, tmp_path: Path) -> None:
    """The newest checkpoint at which no step had failed and every criterion was met; exit 3 where there is none."""
    started(tmp_path, "release", "--steps", "a,b,c")

    def criterion(met: bool) -> None:
        succeed("put", "criterion", "tests", shape.format(json.dumps(met)), cwd=tmp_path)

    criterion(False)
    assert 3 == call("rollback", "@", "--good", cwd=tmp_path).code
    criterion(True)
    (tmp_path / "f").write_text("good")
    succeed("track", "f", cwd=tmp_path)
    succeed("step", "done", "a", cwd=tmp_path)
    good = succeed("log", "--json", cwd=tmp_path).json["checkpoints"][0]
    criterion(False)
    (tmp_path / "f").write_text("bad")
    succeed("track", "f", cwd=tmp_path)
    succeed("step", "done", "b", cwd=tmp_path)
    criterion(True)
    succeed("step", "fail", "c", "--error", "broken", cwd=tmp_path)
    assert good["checkpoint_id"] in succeed("rollback", "@", "--good", "--files", cwd=tmp_path).out
    assert "good" == (tmp_path / "f").read_text()
    assert good["digest"] == succeed("log", "--json", cwd=tmp_path).json["checkpoints"][0]["digest"]


def test_modes_that_a_restore_cannot_give(tmp_path: Path) -> None:
    """Whatever a record says, a restored file runs as whoever runs it: no setuid, no setgid, no sticky bit."""
    started(tmp_path)
    (tmp_path / "f").write_text("then")
    succeed("track", "f", cwd=tmp_path)
    about = succeed("get", "file/f", "--json", cwd=tmp_path).json
    about["mode"] = "6755"
    put = succeed("put", "file", "f", json.dumps(about), "--json", cwd=tmp_path).json
    (tmp_path / "f").write_text("now")
    succeed("track", "f", cwd=tmp_path)
    succeed("rollback", f"{put['run_id']}@{put['seq']}", "--files", cwd=tmp_path)
    assert 0o755 == os.stat(tmp_path / "f").st_mode & 0o7777


def test_a_file_that_was_replaced_is_not_new(tmp_path: Path) -> None:
    """git named it when the run began: it was there, though a rename made it another file since. It is kept."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    (tmp_path / "notes").write_text("weeks old")
    started(tmp_path)
    checkpoint = saved(tmp_path)
    for name in ("notes", "new"):
        (tmp_path / "temp").write_text("written in the run")
        (tmp_path / "temp").rename(tmp_path / name)
    succeed("track", "notes", "new", cwd=tmp_path)
    found = succeed("rollback", checkpoint, "--files", "--json", cwd=tmp_path).json["files"]
    assert (["notes"], ["new"]) == tuple([one["path"] for one in found[kind]] for kind in ("keep", "delete"))


def test_a_file_that_git_ignored_then_is_not_new(tmp_path: Path) -> None:
    """A checkpoint that has all that git called dirty has nothing of what git ignored: it is older, and kept."""
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("data\n")
    (tmp_path / "leftoff.toml").write_text("[files]\ngit = true\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    (tmp_path / "data").write_text("precious")
    time.sleep(0.05)  # a file of the last 20 ms before a checkpoint may be a new one: clocks tick
    started(tmp_path)
    checkpoint = saved(tmp_path)
    (tmp_path / ".gitignore").write_text("")
    succeed("track", "data", cwd=tmp_path)
    found = succeed("rollback", checkpoint, "--files", "--yes", "--json", cwd=tmp_path).json["files"]
    assert ([], "precious") == (found["delete"], (tmp_path / "data").read_text())
