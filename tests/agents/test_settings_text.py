"""leftoff's entries in JSON settings of any content and style."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from leftoff.agents.install_recipes import GeminiRecipe
from leftoff.agents.settings_text import add_to_json, leftoff_called, remove_from_json

COMMAND = "/opt/some where/bin/leftoff"
WORDS = st.sampled_from(["a", "b", "model", 'q"uote', "é", "//no", "{", "x y"])
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 99), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=5,
)
OTHER = {"type": "command", "command": "lint.sh"}
HOOKS = [
    OTHER,
    {"type": "command", "command": "leftoff", "args": ["hook", "gemini"], "timeout": 10},
    {"command": "leftoff hook gemini"},
    {"command": "/old/leftoff hook gemini", "timeout": 3, "name": "mine"},
]
GROUPS = st.fixed_dictionaries(
    {"hooks": st.lists(st.sampled_from(HOOKS), max_size=3)},
    optional={"matcher": st.sampled_from(["*", "Write"])},
)
EVENTS = st.dictionaries(
    st.sampled_from(["SessionStart", "AfterTool", "Other"]), st.lists(GROUPS, max_size=3)
)
SERVERS = st.fixed_dictionaries(
    {},
    optional={
        "leftoff": st.just({"command": "leftoff", "args": ["mcp"], "env": {"A": "1"}}),
        "z": st.just({"command": "z"}),
    },
)
DOCUMENTS = st.builds(
    lambda plain, own: {**plain, **own},
    st.dictionaries(WORDS, PLAIN, max_size=3),
    st.fixed_dictionaries({}, optional={"hooks": EVENTS, "mcpServers": SERVERS}),
)


def foreign(data: dict[str, Any]) -> dict[str, Any]:
    """Return settings without the entries of leftoff, and without what is empty."""
    hooks = {
        event: [
            {**group, "hooks": [hook for hook in group["hooks"] if hook == OTHER]}
            for group in groups
            if OTHER in group["hooks"]
        ]
        for event, groups in data.get("hooks", {}).items()
    }
    servers = {name: server for name, server in data.get("mcpServers", {}).items() if name != "leftoff"}
    rest = {key: value for key, value in data.items() if key not in ("hooks", "mcpServers")}
    return {
        **rest,
        "hooks": {event: groups for event, groups in hooks.items() if groups},
        "mcpServers": servers,
    }


@given(data=DOCUMENTS, indent=st.sampled_from([None, 2, 3, "\t"]), end=st.sampled_from(["", "\n", "\r\n"]))
@settings(max_examples=150)
def test_one_entry_of_ours_and_all_of_theirs(data: dict[str, Any], indent: Any, end: str) -> None:
    """There is one server and one hook per event, adding twice changes nothing, and foreign entries stay."""
    entries = next(iter(GeminiRecipe("/p", COMMAND, user=True).entries().values()))
    assert entries.hooks is not None
    text = json.dumps(data, indent=indent, ensure_ascii=False).replace("\n", end or "\n") + end
    added, _ = add_to_json(text, "f", entries)
    now = json.loads(added)
    for event in entries.hooks:
        ours = [leftoff_called(hook, "gemini") for group in now["hooks"][event] for hook in group["hooks"]]
        assert [COMMAND] == [command for command in ours if command]
    assert COMMAND == now["mcpServers"]["leftoff"]["command"] and foreign(data) == foreign(now)
    assert (added, False) == add_to_json(added, "f", entries)
    removed = remove_from_json(added, "f", entries, switched=False)
    left = json.loads(removed)
    assert foreign(data) == foreign(left) and "leftoff" not in json.dumps(left)
    if "leftoff" not in text and not any(
        data.get(key) in ({}, None) for key in ("hooks", "mcpServers") if key in data
    ):
        empty = [1 for groups in data.get("hooks", {}).values() if not groups]
        assert empty or not data or text == removed
