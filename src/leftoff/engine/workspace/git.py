"""What git says of a project's files, asked without leaving a trace.

git takes no optional locks, so that nobody's index is refreshed; no object, commit or stash is written. The content of
what is dirty is copied from the work tree into leftoff's own blobs, where `git gc` cannot lose it; what is clean is in
the commit that was checked out, which git keeps.
"""

from __future__ import annotations

import os
import stat

from leftoff.engine.config.caller import CALLER
from leftoff.engine.config.git_head import git_head, is_commit
from leftoff.engine.workspace.paths import is_own
from leftoff.errors import StoreUnavailable
from leftoff.files import open_plain
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLACES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
)
_ODD = (b"worktree", b"include", b"bare = true", b"bare=true")  # of a repository that only git understands
# A folder of a clone may look like a repository of its own, with a configuration that names commands: git before 2.38
# cannot be told not to use one, so we look ourselves, too.
_SAFE = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
_NO_FILE = "000000"
_LINK, _MODULE = "120000", "160000"
_AT_ONCE = 200  # paths in one call


class Dirty(Fields):
    """One file that is not as in the commit that is checked out."""

    path: str
    status: str
    staged: bool


class Base:
    """A file as a commit has it."""

    def __init__(self, path: str, mode: str, oid: str) -> None:
        self.path = path
        self.link = mode == _LINK
        self.mode = 0o755 if mode == "100755" else 0o644
        self.oid = oid


class Repo(Fields):
    """The git work tree that a project is in, or is."""

    project: str
    prefix: str  # from the top of the work tree to the project; empty, or ends in a slash

    @property
    def head(self) -> str | None:
        """The commit that is checked out; ``None`` before the first one."""
        return git_head(self.project)

    def dirty(self, paths: Iterable[str] = ()) -> list[Dirty]:
        """Every file of the project (or of ``paths``) that differs from the commit, ignored ones excepted, by path."""
        among = list(paths) or ["."]
        out = _git(
            self.project,
            "status",
            "--porcelain=v2",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--",
            *among,
        )
        found: dict[str, Dirty] = {}
        for line in out.split(b"\0"):
            one = self._parsed(line)
            if one is None:
                continue
            before = found.get(one.path)
            if before is not None and before.status == "deleted":  # taken out of the index, and still there
                one = Dirty(one.path, "modified", before.staged)
            found[one.path] = one
        return [found[path] for path in sorted(found)]

    def _parsed(self, line: bytes) -> Dirty | None:
        kind = line[:1]
        try:
            if kind == b"?":
                path, status, staged = line[2:].decode(), "created", False
            elif kind in (b"1", b"u"):
                words = line.decode().split(" ", 8 if kind == b"1" else 10)
                path, in_commit = words[-1], words[3] if kind == b"1" else words[4]
                in_tree = words[5] if kind == b"1" else words[6]
                if words[2][0] == "S" or _MODULE in (in_commit, in_tree):
                    return None
                status = (
                    "deleted" if in_tree == _NO_FILE else "created" if in_commit == _NO_FILE else "modified"
                )
                staged = words[1][0] != "."
            else:
                return None
        except UnicodeDecodeError:  # a name that no record can have
            return None
        inside = path[len(self.prefix) :] if path.startswith(self.prefix) else ""
        if not inside or inside.endswith("/") or is_own(inside):
            return None
        return Dirty(inside, status, staged)

    def bases(self, commit: str, paths: Iterable[str]) -> dict[str, Base]:
        """Those of the paths that a commit has."""
        out: dict[str, Base] = {}
        for some in _some(sorted(paths) if is_commit(commit) else []):
            found = _git(
                self.project, "ls-tree", "-z", "--full-tree", commit, "--", *(self.prefix + p for p in some)
            )
            for line in found.decode("utf-8", "surrogateescape").split("\0"):
                facts, _, name = line.partition("\t")
                mode, kind, oid = facts.split(" ") if facts else ("", "", "")
                if kind == "blob":
                    path = name[len(self.prefix) :]
                    out[path] = Base(path, mode, oid)
        return out

    def ignored(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths that git does not look at."""
        out: set[str] = set()
        plain = [path for path in sorted(paths) if path.isprintable() and not set(path) & set('"\\')]
        odd = [[path] for path in paths if path not in plain]  # which git would quote
        for some in (*_some(plain), *odd):
            named = [f"./{path}" for path in some]  # no path begins with a colon, which means something here
            found = _git(self.project, "check-ignore", "--no-index", "--", *named, fine=(0, 1), literal=False)
            told = [line[2:] for line in found.decode("utf-8", "surrogateescape").splitlines()]
            out.update(told if some[0] in plain else some if told else ())
        return out

    def has(self, commit: str) -> bool:
        """Whether git still knows a commit."""
        try:
            return is_commit(commit) and _git(self.project, "cat-file", "-t", commit).strip() == b"commit"
        except StoreUnavailable:
            return False

    def content(self, commit: str, base: Base) -> bytes:
        """What a checkout of the commit would write."""
        if base.link:
            return _git(self.project, "cat-file", "blob", base.oid)
        return _git(self.project, "cat-file", "--filters", f"{commit}:{self.prefix}{base.path}")


def _some(paths: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(paths), _AT_ONCE):
        yield paths[at : at + _AT_ONCE]


def repository(project: str) -> Repo | None:
    """The work tree that a project is in; ``None`` where there is none, or no git."""
    real = folder = os.path.realpath(project)
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    if _is_disguised(real):
        return None
    if _is_plain(folder):
        prefix = os.path.relpath(real, folder)
        return Repo(project, "" if prefix == "." else f"{prefix}/")
    try:
        out = _git(project, "rev-parse", "--is-inside-work-tree", "--show-prefix").decode()
    except (FileNotFoundError, StoreUnavailable, UnicodeDecodeError):
        return None
    inside, _, prefix = out.removesuffix("\n").partition("\n")
    return Repo(project, prefix) if inside == "true" else None


def _is_plain(top: str) -> bool:
    """Whether a folder is what git would say it is: an ordinary repository of ours. Then git need not be asked."""
    git = os.path.join(top, ".git")
    try:
        with open(open_plain(os.path.join(git, "config")), "rb") as file:
            config = file.read().lower()
        whole = all(os.path.exists(os.path.join(git, name)) for name in ("HEAD", "objects", "refs"))
        ours = {os.stat(top).st_uid, os.stat(git).st_uid} == {os.geteuid()}
    except OSError:
        return False
    usual = whole and ours and not any(word in config for word in _ODD)
    return usual and any(os.access(os.path.join(folder, "git"), os.X_OK) for folder in os.get_exec_path())


def _is_disguised(project: str) -> bool:
    """Whether git would take a folder for a repository that has no `.git`: the project's, or one above it; or would
    wait without end for a pipe that lies in a `.git`."""
    folder = os.path.realpath(project)
    while not os.path.lexists(os.path.join(folder, ".git")):
        names = (os.path.join(folder, name) for name in ("HEAD", "objects", "commondir"))
        head, objects, common = map(os.path.lexists, names)
        if head and (objects or common):
            return True
        if (above := os.path.dirname(folder)) == folder:
            return False
        folder = above
    return _has_pipe(os.path.join(folder, ".git"))


def _has_pipe(git: str) -> bool:
    try:
        with os.scandir(git) as entries:
            others = [each for each in entries if not (each.is_dir() or each.is_file() or each.is_symlink())]
            return any(stat.S_ISFIFO(each.stat().st_mode) for each in others)
    except OSError:  # the `.git` of a linked work tree is a file
        return False


def command(project: str, *words: str) -> list[str]:
    """A call of git in a project that somebody else may have made; where git is not to be asked, as if there were none:
    ``FileNotFoundError``."""
    if _is_disguised(project):
        raise FileNotFoundError(f"{project} is in a folder that looks like a repository, and is none.")
    return ["git", *_SAFE, "-C", project, *words]


def environment() -> dict[str, str]:
    """What git is called with: no lock is taken, and where we are is for the folder to say."""
    env = {name: value for name, value in CALLER.environment().items() if name not in _PLACES}
    return {**env, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _git(project: str, *words: str, fine: tuple[int, ...] = (0,), literal: bool = True) -> bytes:
    env = {**environment(), "GIT_LITERAL_PATHSPECS": "1" if literal else "0"}
    code, out, err = _call(command(project, "-c", "core.quotePath=false", *words), env)
    if code not in fine:
        why = err.decode("utf-8", "replace").strip().partition("\n")[0]
        raise StoreUnavailable(f"`git {words[0]}` failed: {why}", hint="Nothing was changed. Try it by hand.")
    return out


# Agents' hooks ask git at every turn: `subprocess` costs twice as much as git itself.


def _call(words: list[str], env: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Run a command to its end: its exit code, what it printed, what it complained of."""
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    try:
        streams = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, to_out, 1),
            (os.POSIX_SPAWN_DUP2, to_err, 2),
        ]
        try:
            pid = os.posix_spawnp(words[0], words, env, file_actions=streams)
        finally:
            os.close(to_out)
            os.close(to_err)
        found = _drained(out, err)
    finally:
        os.close(out)
        os.close(err)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # whoever runs us lets nobody wait
        code = 0
    return code, found[out], found[err]


def _drained(*streams: int) -> dict[int, bytes]:
    """Everything that comes out of some pipes, whichever is first."""
    from select import poll

    found, waiting = dict.fromkeys(streams, b""), poll()
    left = set(streams)
    for fd in streams:
        waiting.register(fd)
    while left:
        for fd, _ in waiting.poll():
            piece = os.read(fd, 1 << 16)
            found[fd] += piece
            if not piece:
                waiting.unregister(fd)
                left.discard(fd)
    return found
