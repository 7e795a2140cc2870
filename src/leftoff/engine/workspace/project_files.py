"""Every write below a project's folder goes through here: mirrors, pages, messages, settings, restored files.

A project may have come from anybody. So no part of a path is followed through a symbolic link (``paths.place``), what
is not a plain file is never written to, and a file that its owner made read-only stays as it is: each is
``UnsafePath``, which says what is there and what to do. A file is replaced whole, by a rename within the folder that
was opened: a link that somebody puts there meanwhile is replaced, and not followed.
"""

from __future__ import annotations

import errno
import fcntl
import os

from leftoff.engine.workspace.paths import check_path, place
from leftoff.errors import Invalid, UnsafePath
from leftoff.files import sync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.engine.workspace.paths import Place

PRIVATE = 0o600
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE, _FOLDER, _LINK = 0o100000, 0o040000, 0o120000
_KINDS = {
    _LINK: "a symbolic link",
    _FOLDER: "a folder",
    0o010000: "a pipe",
    0o020000: "a device",
    0o060000: "a device",
    0o140000: "a socket",
}


class ProjectFiles:
    """The files below one folder, by their paths from there."""

    def __init__(self, root: str) -> None:
        self.root = root

    def open(self, path: str) -> Place:
        """Where a file is or will be, its folders made."""
        try:
            at = place(self.root, check_path(path, "What is to be written"), make=[])
        except NotADirectoryError as error:
            raise _no_folder(error) from None
        assert at is not None
        return at

    def _look(self, path: str) -> Place | None:
        """Where a file may be; ``None`` where there is no way to one."""
        try:
            return place(self.root, check_path(path, "What is to be read"))
        except (Invalid, UnsafePath, OSError):
            return None

    # -- reading

    def stat(self, path: str) -> os.stat_result | None:
        """Of what is there, which is not followed."""
        at = self._look(path)
        if at is None:
            return None
        with at:
            return at.lstat()

    def is_file(self, path: str) -> bool:
        st = self.stat(path)
        return st is not None and _kind(st) == _FILE

    def is_folder(self, path: str) -> bool:
        st = self.stat(path)
        return st is not None and _kind(st) == _FOLDER

    def read(self, path: str) -> bytes | None:
        """What a plain file holds; ``None`` where there is none that may be read."""
        at = self._look(path)
        if at is None:
            return None
        with at:
            return read_at(at)

    # -- writing

    def check(self, path: str, *, write: bool = True) -> None:
        """``UnsafePath`` where a file cannot be written; or only, whatever its permissions, is no plain one."""
        try:
            at = place(self.root, check_path(path, "What is to be written"))
        except NotADirectoryError as error:
            raise _no_folder(error) from None
        if at is not None:
            with at:
                mode_at(at, write=write)

    def replace(self, path: str, data: bytes) -> None:
        """The whole file anew, or not at all; with the permissions that it had, else private."""
        with self.open(path) as at:
            replace_at(at, [data], mode_at(at))

    def create(self, path: str, data: bytes) -> None:
        """A file where there is none; ``FileExistsError`` where there is something."""
        with self.open(path) as at:
            write_new(at, at.name, [data], None)

    def append(self, path: str, data: bytes) -> None:
        """Add to a file, which is made where there is none."""
        with self.open(path) as at:
            mode_at(at)
            try:
                fd = os.open(at.name, _APPEND, PRIVATE, dir_fd=at.folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    mode_at(at)
                raise
            try:
                if _kind(os.fstat(fd)) != _FILE:
                    raise _not_plain(path, _kind(os.fstat(fd)))
                write_all(fd, data)
            finally:
                os.close(fd)

    def link(self, path: str, target: str) -> None:
        """A symbolic link of ours, in the place of an older one."""
        with self.open(path) as at:
            st = at.lstat()
            if st is not None and _kind(st) != _LINK:
                raise UnsafePath(f"{path} is {_named(st)}, where leftoff keeps a link.")
            if st is not None and os.readlink(at.name, dir_fd=at.folder) == target:
                return
            temp = _free_beside(at)
            os.symlink(target, temp, dir_fd=at.folder)
            _rename(at, temp)

    def remove(self, path: str) -> None:
        """Take a file away, or a link itself, if it is there."""
        at = self._look(path)
        if at is not None:
            with at:
                st = at.lstat()
                if st is not None and _kind(st) in (_FILE, _LINK):
                    os.unlink(at.name, dir_fd=at.folder)

    def remove_folder(self, path: str) -> None:
        """Take a folder away with all that is in it; a link in its place stays."""
        import shutil

        at = self._look(path)
        if at is not None:
            with at:
                st = at.lstat()
                if st is not None and _kind(st) == _FOLDER:
                    shutil.rmtree(at.name, ignore_errors=True, dir_fd=at.folder)

    def move(self, path: str, to: str) -> None:
        """A file or a folder to another place, in the stead of a file that is there."""
        old = self._look(path)
        if old is None:
            raise UnsafePath(f"{path} cannot be moved: it is not there, or behind a link.")
        with old, self.open(to) as new:
            os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)

    def list(self, path: str) -> list[tuple[str, os.stat_result]]:
        """What is in a folder, by name; nothing where there is none."""
        at = self._look(f"{path}/x")
        if at is None:
            return []
        with at:
            return [(one.name, one.stat(follow_symlinks=False)) for one in os.scandir(at.folder)]


# -- in a folder that was opened


def mode_at(at: Place, *, write: bool = True) -> int | None:
    """The permissions of the file that is to be replaced; ``None``: there is none. What must not be is refused."""
    st = at.lstat()
    if st is None:
        return None
    if _kind(st) != _FILE:
        raise _not_plain(at.path, _kind(st))
    if write and not st.st_mode & 0o200:
        raise UnsafePath(
            f"{at.path} is read-only, and was left as it is.",
            hint=f"`chmod u+w {at.path}` lets leftoff write it.",
        )
    return st.st_mode & 0o777


def read_at(at: Place) -> bytes | None:
    try:
        fd = os.open(at.name, _READ, dir_fd=at.folder)
    except OSError:
        return None
    try:
        if _kind(os.fstat(fd)) != _FILE:
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read()
    except OSError:
        return None
    finally:
        os.close(fd)


def replace_at(at: Place, chunks: Iterable[bytes], mode: int | None, new: int = PRIVATE) -> None:
    """A whole file in the place of another. ``new``: its permissions without a mode."""
    temp, fd = _make_beside(at, PRIVATE if mode is not None else new)
    try:
        _fill(at, temp, fd, chunks, mode)
        _rename(at, temp)
    finally:
        os.close(fd)


def write_new(at: Place, name: str, chunks: Iterable[bytes], mode: int | None, new: int = PRIVATE) -> int:
    """A whole file under a name in the folder, on disk; its inode. ``new``: its permissions without a mode."""
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
        if mode is not None and os.fstat(fd).st_mode & 0o7777 != mode:  # some file systems have but one
            os.fchmod(fd, mode)
        sync(fd)
    except BaseException:
        os.unlink(name, dir_fd=at.folder)
        raise


def _make_beside(at: Place, mode: int) -> tuple[str, int]:
    """A new file under which another is written before it gets its name, locked for as long as it is open.

    Its name is the same each time, so that the next writer takes away what one who died left there. Where another one
    is writing, or something else has that name, it gets a name of its own.
    """
    temp = _beside(at)
    _take_away(at, temp)
    try:
        fd = os.open(temp, _NEW, mode, dir_fd=at.folder)
    except FileExistsError:
        pass
    else:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _has_name(at, temp, fd):
                return temp, fd
        except BlockingIOError:  # another writer takes it for one that was left, and takes it away
            pass
        except OSError:  # a file system without locks
            os.unlink(temp, dir_fd=at.folder)
        os.close(fd)
    temp = _beside(at, os.urandom(4).hex())
    return temp, os.open(temp, _NEW, mode, dir_fd=at.folder)


def _free_beside(at: Place) -> str:
    """The same for a link, which cannot be locked itself: its folder is, for as long as that is open."""
    temp = _beside(at)
    try:
        fcntl.flock(at.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.readlink(temp, dir_fd=at.folder)
        os.unlink(temp, dir_fd=at.folder)
    except FileNotFoundError:
        pass
    except OSError:
        return _beside(at, os.urandom(4).hex())
    return temp


def _take_away(at: Place, temp: str) -> None:
    """What a writer who died left behind."""
    try:
        fd = os.open(temp, _READ, dir_fd=at.folder)
    except OSError:
        return
    try:
        if _kind(os.fstat(fd)) == _FILE and _is_locked(at, temp, fd):
            os.unlink(temp, dir_fd=at.folder)
    finally:
        os.close(fd)


def _is_locked(at: Place, name: str, fd: int) -> bool:
    """Whether we could lock a file at once, and it still has its name then."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return _has_name(at, name, fd)


def _has_name(at: Place, name: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(name, dir_fd=at.folder))
    except OSError:
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


def _beside(at: Place, own: str = "") -> str:
    """The name under which a file is made before it gets its own."""
    return f".{at.name[:60]}.{own}.leftoff" if own else f".{at.name[:60]}.leftoff"


def _kind(st: os.stat_result) -> int:
    return st.st_mode & 0o170000


def _named(st: os.stat_result) -> str:
    return _KINDS.get(_kind(st), "a file")


def _no_folder(error: OSError) -> UnsafePath:
    return UnsafePath(f"{error.filename} is a file, where a folder is needed.")


def _not_plain(path: str, kind: int) -> UnsafePath:
    return UnsafePath(
        f"{path} is {_KINDS.get(kind, 'no plain file')}, and leftoff writes to plain files only."
    )
