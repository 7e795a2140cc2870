"""What is put into a settings file, and taken out again where nobody remembers how it was: JSON and TOML."""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import Any, Protocol

from leftoff.agents.install.edit import Editor
from leftoff.agents.install.jsonc import ARRAY, OBJECT, Node, parse
from leftoff.agents.install.recipes import Recipe, is_ours
from leftoff.errors import Invalid

_SERVER = ("mcpServers", "leftoff")
_TAKEN = "a server called leftoff is there already, which is not this one, and stays as it is"


class Settings(Protocol):
    """One settings file."""

    note: str

    def put_in(self, path: str, now: str | None) -> str:
        """The text with us in it; what is there stays. ``Invalid`` where that cannot be read."""
        ...

    def take_out(self, path: str, now: str, before: str | None = None) -> str | None:
        """The text without us, as well as that can be told from it and what was there; ``None``: nothing is left."""
        ...

    def fits(self, path: str, undone: str, before: str, now: str) -> bool:
        """Whether a text is what is left of ``now`` without us, with what ``before`` had of the same kind."""
        ...


class JsonSettings:
    """Hooks, an MCP server, or both."""

    def __init__(self, recipe: Recipe, *, hooks: bool = False, server: bool = False) -> None:
        self.recipe = recipe
        self.hooks = hooks
        self.server = server
        self.note = ""

    def put_in(self, path: str, now: str | None) -> str:
        editor = Editor(now if now is not None and not _is_blank(now) else "{}\n", path)
        for event, entry in self.recipe.hooks().items() if self.hooks else ():
            keys = ("hooks", event)
            if not self._brought_up(editor, keys, entry):
                editor.append(keys, entry)
        if self.server:
            self._put_server(editor)
        return editor.text

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

    def _put_server(self, editor: Editor) -> None:
        there = editor.find(_SERVER)
        if there is None:
            editor.put(_SERVER, self.recipe.server())
        elif _is_server(there.plain()):
            editor.put((*_SERVER, "command"), self.recipe.command)
        else:
            self.note = _TAKEN

    def take_out(self, path: str, now: str, before: str | None = None) -> str | None:
        if _is_blank(now):
            return now
        editor = Editor(now, path, Editor(before, path) if before and not _is_blank(before) else None)
        for event in self.recipe.hooks() if self.hooks else ():
            self._take_hooks(editor, ("hooks", event))
        there = editor.find(_SERVER)
        if self.server and there is not None and _is_server(there.plain()):
            editor.take_out(_SERVER)
        if editor.text == now or editor.root.items:
            return editor.text
        return before if before is not None and _is_blank(before) else editor.text if before else None

    def _take_hooks(self, editor: Editor, keys: tuple[str, ...]) -> None:
        while True:
            for index, group in enumerate(_groups(editor.find(keys))):
                inner = group.get("hooks")
                ours = [is_ours(node.plain(), self.recipe.agent) for node in inner.items] if inner else []
                if any(ours) and inner is not None:
                    if all(ours):
                        editor.take_out(keys, index)
                    else:
                        editor.cut(inner, ours.index(True))
                    break
            else:
                return

    def fits(self, path: str, undone: str, before: str, now: str) -> bool:
        if _is_blank(undone):
            return _is_blank(before)
        try:
            made, had = parse(undone, path).plain(), {} if _is_blank(before) else parse(before, path).plain()
            is_now = parse(now, path).plain()
        except Invalid:
            return False
        return self._ours(made) == self._ours(had) and self._rest(made) == self._rest(is_now)

    def _ours(self, value: Any) -> list[Any]:
        """What looks like ours."""
        hooks = value.get("hooks") if self.hooks and isinstance(value.get("hooks"), dict) else {}
        found = [
            (event, hook)
            for event, groups in hooks.items()
            for group in (groups if isinstance(groups, list) else [])
            for hook in (group.get("hooks") or [] if isinstance(group, dict) else [])
            if is_ours(hook, self.recipe.agent)
        ]
        servers = value.get(_SERVER[0]) if self.server else None
        there = servers.get(_SERVER[1]) if isinstance(servers, dict) else None
        return [*found, there if _is_server(there) else None]

    def _rest(self, value: Any) -> Any:
        """Everything else; what would be empty without ours counts as not there."""
        out = dict(value)
        if self.hooks and isinstance(out.get("hooks"), dict):
            events = {event: self._others(groups) for event, groups in out["hooks"].items()}
            out["hooks"] = {event: groups for event, groups in events.items() if groups not in ([], None)}
        if self.server and isinstance(out.get(_SERVER[0]), dict):
            out[_SERVER[0]] = {
                k: v for k, v in out[_SERVER[0]].items() if k != _SERVER[1] or not _is_server(v)
            }
        return {key: entry for key, entry in out.items() if entry not in ({}, None)}

    def _others(self, groups: Any) -> Any:
        if not isinstance(groups, list):
            return groups
        out = []
        for group in groups:
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(hooks, list):
                out.append(group)
                continue
            left = [hook for hook in hooks if not is_ours(hook, self.recipe.agent)]
            if left or not hooks:
                out.append({**group, "hooks": left})
        return out


def _is_blank(text: str) -> bool:
    return not text.strip().strip("\ufeff").strip()


def _is_server(value: Any) -> bool:
    """Whether this starts `leftoff mcp`, wherever that leftoff is."""
    command = value.get("command") if isinstance(value, dict) else None
    named = isinstance(command, str) and os.path.basename(command) == "leftoff"
    return named and isinstance(value, dict) and value.get("args") == ["mcp"]


def _groups(node: Node | None) -> list[Node]:
    """The entries of an event; each has a matcher and hooks."""
    return [item for item in node.items if item.kind == OBJECT] if node and node.kind == ARRAY else []


# -- TOML

_NAME = r"""(?:leftoff|"leftoff"|'leftoff')"""
_TABLE = re.compile(rf"^[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*{_NAME}[ \t]*(\]|\.)[^\n]*$", re.MULTILINE)
_ANY_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


class TomlSettings:
    """Codex's MCP servers: a table of our own at the end of the file."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.note = ""

    def put_in(self, path: str, now: str | None) -> str:
        text = now or ""
        there = _toml_server(text, path)
        if there is None:
            return self._appended(path, text)
        if not _is_server(there):
            self.note = _TAKEN
        elif there.get("command") != self.recipe.command:
            return self._moved(text, there["command"])
        return text

    def _appended(self, path: str, text: str) -> str:
        eol = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text else eol if text.endswith("\n") else eol * 2
        command = json.dumps(self.recipe.command)
        made = f'{text}{gap}[mcp_servers.leftoff]{eol}command = {command}{eol}args = ["mcp"]{eol}'
        try:
            tomllib.loads(made)
        except tomllib.TOMLDecodeError:
            raise Invalid(
                f"{path}: `mcp_servers` is written so that no table can be added to it.",
                hint="Nothing was changed. Write each server as a table: [mcp_servers.NAME]",
            ) from None
        return made

    def _moved(self, text: str, old: str) -> str:
        """Our own table, of a leftoff that was elsewhere; left as it is where it is written in another way."""
        new = json.dumps(self.recipe.command)
        for quoted in (json.dumps(old), f"'{old}'"):
            made = text.replace(f"command = {quoted}", f"command = {new}")
            if made != text:
                return made
        return text

    def take_out(self, path: str, now: str, before: str | None = None) -> str | None:
        if not _is_server(_toml_server(now, path)):
            return now
        text = now
        while found := _TABLE.search(text):
            after = _ANY_TABLE.search(text, found.end())
            end = after.start() if after is not None else len(text)
            start = found.start()
            if text[:start].endswith(("\n\n", "\r\n\r\n")) and end == len(text):
                start -= 2 if text[:start].endswith("\r\n") else 1
            text = text[:start] + text[end:]
        return text or None

    def fits(self, path: str, undone: str, before: str, now: str) -> bool:
        try:
            made, had, is_now = (tomllib.loads(text) for text in (undone, before, now))
        except tomllib.TOMLDecodeError:
            return False
        servers = [table.get("mcp_servers", {}).get("leftoff") for table in (made, had)]
        return servers[0] == servers[1] and _toml_rest(made) == _toml_rest(is_now)


def _toml_server(text: str, path: str) -> Any:
    try:
        found = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{path}: {error}.", hint="Nothing was changed. Mend the file first.") from None
    servers = found.get("mcp_servers")
    return servers.get("leftoff") if isinstance(servers, dict) else None


def _toml_rest(table: dict[str, Any]) -> dict[str, Any]:
    servers = {name: value for name, value in table.get("mcp_servers", {}).items() if name != "leftoff"}
    return {**{key: value for key, value in table.items() if key != "mcp_servers"}, "mcp_servers": servers}
