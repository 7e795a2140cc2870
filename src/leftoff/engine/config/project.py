"""Where work happens: the project's folder, its store, its git branch."""

from __future__ import annotations

import os
import sys

from leftoff import seams
from leftoff.clock import SYSTEM
from leftoff.errors import Unsupported, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.clock import Clock
    from leftoff.engine.config.settings import Settings
    from leftoff.store.base import Store

FOLDER, SETTINGS = ".leftoff", "leftoff.toml"


def say(text: str) -> None:
    """Talk, for those who have nowhere else to."""
    print(text, file=sys.stderr)


def find_project(start: str | None = None, given: str | None = None) -> str:
    """The folder given, that of LEFTOFF_PROJECT, the nearest upward with a store or settings, the git root, here."""
    chosen = given or os.environ.get("LEFTOFF_PROJECT")
    if chosen:
        if not os.path.isdir(chosen):
            raise Usage(
                f"There is no folder {chosen}.",
                hint="--project and LEFTOFF_PROJECT name the project's folder.",
            )
        return os.path.abspath(chosen)
    here = os.path.abspath(start or os.getcwd())
    git = ""
    for folder in _upward(here):
        if os.path.isdir(os.path.join(folder, FOLDER)) or os.path.exists(os.path.join(folder, SETTINGS)):
            return folder
        if not git and os.path.exists(os.path.join(folder, ".git")):
            git = folder
    return git or here


def _upward(folder: str) -> list[str]:
    out = [folder]
    while (parent := os.path.dirname(folder)) != folder:
        folder = parent
        out.append(folder)
    return out


def store_location(project: str, given: str | None = None, configured: str | None = None) -> str:
    """A folder or URL: as given, LEFTOFF_STORE, leftoff.toml, the project's own, a worktree's main one."""
    chosen = given or os.environ.get("LEFTOFF_STORE")
    if chosen:
        return chosen if "://" in chosen else os.path.abspath(chosen)
    if configured:
        return configured if "://" in configured else os.path.join(project, configured)
    own = os.path.join(project, FOLDER)
    if os.path.isdir(own):
        return own
    main = main_worktree(project)
    return os.path.join(main, FOLDER) if main else own


def open_store(location: str, clock: Clock | None = None) -> Store:
    """A store by its folder or URL. Nothing is created before the first write."""
    scheme, mark, rest = location.partition("://")
    if mark and scheme in ("sqlite", "file"):
        location = rest
    elif mark:
        raise Unsupported(
            f"This leftoff has no store for {scheme}:// URLs.",
            hint="Use a folder, for example LEFTOFF_STORE=.leftoff",
        )
    from leftoff.store.sqlite.store import SqliteStore

    return SqliteStore(location, clock)


def open_followed(
    project: str,
    location: str,
    settings: Settings,
    clock: Clock = SYSTEM,
    say: Callable[[str], None] = say,
) -> Store:
    """A project's store; where the project follows a protocol, its files are kept in step with it."""
    store = open_store(location, clock)
    if not settings.section("mirror"):
        return store
    followed: Store = seams.follow(store, project, settings, clock.now, say)
    return followed


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
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def main_worktree(project: str) -> str:
    """The main work tree of a linked one, or an empty string."""
    git = _git_dir(project)
    common = _first_line(os.path.join(git, "commondir")) if git else ""
    if not common:
        return ""
    folder = os.path.normpath(os.path.join(git, common))
    return os.path.dirname(folder) if os.path.basename(folder) == ".git" else ""


def home_of(card: dict[str, Any], project: str, folder: str | None) -> str:
    """Where a run's files are: the linked work tree that it remembers; else the main one, seen from a linked one that
    has no store of its own. ``folder``: the store's. A work tree that is gone leaves us here."""
    own = card.get("worktree")
    if isinstance(own, str):
        return own if os.path.isdir(own) else project
    main = main_worktree(project)
    return main if main and folder == os.path.join(main, FOLDER) else project


def git_facts(project: str) -> dict[str, Any]:
    """What a new run remembers of git, and of the linked work tree that it belongs to."""
    return {
        "git_branch": git_branch(project),
        "git_head": git_head(project),
        "worktree": project if main_worktree(project) else None,
    }


def git_branch(project: str) -> str | None:
    """The branch that is checked out, without starting git; None where there is none."""
    for folder in _upward(project):
        git = _git_dir(folder)
        if git:
            head = _first_line(os.path.join(git, "HEAD"))
            return head[len("ref: refs/heads/") :] if head.startswith("ref: refs/heads/") else None
    return None


def git_head(project: str) -> str | None:
    """The commit that is checked out, without starting git; None where that cannot be told."""
    for folder in _upward(project):
        git = _git_dir(folder)
        if git:
            head = _first_line(os.path.join(git, "HEAD"))
            if not head.startswith("ref: "):
                return head or None
            common = _first_line(os.path.join(git, "commondir"))
            return _ref(os.path.normpath(os.path.join(git, common)) if common else git, head[len("ref: ") :])
    return None


def _ref(git: str, name: str) -> str | None:
    """What a ref points to: a file of its own, or a line of packed-refs."""
    found = _first_line(os.path.join(git, name))
    if found:
        return found
    try:
        with open(os.path.join(git, "packed-refs"), encoding="utf-8", errors="replace") as file:
            return next((line[:40] for line in file if line.rstrip("\n").endswith(f" {name}")), None)
    except OSError:
        return None
