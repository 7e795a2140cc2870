"""Paths that stay inside the project, whatever a record or a symbolic link says.

A record may come from another user's bundle, so its path is checked before it is used. A folder on the way may be a
symbolic link, now or a moment later. So a file is reached through the descriptor of its folder, which was opened part
by part without following any link. Only the project's own folder may be reached through one. If a user names a file
through a link (``given_path``), the file behind it is meant, and its record names that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from leftoff.errors import Invalid, UnsafePath

RESTORE_TEMP = ".leftoff-restore-"  # starts the name of a new file that is not renamed to its place yet
_OWN = (".git", ".leftoff")  # never tracked, never restored
_STORE = ("store.db", "store.db-wal", "store.db-shm", "lock", "blobs", "restore.lock")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def check_path(path: object, what: str = "A record") -> str:
    """Return the path of a record if it stays inside the project; else raise ``Invalid``."""
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
    """Return whether a path belongs to git or to leftoff, also on a file system that ignores case."""
    return any(part.lower() in _OWN or part.startswith(RESTORE_TEMP) for part in path.split("/"))


def refuse_store(project: str, store: str, paths: Iterable[str]) -> None:
    """Raise ``Invalid`` if a path is the store's: its folder may have any name in the project, or be the project."""
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
    """Return how records name a file that the user names from the current folder; ``Invalid`` if it is outside.

    Links on the way are followed. The file itself may be a link.
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
    """Where a file is or will be: the descriptor of its folder, and its name in there. Use it in a ``with``."""

    def __init__(self, path: str, folder: int) -> None:
        self.path = path
        self.folder = folder
        self.name = path.rpartition("/")[2]

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)

    def lstat(self) -> os.stat_result | None:
        """Return what is there, without following a link; ``None``: nothing."""
        try:
            return os.lstat(self.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None


def place(project: str, path: str, *, make: list[int] | None = None) -> Place | None:
    """Open the folder of a path inside the project; ``None`` if that folder is not there.

    ``make``: make the folders on the way, with these modes, or 0o777 if there are too few. Raise ``UnsafePath`` if a
    symbolic link is on the way, ``NotADirectoryError`` if a file is.
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
    """Return whether a folder on the way to a path is a symbolic link by now."""
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
    """Open one folder further, and make it if ``mode`` is given; ``None`` if there is none."""
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
            try:
                kind = os.lstat(part, dir_fd=fd).st_mode
            except OSError:
                kind = stat.S_IFDIR
            if stat.S_ISLNK(kind):
                raise _behind(so_far) from None
            if not stat.S_ISDIR(kind):
                raise NotADirectoryError(20, "Not a directory", so_far) from None
            raise
        try:
            os.mkdir(part, 0o777, dir_fd=fd)
            made = True
        except FileExistsError:  # another process just made it, or put something else there
            pass
    if made:
        if mode != 0o777:
            os.fchmod(step, mode or 0)
        os.fsync(fd)
    return step


def _behind(path: str, hint: str = "") -> UnsafePath:
    return UnsafePath(
        f"{path} is, or is behind, a symbolic link, which leftoff does not follow.",
        hint=hint
        or "No file was touched. Put a folder in the place of the link, or leave the files behind it alone.",
    )
