"""The files of agents' settings, which ``leftoff install`` changes: all of one or nothing, to the byte.

In a project, which may have come from anybody, no link is followed. In the user's own home one is: those who keep their
settings elsewhere put it there.
"""

from __future__ import annotations

import os

from leftoff.engine.workspace.project_files import ProjectFiles, mode_at, replace_at
from leftoff.errors import Conflict, Invalid, StoreUnavailable


class SettingsFiles:
    """Those below a project (``base``), or the home of a ``user``."""

    def __init__(self, base: str, *, user: bool) -> None:
        self._base = base
        self._user = user
        self._read: dict[str, str | None] = {}  # what was in them when they were first looked at

    def _at(self, path: str) -> tuple[ProjectFiles, str]:
        real = os.path.realpath(path) if self._user else path
        root = self._base if real.startswith(os.path.join(self._base, "")) else os.path.dirname(real)
        return ProjectFiles(root), os.path.relpath(real, root)

    def elsewhere(self, path: str) -> str:
        """Where a link in the user's home leads; empty where there is none."""
        return os.path.realpath(path) if self._user and os.path.islink(path) else ""

    def read(self, path: str) -> str | None:
        """The text of a file; ``None``: there is none."""
        now = self._text(path)
        self._read.setdefault(path, now)
        return now

    def _text(self, path: str) -> str | None:
        files, inside = self._at(path)
        files.check(inside, write=False)
        if files.stat(inside) is None:
            return None
        data = files.read(inside)
        if data is None:
            raise StoreUnavailable(
                f"{path} cannot be read.", hint="Nothing was changed. Check its permissions."
            )
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Invalid(f"{path} is not UTF-8 text.", hint="Nothing was changed.") from None

    def check(self, path: str) -> None:
        """Whether it may be written, and is still what was read: asked of all of them, before anything is."""
        files, inside = self._at(path)
        files.check(inside)
        self._need_same(path)

    def _need_same(self, path: str) -> None:
        if path in self._read and self._text(path) != self._read[path]:
            raise Conflict(
                f"{path} was changed meanwhile.", hint="Somebody else writes it. Do the same once more."
            )

    def write(self, path: str, text: str | None) -> None:
        """With the permissions that were there. ``None``: the file goes."""
        files, inside = self._at(path)
        self._need_same(path)
        try:
            if text is None:
                files.remove(inside)
                return
            with files.open(inside) as at:
                replace_at(at, [text.encode()], mode_at(at), new=0o644)
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be written: {error.strerror}.", hint="Check its permissions."
            ) from None
