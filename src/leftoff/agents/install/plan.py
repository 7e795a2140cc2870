"""Which files change, and to what: worked out first, shown, then written."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

from leftoff.agents.install.files import Change, tidy
from leftoff.agents.install.json_text import JsonText
from leftoff.agents.install.merge import (
    has_ours,
    hooks_in,
    hooks_out,
    known_by_form,
    server_in,
    server_out,
    switch_in,
    switch_out,
)
from leftoff.agents.install.recipes import Recipe
from leftoff.agents.install.toml_text import TomlText
from leftoff.errors import Invalid
from leftoff.operations.settings.agent_files import SettingsFiles

_BLANKS = "\ufeff \t\r\n"


class Plan:
    """The changes of one install or uninstall."""

    def __init__(self, recipe: Recipe, *, uninstall: bool) -> None:
        self.recipe = recipe
        self.uninstall = uninstall
        self._texts: dict[str, str | None] = {}  # as they will be
        self._notes: dict[str, str] = {}
        self._files = SettingsFiles(recipe.base, user=recipe.user)
        self._memory = Memory(recipe.folder, recipe.base, self._files.read)
        edits: dict[str, list[Any]] = {}
        edits.setdefault(recipe.settings, []).append(self._hooks)
        edits.setdefault(recipe.servers, []).append(self._server)
        switch = recipe.switch()
        if switch is not None:
            edits.setdefault(switch[0], []).append(self._switch)
        for path, wanted in edits.items():
            self._out_of(path, wanted[::-1]) if uninstall else self._into(path, wanted)
        for path, text in recipe.files().items():
            self._remove_own(path, text) if uninstall else self._own(path, text)
        for path in self._memory.own_files(recipe.files()):
            self._remove_own(path, "")

    @property
    def changes(self) -> list[Change]:
        """In the order to be made: nothing of ours stands anywhere without being remembered."""
        made = [self._change(path, text) for path, text in self._texts.items()]
        kept = None if self.uninstall else self._memory.text
        memory = Change(self._memory.path, self._memory.written, kept)
        if memory.before is None and memory.after is None:
            return made
        return [*made, memory] if self.uninstall else [memory, *made]

    def _change(self, path: str, text: str | None) -> Change:
        change = Change(path, self._files.read(path), text, self._notes.get(path, ""))
        real = self._files.elsewhere(path)
        if real and not change.note and change.action != "keep":
            change.note = f"it is a link, and {real} is what changes"
        return change

    def apply(self) -> None:
        changes = [change for change in self.changes if change.action != "keep"]
        for change in changes:
            self._files.check(change.path)
        for change in changes:
            self._files.write(change.path, change.after)
            if change.action == "remove":
                tidy(change.path, self.recipe.base)

    # -- settings

    def _open(self, path: str, text: str, part: dict[str, Any]) -> Any:
        return (TomlText if path.endswith(".toml") else JsonText)(text, path, part.get("empty"))

    def _into(self, path: str, edits: list[Any]) -> None:
        before = self._files.read(path)
        blank = before is None or not before.strip(_BLANKS)
        part = None if blank else self._memory.of(path)
        known = part is not None
        if part is None:
            part = {"made": True} if before is None else {"blank": before} if blank else {}
        part = copy.deepcopy(part)
        start = before or ""
        text = self._open(path, "{}\n" if blank and not path.endswith(".toml") else start, part)
        for edit in edits:
            edit(text, part, known)
        if text.empty:
            part["empty"] = text.empty
        self._memory.keep(path, part)
        self._texts[path] = text.text

    def _out_of(self, path: str, edits: list[Any]) -> None:
        before = self._files.read(path)
        if before is None or not before.strip(_BLANKS):
            return
        known = self._memory.of(path)
        part = known or {}
        text = self._open(path, before, part)
        for edit in edits:
            edit(text, part, known is not None)
        if text.text == before or not text.nothing_left:
            self._texts[path] = text.text
        elif known is None or part.get("made"):
            self._texts[path] = None
        else:
            self._texts[path] = part.get("blank", text.text)

    def _hooks(self, text: JsonText, part: dict[str, Any], known: bool) -> None:
        agent = self.recipe.agent
        if self.uninstall:
            hooks_out(text, agent, part, known=known)
        else:
            hooks_in(text, agent, self.recipe.hooks(), part, known=known)

    def _server(self, text: JsonText | TomlText, part: dict[str, Any], known: bool) -> None:
        at = ("mcp_servers" if self.recipe.agent == "codex" else "mcpServers", "leftoff")
        before = _others(text.plain(), at)
        if self.uninstall:
            server_out(text, at, part, known=known)
        else:
            server_in(text, at, self.recipe.server(), part, known=known)
        if before != _others(text.plain(), at):  # never seen, and worse than anything else that could happen
            raise text.wrong(at, "leftoff cannot change this without changing something else")

    def _switch(self, text: JsonText | TomlText, part: dict[str, Any], known: bool) -> None:
        switch = self.recipe.switch()
        assert switch is not None
        if self.uninstall:
            lost = not known and has_ours(text, self.recipe.agent)
            switch_out(text, known_by_form(text, *switch[1:]) if lost else part)
        else:
            switch_in(text, switch[1], switch[2], part)

    # -- files of our own

    def _own(self, path: str, text: str) -> None:
        there, part = self._files.read(path), self._memory.of(path)
        ours = part is not None and there is not None and part.get("own") == digest(there)
        if there is None or ours:
            self._texts[path] = text
            self._memory.keep(path, {"own": digest(text)})
        else:
            self._texts[path] = there
            if there != text:
                self._notes[path] = "it is not as leftoff wrote it, and stays as it is"

    def _remove_own(self, path: str, text: str) -> None:
        there, part = self._files.read(path), self._memory.of(path)
        if there is None:
            return
        wrote = digest(text) if self._memory.written is None else (part or {}).get("own")
        self._texts[path] = None if wrote == digest(there) else there
        if wrote is not None and wrote != digest(there):
            self._notes[path] = "it is not as leftoff wrote it, and stays as it is"


def _others(data: Any, at: tuple[str, str]) -> str:
    """All that is not our server."""
    outer = data.get(at[0])
    if isinstance(outer, dict):
        outer.pop(at[1], None)
        if not outer:
            del data[at[0]]
    return repr(data)


NAME = ".leftoff-install.json"
_SHAPES: dict[str, type] = {
    "made": bool,
    "blank": str,
    "empty": dict,
    "server": dict,
    "hooks": dict,
    "switch": dict,
    "own": str,
}


class Memory:
    """What install remembers, beside the settings: what was there before, so that uninstall can give it back.

    By file (its path in the project or the user's home): whether it was ``made``, or was ``blank``; which objects and
    lists were there and ``empty``, and how they were written; what our entries said where there were such before
    (``server``, ``hooks``), what was put in to ``switch`` something on; and, for files of our own, the digest of what
    was written (``own``).
    """

    def __init__(self, folder: str, base: str, read: Callable[[str], str | None]) -> None:
        self.path = os.path.join(folder, NAME)
        self._base = base
        self.written = read(self.path)
        self._parts = self._read(self.written)

    def _read(self, text: str | None) -> dict[str, dict[str, Any]]:
        if text is None:
            return {}
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(map(_sound, found.values())):
            raise Invalid(
                f"{self.path} is not as leftoff wrote it.",
                hint="Nothing was changed. Remove it: then what leftoff put into the settings is known by its form.",
            )
        return found

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self._base)

    def of(self, path: str) -> dict[str, Any] | None:
        """What is known of a file; ``None`` where nothing of ours was put into it."""
        return self._parts.get(self._name(path))

    def own_files(self, but: dict[str, str]) -> list[str]:
        """Files of our own that an earlier leftoff wrote, under names that are no more."""
        names = {self._name(path) for path in but}
        old = [name for name, part in self._parts.items() if "own" in part and name not in names]
        return [os.path.join(self._base, name) for name in old]

    def forget(self, path: str) -> None:
        self._parts.pop(self._name(path), None)

    def keep(self, path: str, part: dict[str, Any]) -> None:
        self._parts[self._name(path)] = part

    @property
    def text(self) -> str:
        return json.dumps(self._parts, indent=2, sort_keys=True) + "\n"


def _sound(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    if not all(isinstance(value, _SHAPES.get(key, object)) for key, value in part.items()):
        return False
    switch = part.get("switch", {"at": [], "value": None})
    return (
        all(isinstance(inner, str) for inner in part.get("empty", {}).values())
        and all(isinstance(record, dict) for record in part.get("hooks", {}).values())
        and isinstance(switch.get("at"), list)
        and "value" in switch
    )


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
