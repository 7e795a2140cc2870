"""Read and replace the settings files of agents, for ``leftoff install``.

A repository can contain `.claude/settings.json` as a link to anywhere, so no link is followed in a project. Links in
the user's own home are followed: many users keep their settings in a folder of dotfiles.
"""

from __future__ import annotations

import os

from leftoff.engine.workspace.project_files import ProjectFiles, mode_at, replace_at
from leftoff.errors import Conflict, Invalid, StoreUnavailable


class SettingsFiles:
    """The files below a project's folder, or below the home of a ``user``."""

    def __init__(self, base: str, *, user: bool) -> None:
        self._base = base
        self._user = user
        self._read: dict[str, str | None] = {}  # the text of each file when it was first read

    def _at(self, path: str) -> tuple[ProjectFiles, str]:
        real = os.path.realpath(path) if self._user else path
        root = self._base if real.startswith(os.path.join(self._base, "")) else os.path.dirname(real)
        return ProjectFiles(root), os.path.relpath(real, root)

    def elsewhere(self, path: str) -> str:
        """Return the target of a link in the user's home; empty if it is not a link."""
        return os.path.realpath(path) if self._user and os.path.islink(path) else ""

    def read(self, path: str) -> str | None:
        """Return the text of a file, ``None`` if it does not exist."""
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
        """Raise if a file may not be written, or is not what was read. Check all of them before the first write."""
        files, inside = self._at(path)
        files.check(inside)
        if path in self._read and self._text(path) != self._read[path]:
            raise Conflict(
                f"{path} was changed meanwhile.", hint="Somebody else writes it. Do the same once more."
            )

    def write(self, path: str, text: str | None, *, private: bool = False) -> None:
        """Replace a file by a rename and keep its permissions. ``None`` removes it. private: if it is new."""
        self.check(path)
        files, inside = self._at(path)
        try:
            if text is None:
                files.remove(inside)
                return
            with files.open(inside) as at:
                replace_at(at, [text.encode()], mode_at(at), new=0o600 if private else 0o644)
        except OSError as error:
            raise StoreUnavailable(
                f"{path} cannot be written: {error.strerror}.", hint="Check its permissions."
            ) from None
