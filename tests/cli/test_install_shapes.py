"""Install, edit by hand, install again, uninstall: the start plus the hand edit, on settings of any shape."""

from __future__ import annotations

import json
import tempfile
import tomllib
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.agents.install.plan import Plan
from leftoff.agents.install.recipes import Recipe

COMMAND = "/opt/leftoff/bin/leftoff"
OTHER = {"type": "command", "command": "lint.sh", "timeout": 3}
GROUPS: list[Any] = [[], [{"hooks": [OTHER]}], [{"matcher": "Bash", "hooks": [OTHER, OTHER]}, {"hooks": []}]]
OURS_ALREADY = [{"hooks": [{"type": "command", "command": "leftoff", "args": ["hook", "claude"]}, OTHER]}]
SERVERS: list[Any] = [
    {},
    {"other": {"command": "o", "args": ["mcp"]}},
    {"leftoff": {"command": "npx", "args": ["-y", "another"]}},
    {"leftoff": {"command": "/old/leftoff", "args": ["mcp"], "env": {"A": "1"}}},
    {"leftoff": {"command": "leftoff", "args": ["mcp"]}},
]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Settings as people write them."""
    value: dict[str, Any] = {}
    if draw(st.booleans()):
        value["model"] = draw(st.sampled_from(["opus", 'a "b" // {', "é…", ""]))
    if draw(st.booleans()):
        events = st.sampled_from(["Stop", "SessionStart", "PreToolUse", "Notification", "AfterTool"])
        groups = st.sampled_from([*GROUPS, OURS_ALREADY])
        value["hooks"] = draw(st.dictionaries(events, groups, max_size=3))
    if draw(st.booleans()):
        value["mcpServers"] = draw(st.sampled_from(SERVERS))
    if draw(st.booleans()):
        value["env"] = {"A": [1, 2.5, None, True], "B": {}}
    indent = draw(st.sampled_from([None, 2, 3, 4, "\t"]))
    text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans()))
    lines = text.split("\n")
    for number, line in enumerate(lines):  # comments, and commas behind the last entry
        if draw(st.integers(0, 5)) == 0:
            lines[number] = draw(
                st.sampled_from([f"{line} // about {{", f"/* a ] */{line}", f"// b\n{line}"])
            )
    text = "\n".join(lines)
    if draw(st.booleans()):
        text = text.replace('"\n}', '",\n}').replace("]\n  }", "],\n  }")
    text += draw(st.sampled_from(["", "\n", "\n\n", "\n// the end"]))
    return draw(st.sampled_from(["", "\ufeff"])) + text


def tomls() -> st.SearchStrategy[str]:
    parts = st.sampled_from(
        [
            'model = "x"\n',
            "# [mcp_servers.leftoff]\n# command = 1\n",
            "\n",
            "[profiles.a] # mine\nb = 1\n",
            "[mcp_servers.z]\ncommand = 'z'\n",
            '[mcp_servers."leftoff"] # theirs\ncommand = "npx"\n',
            '[mcp_servers.leftoff]\nenabled = true\ncommand = "leftoff"\nargs = ["mcp"]\n',
        ]
    )
    ends = st.sampled_from(["", "# the end", "\n\n"])
    made = st.tuples(st.lists(parts, unique=True, max_size=5), ends).map(lambda t: "".join(t[0]) + t[1])
    return made.filter(_is_toml)


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


class Home:
    """A folder with settings in it."""

    def __init__(self, folder: str, agent: str, user: bool) -> None:
        self.recipe = Recipe(agent, folder, COMMAND, user=user)
        self.folder = Path(folder)

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def put(self, path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(text.encode())

    def install(self) -> None:
        Plan(self.recipe, uninstall=False).apply()

    def uninstall(self) -> None:
        Plan(self.recipe, uninstall=True).apply()


def places(old: str, new: str) -> list[tuple[int, int]]:
    """Where a line could be added to both: between two lines that stand beside each other in both."""
    one, other = old.splitlines(keepends=True), new.splitlines(keepends=True)
    out = []
    for tag, i1, i2, j1, _ in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            out += [(i, i - i1 + j1) for i in range(i1 + 1, i2) if one[i - 1].endswith("\n")]
    return out


def with_line(text: str, at: int, line: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:at], line, *lines[at:]])


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
@settings(max_examples=25)
@given(data=st.data())
def test_the_start_plus_the_hand_edit(agent: str, user: bool, data: st.DataObject) -> None:
    """To the byte, with whatever comment somebody added; and without an edit, to the byte as it was."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(folder, agent, user)
        eol = data.draw(st.sampled_from(["\n", "\r\n"]))
        for path in dict.fromkeys((home.recipe.settings, home.recipe.servers)):
            made = data.draw(tomls() if path.endswith(".toml") else st.one_of(documents(), st.just("")))
            if data.draw(st.integers(0, 4)):
                home.put(path, made.replace("\n", eol))
        before = home.files()
        home.install()
        installed = home.files()
        home.install()
        assert installed == home.files()
        expected = dict(before)
        for path in (home.recipe.settings, home.recipe.servers):
            name = str(Path(path).relative_to(folder))
            old, new = before.get(name, b"").decode(), installed[name].decode()
            found = places(old, new)
            edit = data.draw(st.booleans())
            if found and edit:
                i, j = data.draw(st.sampled_from(found))
                line = f"{'#' if name.endswith('.toml') else '//'} by hand é{eol}"
                home.put(path, with_line(new, j, line))
                expected[name] = with_line(old, i, line).encode()
        if data.draw(st.booleans()):
            home.install()
        home.uninstall()
        assert expected == home.files()
