"""Random lives of a folder: whatever happened to its files, every checkpoint brings back its own."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import leftoff
from leftoff.clock import Clock
from tests.workspace.trees import Tree, git, repository, tree

NAMES = ["a", "b", "d/a", "d/b", "d/e/a", "x y", "ü"]
PARENTS = ["d", "d/e"]


def change(folder: Path, chance: random.Random) -> None:
    """Write, chmod, link or remove something; a file may take a folder's place and a folder a file's."""
    name = chance.choice([*NAMES, *PARENTS])
    path, what = folder / name, chance.choice(["write", "write", "chmod", "link", "remove"])
    if what in ("remove", "chmod") and behind_a_link(folder, name):
        return
    if what == "remove":
        remove(path)
        for empty in PARENTS[::-1]:  # which leftoff leaves alone
            if (
                (folder / empty).is_dir()
                and not (folder / empty).is_symlink()
                and not any((folder / empty).iterdir())
            ):
                (folder / empty).rmdir()
    elif what == "chmod":
        if path.is_file() and not path.is_symlink():
            path.chmod(chance.choice([0o600, 0o644, 0o755]))
    else:
        for above in reversed(path.parents):
            if folder in above.parents and (above.is_symlink() or not above.is_dir()):
                remove(above)
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(path)
        if what == "link":
            path.symlink_to(chance.choice(["a", "../b", "nowhere", str(folder.parent / "outside")]))
        else:
            path.write_bytes(chance.randbytes(chance.choice([0, 10, 5000])))


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def files_of(found: Tree) -> Tree:
    """Without folders: leftoff restores those that files need, and no empty ones."""
    return {path: about for path, about in found.items() if about[0] != "folder"}


def behind_a_link(folder: Path, path: str) -> bool:
    return any((folder / above).is_symlink() for above in Path(path).parents)


def git_knows(found: Tree) -> Tree:
    """Of permissions git knows only whether a file is executable."""
    return {path: (kind, mode & 0o100, data) for path, (kind, mode, data) in files_of(found).items()}


def here(folder: Path) -> list[str]:
    return sorted(files_of(tree(folder)))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder beside one that links lead to, in which nothing may ever change."""
    outside, folder = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    for name in ("a", "b", "e"):
        (outside / name).write_text("untouched")
    folder.mkdir()
    monkeypatch.chdir(folder)
    before = tree(outside)
    yield folder
    assert before == tree(outside)


@pytest.mark.parametrize("seed", range(5))
def test_every_checkpoint_brings_back_its_files(seed: int, project: Path) -> None:
    """All files are tracked at each checkpoint; going to any of them, in any order, gives exactly what was there."""
    chance = random.Random(seed)
    with leftoff.open(project / ".leftoff") as store:
        run = store.start("random")
        states: dict[int, Tree] = {}
        for _ in range(25):
            if states and chance.random() < 0.3:
                seq = chance.choice(list(states))
                run.rollback(seq, files=True)
                assert states[seq] == files_of(tree(project)), f"seed {seed}, version {seq}"
                continue
            for _ in range(chance.randint(1, 4)):
                change(project, chance)
            present = here(project)
            gone = [path for path in run.records["file"] if path not in present]
            run.track(*present, *(path for path in gone if not behind_a_link(project, path)))
            states[run.checkpoint().seq] = files_of(tree(project))
        run.finish()


def test_what_was_captured_when_a_second_began_is_older(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder became a link: that counts, also if the file in it was captured in the first millisecond of a second."""
    second = time.time_ns() // 10**9 * 1000
    monkeypatch.setattr(Clock, "now", lambda self: second)
    with leftoff.open(project / ".leftoff") as store:
        run = store.start("random")
        (project / "d").mkdir()
        (project / "d/a").write_text("a")
        run.track("d/a")
        monkeypatch.setattr(Clock, "now", lambda self: second + 1)
        shutil.rmtree(project / "d")
        (project / "d").symlink_to("../outside")
        run.track("d")
        seq, linked = run.checkpoint().seq, files_of(tree(project))
        (project / "d").unlink()
        run.rollback(seq, files=True)
        assert linked == files_of(tree(project))
        run.finish()


@pytest.mark.parametrize("seed", range(4))
def test_every_dirty_state_comes_back(seed: int, project: Path) -> None:
    """The same in a git repository, where only `git status` says what is tracked; commits come in between."""
    chance = random.Random(seed)
    repository(project, a="committed\n", b="committed\n")
    (project / "leftoff.toml").write_text("[files]\ngit = true\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "settings")
    with leftoff.open(project / ".leftoff") as store:
        run = store.start("random")
        states: dict[int, Tree] = {}
        for _ in range(14):
            if states and chance.random() < 0.4:
                seq = chance.choice(list(states))
                run.rollback(seq, files=True, yes=True)
                assert states[seq] == git_knows(tree(project)), f"seed {seed}, version {seq}"
                continue
            for _ in range(chance.randint(1, 4)):
                change(project, chance)
            if chance.random() < 0.3:
                git(project, "add", "-A")
            states[run.checkpoint().seq] = git_knows(tree(project))
        run.finish()
