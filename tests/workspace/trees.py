"""Folders to compare, byte for byte and mode for mode; and real git repositories."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

from tests.cli.command import environment, succeed

Tree = dict[str, tuple[str, int, bytes]]


def tree(folder: Path) -> Tree:
    """Every file, link and folder by its path: what it is, its permissions, its content; git's and ours excepted."""
    found: Tree = {}
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".leftoff", ".git")]
        for name in [*folders, *names]:
            path = Path(at, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                about = ("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(mode):
                about = ("folder", mode & 0o777, b"")
            else:
                about = ("file", mode & 0o777, path.read_bytes())
            found[str(path.relative_to(folder))] = about
    return found


def git(cwd: Path, *words: str) -> str:
    """Run git, with a name and nobody's configuration."""
    env = environment(
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_CONFIG_SYSTEM=os.devnull,
        GIT_AUTHOR_NAME="A",
        GIT_AUTHOR_EMAIL="a@example.com",
        GIT_COMMITTER_NAME="A",
        GIT_COMMITTER_EMAIL="a@example.com",
    )
    done = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, f"git {words}: {done.stderr}"
    return done.stdout


def repository(folder: Path, **files: str) -> Path:
    """A git repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def begun(cwd: Path) -> str:
    """The newest version that has the files as they were before a rollback; its id."""
    log = succeed("log", "--json", cwd=cwd).json["checkpoints"]
    return next(str(entry["checkpoint_id"]) for entry in log if entry["trigger"] == "rollback_begin")
