"""What `.git` says of a folder, read without starting git: the branch, the commit, the main work tree."""

from __future__ import annotations

import os

from leftoff.files import open_plain
from leftoff.hints import Any

_HEX = frozenset("0123456789abcdef")
_SHORTEST, _LONGEST = 4, 64  # of the id of a commit
_LINE = 1 << 13  # characters of one that says where a repository is


def upward(folder: str) -> list[str]:
    out = [folder]
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        out.append(folder)
    return out


def _git_dir(folder: str) -> str:
    """Return the git directory of a work tree, or an empty string."""
    path = os.path.join(folder, ".git")
    if os.path.isdir(path):
        return path
    line = _first_line(path)
    return os.path.normpath(os.path.join(folder, line[8:])) if line.startswith("gitdir: ") else ""


def _nearest(folder: str) -> str:
    """Return the git directory of the nearest repository upward, or an empty string."""
    return next(filter(None, map(_git_dir, upward(os.path.abspath(folder)))), "")


def _common(git: str) -> str:
    """Return the folder that all work trees share, given the git directory of one."""
    common = _first_line(os.path.join(git, "commondir")) if git else ""
    return os.path.normpath(os.path.join(git, common)) if common else git


def _first_line(path: str) -> str:
    try:
        with open(open_plain(path), encoding="utf-8", errors="replace") as file:
            return file.readline(_LINE).strip()
    except OSError:
        return ""


def main_worktree(project: str) -> str:
    """Return the main work tree of a linked one, or an empty string."""
    git = _git_dir(project)
    folder = _common(git)
    known = os.path.dirname(git) == os.path.join(folder, "worktrees")  # a file anywhere can claim to be one
    return os.path.dirname(folder) if known and os.path.basename(folder) == ".git" else ""


def common_folder(folder: str) -> str:
    """Return the folder that all work trees of the nearest repository share; empty if there is none."""
    return _common(_nearest(folder))


def is_commit(text: object) -> bool:
    """Return whether a text can only be the id of a commit.

    A run, a bundle or a `HEAD` may say anything else, also what git would take for an option: that goes into no call
    of git.
    """
    return isinstance(text, str) and _SHORTEST <= len(text) <= _LONGEST and not set(text) - _HEX


def git_facts(project: str) -> dict[str, Any]:
    """Return what a new run remembers of git, and of the linked work tree that it belongs to."""
    return {
        "git_branch": git_branch(project),
        "git_head": git_head(project),
        "worktree": project if main_worktree(project) else None,
    }


def git_branch(project: str) -> str | None:
    """Return the branch that is checked out, or ``None``."""
    git = _nearest(project)
    head = _first_line(os.path.join(git, "HEAD")) if git else ""
    return head[len("ref: refs/heads/") :] if head.startswith("ref: refs/heads/") else None


def git_head(project: str) -> str | None:
    """Return the commit that is checked out; ``None`` if that cannot be told."""
    git = _nearest(project)
    head = _first_line(os.path.join(git, "HEAD")) if git else ""
    if head.startswith("ref: "):
        folder, name = _common(git), head[len("ref: ") :]
        head = _first_line(os.path.join(folder, name)) or _packed(folder, name)
    return head if is_commit(head) else None


def _packed(git: str, name: str) -> str:
    """Return the commit of a ref that is a line of packed-refs."""
    try:
        with open(open_plain(os.path.join(git, "packed-refs")), encoding="utf-8", errors="replace") as file:
            return next((line[:40] for line in file if line.rstrip("\n").endswith(f" {name}")), "")
    except OSError:
        return ""
