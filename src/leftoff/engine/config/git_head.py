"""What `.git` says of a folder, read without starting git: the branch, the commit, the main work tree."""

from __future__ import annotations

import os

from leftoff.files import open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    """The git directory of a work tree, or an empty string."""
    path = os.path.join(folder, ".git")
    if os.path.isdir(path):
        return path
    line = _first_line(path)
    if line.startswith("gitdir: "):
        return os.path.normpath(os.path.join(folder, line[len("gitdir: ") :]))
    return ""


def _first_line(path: str) -> str:
    try:
        with open(open_plain(path), encoding="utf-8", errors="replace") as file:
            return file.readline(_LINE).strip()
    except OSError:
        return ""


def main_worktree(project: str) -> str:
    """The main work tree of a linked one, or an empty string."""
    git = _git_dir(project)
    common = _first_line(os.path.join(git, "commondir")) if git else ""
    if not common:
        return ""
    folder = os.path.normpath(os.path.join(git, common))
    known = os.path.dirname(git) == os.path.join(folder, "worktrees")  # a file anywhere can claim to be one
    return os.path.dirname(folder) if known and os.path.basename(folder) == ".git" else ""


def common_folder(folder: str) -> str:
    """Return the folder that all work trees of the nearest repository share; empty if there is none."""
    git = next(filter(None, map(_git_dir, upward(os.path.abspath(folder)))), "")
    common = _first_line(os.path.join(git, "commondir")) if git else ""
    return os.path.normpath(os.path.join(git, common)) if common else git


def is_commit(text: object) -> bool:
    """Whether a text can only be the id of a commit. What a run, a bundle or a `HEAD` says may be anything else, also
    what git would take for an option: that goes into no call of git."""
    return isinstance(text, str) and _SHORTEST <= len(text) <= _LONGEST and not set(text) - _HEX


def git_facts(project: str) -> dict[str, Any]:
    """What a new run remembers of git, and of the linked work tree that it belongs to."""
    return {
        "git_branch": git_branch(project),
        "git_head": git_head(project),
        "worktree": project if main_worktree(project) else None,
    }


def git_branch(project: str) -> str | None:
    """The branch that is checked out, without starting git; None where there is none."""
    _, head = _checked_out(project)
    return head[len("ref: refs/heads/") :] if head.startswith("ref: refs/heads/") else None


def git_head(project: str) -> str | None:
    """The commit that is checked out, without starting git; None where that cannot be told."""
    git, head = _checked_out(project)
    if head.startswith("ref: "):
        common = _first_line(os.path.join(git, "commondir"))
        folder = os.path.normpath(os.path.join(git, common)) if common else git
        head = _ref(folder, head[len("ref: ") :]) or ""
    return head if is_commit(head) else None


def _checked_out(project: str) -> tuple[str, str]:
    """The folder of the nearest repository, and what its HEAD says; empty where there is none."""
    git = next(filter(None, map(_git_dir, upward(project))), "")
    return git, _first_line(os.path.join(git, "HEAD")) if git else ""


def _ref(git: str, name: str) -> str | None:
    """What a ref points to: a file of its own, or a line of packed-refs."""
    found = _first_line(os.path.join(git, name))
    if found:
        return found
    try:
        with open(open_plain(os.path.join(git, "packed-refs")), encoding="utf-8", errors="replace") as file:
            return next((line[:40] for line in file if line.rstrip("\n").endswith(f" {name}")), None)
    except OSError:
        return None
