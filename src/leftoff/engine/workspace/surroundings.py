"""The world around a run: the commit that git has checked out, and the files that the run knows.

Looked at cheaply: git is started only for what is not committed, at the start and the end of a run's life; a file
whose size differs is not read, and of the others only so many bytes are.
"""

from __future__ import annotations

import os

from leftoff.clock import by_time
from leftoff.engine.config.git_head import git_branch, git_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow

MOST_BYTES = 32 << 20  # read in one look
MOST_FILES = 2000
MOST_DIRTY = 1000  # paths that are remembered
GIT_S = 10.0
DIRTY = "git_dirty"  # of the collection `context`


def remember_git(head: str | None, row: RunRow, changes: ChangeSet, dirty: list[str] | None = None) -> None:
    """A checkpoint remembers the commit that it was made on; ``dirty``: and what was not committed.

    Both are looked up before the transaction that remembers them (`git_head`, `dirty_paths`).
    """
    if head is not None and head != row.card.get("git_head"):
        changes.put("run", "git_head", head)
    if dirty is not None:
        changes.put("context", DIRTY, dirty)


def dirty_paths(project: str) -> list[str] | None:
    """What git calls dirty; ``None`` where there is no git, where it takes too long, or where that is too much to keep.

    Call it before a transaction, never inside one.
    """
    return uncommitted(project, GIT_S) if git_head(project) is not None else None


def uncommitted(project: str, seconds: float) -> list[str] | None:
    """Return what git calls dirty, also before the first commit. ``seconds``: how long git may take."""
    import subprocess

    from leftoff.engine.workspace.git import command, environment

    words = ("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--", ".")
    try:
        asked = command(project, *words)
        done = subprocess.run(asked, env=environment(), capture_output=True, timeout=seconds)
    except (OSError, subprocess.SubprocessError):
        return None
    above = len(prefix(project))  # git tells paths from the top of its work tree
    found = [line[3:].decode(errors="replace")[above:] for line in done.stdout.split(b"\0") if line]
    found = [path for path in found if not path.startswith(".leftoff/") and "/.leftoff/" not in path]
    return sorted(found) if done.returncode == 0 and len(found) <= MOST_DIRTY else None


def own_files(store: Store) -> frozenset[str]:
    """Files of the project that leftoff itself writes, for a protocol: a change of one is no change of the work."""
    follower = getattr(store, "follower", None)
    return follower.own_files() if follower is not None else frozenset()


def prefix(project: str) -> str:
    """From the top of the git work tree to the project; empty, or ends in a slash."""
    folder, inside = os.path.realpath(project), ""
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, name = os.path.split(folder)
        if not name:
            return ""
        inside = f"{name}/{inside}"
    return inside


def git_moved(project: str, own: dict[str, Any], show: Callable[[str], str] = str) -> list[str]:
    """What git has checked out now, where that is not what the run knew; in sentences. ``show``: how a name is put."""
    said = []
    branch, head = git_branch(project), git_head(project)
    known_branch, known_head = own.get("git_branch"), own.get("git_head")
    if known_branch and branch is None and head is None:
        said.append(f"The git branch was {show(known_branch)}; there is no git repository here.")
    elif known_branch and branch != known_branch:
        said.append(f"The git branch was {show(known_branch)} and is {show(branch or 'detached')} now.")
    if known_head and head and head != known_head:
        said.append(
            f"The git commit was {show(known_head[:12])} at the last checkpoint and is {head[:12]} now."
        )
    return said


class FilesSeen:
    """Paths by what became of them, and how many were not looked at."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.gone: list[str] = []
        self.unseen = 0


def look_at_files(project: str, records: Iterable[dict[str, Any]]) -> FilesSeen:
    """Compare files with what their records say; of one path the newest record counts."""
    known: dict[str, dict[str, Any]] = {}
    for about in records:
        path, hash = about.get("path"), about.get("hash")
        if isinstance(path, str) and isinstance(hash, str):
            before = known.get(path)
            if before is None or by_time(before.get("captured_at")) <= by_time(about.get("captured_at")):
                known[path] = about
    seen, left = FilesSeen(), MOST_BYTES
    for number, (path, about) in enumerate(sorted(known.items())):
        left = _look(seen, project, path, about, left if number < MOST_FILES else 0)
    return seen


def _look(seen: FilesSeen, project: str, path: str, about: dict[str, Any], left: int) -> int:
    """One file; how many bytes may still be read."""
    from leftoff.engine.workspace.stat import unchanged

    full = os.path.join(project, path)
    try:
        if "target" in about:
            if os.readlink(full) != about["target"]:
                seen.changed.append(path)
            return left
        st = os.stat(full)
    except (OSError, ValueError):  # a path with a NUL in it is none
        (seen.changed if os.path.lexists(full) else seen.gone).append(path)
        return left
    size = st.st_size
    if unchanged(about, st):
        return left
    if size != about.get("size"):
        seen.changed.append(path)
        return left
    if size > left:
        seen.unseen += 1
        return left
    _compare(seen, full, path, about)
    return left - size


def _compare(seen: FilesSeen, full: str, path: str, about: dict[str, Any]) -> None:
    """By its content."""
    from leftoff.engine.steps.artifacts import hash_file
    from leftoff.errors import StoreUnavailable

    try:
        if f"sha256:{hash_file(full)[0].hex()}" != about["hash"]:
            seen.changed.append(path)
    except StoreUnavailable:
        seen.unseen += 1
