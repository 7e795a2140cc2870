"""Reading and writing the files that install changes: all of one or nothing, to the byte."""

from __future__ import annotations

import os

from leftoff.engine.workspace.project_files import ProjectFiles, mode_at, replace_at
from leftoff.errors import Invalid, StoreUnavailable
from leftoff.model.fields import Fields


class Change(Fields):
    """One file: what is in it, and what shall be. ``None``: there is no such file."""

    path: str
    before: str | None
    after: str | None
    note: str = ""

    @property
    def action(self) -> str:
        if self.before == self.after:
            return "keep"
        return "create" if self.before is None else "remove" if self.after is None else "change"

    def diff(self) -> str:
        from difflib import unified_diff

        old, new = (text.splitlines(keepends=True) if text else [] for text in (self.before, self.after))
        was, becomes = (self.path if text is not None else "/dev/null" for text in (self.before, self.after))
        found = unified_diff(old, new, was, becomes)
        lines = [line if line.endswith("\n") else f"{line}\n" for line in found]
        return "".join(lines).replace("\r\n", "\n")


class SettingsFiles:
    """The files below the project, or the user's home, which were opened for an install.

    In a project, which may have come from anybody, no link is followed. In the user's own home one is: those who keep
    their settings elsewhere put it there.
    """

    def __init__(self, base: str, *, user: bool) -> None:
        self._base = base
        self._user = user

    def _at(self, path: str) -> tuple[ProjectFiles, str]:
        real = os.path.realpath(path) if self._user else path
        root = self._base if real.startswith(os.path.join(self._base, "")) else os.path.dirname(real)
        return ProjectFiles(root), os.path.relpath(real, root)

    def elsewhere(self, path: str) -> str:
        """Where a link in the user's home leads; empty where there is none."""
        real = os.path.realpath(path)
        return real if self._user and os.path.islink(path) else ""

    def read(self, path: str) -> str | None:
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

    def check(self, change: Change) -> None:
        """Before anything is written anywhere."""
        files, inside = self._at(change.path)
        if change.action != "keep":
            files.check(inside)

    def write(self, change: Change) -> None:
        """All of it or nothing, with the permissions that were there."""
        if change.action == "keep":
            return
        files, inside = self._at(change.path)
        try:
            if change.after is None:
                files.remove(inside)
                return
            with files.open(inside) as at:
                replace_at(at, [change.after.encode()], mode_at(at), new=0o644)
        except OSError as error:
            raise StoreUnavailable(
                f"{change.path} cannot be written: {error.strerror}.", hint="Check its permissions."
            ) from None


def tidy(path: str, base: str) -> None:
    """Remove the folders that are empty without a file, up to the project's or the user's own, which stays."""
    folder = os.path.dirname(path)
    while folder.startswith(base + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
