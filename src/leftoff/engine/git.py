"""What `.git` says of a folder, read without starting git; and questions to git that leave no trace.

git takes no optional locks, so that it does not refresh the index. No object, commit or stash is written. Content of
dirty files is copied from the work tree into leftoff's own blobs, where `git gc` cannot lose it. Clean files are in the
commit that was checked out, which git keeps.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from leftoff.errors import StoreUnavailable
from leftoff.files import open_plain
from leftoff.model.changes import ChangeSet
from leftoff.store.rows import RunRow

_HEX = frozenset("0123456789abcdef")
_SHORTEST, _LONGEST = 4, 64  # of the id of a commit
_LINE = 1 << 13  # characters of one that says where a repository is
DIRTY = "git_dirty"  # a key of `context`: the paths that were not committed
MOST_DIRTY = 1000  # paths that are stored there
GIT_S = 10.0
_PLACES = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_COMMON_DIR".split()
# A folder of a clone may look like a repository, with a configuration that names commands. Git before 2.38
# has no option against that, so `_is_disguised` also looks.
_SAFE = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
_NO_FILE, _LINK, _MODULE = "000000", "120000", "160000"  # modes
_AT_ONCE = 200  # paths in one call


# -- what `.git` says


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
    """Return the commit that is checked out; ``None`` if that is unknown."""
    git = _nearest(project)
    head = _first_line(os.path.join(git, "HEAD")) if git else ""
    if head.startswith("ref: "):
        folder, name = _common(git), head[len("ref: ") :]
        head = _first_line(os.path.join(folder, name))
        try:
            if not head:
                packed = open_plain(os.path.join(folder, "packed-refs"))
                with open(packed, encoding="utf-8", errors="replace") as file:
                    head = next((line[:40] for line in file if line.rstrip("\n").endswith(f" {name}")), "")
        except OSError:
            pass
    return head if is_commit(head) else None


# -- what git says


class Dirty(NamedTuple):
    """A file that differs from the commit that is checked out."""

    path: str
    status: str
    staged: bool


class Base(NamedTuple):
    """A file as a commit has it."""

    path: str
    link: bool
    executable: bool
    oid: str


class Repo(NamedTuple):
    """The git work tree that a project is in, or is."""

    project: str
    prefix: str  # from the top of the work tree to the project; empty, or ends in a slash

    @property
    def head(self) -> str | None:
        """Return the commit that is checked out; ``None`` before the first one."""
        return git_head(self.project)

    def dirty(self, paths: Iterable[str] = (), seconds: float | None = None) -> list[Dirty]:
        """Return each file of the project (or of ``paths``) that differs from the commit, without ignored ones."""
        among = list(paths) or ["."]
        words = ("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--", *among)
        found: dict[str, Dirty] = {}
        for line in _git(self.project, *words, seconds=seconds).split(b"\0"):
            one = self._parsed(line)
            if one is not None:
                before = found.get(one.path)
                if before is not None and before.status == "deleted":  # only the index has it removed
                    one = Dirty(one.path, "modified", before.staged)
                found[one.path] = one
        return [found[path] for path in sorted(found)]

    def _parsed(self, line: bytes) -> Dirty | None:
        """Read an entry of `git status`: `? PATH`, `1 XY SUB MODES… PATH`, or `u` for an unmerged file."""
        kind = line[:1]
        try:
            if kind == b"?":
                path, status, staged = line[2:].decode(), "created", False
            elif kind in (b"1", b"u"):
                words = line.decode().split(" ", 8 if kind == b"1" else 10)
                in_commit, in_tree = (words[3], words[5]) if kind == b"1" else (words[4], words[6])
                if words[2][0] == "S" or _MODULE in (in_commit, in_tree):
                    return None
                status = "created" if in_commit == _NO_FILE else "modified"
                path, status = words[-1], "deleted" if in_tree == _NO_FILE else status
                staged = words[1][0] != "."
            else:
                return None
        except UnicodeDecodeError:  # a name that no record can have
            return None
        from leftoff.engine.project_files import (
            is_own_path,  # every verb imports this module, few look at files
        )

        inside = path[len(self.prefix) :] if path.startswith(self.prefix) else ""
        if not inside or inside.endswith("/") or is_own_path(inside):
            return None
        return Dirty(inside, status, staged)

    def bases(self, commit: str, paths: Iterable[str]) -> dict[str, Base]:
        """Return those of the paths that a commit has."""
        out: dict[str, Base] = {}
        asked = sorted(paths) if is_commit(commit) else []
        for at in range(0, len(asked), _AT_ONCE):
            names = (self.prefix + path for path in asked[at : at + _AT_ONCE])
            found = _git(self.project, "ls-tree", "-z", "--full-tree", commit, "--", *names)
            for line in found.decode("utf-8", "surrogateescape").split("\0"):
                about, _, name = line.partition("\t")
                mode, kind, oid = about.split(" ") if about else ("", "", "")
                if kind == "blob":
                    path = name[len(self.prefix) :]
                    out[path] = Base(path, mode == _LINK, mode == "100755", oid)
        return out

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths that git ignores."""
        # With "./" in front, a colon at the start of a name means nothing to git.
        given = b"\0".join(b"./" + os.fsencode(path) for path in paths)
        words = ("check-ignore", "--no-index", "-z", "--stdin")
        found = _git(self.project, *words, fine=(0, 1), literal=False, given=given) if given else b""
        return {os.fsdecode(path[2:]) for path in found.split(b"\0") if path}

    def has(self, commit: str) -> bool:
        """Return whether git still knows a commit."""
        try:
            return is_commit(commit) and _git(self.project, "cat-file", "-t", commit).strip() == b"commit"
        except StoreUnavailable:
            return False

    def content(self, commit: str, base: Base) -> bytes:
        """Return what a checkout of the commit would write."""
        if base.link:
            return _git(self.project, "cat-file", "blob", base.oid)
        return _git(self.project, "cat-file", "--filters", f"{commit}:{self.prefix}{base.path}")


def repository(project: str) -> Repo | None:
    """Return the work tree that a project is in; ``None`` if there is none, or no git."""
    if _top(project) is None:
        return None
    try:
        out = _git(project, "rev-parse", "--is-inside-work-tree", "--show-prefix").decode()
    except (OSError, StoreUnavailable, UnicodeDecodeError):
        return None
    inside, _, prefix = out.removesuffix("\n").partition("\n")
    return Repo(project, prefix) if inside == "true" else None


def _top(project: str) -> str | None:
    """Return the nearest folder with a `.git`, from the project upwards."""
    folders = upward(os.path.realpath(project))
    return next((folder for folder in folders if os.path.lexists(os.path.join(folder, ".git"))), None)


def _is_disguised(project: str) -> bool:
    """Return whether git would take a folder without a `.git` for a repository, or wait for a pipe inside a `.git`."""
    top = _top(project)
    for folder in upward(os.path.realpath(project)):
        if folder == top:
            break
        there = [os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "commondir")]
        if there[0] and any(there[1:]):
            return True
    try:
        with os.scandir(os.path.join(top or "", ".git")) as entries:
            others = [each for each in entries if not (each.is_dir() or each.is_file() or each.is_symlink())]
            return any(stat.S_ISFIFO(each.stat().st_mode) for each in others)
    except OSError:  # the `.git` of a linked work tree is a file
        return False


def git_command(project: str, *words: str) -> list[str]:
    """Return a call of git in a project that another user may have made. Raise ``FileNotFoundError`` if git must not be
    asked there."""
    if _is_disguised(project):
        raise FileNotFoundError(f"{project} is in a folder that looks like a repository, and is none.")
    return ["git", *_SAFE, "-C", project, *words]


def git_environment() -> dict[str, str]:
    """Return the environment for git: it takes no lock, and finds its repository by the folder alone."""
    env = {name: value for name, value in os.environ.items() if name not in _PLACES}
    return {**env, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _git(
    project: str,
    *words: str,
    fine: tuple[int, ...] = (0,),
    literal: bool = True,
    seconds: float | None = None,
    given: bytes = b"",
) -> bytes:
    env = {**git_environment(), "GIT_LITERAL_PATHSPECS": "1" if literal else "0"}
    called = git_command(project, "-c", "core.quotePath=false", *words)
    if not given and (printed := git_output(called, env, seconds)) is not None:
        return printed
    import subprocess

    done = subprocess.run(called, env=env, input=given, capture_output=True)
    if done.returncode not in fine:
        why = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise StoreUnavailable(f"`git {words[0]}` failed: {why}", hint="Nothing was changed. Try it by hand.")
    return done.stdout


def git_output(called: list[str], env: dict[str, str], seconds: float | None) -> bytes | None:
    """Return what git prints; ``None`` if it fails. Agents' hooks ask git at every turn, and importing
    `subprocess` takes longer than that."""
    end = None if seconds is None else time.monotonic() + seconds
    reading, writing = os.pipe()
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        pid = os.posix_spawnp(called[0], called, env, file_actions=streams)
    finally:
        os.close(writing)
    pieces = list[bytes]()
    with open(reading, "rb", buffering=0):
        waiting = select.poll()
        waiting.register(reading)
        while waiting.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
            pieces.append(os.read(reading, 1 << 16))
            if not pieces[-1]:
                break
        else:
            import signal

            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise StoreUnavailable(f"`{called[0]}` took longer than {seconds:g} seconds.")
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # the parent of this process lets it wait for no child
        code = 0
    return b"".join(pieces) if code == 0 else None


# -- what a run remembers of git


def remember_git(head: str | None, row: RunRow, changes: ChangeSet, dirty: list[str] | None = None) -> None:
    """Store in a checkpoint the commit that it was made on, and what was not committed.

    Look both up before the transaction (`git_head`, `dirty_paths`).
    """
    if head is not None and head != row.card.get("git_head"):
        changes.put("run", "git_head", head)
    if dirty is not None:
        changes.put("context", DIRTY, dirty)


def dirty_paths(project: str) -> list[str] | None:
    """Return what git calls dirty; ``None`` if there is no commit, if git takes too long, or if there is too much to
    store. Call it before a transaction, never inside one."""
    return uncommitted(project, GIT_S) if git_head(project) is not None else None


def changed_between(project: str, old: object, new: object) -> list[str]:
    """Return the files of the project in which two commits differ; none if git cannot tell."""
    if not (is_commit(old) and is_commit(new)):
        return []
    words = ("diff", "--name-only", "-z", "--no-renames", "--relative", str(old), str(new))
    try:
        return [os.fsdecode(name) for name in _git(project, *words, seconds=GIT_S).split(b"\0") if name]
    except (OSError, StoreUnavailable):
        return []


def diff_stat(project: str, paths: list[str]) -> dict[str, str] | None:
    """Return for each path how it differs from the commit, such as ``+2 -1``; nothing for a file that git does not
    know. ``None`` if git cannot tell."""
    if not paths or git_head(project) is None:
        return {} if git_branch(project) else None  # before the first commit
    try:
        words = ("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--relative", "HEAD", "--")
        changed = _git(project, *words, *paths, seconds=GIT_S).split(b"\0")
        tracked = _git(project, "ls-files", "-z", "--", *paths, seconds=GIT_S).split(b"\0")
    except (OSError, StoreUnavailable):
        return None
    out = {os.fsdecode(name): "committed" for name in tracked if name}
    for line in filter(None, changed):
        added, removed, path = os.fsdecode(line).split("\t", 2)
        out[path] = " ".join(f"{sign}{n}" for sign, n in (("+", added), ("-", removed)) if n != "0") or "mode"
    return out


def uncommitted(project: str, seconds: float) -> list[str] | None:
    """Return what git calls dirty, also before the first commit. ``seconds``: how long git may take."""
    top = _top(project)
    if top is None:
        return None
    prefix = os.path.relpath(os.path.realpath(project), top)
    try:
        found = Repo(project, "" if prefix == "." else f"{prefix}/").dirty(seconds=seconds)
    except (OSError, StoreUnavailable):
        return None
    return [one.path for one in found] if len(found) <= MOST_DIRTY else None


def git_moved(project: str, own: dict[str, Any], show: Callable[[str], str] = str) -> list[str]:
    """Return in sentences how git differs from what the run knew. ``show``: how a name is displayed."""
    said = []
    branch, head = git_branch(project), git_head(project)
    known_branch, known_head = own.get("git_branch"), own.get("git_head")
    if known_branch and branch is None and head is None:
        said.append(f"The git branch was {show(known_branch)}; there is no git repository here.")
    elif known_branch and branch != known_branch:
        said.append(f"The git branch was {show(known_branch)} and is {show(branch or 'detached')} now.")
    if known_head and head and head != known_head:
        now = f"The git commit was {show(known_head[:12])} at the last checkpoint and is {head[:12]} now."
        said.append(now)
    return said
