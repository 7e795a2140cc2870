"""Install leftoff for an agent: compute what changes in which file, write it, and check that the hooks fire."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from leftoff.agents.hook_events import SeenEvent, events_seen
from leftoff.agents.install_recipes import Recipe
from leftoff.agents.settings_text import (
    BLANKS,
    SettingsEntries,
    add_to_json,
    add_to_toml,
    remove_from_json,
    remove_from_toml,
)
from leftoff.clock import iso
from leftoff.engine.project_files import ProjectFiles, mode_at, replace_at
from leftoff.errors import Conflict, Invalid, StoreUnavailable

_NOT_OURS = "it is not as leftoff wrote it, and stays as it is"


class SettingsFiles:
    """The settings files of agents below a project's folder, or below the home of a ``user``.

    A repository can contain `.claude/settings.json` as a link to anywhere, so no link is followed in a project. Links
    in the user's own home are followed: many users keep their settings in a folder of dotfiles.
    """

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
                f"{path} was changed in the meantime.", hint="Another process writes it. Try again."
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


@dataclass
class FileChange:
    """The text of one file before and after. ``None``: there is no such file."""

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
        old, new = (text.splitlines(keepends=True) if text else [] for text in (self.before, self.after))
        was, becomes = (self.path if text is not None else "/dev/null" for text in (self.before, self.after))
        lines = [
            line if line.endswith("\n") else f"{line}\n" for line in unified_diff(old, new, was, becomes)
        ]
        return "".join(lines).replace("\r\n", "\n")


class InstallPlan:
    """The changes of one install or uninstall. Nothing is written before ``apply``.

    A journal next to the settings holds, for each file that leftoff writes, what uninstall needs to know:
    ``made`` (there was no file), ``switched`` (leftoff turned the todo list on), ``own`` (the digest of a file that
    is ours alone), and, if removing our entries would not give back the same bytes, the ``original`` text with the
    digest of what was ``written`` instead. The original is restored only if the file is still as it was written.
    """

    def __init__(self, recipe: Recipe, *, uninstall: bool) -> None:
        self._recipe = recipe
        self._files = SettingsFiles(recipe.base, user=recipe.user)
        self._journal_path = journal_path(recipe)
        journal_text = self._files.read(self._journal_path)
        self._journal = self._read_journal(journal_text)
        settings, files = recipe.entries(), recipe.files()
        if uninstall:
            made = [self._uninstall(path, entries) for path, entries in settings.items()]
            made += [self._remove_own(path, text) for path, text in files.items()]
        else:
            made = [self._install(path, entries) for path, entries in settings.items()]
            made += [self._write_own(path, text) for path, text in files.items()]
        after = None if uninstall else json.dumps(self._journal, indent=2, sort_keys=True) + "\n"
        journal = FileChange(self._journal_path, journal_text, after)
        # The journal is written first and removed last: no entry of ours is ever unrecorded.
        self.changes = [*made, journal] if uninstall else [journal, *made]
        self.changes = [change for change in self.changes if (change.before, change.after) != (None, None)]
        for change in self.changes:
            real = self._files.elsewhere(change.path)
            if real and not change.note and change.action != "keep":
                change.note = f"it is a link, and {real} is what changes"

    def apply(self) -> None:
        changes = [change for change in self.changes if change.action != "keep"]
        for change in changes:
            self._files.check(change.path)
        for change in changes:
            # The journal may hold the text of a private file.
            self._files.write(change.path, change.after, private=change.path == self._journal_path)
            if change.action == "remove":
                self._remove_empty_folders(os.path.dirname(change.path))

    def _remove_empty_folders(self, folder: str) -> None:
        while folder.startswith(self._recipe.base + os.sep):
            try:
                os.rmdir(folder)
            except OSError:
                return
            folder = os.path.dirname(folder)

    # -- settings

    def _install(self, path: str, entries: SettingsEntries) -> FileChange:
        before, known = self._files.read(path), self._journal.get(self._name(path))
        text = before or ""
        record: dict[str, Any] = {"made": True} if before is None else dict(known or {})
        if path.endswith(".toml"):  # the bytes before ours never change
            after = add_to_toml(text, path, entries)
        else:
            after, switched = add_to_json(text, path, entries)
            if before is not None and before != after:
                if known is None or _removed(before, path, entries, known) == before:
                    again = _removed(after, path, entries, {"switched": switched})
                    record = {} if again == before else {"original": before}
                elif record.pop("written", None) != text_digest(before):
                    record.pop("original", None)  # the user has edited the file since
                if "original" in record:
                    record["written"] = text_digest(after)
            if switched:
                record["switched"] = True
        self._journal[self._name(path)] = record
        return FileChange(path, before, after)

    def _uninstall(self, path: str, entries: SettingsEntries) -> FileChange:
        before, record = self._files.read(path), self._journal.get(self._name(path))
        if before is None:
            return FileChange(path, None, None)
        if record and "original" in record and record.get("written") == text_digest(before):
            return FileChange(path, before, record["original"])
        after = _removed(before, path, entries, record)
        nothing_left = after != before and _is_empty(after)
        ours = record is None or record.get("made")
        return FileChange(path, before, None if nothing_left and ours else after)

    # -- files that are ours alone

    def _write_own(self, path: str, text: str) -> FileChange:
        there, record = self._files.read(path), self._journal.get(self._name(path), {})
        if there is not None and record.get("own") != text_digest(there):
            return FileChange(path, there, there, "" if there == text else _NOT_OURS)
        self._journal[self._name(path)] = {"own": text_digest(text)}
        return FileChange(path, there, text)

    def _remove_own(self, path: str, text: str) -> FileChange:
        there, record = self._files.read(path), self._journal.get(self._name(path), {})
        wrote = record.get("own") if self._journal else text_digest(text)
        if there is None or wrote is None:
            return FileChange(path, there, there)
        if wrote != text_digest(there):
            return FileChange(path, there, there, _NOT_OURS)
        return FileChange(path, there, None)

    # -- the journal

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._recipe.base)

    def _read_journal(self, text: str | None) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads(text or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(record, dict) for record in found.values()):
            raise Invalid(
                f"{self._journal_path} is not as leftoff wrote it.",
                hint="Nothing was changed. Remove it: then what leftoff put into the settings is known by its form.",
            )
        return found


def journal_path(recipe: Recipe) -> str:
    return os.path.join(recipe.folder, ".leftoff-install.json")


def _removed(text: str, path: str, entries: SettingsEntries, record: dict[str, Any] | None) -> str:
    """Return a file's text without our entries."""
    if path.endswith(".toml"):
        return remove_from_toml(text, path)
    if not text.strip(BLANKS):
        return text
    switched = None if record is None else bool(record.get("switched"))
    return remove_from_json(text, path, entries, switched=switched)


def _is_empty(text: str) -> bool:
    """Return whether settings hold nothing but what an agent writes into every file: its schema or its version."""
    try:
        return all(key.startswith("$") for key in json.loads(text.strip(BLANKS) or "{}"))
    except ValueError:
        return False


def text_digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


# -- the check

_NOT_INSTALLED, _NOT_SEEN = 3, 7  # exit codes


@dataclass
class InstallCheck:
    """The result of a check. Events count only if they came after leftoff was last installed."""

    agent: str
    hooks: int
    current: bool
    missing_commands: list[str]  # what the hooks call that does not exist
    events: list[SeenEvent]
    missing: list[str]
    conditions: str

    @property
    def code(self) -> int:
        if not self.hooks or self.missing_commands:
            return _NOT_INSTALLED
        return _NOT_SEEN if self.missing else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "installed": bool(self.hooks) and not self.missing_commands,
            "current": self.current,
            "events": [
                {"event": one.event, "seen_at": iso(int(one.at * 1000)), "version": one.version or None}
                for one in self.events
            ],
            "missing": self.missing,
        }

    def lines(self) -> list[str]:
        again = f"`leftoff install {self.agent}`"
        if not self.hooks:
            return [f"leftoff is not installed for {self.agent} here.", f"{again} does it."]
        if self.missing_commands:
            return [
                f"The hooks call {self.missing_commands[0]}, which is not there.",
                f"{again} brings them up to date.",
            ]
        version = next((f" {one.version}" for one in self.events if one.version), "")
        out = [f"{self.hooks} hooks are installed for {self.agent}{version}."]
        out += [f"  {one.event:<20}last seen {iso(int(one.at * 1000))}" for one in self.events]
        if not self.current:
            out.append(f"They are not as this leftoff would write them: {again} brings them up to date.")
        if self.missing:
            out += [f"Not seen since they were installed: {', '.join(self.missing)}.", self.conditions]
            out.append("Then ask it anything, and check again.")
        return out


def check_install(recipe: Recipe, store: str) -> InstallCheck:
    """Compare an agent's settings with the events that the project's store has seen."""
    text = SettingsFiles(recipe.base, user=recipe.user).read(recipe.settings) or ""
    commands = recipe.calls(text)
    try:
        since = os.path.getmtime(journal_path(recipe))
    except OSError:
        since = 0.0
    events = [one for one in events_seen(store, recipe.agent) if one.at >= since]
    came = {one.event for one in events}
    gone = {command for command in commands if os.path.isabs(command) and not os.access(command, os.X_OK)}
    return InstallCheck(
        recipe.agent,
        len(commands),
        bool(commands) and _is_current(recipe),
        sorted(gone),
        events,
        [name for name in recipe.needed if commands and name not in came],
        recipe.conditions,
    )


def _is_current(recipe: Recipe) -> bool:
    """Return whether installing again would change nothing."""
    try:
        return all(change.action == "keep" for change in InstallPlan(recipe, uninstall=False).changes)
    except Invalid:
        return False
