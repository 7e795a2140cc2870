"""Putting one file in its place, or taking it away: each atomic and durable, and harmless to do again.

A file is written next to its place under a name of its own, synced, and renamed over what is there: a reader sees the
old one or the new one, whole. `prepare` writes it before anything is changed; then only the rename is left.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from leftoff.engine.workspace.content import FILE, LINK, present_at
from leftoff.engine.workspace.copies import digest_of
from leftoff.engine.workspace.paths import place
from leftoff.engine.workspace.project_files import write_new
from leftoff.errors import Corrupt, UnsafePath
from leftoff.files import sync
from leftoff.model.fields import Fields
from leftoff.model.hashing import long_sha256 as sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leftoff.engine.workspace.content import Content
    from leftoff.engine.workspace.git import Repo
    from leftoff.engine.workspace.journal import Todo
    from leftoff.engine.workspace.paths import Place
    from leftoff.store.base import Store


class Putter(Fields):
    """Where content comes from, and the names under which it is written before it is in its place."""

    store: Store
    project: str
    repo: Repo | None
    token: str
    ready: frozenset[str] = frozenset()  # paths whose new file is written next to their place
    made: tuple[str, ...] = ()  # folders that were made for these, from the top

    def temp(self, path: str) -> str:
        """The same each time, so that a second try finds what the first one left."""
        return f".leftoff-{self.token}-{sha256(path.encode()).hexdigest()[:16]}"

    def delete(self, path: str) -> None:
        """Take a file away; its folder stays, until ``tidy``."""
        try:
            at = place(self.project, path)
        except NotADirectoryError:
            at = None
        if at is not None:
            with at:
                self._clean(at)
                if present_at(at).kind in (FILE, LINK):
                    os.unlink(at.name, dir_fd=at.folder)
                    sync(at.folder)

    def tidy(self, path: str) -> None:
        """Remove the folders that a deleted file was the last one in."""
        while path := path.rpartition("/")[0]:
            try:
                above = place(self.project, path)
                if above is None:
                    continue
                with above:
                    os.rmdir(above.name, dir_fd=above.folder)
                    sync(above.folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    return
                raise

    def prepare(self, one: Todo) -> None:
        """Write the new file of a path next to its place, if it needs one."""
        want, was = one.want, one.was
        if want.kind != FILE or ((was.kind, was.hash) == (FILE, want.hash) and want.mode is not None):
            return
        above = [one.path[:at] for at, char in enumerate(one.path) if char == "/"]
        self.made += tuple(path for path in above if not os.path.lexists(os.path.join(self.project, path)))
        at = place(self.project, one.path, make=one.folders)
        assert at is not None
        with at:
            self._clean(at)
            self._write(at, self.temp(one.path), want, one.commit, was)
        self.ready |= {one.path}

    def discard(self, todo: list[Todo]) -> None:
        """Remove new files that were written next to their places, and the folders that were made for them."""
        for one in todo:
            with suppress(OSError, UnsafePath):
                at = place(self.project, one.path)
                if at is not None:
                    with at:
                        self._clean(at)
        for path in reversed(self.made):
            with suppress(OSError):  # a file may be in it by now
                os.rmdir(os.path.join(self.project, path))
        self.ready, self.made = frozenset(), ()

    def restore(self, path: str, want: Content, commit: str, folders: list[int]) -> None:
        """Make what is at a path what is wanted there."""
        at = place(self.project, path, make=folders)
        assert at is not None
        with at:
            now = present_at(at)
            if path not in self.ready or now.same(want):
                self._clean(at)
            if now.same(want):
                return
            if now.kind == FILE and (now.kind, now.hash) == (want.kind, want.hash) and want.mode is not None:
                self._set_mode(at, want.mode)
                return
            temp = self.temp(path)
            if want.kind == LINK:
                assert want.target is not None
                os.symlink(want.target, temp, dir_fd=at.folder)
            elif path not in self.ready:
                self._write(at, temp, want, commit, now)
            os.rename(temp, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
            sync(at.folder)

    def _clean(self, at: Place) -> None:
        """What an earlier try left half written."""
        try:
            os.unlink(self.temp(at.path), dir_fd=at.folder)
        except FileNotFoundError:
            pass

    @staticmethod
    def _set_mode(at: Place, mode: int) -> None:
        fd = os.open(at.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at.folder)
        try:
            os.fchmod(fd, mode)
            sync(fd)
        finally:
            os.close(fd)

    def _write(self, at: Place, temp: str, want: Content, commit: str, now: Content) -> None:
        # an old record does not say which permissions; a new file without any has those of the umask
        mode = want.mode if want.mode is not None else now.mode
        write_new(at, temp, self._checked(at.path, want, commit), mode, new=0o666)

    def _checked(self, path: str, want: Content, commit: str) -> Iterator[bytes]:
        """The content; at its end it must have been what was recorded."""
        digest = sha256()
        for chunk in self._content(path, want, commit):
            digest.update(chunk)
            yield chunk
        if want.hash != f"sha256:{digest.hexdigest()}":
            raise Corrupt(f"The content for {path} is not what was recorded.", where=path)

    def _content(self, path: str, want: Content, commit: str) -> Iterable[bytes]:
        if not commit:
            return self.store.load_blob(digest_of(want.hash or ""))
        if self.repo is None:
            raise Corrupt(f"The content for {path} is in git, which is gone.", where=path)
        base = self.repo.bases(commit, [path]).get(path)
        if base is None:
            raise Corrupt(f"Commit {commit} has no {path} any more.", where=path)
        return [self.repo.content(commit, base)]
