"""Reading and writing the files that install changes: all of one or nothing, to the byte."""

from __future__ import annotations

import os
import tempfile

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

    def write(self) -> None:
        if self.before == self.after:
            return
        try:
            os.unlink(self.path) if self.after is None else _write(self.path, self.after)
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path} cannot be written: {error.strerror}.", hint="Check its permissions."
            ) from None


def read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text.", hint="Nothing was changed.") from None
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror}.", hint="Nothing was changed."
        ) from None


def _write(path: str, text: str) -> None:
    """All of it or nothing; through a link, and with the permissions that were there."""
    real = os.path.realpath(path)
    os.makedirs(os.path.dirname(real), exist_ok=True)
    fd, part = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".leftoff-")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, os.stat(real).st_mode & 0o7777 if os.path.exists(real) else 0o644)
        os.replace(part, real)
    except BaseException:
        os.unlink(part)
        raise


def tidy(path: str, base: str) -> None:
    """Remove the folders that are empty without a file, up to the project's or the user's own, which stays."""
    folder = os.path.dirname(path)
    while folder.startswith(base + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
