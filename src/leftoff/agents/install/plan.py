"""Which files change, and to what: worked out first, shown, then written."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from leftoff.agents.install.recipes import Recipe
from leftoff.agents.install.settings import JsonSettings, Settings, TomlSettings
from leftoff.agents.install.undo import undo
from leftoff.engine.project import FOLDER
from leftoff.errors import Invalid, StoreUnavailable
from leftoff.model.hashing import sha256
from leftoff.store.location import forget_folder, make_folder

MEMORY = ".leftoff-install.json"  # beside a user's settings; that of a project is in the store's folder
LARGEST = 1 << 18  # characters of a file that is remembered whole


class Change:
    """One file: what is in it, and what shall be. ``None``: there is no such file."""

    __slots__ = ("after", "before", "note", "path", "private")

    def __init__(
        self, path: str, before: str | None, after: str | None, note: str = "", *, private: bool = False
    ) -> None:
        self.path = path
        self.before = before
        self.after = after
        self.note = note
        self.private = private  # what we remember: nobody needs to see it

    @property
    def action(self) -> str:
        if self.before == self.after:
            return "keep"
        return "create" if self.before is None else "remove" if self.after is None else "change"

    def diff(self) -> str:
        if self.private:
            return ""
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
            if self.after is None:
                os.unlink(self.path)
            else:
                _write(self.path, self.after, self.private)
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path} cannot be written: {error.strerror}.", hint="Check its permissions."
            ) from None


class Plan:
    """The changes of one install or uninstall."""

    def __init__(self, recipe: Recipe, *, uninstall: bool) -> None:
        self.recipe = recipe
        self.uninstall = uninstall
        self._texts: dict[str, str | None] = {}  # as they will be
        self._notes: dict[str, str] = {}
        self._memory = Memory(recipe)
        for path, edits in self._edited().items():
            self._settings(path, edits)
        for path, text in recipe.files().items():
            self._own(path, text)
        self._texts.update(self._memory.change(forget=uninstall))

    @property
    def changes(self) -> list[Change]:
        return [
            Change(path, _read(path), text, self._notes.get(path, ""), private=path == self._memory.path)
            for path, text in self._texts.items()
        ]

    def _edited(self) -> dict[str, Settings]:
        """The settings files, and what is done to each."""
        recipe = self.recipe
        if recipe.agent == "codex":
            return {recipe.settings: JsonSettings(recipe, hooks=True), recipe.servers: TomlSettings(recipe)}
        if recipe.settings == recipe.servers:
            return {recipe.settings: JsonSettings(recipe, hooks=True, server=True)}
        return {
            recipe.settings: JsonSettings(recipe, hooks=True),
            recipe.servers: JsonSettings(recipe, server=True),
        }

    def _settings(self, path: str, settings: Settings) -> None:
        """A file of somebody's settings: with us in it, or as it would be if we had never been."""
        now = _read(path)
        without = self._without(path, settings, now)
        if self.uninstall:
            if now is not None:
                self._texts[path] = without
            return
        self._texts[path] = text = settings.put_in(path, now)
        if settings.note:
            self._notes[path] = settings.note
        self._memory.keep(path, without, text)

    def _without(self, path: str, settings: Settings, now: str | None) -> str | None:
        """The text without us, hand edits kept. What nobody edited since is as it was, to the byte."""
        if now is None:
            return None
        known = self._memory.of(path)
        if known is None:
            return now if not self.uninstall else settings.take_out(path, now)
        before, installed = known
        if now == installed:
            return before
        if before is not None:
            undone = undo(before, installed, now)
            if settings.fits(path, undone, before, now):
                return undone
        return settings.take_out(path, now, before)

    # -- files of our own

    def _own(self, path: str, text: str) -> None:
        there = _read(path)
        if there is not None and there != text and not self._memory.is_own(path, there):
            self._texts[path] = there
            self._notes[path] = "it is not as leftoff wrote it, and stays as it is"
        elif self.uninstall:
            if there is not None:
                self._texts[path] = None
        else:
            self._texts[path] = text
            self._memory.keep_own(path, text)  # another version of leftoff may have other words

    def apply(self) -> None:
        for change in self.changes:
            change.write()
            if change.action == "remove":
                _tidy(change.path, self.recipe.base)


class Memory:
    """What each settings file was without us, and what it became: a file of ours, for its owner alone."""

    def __init__(self, recipe: Recipe) -> None:
        self.base = recipe.base
        self.path = os.path.join(recipe.folder, MEMORY)
        if not recipe.user:  # where git does not look
            self.path = os.path.join(recipe.base, FOLDER, f"install-{recipe.agent}.json")
        self._known: dict[str, Any] = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(_read(self.path) or "{}")
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def of(self, path: str) -> tuple[str | None, str] | None:
        """The text without us (``None``: there was no file) and the one with us."""
        known = self._known.get(os.path.relpath(path, self.base))
        if not isinstance(known, dict) or not isinstance(known.get("installed"), str):
            return None
        before = known.get("before")
        return (before if isinstance(before, str) else None), known["installed"]

    def is_own(self, path: str, text: str) -> bool:
        """Whether a file of our own is as we wrote it, in whatever version."""
        known = self._known.get(os.path.relpath(path, self.base))
        return isinstance(known, dict) and known.get("wrote") == _digest(text)

    def keep_own(self, path: str, text: str) -> None:
        self._known[os.path.relpath(path, self.base)] = {"wrote": _digest(text)}

    def keep(self, path: str, before: str | None, installed: str) -> None:
        name = os.path.relpath(path, self.base)
        self._known.pop(name, None)
        if len(installed) <= LARGEST:
            self._known[name] = {"before": before, "installed": installed}

    def change(self, *, forget: bool) -> dict[str, str | None]:
        there = _read(self.path)
        if forget or not self._known:
            return {} if there is None else {self.path: None}
        return {self.path: json.dumps(self._known, indent=2, sort_keys=True) + "\n"}


def _digest(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


# -- files


def _read(path: str) -> str | None:
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


def _write(path: str, text: str, private: bool) -> None:
    """All of it or nothing; through a link, and with the permissions that were there."""
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    if os.path.basename(folder) == FOLDER:
        make_folder(folder)
    os.makedirs(folder, exist_ok=True)
    fd, part = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".leftoff-")
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh = 0o600 if private else 0o644
        os.chmod(part, os.stat(real).st_mode & 0o7777 if os.path.exists(real) else fresh)
        os.replace(part, real)
    except BaseException:
        os.unlink(part)
        raise


def _tidy(path: str, base: str) -> None:
    """Remove the folders that are empty without a file, up to the project's or the user's own, which stays."""
    folder = os.path.dirname(path)
    while folder.startswith(base + os.sep):
        try:
            if os.path.basename(folder) == FOLDER:
                forget_folder(folder)
                return
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
