"""A file that install changes: what is in it, what shall be, and how that is shown."""

from __future__ import annotations

import os

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


def tidy(path: str, base: str) -> None:
    """Remove the folders that are empty without a file, up to the project's or the user's own, which stays."""
    folder = os.path.dirname(path)
    while folder.startswith(base + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
