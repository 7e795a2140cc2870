"""Paths that stay inside the project, whatever a record or a symbolic link says.

A record may come from somebody else's bundle, so its path is checked before anything is made of it. And a folder on the
way may be a symbolic link, now or a moment later, so a file is reached through its folder's descriptor, which was
opened part by part without following links. A link that stays inside the project is followed on purpose.
"""

from __future__ import annotations

import os

from leftoff.errors import CannotResume, Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_OWN = (".git", ".leftoff")  # never tracked, never restored
_MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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


def given_path(project: str, given: str) -> str:
    """As records name the file that somebody names from the current folder; ``Invalid`` where it is outside."""
    project = os.path.abspath(project)
    full = os.path.abspath(given)
    inside = os.path.relpath(full, project)
    if inside.split("/")[0] == "..":  # the current folder may be known under another name
        folder = os.path.realpath(os.path.dirname(full))
        inside = os.path.relpath(os.path.join(folder, os.path.basename(full)), os.path.realpath(project))
    if inside.split("/")[0] == "..":
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
    ``CannotResume`` where a symbolic link leads out of the project, ``NotADirectoryError`` where a file is in the way.
    """
    parts = path.split("/")[:-1]
    for _ in range(_MOST_LINKS):
        found = _walk(project, parts, make)
        if not isinstance(found, list):
            return Place(path, found) if found is not None else None
        parts = found
    raise _leaves(path)


def leads_out(project: str, path: str) -> bool:
    """Whether a path is behind a symbolic link that leads out of the project by now."""
    try:
        at = place(project, path)
    except CannotResume:
        return True
    except NotADirectoryError:
        return False
    if at is not None:
        os.close(at.folder)
    return False


def _walk(project: str, parts: list[str], make: list[int] | None) -> int | list[str] | None:
    """The descriptor of the last folder; or the parts to go instead, where a link points elsewhere inside."""
    fd = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for at, part in enumerate(parts):
            step = _step(fd, part, None if make is None else make[at] if at < len(make) else 0o777)
            if step is None:
                if _is_link(fd, part):
                    return _led(project, parts, at)
                if make is None and _type(fd, part) == 0:
                    return None
                raise NotADirectoryError(20, "Not a directory", "/".join(parts[: at + 1]))
            os.close(fd)
            fd = step
        return os.dup(fd)
    finally:
        os.close(fd)


def _step(fd: int, part: str, mode: int | None) -> int | None:
    """One folder further, which is made if need be; ``None`` where there is something else, or nothing."""
    try:
        return os.open(part, _FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if mode is None:
            return None
    except OSError:
        if _is_link(fd, part) or not _is_folder(fd, part):
            return None
        raise
    os.mkdir(part, 0o777, dir_fd=fd)
    made = os.open(part, _FOLDER, dir_fd=fd)
    if mode != 0o777:
        os.fchmod(made, mode)
    os.fsync(fd)
    return made


def _is_link(fd: int, name: str) -> bool:
    return _type(fd, name) == 0o120000


def _is_folder(fd: int, name: str) -> bool:
    return _type(fd, name) == 0o040000


def _type(fd: int, name: str) -> int:
    try:
        return os.lstat(name, dir_fd=fd).st_mode & 0o170000
    except OSError:
        return 0


def _led(project: str, parts: list[str], at: int) -> list[str]:
    """The parts of the path that a link among them leads to, if that is inside."""
    root = os.path.realpath(project)
    real = os.path.realpath(os.path.join(project, *parts[: at + 1]))
    inside = os.path.relpath(real, root)
    if inside.split("/")[0] == ".." or is_own(inside):
        raise _leaves("/".join(parts[: at + 1]))
    return [*([] if inside == "." else inside.split("/")), *parts[at + 1 :]]


def _leaves(path: str) -> CannotResume:
    return CannotResume(
        f"{path} is a symbolic link that leads out of the project.",
        hint="No file was touched. Remove the link, or leave the files behind it alone.",
    )
