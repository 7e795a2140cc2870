"""Paths that stay inside the project, whatever a record or a symbolic link says.

A record may come from somebody else's bundle, so its path is checked before anything is made of it. And a folder on the
way may be a symbolic link, now or a moment later, so a file is reached through its folder's descriptor, which was
opened part by part without following any link. Only the project's own folder may be reached through one. Whoever names
a file through a link (``given_path``) means the file behind it, and its record names that.
"""

from __future__ import annotations

import os

from leftoff.errors import Invalid, UnsafePath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

_OWN = (".git", ".leftoff")  # never tracked, never restored
_STORE = ("store.db", "store.db-wal", "store.db-shm", "lock", "blobs", "restore")  # what no run lives without
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK, _IS_FOLDER = 0o120000, 0o040000


def check_path(path: object, what: str = "A record") -> str:
    """The path that a record has, given that it stays inside the project; ``Invalid`` where it does not."""
    if not isinstance(path, str) or not path or "\0" in path:
        why = "no path"
    elif os.path.isabs(path) or os.path.normpath(path) != path or path.split("/")[0] in ("..", "."):
        why = f"the path {path!r}, which is not inside the project"
    elif is_own(path):
        why = f"the path {path!r}, and files of git and leftoff are left alone"
    else:
        return path
    raise Invalid(f"{what} has {why}.", hint="No file was touched.")


def is_own(path: str) -> bool:
    """Whether a path belongs to git or to leftoff, on a file system that ignores case, too."""
    return any(part.lower() in _OWN for part in path.split("/"))


def refuse_store(project: str, store: str, paths: Iterable[str]) -> None:
    """``Invalid`` where a path is the store's, whose folder may have any name in the project, or be the project's."""
    own = os.path.relpath(os.path.realpath(store), os.path.realpath(project)).lower()
    below = "" if own == "." else own + "/"
    for path in paths:
        name = path.lower()
        inside = name.startswith(below) and (below or name.split("/")[0] in _STORE)
        if inside or name + "/" == below:
            raise Invalid(
                f"{path} is left alone: it belongs to leftoff's store.", hint="No file was touched."
            )


def given_path(project: str, given: str) -> str:
    """As records name the file that somebody names from the current folder; ``Invalid`` where it is outside.

    A link on the way is followed: what is behind it is what is meant. The file itself may be a link.
    """
    folder, name = os.path.split(os.path.abspath(given))
    inside = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(project))
    if inside.split("/")[0] == "..":
        if os.path.relpath(os.path.join(folder, name), os.path.abspath(project)).split("/")[0] != "..":
            raise _behind(given, hint="Nothing was recorded, and no file was touched.")
        raise Invalid(
            f"{given} is outside the project.", hint=f"The project is {project}. Nothing was changed."
        )
    if is_own(inside):
        raise Invalid(f"{given} is left alone: it belongs to git or to leftoff.", hint="Nothing was changed.")
    return inside


class Place:
    """Where a file is or will be: the descriptor of its folder, and its name in there. Close it."""

    def __init__(self, path: str, folder: int) -> None:
        self.path = path
        self.folder = folder
        self.name = path.rpartition("/")[2]

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.folder)

    def lstat(self) -> os.stat_result | None:
        """What is there, not followed; ``None``: nothing."""
        try:
            return os.lstat(self.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None


def place(project: str, path: str, *, make: list[int] | None = None) -> Place | None:
    """Open the folder of a path inside the project; ``None`` where that folder is not there.

    ``make``: the modes of the folders on the way, for those that must be made; 0o777 where there are too few.
    ``UnsafePath`` where a symbolic link is on the way, ``NotADirectoryError`` where a file is.
    """
    fd = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parts = path.split("/")[:-1]
        for at, part in enumerate(parts):
            mode = None if make is None else make[at] if at < len(make) else 0o777
            step = _step(fd, part, mode, "/".join(parts[: at + 1]))
            if step is None:
                return None
            os.close(fd)
            fd = step
        return Place(path, os.dup(fd))
    finally:
        os.close(fd)


def is_behind_link(project: str, path: str) -> bool:
    """Whether a folder on the way to a path is a symbolic link by now."""
    try:
        at = place(project, path)
    except UnsafePath:
        return True
    except NotADirectoryError:
        return False
    if at is not None:
        os.close(at.folder)
    return False


def _step(fd: int, part: str, mode: int | None, so_far: str) -> int | None:
    """One folder further, which is made if need be; ``None`` where there is none."""
    if part in ("", ".", ".."):
        raise UnsafePath(f"{so_far} is not a plain path.", hint="No file was touched.")
    made = False
    while True:
        try:
            step = os.open(part, _FOLDER, dir_fd=fd)
            break
        except FileNotFoundError:
            if mode is None:
                return None
        except OSError:
            kind = _type(fd, part)
            if kind == _LINK:
                raise _behind(so_far) from None
            if kind not in (0, _IS_FOLDER):
                raise NotADirectoryError(20, "Not a directory", so_far) from None
            raise
        try:
            os.mkdir(part, 0o777, dir_fd=fd)
            made = True
        except FileExistsError:  # somebody else made it just now, or put something else there
            pass
    if made:
        if mode != 0o777:
            os.fchmod(step, mode or 0)
        os.fsync(fd)
    return step


def _type(fd: int, name: str) -> int:
    try:
        return os.lstat(name, dir_fd=fd).st_mode & 0o170000
    except OSError:
        return 0


def _behind(path: str, hint: str = "") -> UnsafePath:
    return UnsafePath(
        f"{path} is, or is behind, a symbolic link, which leftoff does not follow.",
        hint=hint
        or "No file was touched. Put a folder in the place of the link, or leave the files behind it alone.",
    )
