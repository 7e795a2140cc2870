"""The entries of leftoff in somebody's settings: put in, brought up to date, given back.

An entry of ours is put in where there is none, and taken out whole. One that was there before, because its user wrote
it or has a server of that name, is changed in place, member by member, and what was written there is noted
(``record``): it is given back just so. Members that are none of ours are never touched.
"""

from __future__ import annotations

import os
import shlex
from typing import Any, Protocol

Path = tuple[Any, ...]
Record = dict[str, Any]
Part = dict[str, Any]  # what is remembered of one file
_REMOTE = ("url", "httpUrl", "serverUrl")


class Text(Protocol):
    """Settings in some format, as a text that is being changed."""

    text: str

    def has(self, path: Any) -> bool: ...
    def value(self, path: Any) -> Any: ...
    def set(self, path: Any, value: Any) -> str: ...
    def put_back(self, path: Any, written: str) -> None: ...
    def add(self, path: Any, value: Any) -> None: ...
    def take_out(self, path: Any) -> None: ...
    def wrong(self, path: Any, what: str) -> Exception: ...


class Lists(Text, Protocol):
    """Those that have lists of entries, too."""

    def append(self, path: Any, value: Any) -> None: ...
    def cut(self, path: Any) -> str: ...
    def paste(self, path: Any, written: str) -> bool: ...


# -- one entry


def bring_up(text: Text, at: Path, wanted: dict[str, Any], record: Record | None) -> None:
    """Make an entry say what is wanted. ``record``: where to note what it said before."""
    there = text.value(at)
    noted: Record = record if record is not None else {}
    was, added = noted.setdefault("was", {}), noted.setdefault("added", [])
    for key, value in wanted.items():
        if key not in there:
            text.add((*at, key), value)
            if key not in was and key not in added:
                added.append(key)
        elif there[key] != value:
            written = text.set((*at, key), value)
            if key not in added:
                was.setdefault(key, written)


def give_back(text: Text, at: Path, record: Record) -> None:
    """Make an entry say what it said before."""
    for key in reversed(record.get("added", [])):
        if text.has((*at, key)):
            text.take_out((*at, key))
    for key, written in record.get("was", {}).items():
        text.put_back((*at, key), written)


# -- the MCP server


def server_in(text: Text, at: Path, wanted: dict[str, Any], part: Part, *, known: bool) -> None:
    """Register the server. ``known``: leftoff has been installed in this file before."""
    there = text.value(at)
    if text.has(at[:-1]) and not isinstance(text.value(at[:-1]), dict):
        raise text.wrong(at[:-1], f"{at[-2]} is not a table of servers")
    if not text.has(at):
        text.add(at, wanted)
        return
    if not isinstance(there, dict):
        raise text.wrong(at, f"{at[-1]} is not a server")
    if any(key in there for key in _REMOTE) or there.get("type", "stdio") != "stdio":
        raise text.wrong(at, f"another server is called {at[-1]}, a remote one; give it another name")
    if not known or not is_server(there):
        part.setdefault("server", {})
    bring_up(text, at, wanted, part.get("server"))


def server_out(text: Text, at: Path, part: Part, *, known: bool) -> None:
    there = text.value(at)
    if not isinstance(there, dict):
        return
    if "server" in part:
        give_back(text, at, part["server"])
    elif is_server(there) and (known or os.path.isabs(there["command"])):
        text.take_out(at)


def is_server(value: Any) -> bool:
    """Whether this starts `leftoff mcp`, wherever that leftoff is."""
    if not isinstance(value, dict) or not isinstance(value.get("command"), str):
        return False
    return os.path.basename(value["command"]) == "leftoff" and value.get("args") == ["mcp"]


# -- a switch


def switch_in(text: Text, at: Path, value: Any, part: Part) -> None:
    """Switch something on that is neither on nor off. What was put in for that is noted."""
    if text.has(at):
        return  # its user has decided
    for number in range(1, len(at)):
        if text.has(at[:number]) and not isinstance(text.value(at[:number]), dict):
            raise text.wrong(at[:number], f"{at[number - 1]} is not a table of settings")
    if not text.has(at[:-1]):
        at, value = at[:-1], {at[-1]: value}
    text.add(at, value)
    part["switch"] = {"at": list(at), "value": value}


def switch_out(text: Text, part: Part) -> None:
    """Out again, unless somebody has changed it since."""
    noted = part.get("switch")
    if not noted:
        return
    at, value = tuple(noted["at"]), noted["value"]
    there = text.value(at)
    if there == value:
        text.take_out(at)
    elif isinstance(value, dict) and isinstance(there, dict):
        for key in [key for key, wanted in value.items() if there.get(key) == wanted]:
            text.take_out((*at, key))


def known_by_form(text: Text, at: Path, value: Any) -> Part:
    """What would have been noted of a switch, where the rest of us is there and nothing is noted any more."""
    there = text.value(at[:-1])
    if not isinstance(there, dict) or there.get(at[-1]) != value:
        return {}
    alone = len(there) == 1
    found = {"at": list(at[:-1] if alone else at), "value": there if alone else value}
    return {"switch": found}


# -- hooks


def hooks_in(text: Lists, agent: str, hooks: dict[str, Any], part: Part, *, known: bool) -> None:
    """One hook for each event; where there is one of leftoff's, it becomes this one."""
    if text.has(("hooks",)) and not isinstance(text.value(("hooks",)), dict):
        raise text.wrong(("hooks",), "hooks is not an object")
    if not known:
        for event in text.value(("hooks",)) or ():
            if _ours(text, agent, event):
                part.setdefault("hooks", {})[event] = {}
    for event, entry in hooks.items():
        found = _ours(text, agent, event)
        if not found:
            text.append(("hooks", event), entry)
            continue
        record = part.get("hooks", {}).get(event)
        _cut_others(text, event, found[1:], record)
        _bring_up_hook(text, (*found[0],), entry, record)


def _bring_up_hook(text: Lists, at: Path, entry: dict[str, Any], record: Record | None) -> None:
    there = text.value(at)
    wanted = {key: value for key, value in entry["hooks"][0].items() if key != "timeout" or key not in there}
    if "args" in there:
        wanted.setdefault("args", [])
    bring_up(text, at, wanted, record.setdefault("hook", {}) if record is not None else None)
    group = at[:-2]
    if "matcher" in entry and len(text.value(at[:-1])) == 1:
        wanted = {"matcher": entry["matcher"]}
        bring_up(text, group, wanted, record.setdefault("group", {}) if record is not None else None)


def _cut_others(text: Lists, event: str, others: list[Path], record: Record | None) -> None:
    """A second hook of leftoff's for the same event is out of the way until leftoff is uninstalled."""
    for at in reversed(others):
        whole = len(text.value(at[:-1])) == 1
        place = at[:-2] if whole else at
        written = text.cut(place)
        if record is not None:
            record.setdefault("cut", []).append([list(place), written])


def hooks_out(text: Lists, agent: str, part: Part, *, known: bool) -> None:
    hooks = text.value(("hooks",))
    for event in list(hooks) if isinstance(hooks, dict) else ():
        record = part.get("hooks", {}).get(event)
        if record is None:
            _take_out(text, agent, event, known)
            continue
        for at in _ours(text, agent, event)[:1]:
            give_back(text, at[:-2], record.get("group", {}))
            give_back(text, at, record.get("hook", {}))
        for place, written in reversed(record.get("cut", [])):
            text.paste(tuple(place), written)


def has_ours(text: Any, agent: str) -> bool:
    """Whether hooks or a server of ours are there, known by an absolute path."""
    hooks, server = text.value(("hooks",)), text.value(("mcp_servers", "leftoff"))
    found = any(
        _ours(text, agent, event, anywhere=False) for event in (hooks if isinstance(hooks, dict) else ())
    )
    return found or (is_server(server) and os.path.isabs(server["command"]))


def _take_out(text: Lists, agent: str, event: str, known: bool) -> None:
    while found := _ours(text, agent, event, anywhere=known):
        at = found[-1]
        text.take_out(at[:-2] if len(text.value(at[:-1])) == 1 else at)


def _ours(text: Lists, agent: str, event: str, *, anywhere: bool = True) -> list[Path]:
    """Where the hooks of leftoff's for an event are. Not ``anywhere``: only those that have an absolute path."""
    out: list[Path] = []
    groups = text.value(("hooks", event))
    for number, group in enumerate(groups if isinstance(groups, list) else ()):
        inner = group.get("hooks") if isinstance(group, dict) else None
        for place, hook in enumerate(inner if isinstance(inner, list) else ()):
            command = command_of(hook, agent)
            if command is not None and (anywhere or os.path.isabs(command)):
                out.append(("hooks", event, number, "hooks", place))
    return out


def command_of(hook: Any, agent: str) -> str | None:
    """The leftoff that a hook calls as `leftoff hook AGENT`; ``None`` where it calls something else."""
    if not isinstance(hook, dict) or not isinstance(hook.get("command"), str):
        return None
    args = hook.get("args")
    try:
        words = [hook["command"], *args] if isinstance(args, list) and args else shlex.split(hook["command"])
    except ValueError:
        return None
    called = len(words) > 2 and os.path.basename(words[0]) == "leftoff" and words[1:3] == ["hook", agent]
    return words[0] if called else None
