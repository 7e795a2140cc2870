"""`leftoff install` on settings of any shape: in and out, with hand edits between, for each agent."""

from __future__ import annotations

import copy
import json
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.agents.install.jsonc import OBJECT, Node, parse
from leftoff.agents.install.merge import command_of
from leftoff.agents.install.recipes import Recipe
from leftoff.agents.install.tomlc import Entry, Reader, Table
from tests.agents.installing import AGENTS, COMMAND, SERVER, Place, no_syncs

__all__ = ["no_syncs"]


# -- settings in JSON, in any style

WORDS = st.sampled_from(["a", "b", "model", 'q"uote', "é", "//no", "{", "x y"])
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 99), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=5,
)


def hook_forms(agent: str) -> list[dict[str, Any]]:
    """Ways in which people call leftoff from a hook."""
    return [
        {"type": "command", "command": "leftoff", "args": ["hook", agent], "timeout": 10},
        {"command": f"leftoff hook {agent}"},
        {"command": f"/old/leftoff hook {agent}", "timeout": 3, "name": "mine"},
        {"type": "command", "command": COMMAND, "args": ["hook", agent], "timeout": 10},
    ]


OTHER_HOOK = {"type": "command", "command": "lint.sh"}
SERVERS = [
    {"command": "npx", "args": ["-y", "other"], "env": {"A": "1"}},
    {"command": "leftoff", "args": ["mcp"]},
    {"command": "/opt/x/leftoff", "args": ["mcp"], "env": {"A": "1"}, "timeout": 5},
    {"type": "stdio", "command": "x"},
    SERVER,
    {},
]


@st.composite
def hook_lists(draw: st.DrawFn, agent: str) -> dict[str, Any]:
    """The events that somebody has hooks for."""
    hook = st.sampled_from([OTHER_HOOK, OTHER_HOOK, *hook_forms(agent)])
    group = st.fixed_dictionaries(
        {"hooks": st.lists(hook, max_size=3)}, optional={"matcher": st.sampled_from(["*", "Write"])}
    )
    events = st.sampled_from(["SessionStart", "Stop", "PreToolUse", "AfterTool", "Other"])
    return draw(st.dictionaries(events, st.lists(group, max_size=3), max_size=3))


@st.composite
def documents(draw: st.DrawFn, agent: str) -> dict[str, Any]:
    out = draw(st.dictionaries(WORDS, PLAIN, max_size=3))
    if draw(st.booleans()):
        out["hooks"] = draw(hook_lists(agent))
    if draw(st.booleans()):
        out["mcpServers"] = draw(
            st.fixed_dictionaries(
                {}, optional={"leftoff": st.sampled_from(SERVERS), "z": st.just({"command": "z"})}
            )
        )
    keys = draw(st.permutations(list(out)))
    return {key: out[key] for key in keys}


class Style:
    """How somebody writes JSON: each choice is drawn where it is met."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.eol = draw(st.sampled_from(["\n", "\r\n"]))
        self.flat = draw(st.booleans())
        self.number = 0

    def gap(self, depth: int) -> str:
        """Between two tokens."""
        kind = self.draw(st.integers(0, 12))
        line = self.eol + "  " * depth
        if kind < (9 if self.flat else 5):
            return " " if kind % 2 else ""
        if kind < 10:
            return line
        self.number += 1
        if kind == 10:
            return f" /* o{self.number}. */ "
        return f"{line if kind == 11 else ' '}// o{self.number}.{line}"

    def write(self, value: Any, depth: int = 0) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        items = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
        out = opened + self.gap(depth + 1)
        for number, (key, item) in enumerate(items):
            if key is not None:
                out += json.dumps(key) + self.draw(st.sampled_from([":", ": "]))
            out += self.write(item, depth + 1) + self.gap(depth + 1)
            if number < len(items) - 1 or self.draw(st.integers(0, 5)) == 5:
                out += "," + self.gap(depth + 1)
        return out + closed


@st.composite
def json_texts(draw: st.DrawFn, agent: str) -> str:
    if draw(st.integers(0, 15)) == 15:
        return draw(st.sampled_from(["", " \n\n", "{}", "{ }\n", "\ufeff{\n}\n", "// x\n{}"]))
    style = Style(draw)
    return style.gap(0) + style.write(draw(documents(agent))) + style.gap(0)


# -- Codex's settings in TOML, in any style

TOML_PIECES = [
    'model = "x"',
    "# [mcp_servers.leftoff]\n# command = 'l'",
    'text = """\n[mcp_servers.leftoff]\ncommand = "no"\n"""',
    "list = [ # one\n  1,\n  2, # two\n]",
    "when = 1979-05-27 07:32:00",
    "",
    "'quoted key' = '''\n#'''",
]
TOML_TABLES = [
    '[profiles.a]\nmodel = "y" # about y\n',
    "[[many]]\nx = 1\n[many.sub]\ny = { z = [1, 2] }\n",
    '  [ indented . "t" ]\n  k = 1\n',
    "# a comment at the end",
    '[mcp_servers.other]\ncommand = "o"\nargs = ["mcp"]\n[mcp_servers.other.env]\nA = "1"\n',
]
TOML_OURS_ABOVE = [
    "mcp_servers = { z = { command = 'z' } }",
    "mcp_servers = {}",
    "mcp_servers = { leftoff = { args = ['x'], env = { A = '1' } } }",
    "mcp_servers = { leftoff.args = ['x'], z.command = '' }",
    "mcp_servers.leftoff.args = []\nmcp_servers.leftoff.env.A = '1'",
    "mcp_servers.z.command = 'z'",
    "mcp_servers.leftoff = { command = 'leftoff', args = ['mcp'] }",
]
TOML_OURS_BELOW = [
    "[mcp_servers.leftoff] # mine\ncommand = 'npx' # theirs\nargs = [\n  '-y', # yes\n]\n",
    '[mcp_servers."leftoff"]\nenabled = true\ncommand = "leftoff"\nargs = ["mcp"]\n[x]\ny = 1\n',
    "[ mcp_servers . leftoff ]",
    "[mcp_servers.leftoff.env]\nA = '1'\n",
    "[mcp_servers]\nleftoff = { command = \"leftoff\" }\nz = { command = 'z' }\n",
    "[mcp_servers]\nleftoff.env = {}\n",
    f'[mcp_servers.leftoff]\ncommand = {json.dumps(COMMAND)}\nargs = ["mcp"]\nstartup_timeout_sec = 30\n',
    "[mcp_servers]\n",
]


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.sampled_from(TOML_PIECES), max_size=3, unique=True))
    above = draw(st.sampled_from([None, *TOML_OURS_ABOVE]))
    tables = draw(st.lists(st.sampled_from(TOML_TABLES), max_size=3, unique=True))
    if above is None:
        tables += [draw(st.sampled_from(TOML_OURS_BELOW))] if draw(st.booleans()) else []
        tables = draw(st.permutations(tables))
    else:
        lines.insert(draw(st.integers(0, len(lines))), above)
        tables = [table for table in tables if "mcp_servers" not in table]
    text = "\n".join([*lines, *tables]) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@st.composite
def files(draw: st.DrawFn, agent: str) -> tuple[bool, dict[str, str]]:
    """Whose settings, and what is in each of an agent's files; one that is not there has no text."""
    recipe = Recipe(agent, "", COMMAND, user=draw(st.booleans()))
    texts = {}
    for path in {recipe.settings, recipe.servers}:
        if draw(st.integers(0, 9)):
            texts[path] = draw(toml_texts() if path.endswith(".toml") else json_texts(agent))
    return recipe.user, texts


def check_installed(place: Place, start: dict[str, Any]) -> None:
    """Exactly one server, exactly one hook for each event, and everything else as it was."""
    recipe = place.recipe
    servers = place.plain(recipe.servers)
    key = "mcp_servers" if recipe.agent == "codex" else "mcpServers"
    assert SERVER == {name: servers[key]["leftoff"][name] for name in ("command", "args")}
    found = place.plain(recipe.settings)["hooks"]
    for event, entry in recipe.hooks().items():
        hooks = [hook for group in found[event] for hook in group["hooks"]]
        ours = [hook for hook in hooks if command_of(hook, recipe.agent)]
        assert [COMMAND] == [command_of(hook, recipe.agent) for hook in ours]
        assert entry["hooks"][0].get("args", []) == ours[0].get("args", [])
    for path, old in start.items():
        now = place.plain(path)
        for name, value in old.items():
            if name not in ("hooks", key):
                assert repr(value) == repr(now[name])
        for name, value in (old.get(key) or {}).items():
            kept = {k: v for k, v in value.items() if k not in SERVER}
            assert kept.items() <= now[key][name].items()
            assert name == "leftoff" or value == now[key][name]


def plain_start(place: Place, texts: dict[str, str]) -> dict[str, Any]:
    return {path: place.plain(path) if text.strip("\ufeff \r\n") else {} for path, text in texts.items()}


@pytest.mark.parametrize("agent", AGENTS)
@given(data=st.data())
@settings(max_examples=20)
def test_in_and_out_of_anything(agent: str, data: st.DataObject) -> None:
    """Twice is once; there is one server and one hook per event; out again, every byte is as it was."""
    user, relative = data.draw(files(agent))
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, agent, user)
        texts = {str(place.folder / path): text for path, text in relative.items()}
        for path, text in texts.items():
            place.write(path, text)
        before, start = place.all(), plain_start(place, texts)
        place.install()
        installed = place.all()
        check_installed(place, start)
        place.install()
        assert installed == place.all()
        place.uninstall()
        assert before == place.all()


# -- hand edits

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/|\s+|[{}\[\]:,]|[^\s{}\[\]:,"/]+', re.DOTALL)
HANDS = st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 4)), min_size=1, max_size=3)


def edit_json(text: str, hands: list[tuple[float, int]], expected: dict[str, Any]) -> str:
    """Comments and blank lines anywhere; members in any object that is not an entry of ours."""
    for number, (where, kind) in enumerate(hands):
        places = [found.end() for found in _TOKEN.finditer(text)]
        at = places[int(where * len(places))]
        if kind == 0:
            text = f"{text[:at]}\n\n{text[at:]}"
        elif kind == 1:
            text = f"{text[:at]}/* h{number}. */{text[at:]}"
        elif kind == 2:
            text = f"{text[:at]} // h{number}.\n{text[at:]}"
        else:
            root = parse(text, "f")[0]
            spots = [((), root), *(((node.key,), node) for node in root.items if node.kind == OBJECT)]
            path, node = spots[int(where * len(spots))]
            text, name = add_member(text, node, number, last=kind == 4), f"hand{number}"
            holder = expected
            for key in path:
                holder = holder.setdefault(str(key), {})
            holder[name] = number
    return text


def add_member(text: str, node: Node, number: int, *, last: bool) -> str:
    new = f'"hand{number}": {number}'
    if not node.items:
        return f"{text[: node.at + 1]}{new}{text[node.at + 1 :]}"
    if not last:
        return f"{text[: node.items[0].start]}{new}, {text[node.items[0].start :]}"
    end = node.items[-1]
    return f"{text[: end.end]}, {new}{text[end.end :]}"


def edit_toml(text: str, hands: list[tuple[float, int]], expected: dict[str, Any]) -> str:
    """Lines anywhere between statements, and comments behind them; keys in tables, ours too."""
    for number, (where, kind) in enumerate(hands):
        reader = Reader(text)
        tables = reader.tables
        spots: list[Table | Entry] = [*tables[1:], *(entry for table in tables for entry in table.entries)]
        if not spots:
            return text
        spot = spots[int(where * len(spots))]
        end = text.find("\n", spot.end)
        end = len(text) if end < 0 else end - (text[end - 1] == "\r")
        if kind == 0:
            text = f"{text[:end]}\n\n{text[end:]}"
        elif kind == 1:
            text = f"{text[:end]} # h{number}.{text[end:]}"
        elif kind == 2:
            text = f"{text[:end]}\n # h{number}.{text[end:]}"
        else:
            table = next(t for t in reversed(tables) if t.start <= spot.start)
            text = f"{text[:end]}\nhand{number} = {number}{text[end:]}"
            put_at(expected, table.path, f"hand{number}", number)
    return text


def put_at(data: Any, path: tuple[str, ...], key: str, value: Any) -> None:
    """As TOML has it: a table in an array is the last one of it. What is put into our own server is ours."""
    for name in path:
        data = data.setdefault(name, {})
        data = data[-1] if isinstance(data, list) else data
    data[key] = value


def words_of(text: str) -> str:
    """A text without blanks, and without what was written by hand."""
    return re.sub(r"\s+", "", re.sub(r"/\* h\d\. \*/|(?://|#) h\d\.", "", text))


@pytest.mark.parametrize("agent", AGENTS)
@given(data=st.data(), hands=HANDS, again=st.booleans())
@settings(max_examples=25)
def test_a_hand_edit_stays(
    agent: str, data: st.DataObject, hands: list[tuple[float, int]], again: bool
) -> None:
    """Installed, edited by hand anywhere, installed again, out: what was there and the edit, data and comments."""
    user, relative = data.draw(files(agent))
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, agent, user)
        recipe = place.recipe
        texts = {str(place.folder / path): text for path, text in relative.items()}
        for path, text in texts.items():
            place.write(path, text)
        start = plain_start(place, texts)
        place.install()
        for path in {recipe.settings, recipe.servers}:
            toml = path.endswith(".toml")
            expected = copy.deepcopy(start.get(path, {}))
            text = place.read(path)
            edited = (edit_toml if toml else edit_json)(text, hands, expected)
            parsed(edited, toml)
            place.write(path, edited)
            start[path] = expected
        if again:
            place.install()
        place.uninstall()
        for path, expected in start.items():
            check_left(place, path, expected, texts.get(path, ""), hands)


def parsed(text: str, toml: bool) -> Any:
    return tomllib.loads(text) if toml else parse(text, "f")[0].plain()


def check_left(place: Place, path: str, expected: Any, start: str, hands: list[tuple[float, int]]) -> None:
    there = Path(path).exists()
    left = place.read(path) if there else ""
    toml = path.endswith(".toml")
    data = parsed(left, toml) if left.strip("\ufeff \r\n") else {}
    assert without_ours(repr_of(expected)) == without_ours(repr_of(data))
    for number, (_, kind) in enumerate(hands):
        if kind in (1, 2) and there:
            assert 1 == left.count(f"h{number}.")
    comments = re.findall(r"o\d+\.", start)
    assert comments == re.findall(r"o\d+\.", left)
    if all(kind < 3 for _, kind in hands) and start.strip("\ufeff \r\n"):
        assert words_of(start) == words_of(left)


def repr_of(data: Any) -> Any:
    return json.loads(json.dumps(data, default=repr))


def without_ours(data: Any) -> Any:
    """What somebody wrote into the entry of ours went with it."""
    servers = data.get("mcp_servers")
    if isinstance(servers, dict):
        if not {"command", "args", "env", "enabled"} & set(servers.get("leftoff", ())):
            servers.pop("leftoff", None)
        if not servers:
            del data["mcp_servers"]
    return data
