"""Which files change, and to what: worked out first, shown, then written."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from leftoff.agents.install.edit import Editor
from leftoff.agents.install.jsonc import ARRAY, OBJECT, Node
from leftoff.agents.install.recipes import Recipe, is_ours
from leftoff.errors import Invalid, StoreUnavailable

MEMORY = ".leftoff-install.json"  # beside the settings: what was there and empty, where anything was
_TOML = "mcp_servers.leftoff"


class Change:
    """One file: what is in it, and what shall be. ``None``: there is no such file."""

    __slots__ = ("after", "before", "note", "path")

    def __init__(self, path: str, before: str | None, after: str | None, note: str = "") -> None:
        self.path = path
        self.before = before
        self.after = after
        self.note = note

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


class Plan:
    """The changes of one install or uninstall."""

    def __init__(self, recipe: Recipe, *, uninstall: bool) -> None:
        self.recipe = recipe
        self.uninstall = uninstall
        self._texts: dict[str, str | None] = {}  # as they will be
        self._notes: dict[str, str] = {}
        self._memory_path = os.path.join(recipe.folder, MEMORY)
        self._memory: dict[str, Any] = self._remembered()
        self._json(recipe.settings, self._hooks)
        if recipe.agent == "codex":
            self._toml(recipe.servers)
        else:
            self._json(recipe.servers, self._server)
        for path, text in recipe.files().items():
            self._own(path, text)
        self._keep_memory()

    @property
    def changes(self) -> list[Change]:
        return [
            Change(path, _read(path), text, self._notes.get(path, "")) for path, text in self._texts.items()
        ]

    # -- what was there before

    def _remembered(self) -> dict[str, Any]:
        try:
            found = json.loads(_read(self._memory_path) or "{}")
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def _keep_memory(self) -> None:
        known = {} if self.uninstall else {key: value for key, value in self._memory.items() if value}
        if known or _read(self._memory_path) is not None:
            self._texts[self._memory_path] = json.dumps(known, indent=2) + "\n" if known else None

    # -- settings in JSON

    def _json(self, path: str, edit: Any) -> None:
        before = self._texts.get(path, _read(path))
        name = os.path.relpath(path, self.recipe.base)
        memory = self._memory.setdefault(name, {})
        if before is None or not before.strip().strip("\ufeff"):
            if self.uninstall:
                return
            if before is not None:
                memory["whole"] = before
            before = None
        editor = Editor(before if before is not None else "{}\n", path, memory.get("empty"))
        blank = not editor.root.items
        if blank and not self.uninstall and before is not None:
            memory["whole"] = before
        edit(editor)
        if self.uninstall:
            after: str | None = editor.text if editor.root.items else memory.get("whole")
            self._texts[path] = after if editor.text != before else before
            return
        if before is None or "whole" in memory:
            editor.empty.pop("", None)
        if editor.empty:
            memory["empty"] = editor.empty
        self._texts[path] = editor.text

    def _hooks(self, editor: Editor) -> None:
        for event, entry in self.recipe.hooks().items():
            keys = ("hooks", event)
            if self.uninstall:
                self._take_out(editor, keys)
            elif not self._brought_up(editor, keys, entry):
                editor.append(keys, entry)

    def _brought_up(self, editor: Editor, keys: tuple[str, ...], entry: dict[str, Any]) -> bool:
        """Whether our entry is there; if it is an older one, it becomes this one."""
        for group in _groups(editor.find(keys)):
            inner = group.get("hooks")
            ours = [node for node in inner.items if is_ours(node.plain(), self.recipe.agent)] if inner else []
            if ours and inner is not None:
                if len(ours) == len(inner.items):
                    editor.replace(group, entry, len(keys) + 1)
                else:
                    editor.replace(ours[0], entry["hooks"][0], len(keys) + 3)
                return True
        return False

    def _take_out(self, editor: Editor, keys: tuple[str, ...]) -> None:
        while True:
            for index, group in enumerate(_groups(editor.find(keys))):
                inner = group.get("hooks")
                ours = [is_ours(node.plain(), self.recipe.agent) for node in inner.items] if inner else []
                if any(ours) and inner is not None:
                    if all(ours):
                        editor.take_out(keys, index)
                    else:
                        _cut(editor, inner, ours.index(True))
                    break
            else:
                return

    def _server(self, editor: Editor) -> None:
        keys = ("mcpServers", "leftoff")
        there = editor.find(keys)
        if not self.uninstall:
            editor.put(keys, self.recipe.server())
        elif there is not None and _is_server(there.plain()):
            editor.take_out(keys)

    # -- Codex's settings in TOML

    def _toml(self, path: str) -> None:
        before = _read(path)
        text = before or ""
        eol = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else eol if text.endswith("\n") else eol * 2
        table = f'[{_TOML}]{eol}command = {json.dumps(self.recipe.command)}{eol}args = ["mcp"]{eol}'
        there = text.find(f"[{_TOML}]{eol}")
        if there < 0:
            if not self.uninstall:
                self._texts[path] = text + gap + table
                if before == "" or not text.endswith("\n"):
                    self._memory[os.path.relpath(path, self.recipe.base)] = {"open": before is not None}
            return
        end = there
        for line in text[there:].splitlines(keepends=True)[:3]:
            end += len(line)
        if not self.uninstall:
            self._texts[path] = text[:there] + table + text[end:]
            return
        known = self._memory.get(os.path.relpath(path, self.recipe.base), {})
        start = there - len(eol) if text[:there].endswith(eol * 2) or there == len(eol) else there
        if known.get("open") and text[:start].endswith(eol):
            start -= len(eol)
        left = text[:start] + text[end:]
        self._texts[path] = left if left or known.get("open") else None

    # -- files of our own

    def _own(self, path: str, text: str) -> None:
        there = _read(path)
        if there is not None and there != text:
            self._texts[path] = there
            self._notes[path] = "it is not as leftoff wrote it, and stays as it is"
        elif self.uninstall:
            if there is not None:
                self._texts[path] = None
        else:
            self._texts[path] = text

    def apply(self) -> None:
        for change in self.changes:
            change.write()
            if change.action == "remove":
                _tidy(change.path, self.recipe.base)


def _is_server(value: Any) -> bool:
    return isinstance(value, dict) and value.get("args") == ["mcp"]


def _groups(node: Node | None) -> list[Node]:
    """The entries of an event; each has a matcher and hooks."""
    return [item for item in node.items if item.kind == OBJECT] if node and node.kind == ARRAY else []


def _cut(editor: Editor, holder: Node, place: int) -> None:
    """One of several hooks of an entry, which is a person's own by now."""
    node = holder.items[place]
    if place > 0:
        editor.text = editor.text[: holder.items[place - 1].end] + editor.text[node.end :]
    else:
        editor.text = editor.text[: node.start] + editor.text[holder.items[1].start :]


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


def _tidy(path: str, base: str) -> None:
    """Remove the folders that are empty without a file, up to the project's or the user's own, which stays."""
    folder = os.path.dirname(path)
    while folder.startswith(base + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
