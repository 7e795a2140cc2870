"""`leftoff install` on settings that somebody has put leftoff into already, and on those that cannot be changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leftoff.agents.install.plan import Plan
from leftoff.errors import Conflict, Invalid
from tests.agents.installing import COMMAND, SERVER, Place, no_syncs
from tests.agents.test_install_anything import TOML_OURS_ABOVE, TOML_OURS_BELOW, TOML_PIECES, TOML_TABLES

__all__ = ["no_syncs"]

TOML = ".codex/config.toml"
CLAUDE = ".claude/settings.json"


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n# end\n", "\n[x]\ny = 1\n"])
@pytest.mark.parametrize("text", [*TOML_OURS_ABOVE, *TOML_OURS_BELOW, *TOML_PIECES, *TOML_TABLES])
def test_each_way_to_write_a_server(text: str, end: str, tmp_path: Path) -> None:
    """There is one afterwards, with all that it had besides; and out again, every byte is as it was."""
    if "[x]" in text and "[x]" in end:
        end = ""
    place = Place(str(tmp_path), "codex")
    place.write(TOML, text + end)
    before, old = place.all(), place.plain(TOML).get("mcp_servers", {}).get("leftoff", {})
    place.install()
    assert {**old, **SERVER} == place.plain(TOML)["mcp_servers"]["leftoff"]
    installed = place.all()
    place.install()
    assert installed == place.all()
    place.uninstall()
    assert before == place.all()


OURS = f'[mcp_servers.leftoff]\ncommand = "{COMMAND}"\nargs = ["mcp"]\n'


@pytest.mark.parametrize(
    ("edit", "left"),
    [
        ((OURS, OURS + "startup_timeout_sec = 30\n"), ""),
        ((OURS, OURS + "\n[mcp_servers.leftoff.env]\nA = '1'\n"), ""),
        ((OURS, OURS + "\n[mine]\nb = 2\n"), "\n[mine]\nb = 2\n"),
        (("\n" + OURS, OURS), ""),
        (("[mcp_servers.leftoff]", "# keep\n[mcp_servers.leftoff]"), "# keep\n"),
        (('["mcp"]', '["mcp"] # keep'), "# keep\n"),
        (('["mcp"]', '[ # keep\n  "mcp"\n]'), "# keep\n"),
        (("[mcp_servers.leftoff]", "[mcp_servers.leftoff] # keep"), "# keep\n"),
    ],
)
def test_a_table_of_ours_that_was_edited(edit: tuple[str, str], left: str, tmp_path: Path) -> None:
    """What is said of our server goes with it; comments and other tables stay."""
    place = Place(str(tmp_path), "codex")
    place.write(TOML, 'model = "x"\r\nb = 1\n')
    place.install()
    assert edit[0] in place.read(TOML)
    place.write(TOML, place.read(TOML).replace(*edit))
    place.install()
    place.uninstall()
    assert 'model = "x"\r\nb = 1\n' + left == place.read(TOML)


ENTRY = '"a": 1'


@pytest.mark.parametrize(
    "edit",
    [
        ('"a": 1,', '"a": 1, // keep'),
        ('"a": 1,\n', '"a": 1,\n  // keep\n'),
        ('"a": 1,\n', '"a": 1,\n  "b": 2,\n'),
        ('"a": 1,\n', '"a": 1,\n\n'),
        ("{\n", "// keep\n{\n"),
    ],
)
def test_an_edit_beside_ours_stays_to_the_byte(edit: tuple[str, str], tmp_path: Path) -> None:
    """A comment, a line or a member that was added by hand after install is all that differs."""
    place = Place(str(tmp_path), "claude")
    place.write(CLAUDE, '{\n  "a": 1\n}\n')
    place.install()
    place.write(CLAUDE, place.read(CLAUDE).replace(*edit, 1))
    place.install()
    place.uninstall()
    wanted = '{\n  "a": 1,\n}\n'.replace(*edit, 1)
    last_comma = wanted.rindex(",")
    assert wanted[:last_comma] + wanted[last_comma + 1 :] == place.read(CLAUDE)


@pytest.mark.parametrize("before", ['"hooks"', '"Stop"', '"SessionStart"', '{\n        "hooks"'])
def test_a_comment_inside_ours_stays(before: str, tmp_path: Path) -> None:
    """It stands where ours stood."""
    place = Place(str(tmp_path), "claude")
    place.write(CLAUDE, '{\n  "a": 1\n}\n')
    place.install()
    place.write(CLAUDE, place.read(CLAUDE).replace(before, f"// keep\n{before}", 1))
    place.uninstall()
    assert ["{", '"a": 1', "// keep", "}"] == [line.strip() for line in place.read(CLAUDE).splitlines()]


def test_a_comment_stays_with_what_it_is_about(tmp_path: Path) -> None:
    """Ours comes behind the line of the entry before it."""
    place = Place(str(tmp_path), "claude")
    place.write(CLAUDE, '{\n  "a": 1 // about a\n}\n')
    place.install()
    assert place.read(CLAUDE).startswith('{\n  "a": 1, // about a\n  "hooks": {\n')
    place.uninstall()
    assert '{\n  "a": 1 // about a\n}\n' == place.read(CLAUDE)


def test_a_server_of_that_name_is_given_back(tmp_path: Path) -> None:
    """Another program's, which steps aside: its other members stay meanwhile, and its own words come back."""
    text = '{"mcpServers":{"leftoff":{"command":"npx","args":["-y",  "other"],"env":{"A":"1"}}}}'
    place = Place(str(tmp_path), "claude")
    place.write(".mcp.json", text)
    place.install()
    assert {**SERVER, "env": {"A": "1"}} == place.plain(".mcp.json")["mcpServers"]["leftoff"]
    place.write(".mcp.json", place.read(".mcp.json").replace('{"A":"1"}', '{"A":"2"}'))
    place.install()
    place.uninstall()
    assert text.replace('"1"', '"2"') == place.read(".mcp.json")


def test_hooks_that_call_leftoff_already(tmp_path: Path) -> None:
    """They become ours, one for each event, and are given back, as often as they were there."""
    hook = {"type": "command", "command": "leftoff", "args": ["hook", "claude"], "timeout": 60}
    mine = {"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [hook]}, {"hooks": [hook, hook]}]}}
    place = Place(str(tmp_path), "claude")
    place.write(CLAUDE, json.dumps(mine))
    place.install()
    found = place.plain(CLAUDE)["hooks"]["SessionStart"]
    assert [
        {"matcher": "startup|resume|clear|compact|fork", "hooks": [{**hook, "command": COMMAND}]}
    ] == found
    place.uninstall()
    assert {CLAUDE: json.dumps(mine).encode()} == place.all()


def test_without_its_memory_ours_is_known_by_its_path(tmp_path: Path) -> None:
    """In a clone that lacks the file: what install writes is taken out, what somebody wrote by hand is not."""
    place = Place(str(tmp_path), "claude")
    mine = {"hooks": {"Other": [{"hooks": [{"command": "leftoff hook claude"}]}]}}
    place.write(CLAUDE, json.dumps(mine))
    place.install()
    (tmp_path / ".claude" / ".leftoff-install.json").unlink()
    place.uninstall()
    assert {CLAUDE: json.dumps(mine).encode()} == place.all()


@pytest.mark.parametrize("uninstall", [False, True])
def test_what_somebody_writes_meanwhile_is_not_lost(uninstall: bool, tmp_path: Path) -> None:
    """An agent keeps a permission in its settings while they are worked on: they are not written over."""
    place = Place(str(tmp_path), "claude")
    place.write(".claude/settings.json", '{"model": "x"}')
    if uninstall:
        place.install()
    plan = Plan(place.recipe, uninstall=uninstall)
    place.write(".claude/settings.json", '{"permissions": {"deny": ["Bash"]}}')
    before = place.all()
    with pytest.raises(Conflict, match="meanwhile"):
        plan.apply()
    assert before == place.all()


def test_our_own_files_are_brought_up_to_date(tmp_path: Path) -> None:
    """A skill of an older leftoff becomes this one's; one that was there before, just so, stays at the end."""
    skill = ".claude/skills/leftoff/SKILL.md"
    place = Place(str(tmp_path), "claude")
    place.install()
    text = place.read(skill)
    memory = place.read(".claude/.leftoff-install.json")
    from leftoff.agents.install.plan import digest

    place.write(skill, "older")
    place.write(".claude/.leftoff-install.json", memory.replace(digest(text), digest("older")))
    place.install()
    assert text == place.read(skill)
    place.uninstall()
    assert {} == place.all()
    place.write(skill, text)
    place.install()
    place.uninstall()
    assert {skill: text.encode()} == place.all()


@pytest.mark.parametrize(
    ("agent", "path", "text", "where"),
    [
        ("codex", TOML, "a = = 1\n", "config.toml:1:5: this is not TOML"),
        ("codex", TOML, 'a = 1\nb = "', "config.toml:2:"),
        ("codex", TOML, "[[mcp_servers]]\na = 1\n", "config.toml:1:1: mcp_servers is not"),
        ("codex", TOML, "x = 1\nmcp_servers = 3\n", "config.toml:2:1: mcp_servers is not"),
        ("codex", TOML, "x = 1\n[mcp_servers]\nleftoff = 3\n", "config.toml:3:1: leftoff is not a server"),
        ("codex", TOML, "[mcp_servers.leftoff]\nurl = 'https://x'\n", "config.toml:1:1: another server"),
        ("claude", ".mcp.json", '{"mcpServers": []}', ".mcp.json:1:16: mcpServers is not"),
        (
            "claude",
            ".mcp.json",
            '{"mcpServers": {"leftoff": null}}',
            ".mcp.json:1:28: leftoff is not a server",
        ),
        ("claude", ".mcp.json", '{"mcpServers": {"leftoff": {"type": "http"}}}', "a remote one"),
        ("claude", CLAUDE, '{"hooks": 3}', "settings.json:1:11: hooks is not an object"),
        ("claude", CLAUDE, '{"hooks":\n {"Stop": {}}}', "settings.json:2:11: Stop is not a list"),
        ("claude", ".claude/.leftoff-install.json", "[]", "is not as leftoff wrote it"),
        ("claude", ".claude/.leftoff-install.json", '{"x": {"empty": 3}}', "is not as leftoff wrote it"),
    ],
)
def test_what_cannot_be_changed(agent: str, path: str, text: str, where: str, tmp_path: Path) -> None:
    """It says where and why, and nothing is changed."""
    place = Place(str(tmp_path), agent)
    place.write(path, text)
    with pytest.raises(Invalid) as caught:
        place.install()
    assert where in caught.value.message and "Nothing was changed." in caught.value.hint
    assert {path: text.encode()} == place.all()
