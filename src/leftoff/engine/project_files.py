"""Paths inside a project, and every write below its folder: protocol files, pages, settings, restored files.

A project or a record may come from another user. So a path is checked before it is used, and no part of it is followed
through a symbolic link: a file is reached through the descriptor of its folder, which is opened part by part. Only
plain files are written to, and a read-only file stays as it is. Each of these is ``UnsafePath``. A file is replaced as
a whole, by a rename within the opened folder, so that a link that appears there meanwhile is replaced, not followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from leftoff.errors import Invalid, UnsafePath
from leftoff.files import sync

PRIVATE = 0o600
RESTORE_TEMP = ".leftoff-restore-"  # starts the name of a new file that is not renamed to its place yet
_OWN = (".git", ".leftoff")  # never tracked, never restored
_STORE = ("store.db", "store.db-wal", "store.db-shm", "lock", "blobs", "restore.lock")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


# -- paths


def check_path(path: object, what: str = "A record") -> str:
    """Return the path of a record if it stays inside the project; else raise ``Invalid``."""
    if not isinstance(path, str) or not path or "\0" in path:
        why = "no path"
    elif os.path.isabs(path) or os.path.normpath(path) != path or path.split("/")[0] in ("..", "."):
        why = f"the path {path!r}, which is not inside the project"
    elif is_own_path(path):
        why = f"the path {path!r}, and files of git and leftoff are left alone"
    else:
        return path
    raise Invalid(f"{what} has {why}.", hint="No file was touched.")


def is_own_path(path: str) -> bool:
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
    if is_own_path(inside):
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


def place(project: str, path: str, *, make: bool = False) -> Place | None:
    """Open the folder of a path inside the project, which ``make`` creates; ``None`` if that folder is not there.

    Raise ``UnsafePath`` if a symbolic link is on the way, ``NotADirectoryError`` if a file is.
    """
    fd = os.open(project, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parts = path.split("/")[:-1]
        for at, part in enumerate(parts):
            so_far = "/".join(parts[: at + 1])
            if part in ("", ".", ".."):
                raise UnsafePath(f"{so_far} is not a plain path.", hint="No file was touched.")
            try:
                below = os.open(part, _FOLDER, dir_fd=fd)
            except FileNotFoundError:
                if not make:
                    return None
                try:
                    os.mkdir(part, dir_fd=fd)
                    os.fsync(fd)
                except FileExistsError:  # another process just made it, or put something else there
                    pass
                below = os.open(part, _FOLDER, dir_fd=fd)
            except OSError as error:
                kind = os.lstat(part, dir_fd=fd).st_mode
                if stat.S_ISLNK(kind):
                    raise _behind(so_far) from None
                if not stat.S_ISDIR(kind):
                    raise NotADirectoryError(errno.ENOTDIR, "Not a directory", so_far) from None
                raise error
            os.close(fd)
            fd = below
        return Place(path, os.dup(fd))
    finally:
        os.close(fd)


def is_behind_link(project: str, path: str) -> bool:
    """Return whether a folder on the way to a path is a symbolic link by now."""
    above = path
    while above := os.path.dirname(above):
        if os.path.islink(os.path.join(project, above)):
            return True
    return False


def _behind(path: str, hint: str = "") -> UnsafePath:
    hint = (
        hint
        or "No file was touched. Put a folder in the place of the link, or leave the files behind it alone."
    )
    return UnsafePath(f"{path} is, or is behind, a symbolic link, which leftoff does not follow.", hint=hint)


# -- files by their paths


class ProjectFiles:
    """The files below one folder, by their paths from there."""

    def __init__(self, root: str) -> None:
        self.root = root

    def open(self, path: str) -> Place:
        """Return where a file is or will be, and make its folders."""
        at = self._place(path, make=True)
        assert at is not None
        return at

    def _place(self, path: str, *, make: bool) -> Place | None:
        try:
            return place(self.root, check_path(path, "What is to be written"), make=make)
        except NotADirectoryError as error:
            raise UnsafePath(f"{error.filename} is a file, and a folder is needed.") from None

    def _look(self, path: str) -> Place | None:
        """Return where a file may be; ``None`` if there is no way to one."""
        try:
            return place(self.root, check_path(path, "What is to be read"))
        except (Invalid, UnsafePath, OSError):
            return None

    def stat(self, path: str) -> os.stat_result | None:
        """Return the stat of what is there, without following a link."""
        at = self._look(path)
        if at is None:
            return None
        with at:
            return at.lstat()

    def is_file(self, path: str) -> bool:
        st = self.stat(path)
        return st is not None and stat.S_ISREG(st.st_mode)

    def is_folder(self, path: str) -> bool:
        st = self.stat(path)
        return st is not None and stat.S_ISDIR(st.st_mode)

    def read(self, path: str) -> bytes | None:
        """Return what a plain file holds; ``None`` if there is none that can be read."""
        at = self._look(path)
        if at is None:
            return None
        with at:
            return read_at(at)

    def list(self, path: str) -> list[tuple[str, os.stat_result]]:
        """Return what is in a folder, by name; nothing if there is none."""
        at = self._look(f"{path}/x")
        if at is None:
            return []
        with at:
            return [(one.name, one.stat(follow_symlinks=False)) for one in os.scandir(at.folder)]

    def check(self, path: str, *, write: bool = True) -> None:
        """Raise ``UnsafePath`` if a file cannot be written; without ``write``, only if it is not a plain file."""
        at = self._place(path, make=False)
        if at is not None:
            with at:
                mode_at(at, write=write)

    def replace(self, path: str, data: bytes) -> None:
        """Write a whole file, or nothing; with the permissions that it had, else private."""
        with self.open(path) as at:
            replace_at(at, [data], mode_at(at))

    def create(self, path: str, data: bytes) -> None:
        """Write a new file; raise ``FileExistsError`` if something is there."""
        with self.open(path) as at:
            write_new(at, at.name, [data], None)

    def append(self, path: str, data: bytes) -> None:
        """Add to a file, which is made if there is none."""
        with self.open(path) as at:
            mode_at(at)
            fd = os.open(at.name, _APPEND, PRIVATE, dir_fd=at.folder)
            with os.fdopen(fd, "ab") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):  # it was replaced just now
                    raise _not_plain(path, os.fstat(fd).st_mode)
                file.write(data)

    def link(self, path: str, target: str) -> None:
        """Write a symbolic link, in the place of an older one."""
        with self.open(path) as at:
            st = at.lstat()
            if st is not None and not stat.S_ISLNK(st.st_mode):
                raise UnsafePath(f"{path} is {_KINDS[stat.S_IFMT(st.st_mode)]}, where leftoff keeps a link.")
            if st is None or os.readlink(at.name, dir_fd=at.folder) != target:
                temp = _temp_name(at)
                os.symlink(target, temp, dir_fd=at.folder)
                _rename(at, temp)

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself, if it is there."""
        at = self._look(path)
        if at is not None:
            with at:
                st = at.lstat()
                if st is not None and (stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode)):
                    os.unlink(at.name, dir_fd=at.folder)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it; a link in its place stays."""
        import shutil  # slow to import

        at = self._look(path)
        if at is not None:
            with at:
                st = at.lstat()
                if st is not None and stat.S_ISDIR(st.st_mode):
                    shutil.rmtree(at.name, ignore_errors=True, dir_fd=at.folder)

    def move(self, path: str, to: str) -> None:
        """Move a file or a folder, in the place of a file that is there."""
        old = self._look(path)
        if old is None:
            raise UnsafePath(f"{path} cannot be moved: it is not there, or behind a link.")
        with old, self.open(to) as new:
            os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)


# -- in a folder that was opened


def mode_at(at: Place, *, write: bool = True) -> int | None:
    """Return the permissions of the file that will be replaced; ``None`` if there is none. Raise ``UnsafePath`` if it
    must not be replaced."""
    st = at.lstat()
    if st is None:
        return None
    if not stat.S_ISREG(st.st_mode):
        raise _not_plain(at.path, st.st_mode)
    if write and not st.st_mode & 0o200:
        raise UnsafePath(
            f"{at.path} is read-only, and was left as it is.",
            hint=f"`chmod u+w {at.path}` lets leftoff write it.",
        )
    return st.st_mode & 0o777


def read_at(at: Place) -> bytes | None:
    """Return what a plain file holds; ``None`` if there is none that can be read."""
    try:
        with os.fdopen(os.open(at.name, _READ, dir_fd=at.folder), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def replace_at(at: Place, chunks: Iterable[bytes], mode: int | None, new: int = PRIVATE) -> None:
    """Write a whole file in the place of another. ``new``: its permissions if there is no mode."""
    temp = _temp_name(at)
    write_new(at, temp, chunks, mode, new)
    _rename(at, temp)


def exchange_at(at: Place, data: bytes, mode: int | None) -> bytes | None:
    """Write a whole file in the place of another, and return what was there at the last moment.

    If the system cannot exchange two names in one step, an edit between reading and replacing is lost.
    """
    temp, there = _temp_name(at), read_at(at)
    write_new(at, temp, [data], mode)
    if there is None or not exchanged(at, temp):
        _rename(at, temp)
        return there
    sync(at.folder)
    with Place(temp, os.dup(at.folder)) as old:
        there = read_at(old)
    os.unlink(temp, dir_fd=at.folder)
    return there


def exchanged(at: Place, other: str) -> bool:
    """Exchange two names in a folder in one step; return False if the system cannot."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "renameat2", None)
    names = os.fsencode(other), os.fsencode(at.name)
    return call is not None and call(at.folder, names[0], at.folder, names[1], 2) == 0


def write_new(at: Place, name: str, chunks: Iterable[bytes], mode: int | None, new: int = PRIVATE) -> None:
    """Write a whole file under a name in the folder, and sync it. ``new``: as above."""
    fd = os.open(name, _NEW, PRIVATE if mode is not None else new, dir_fd=at.folder)
    try:
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            # Some file systems have only one mode, and refuse to change it.
            if mode is not None and os.fstat(fd).st_mode & 0o7777 != mode:
                os.fchmod(fd, mode)
            sync(fd)
    except BaseException:
        os.unlink(name, dir_fd=at.folder)
        raise


def _temp_name(at: Place) -> str:
    return f".{at.name[:60]}.{os.urandom(4).hex()}.leftoff"


def _rename(at: Place, temp: str) -> None:
    try:
        os.rename(temp, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
    except BaseException:
        os.unlink(temp, dir_fd=at.folder)
        raise
    sync(at.folder)


def _not_plain(path: str, mode: int) -> UnsafePath:
    kind = _KINDS.get(stat.S_IFMT(mode), "no plain file")
    return UnsafePath(f"{path} is {kind}, and leftoff writes to plain files only.")
