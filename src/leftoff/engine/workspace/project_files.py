"""Every write below a project's folder goes through here: mirrors, pages, messages, settings, restored files.

A project may have come from anybody. So no part of a path is followed through a symbolic link (``paths.place``), only
plain files are written to, and a file that its owner made read-only stays as it is. Each of these is ``UnsafePath``. A
file is replaced whole, by a rename within the folder that was opened: a link that somebody puts there meanwhile is
replaced, and not followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable

from leftoff.engine.workspace.paths import Place, check_path, place
from leftoff.errors import Invalid, UnsafePath
from leftoff.files import sync

PRIVATE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class ProjectFiles:
    """The files below one folder, by their paths from there."""

    def __init__(self, root: str) -> None:
        self.root = root

    def open(self, path: str) -> Place:
        """Return where a file is or will be, and make its folders."""
        try:
            at = place(self.root, check_path(path, "What is to be written"), make=[])
        except NotADirectoryError as error:
            raise _no_folder(error) from None
        assert at is not None
        return at

    def _look(self, path: str) -> Place | None:
        """Return where a file may be; ``None`` if there is no way to one."""
        try:
            return place(self.root, check_path(path, "What is to be read"))
        except (Invalid, UnsafePath, OSError):
            return None

    # -- reading

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

    # -- writing

    def check(self, path: str, *, write: bool = True) -> None:
        """Raise ``UnsafePath`` if a file cannot be written; without ``write``, only if it is not a plain file."""
        try:
            at = place(self.root, check_path(path, "What is to be written"))
        except NotADirectoryError as error:
            raise _no_folder(error) from None
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
            try:
                fd = os.open(at.name, _APPEND, PRIVATE, dir_fd=at.folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    mode_at(at)
                raise
            try:
                mode = os.fstat(fd).st_mode
                if not stat.S_ISREG(mode):
                    raise _not_plain(path, mode)
                write_all(fd, data)
            finally:
                os.close(fd)

    def link(self, path: str, target: str) -> None:
        """Write a symbolic link, in the place of an older one."""
        with self.open(path) as at:
            st = at.lstat()
            if st is not None and not stat.S_ISLNK(st.st_mode):
                raise UnsafePath(f"{path} is {_KINDS[stat.S_IFMT(st.st_mode)]}, where leftoff keeps a link.")
            if st is not None and os.readlink(at.name, dir_fd=at.folder) == target:
                return
            temp = _temp_name(at)
            try:  # a link cannot be locked: its folder is, for as long as that is open
                fcntl.flock(at.folder, _LOCK)
                os.readlink(temp, dir_fd=at.folder)
                os.unlink(temp, dir_fd=at.folder)
            except FileNotFoundError:
                pass
            except OSError:
                temp = _temp_name(at, os.urandom(4).hex())
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
    temp, fd = _make_temp(at, PRIVATE if mode is not None else new)
    try:
        _fill(at, temp, fd, chunks, mode)
        _rename(at, temp)
    finally:
        os.close(fd)


def write_new(at: Place, name: str, chunks: Iterable[bytes], mode: int | None, new: int = PRIVATE) -> int:
    """Write a whole file under a name in the folder, and sync it; return its inode. ``new``: as above."""
    fd = os.open(name, _NEW, PRIVATE if mode is not None else new, dir_fd=at.folder)
    try:
        _fill(at, name, fd, chunks, mode)
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def _fill(at: Place, name: str, fd: int, chunks: Iterable[bytes], mode: int | None) -> None:
    try:
        for chunk in chunks:
            write_all(fd, chunk)
        if mode is not None and os.fstat(fd).st_mode & 0o7777 != mode:  # some file systems have only one mode
            os.fchmod(fd, mode)
        sync(fd)
    except BaseException:
        os.unlink(name, dir_fd=at.folder)
        raise


def _make_temp(at: Place, mode: int) -> tuple[str, int]:
    """Create a temporary file next to a place, locked while it is open.

    Its name is always the same, so that the next writer removes what a killed one left. If another writer holds it, or
    something else has that name, it gets a random name.
    """
    temp = _temp_name(at)
    try:
        fd = os.open(temp, _READ, dir_fd=at.folder)  # what a killed writer left
    except OSError:
        pass
    else:
        if stat.S_ISREG(os.fstat(fd).st_mode) and _lock(at, temp, fd):
            os.unlink(temp, dir_fd=at.folder)
        os.close(fd)
    try:
        fd = os.open(temp, _NEW, mode, dir_fd=at.folder)
    except FileExistsError:
        pass
    else:
        if _lock(at, temp, fd):
            return temp, fd
        os.close(fd)
    temp = _temp_name(at, os.urandom(4).hex())
    return temp, os.open(temp, _NEW, mode, dir_fd=at.folder)


def _lock(at: Place, name: str, fd: int) -> bool:
    """Lock a file without waiting; return whether that worked and it still has its name."""
    try:
        fcntl.flock(fd, _LOCK)
        return os.path.samestat(os.fstat(fd), os.lstat(name, dir_fd=at.folder))
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:  # a file system without locks
        os.unlink(name, dir_fd=at.folder)
        return False


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _rename(at: Place, temp: str) -> None:
    try:
        os.rename(temp, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
    except BaseException:
        os.unlink(temp, dir_fd=at.folder)
        raise
    sync(at.folder)


def _temp_name(at: Place, own: str = "") -> str:
    return f".{at.name[:60]}.{own}.leftoff" if own else f".{at.name[:60]}.leftoff"


def _no_folder(error: OSError) -> UnsafePath:
    return UnsafePath(f"{error.filename} is a file, where a folder is needed.")


def _not_plain(path: str, mode: int) -> UnsafePath:
    kind = _KINDS.get(stat.S_IFMT(mode), "no plain file")
    return UnsafePath(f"{path} is {kind}, and leftoff writes to plain files only.")
