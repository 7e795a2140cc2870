"""Add leftoff's entries to the text of an agent's settings file, and remove them.

The functions here take the text of a file and return the new text. JSON is parsed and written again with the file's own
indentation; the caller keeps the original text if that is not the same to the byte. A file with comments would lose
them, so it is refused, with the text for the user to paste. TOML is never rewritten: our tables are appended as one
block under a comment, and removing the block leaves the bytes that were there.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
import tomllib
from typing import Any, NamedTuple

from leftoff.errors import Invalid

Data = dict[str, Any]
BLANKS = "\ufeff \t\r\n"
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


class Switch(NamedTuple):
    """A setting that turns the agent's todo list on: the keys that lead to it, and the value for "on"."""

    keys: tuple[str, ...]
    value: Any


class SettingsEntries(NamedTuple):
    """The entries of leftoff for one settings file."""

    agent: str
    hooks: dict[str, Data] | None = None  # by event
    server: Data | None = None
    switch: Switch | None = None
    server_key: str = "mcpServers"


# -- recognizing our entries


def leftoff_called(hook: Any, agent: str) -> str | None:
    """Return what a hook calls as `leftoff hook AGENT`, a name or a path; ``None`` if it is not ours."""
    if not isinstance(hook, dict) or not isinstance(hook.get("command"), str):
        return None
    args = hook.get("args")
    try:
        words = [hook["command"], *args] if isinstance(args, list) and args else shlex.split(hook["command"])
    except ValueError:
        return None
    for at, word in enumerate(words):
        if os.path.basename(word) == "leftoff" and words[at + 1 : at + 3] == ["hook", agent]:
            return str(word)
    return None


def hook_commands(data: Data, agent: str) -> list[str]:
    """Return the path of leftoff in each of our hooks."""
    found = [leftoff_called(hook, agent) for _, group in _groups(data) for hook in group["hooks"]]
    return [command for command in found if command is not None]


def _groups(data: Data) -> list[tuple[str, Data]]:
    """Return each group of hooks with its event."""
    hooks = data.get("hooks")
    return [
        (event, group)
        for event, groups in (hooks.items() if isinstance(hooks, dict) else ())
        for group in (groups if isinstance(groups, list) else ())
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
    ]


def _is_our_server(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    command = value.get("command")
    words = command if isinstance(command, list) else [command, *(value.get("args") or [])]
    return (
        len(words) == 2
        and isinstance(words[0], str)
        and os.path.basename(words[0]) == "leftoff"
        and words[1] == "mcp"
    )


def _check_server(data: Data, entries: SettingsEntries, path: str) -> bool:
    """Return whether our server is there. Raise ``Invalid`` if its name is taken."""
    key = entries.server_key
    servers = data.get(key, {})
    if not isinstance(servers, dict):
        raise _refused(path, f"{key} is not a table of servers")
    server = servers.get("leftoff", {})
    if not isinstance(server, dict):
        raise _refused(path, "leftoff is not a server")
    if server and not _is_our_server(server):
        raise _refused(path, "another server is called leftoff; give it another name")
    return bool(server)


def _refused(path: str, what: str, paste: str = "", do: str = "Add this to it, then try again:") -> Invalid:
    """Return the error for a file that leftoff cannot edit, with the lines that the user can edit by hand."""
    error = Invalid(
        f"{path}: {what}.", hint=f"Nothing was changed. {do}" if paste else "Nothing was changed."
    )
    error.paste = paste
    return error


# -- JSON


def read_json_settings(text: str, path: str) -> tuple[Data, str]:
    """Return the settings in a text, and why it cannot be rewritten (empty if it can).

    Comments and trailing commas are read, because agents accept them.
    """
    text = text.removeprefix("\ufeff")
    problem = ""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        problem = "it has comments or trailing commas, which leftoff cannot keep"
        try:
            data = json.loads(_LAST_COMMA.sub(r"\1", _COMMENT.sub(r"\1", text)))
        except json.JSONDecodeError:
            where = f"{path}:{error.lineno}:{error.colno}"
            raise _refused(where, f"this is not JSON: {error.msg}") from None
    if not isinstance(data, dict):
        raise _refused(path, "the settings are not an object")
    return data, problem


def _write_json(data: Data, like: str) -> str:
    """Return settings as text with the indentation, line ends and last line of another text."""
    body = like.strip(BLANKS)
    indented = re.search(r"\n([ \t]+)\S", body)
    indent = indented[1] if indented else 2 if "\n" in body or not body.strip("{} ") else None
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    # A lone surrogate (a text that an agent cut in two) cannot be encoded.
    text = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    if "\r\n" in like:
        text = text.replace("\n", "\r\n")
    end = like[len(like.rstrip(BLANKS)) :] if body else "\n"
    return ("\ufeff" if like.startswith("\ufeff") else "") + text + end


def add_to_json(text: str, path: str, entries: SettingsEntries) -> tuple[str, bool]:
    """Return the text with our entries, and whether the switch was turned on by this."""
    data, problem = read_json_settings(text, path) if text.strip(BLANKS) else ({}, "")
    before = copy.deepcopy(data)
    if entries.hooks is not None:
        _add_hooks(data, entries.agent, entries.hooks, path)
    if entries.server is not None:
        _check_server(data, entries, path)
        data.setdefault(entries.server_key, {}).setdefault("leftoff", {}).update(entries.server)
    switched = entries.switch is not None and _turn_on(data, entries.switch, path)
    if data == before:
        return text, False
    if problem:
        raise _refused(path, problem, _paste_json(entries, with_switch=switched))
    return _write_json(data, text), switched


def _paste_json(entries: SettingsEntries, *, with_switch: bool) -> str:
    """Return our entries as text for the user to paste, one line for each event."""
    lines = []
    if entries.hooks is not None:
        events = [f'    "{event}": {json.dumps([group])}' for event, group in entries.hooks.items()]
        lines.append('  "hooks": {\n' + ",\n".join(events) + "\n  }")
    if entries.server is not None:
        lines.append(f'  "{entries.server_key}": {json.dumps({"leftoff": entries.server})}')
    if entries.switch is not None and with_switch:
        keys, value = entries.switch
        for key in reversed(keys[1:]):
            value = {key: value}
        lines.append(f'  "{keys[0]}": {json.dumps(value)}')
    return ",\n".join(lines)


def _add_hooks(data: Data, agent: str, wanted: dict[str, Data], path: str) -> None:
    """Make exactly one hook of each event call this leftoff. One that is there is updated and keeps its timeout."""
    hooks = data.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise _refused(path, "hooks is not an object")
    for event, group in wanted.items():
        if not isinstance(hooks.setdefault(event, []), list):
            raise _refused(path, f"{event} is not a list")
        present = [there for name, there in _groups(data) if name == event]
        kept = next(
            (there for there in present if any(leftoff_called(h, agent) for h in there["hooks"])), None
        )
        if kept is None:
            hooks[event].append(copy.deepcopy(group))
            continue
        number = next(n for n, hook in enumerate(kept["hooks"]) if leftoff_called(hook, agent))
        mine = kept["hooks"][number]
        mine |= {
            key: value for key, value in group["hooks"][0].items() if key != "timeout" or key not in mine
        }
        if "args" not in group["hooks"][0]:
            mine.pop("args", None)
        _remove_hooks(data, agent, event, but=mine)
        if "matcher" in group and len(kept["hooks"]) == 1:
            kept["matcher"] = group["matcher"]


def _remove_hooks(data: Data, agent: str, event: str, but: Data | None = None) -> None:
    """Remove our hooks of one event, except one, with the groups that become empty by it."""
    groups = data["hooks"][event]
    for name, group in _groups(data):
        if name == event:
            left = [hook for hook in group["hooks"] if hook is but or not leftoff_called(hook, agent)]
            if group["hooks"] and not left:
                groups[:] = [there for there in groups if there is not group]
            group["hooks"][:] = left


def _turn_on(data: Data, switch: Switch, path: str) -> bool:
    """Turn a setting on, unless the user has set it, on or off."""
    table = data
    for key in switch.keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise _refused(path, f"{key} is not a table of settings")
    if switch.keys[-1] in table:
        return False
    table[switch.keys[-1]] = switch.value
    return True


def _turn_off(data: Data, switch: Switch) -> None:
    """Remove a setting that is as leftoff set it, with the tables that become empty by it."""
    table, (key, *rest) = data.get(switch.keys[0]), switch.keys
    if not rest:
        if table == switch.value:
            del data[key]
    elif isinstance(table, dict) and table:
        _turn_off(table, Switch(tuple(rest), switch.value))
        if not table:
            del data[key]


def remove_from_json(text: str, path: str, entries: SettingsEntries, *, switched: bool | None) -> str:
    """Return the text without our entries.

    switched: whether leftoff turned the switch on. ``None``, if that is not known: yes, if our hooks are there.
    """
    data, problem = read_json_settings(text, path)
    before = copy.deepcopy(data)
    hooks = data.get("hooks")
    if entries.hooks is not None and isinstance(hooks, dict):
        if switched is None:
            switched = bool(hook_commands(data, entries.agent))
        for event in {event: None for event, _ in _groups(data)}:
            _remove_hooks(data, entries.agent, event)
            if not hooks[event] and before["hooks"][event]:
                del hooks[event]
        _drop_emptied(data, before, "hooks")
    if entries.server is not None and isinstance(servers := data.get(entries.server_key), dict):
        if _is_our_server(servers.get("leftoff")):
            del servers["leftoff"]
        _drop_emptied(data, before, entries.server_key)
    if entries.switch is not None and switched:
        _turn_off(data, entries.switch)
    if data == before:
        return text
    if problem:
        raise _refused(
            path, problem, _paste_json(entries, with_switch=bool(switched)), "Remove this from it:"
        )
    return _write_json(data, text)


def _drop_emptied(data: Data, before: Data, key: str) -> None:
    if not data[key] and before[key]:
        del data[key]


# -- TOML

_MARK = "# Added by leftoff; `leftoff install codex --uninstall` removes it."
# The comment, then our tables without a blank line, with the line end before it. There is no comment at the end: a
# program that adds a table would put it before that comment, and so into our block.
_BLOCK = re.compile(
    r"(?P<before>\r?\n)?" + re.escape(_MARK) + r"\r?\n"
    r"(?:\[(?:mcp_servers\.leftoff|tools\.update_plan)\]\r?\n(?:\w+ = [^\r\n]*(?:\r?\n|\Z))+)+"
)
_COMMAND = re.compile(r"(?m)^command = [^\r\n]*")


def add_to_toml(text: str, path: str, entries: SettingsEntries) -> str:
    """Return the text with our tables appended, or with the command in them updated."""
    assert entries.server is not None and entries.switch is not None
    data = _read_toml(text, path)
    command = f"command = {json.dumps(entries.server['command'], ensure_ascii=False)}"
    there = _check_server(data, entries, path)
    block = _BLOCK.search(text)
    if block is not None:
        return text[: block.start()] + _COMMAND.sub(lambda _: command, block[0]) + text[block.end() :]
    expected = copy.deepcopy(data)
    tables = []
    if not there:
        tables += ["[mcp_servers.leftoff]", command, f"args = {json.dumps(entries.server['args'])}"]
        expected.setdefault("mcp_servers", {})["leftoff"] = entries.server
    if _turn_on(expected, entries.switch, path):
        keys, value = entries.switch
        tables += [f"[{'.'.join(keys[:-1])}]", f"{keys[-1]} = {json.dumps(value)}"]
    if not tables:
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    # Removing the block takes one line end with it. A text that ends with one gets a blank line.
    added = text + (end if text else "") + end.join([_MARK, *tables, ""])
    try:
        fits = tomllib.loads(added) == expected
    except tomllib.TOMLDecodeError:
        fits = False
    if not fits:
        raise _refused(path, "leftoff cannot append its tables to this file", "\n".join(tables))
    return added


def remove_from_toml(text: str, path: str) -> str:
    """Return the text without our block. Raise ``Invalid`` if our server is there without it."""
    data = _read_toml(text, path)
    block = _BLOCK.search(text)
    if block is None:
        servers = data.get("mcp_servers")
        server = servers.get("leftoff", {}) if isinstance(servers, dict) else {}
        if _is_our_server(server) and os.path.isabs(
            server["command"]
        ):  # pasted, or rewritten by another program
            raise _refused(path, "it has a table of leftoff", "[mcp_servers.leftoff]", "Remove this from it:")
        return text
    for table, name in (("mcp_servers", "leftoff"), ("tools", "update_plan")):
        if f"[{table}.{name}]" in block[0]:
            del data[table][name]
    head, tail = text[: block.start()], text[block.end() :]
    if head and tail and not head.endswith("\n"):
        head += block["before"] or "\n"
    try:
        left = tomllib.loads(head + tail)
    except tomllib.TOMLDecodeError:
        left = {}
    if _without_empty(left) != _without_empty(data):
        raise _refused(path, "leftoff's tables were edited", block[0].strip(), "Remove them from it:")
    return head + tail


def _without_empty(data: Data) -> Data:
    return {key: value for key, value in data.items() if value != {}}


def _read_toml(text: str, path: str) -> Data:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        where = f"{path}:{place[1]}:{place[2]}" if place else path
        raise _refused(where, "this is not TOML") from None
