"""`leftoff install`: into settings that people wrote, and out again without a trace."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from leftoff.agents.install.jsonc import parse
from tests.cli.command import LEFTOFF, call, succeed

AGENTS = ("claude", "codex", "gemini")
SETTINGS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
}

FILES = {
    "empty file": "",
    "blank file": " \n\n",
    "empty object": "{}",
    "empty object with a comment": "{\n  // nothing yet\n}\n",
    "four spaces": '{\n    "model": "opus",\n    "env": {"A": "b"}\n}\n',
    "tabs": '{\n\t"model": "opus",\n\t"permissions": {\n\t\t"allow": []\n\t}\n}',
    "one line": '{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}',
    "CRLF": '{\r\n  "model": "opus",\r\n  "hooks": {\r\n    "Stop": []\r\n  }\r\n}\r\n',
    "comments": """// mine
{
  "a": 1, /* b */ // c
  "hooks": { // d
    /* e */ "Stop": [ /* f */ ] // g
  }, // h
}
// i
""",
    "other hooks": json.dumps(
        {
            "hooks": {
                event: [{"matcher": "*", "hooks": [{"type": "command", "command": "lint.sh"}]}]
                for event in ("Stop", "PreToolUse", "SessionStart", "AfterTool")
            },
            "z": True,
        },
        indent=3,
    ),
    "trailing commas": '{\n  "hooks": {\n    "Stop": [\n      {"hooks": [{"command": "y"},]},\n    ],\n  },\n}',
    "odd indentation": '{ "a":\n        [1,\n2 ]\n   , "hooks" :\n {"PreToolUse"\n:[ ]} }',
    "empty hooks": '{"hooks": {  }, "mcpServers": { }}',
    "BOM": '\ufeff{\n  "a": "é…",\n  "hooks": {"SessionEnd": [{"hooks": []}]}\n}\n',
    "escapes": '{"a\\"b": "// no comment {", "hooks": {"St\\u006fp": [{"hooks": [{"command": "} ]"}]}]}}',
    "other servers": '{"mcpServers": {"other": {"command": "o", "args": ["mcp"]}}}',
}


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", FILES)
def test_in_and_out(name: str, agent: str, project: Path) -> None:
    """What was there stays there; installing twice is installing once; uninstalling leaves every byte as it was."""
    put(project / SETTINGS[agent], FILES[name])
    put(project / ".mcp.json", FILES[name])
    before = everything(project)
    succeed("install", agent, cwd=project)
    installed = everything(project)
    read = parse((project / SETTINGS[agent]).read_bytes().decode(), "f")[0].plain()
    old = FILES[name].strip().strip("\ufeff")
    for key, value in (parse(FILES[name], "f")[0].plain() if old else {}).items():
        if key not in ("hooks", "mcpServers", "env"):
            assert value == read[key]
    again = succeed("install", agent, cwd=project)
    assert "" == again.out and installed == everything(project)
    succeed("install", agent, "--uninstall", cwd=project)
    assert before == everything(project)


@pytest.mark.parametrize("agent", AGENTS)
def test_from_nothing_to_nothing(agent: str, project: Path) -> None:
    """Where there were no settings, none are left, nor any folder."""
    succeed("install", agent, cwd=project)
    assert 4 <= len(everything(project))
    succeed("install", agent, "--uninstall", cwd=project)
    assert [] == list(project.iterdir())


@pytest.mark.parametrize("name", ["comments", "CRLF", "other hooks", "empty hooks", "tabs", "empty object"])
def test_a_hand_edit_between(name: str, project: Path) -> None:
    """Install, edit by hand, install again, uninstall: the start and the hand edit."""
    path = project / SETTINGS["claude"]
    put(path, FILES[name])
    succeed("install", "claude", cwd=project)
    text = path.read_bytes().decode()
    edited = text.replace('"SessionEnd"', '"Notification": [{"hooks": []}], "SessionEnd"', 1)
    assert edited != text
    path.write_bytes(edited.encode())
    succeed("install", "claude", cwd=project)
    assert edited == path.read_bytes().decode()
    succeed("install", "claude", "--uninstall", cwd=project)
    left = parse(path.read_bytes().decode(), "f")[0].plain()
    old = parse(FILES[name], "f")[0].plain()
    assert {**old, "hooks": {**old.get("hooks", {}), "Notification": [{"hooks": []}]}} == left
    assert path.read_bytes().decode().startswith(FILES[name][:1])


def test_an_edit_before_ours_stays_to_the_byte(project: Path) -> None:
    """A line that a person adds is all that differs at the end."""
    path = project / SETTINGS["claude"]
    put(path, FILES["comments"])
    succeed("install", "claude", cwd=project)
    line = '  "mine": [1,  2], // added\n'
    path.write_text(path.read_text().replace('{\n  "a"', "{\n" + line + '  "a"', 1))
    succeed("install", "claude", cwd=project)
    succeed("install", "claude", "--uninstall", cwd=project)
    assert FILES["comments"].replace('{\n  "a"', "{\n" + line + '  "a"', 1) == path.read_text()


def test_a_hook_beside_ours_stays(project: Path) -> None:
    """One that a person put into our own entry is not taken out with it."""
    path = project / SETTINGS["claude"]
    succeed("install", "claude", cwd=project)
    data = json.loads(path.read_text())
    theirs = {"type": "command", "command": "theirs.sh"}
    data["hooks"]["Stop"][0]["hooks"].append(theirs)
    path.write_text(json.dumps(data))
    succeed("install", "claude", "--uninstall", cwd=project)
    assert {"hooks": {"Stop": [{"hooks": [theirs]}]}} == json.loads(path.read_text())


def test_hooks_call_this_very_command(project: Path) -> None:
    """By its absolute path, without a shell; one that moved is brought up to date."""
    path = project / SETTINGS["claude"]
    succeed("install", "claude", cwd=project)
    hook = json.loads(path.read_text())["hooks"]["Stop"][0]["hooks"][0]
    assert (str(LEFTOFF), ["hook", "claude"]) == (hook["command"], hook["args"])
    path.write_text(path.read_text().replace(str(LEFTOFF), "/old/place/leftoff"))
    succeed("install", "claude", cwd=project)
    assert "/old/place" not in path.read_text()
    assert 1 == len(json.loads(path.read_text())["hooks"]["Stop"])


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_installed_works(agent: str, project: Path) -> None:
    """The command of each hook, executed as the agent would, ends well."""
    import shlex
    import subprocess

    succeed("install", agent, cwd=project)
    hooks = json.loads((project / SETTINGS[agent]).read_text())["hooks"]
    for event, entries in hooks.items():
        hook = entries[0]["hooks"][0]
        words = [hook["command"], *hook["args"]] if "args" in hook else shlex.split(hook["command"])
        given = json.dumps({"session_id": "s", "cwd": str(project), "hook_event_name": event})
        done = subprocess.run(words, input=given, capture_output=True, text=True, cwd=project)
        assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
        assert (10_000 if agent == "gemini" else 10) >= hook["timeout"]


def test_the_server_is_registered(project: Path) -> None:
    """For each agent where it looks for MCP servers."""
    for agent in AGENTS:
        succeed("install", agent, cwd=project)
    wanted = {"command": str(LEFTOFF), "args": ["mcp"]}
    assert wanted == json.loads((project / ".mcp.json").read_text())["mcpServers"]["leftoff"]
    gemini = json.loads((project / ".gemini/settings.json").read_text())
    assert wanted == gemini["mcpServers"]["leftoff"]
    codex = tomllib.loads((project / ".codex/config.toml").read_text())
    assert wanted == codex["mcp_servers"]["leftoff"]


@pytest.mark.parametrize(
    "text", ["", 'model = "x"', '# mine\nmodel = "x"\n', "a = 1\r\n\r\n[b]\r\nc = 2\r\n", "a = 1\n\n\n"]
)
def test_toml_in_and_out(text: str, project: Path) -> None:
    """Codex's settings: appended, and taken out to the byte."""
    path = project / ".codex" / "config.toml"
    put(path, text)
    succeed("install", "codex", cwd=project)
    tomllib.loads(path.read_bytes().decode())
    succeed("install", "codex", cwd=project)
    succeed("install", "codex", "--uninstall", cwd=project)
    assert {".codex/config.toml": text.encode()} == everything(project)


def test_dry_run_changes_nothing(project: Path) -> None:
    """It only shows."""
    put(project / SETTINGS["claude"], FILES["four spaces"])
    before = everything(project)
    shown = succeed("install", "claude", "--dry-run", cwd=project)
    assert "+++ " in shown.out and before == everything(project)
    document = succeed("install", "claude", "--dry-run", "--json", cwd=project).json
    assert ["change", "create"] == sorted({entry["action"] for entry in document["files"]})


def test_for_the_user(project: Path) -> None:
    """In the user's settings, with hooks that make no store just anywhere."""
    home = project / "home"
    home.mkdir()
    succeed("install", "claude", "--user", cwd=project, HOME=str(home))
    assert ["home"] == [path.name for path in project.iterdir()]
    hook = json.loads((home / ".claude/settings.json").read_text())["hooks"]["Stop"][0]["hooks"][0]
    assert ["hook", "claude", "--user"] == hook["args"]
    assert "leftoff" in json.loads((home / ".claude.json").read_text())["mcpServers"]
    succeed("install", "claude", "--user", "--uninstall", cwd=project, HOME=str(home))
    assert [] == list(home.iterdir())


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 3}', '{"hooks": {"Stop": {}}}', '{"a" 1}', "{} {}"])
def test_settings_that_cannot_be_merged(text: str, project: Path) -> None:
    """What is wrong is said, and nothing is changed."""
    put(project / SETTINGS["claude"], text)
    before = everything(project)
    result = call("install", "claude", cwd=project)
    assert 4 == result.code and "settings.json" in result.err
    assert before == everything(project)


def test_a_command_of_the_same_name_stays(project: Path) -> None:
    """A person's own command is kept, when installing and when uninstalling."""
    mine = project / ".claude" / "commands" / "leftoff-resume.md"
    put(mine, "my own")
    assert "stays as it is" in succeed("install", "claude", cwd=project).err
    succeed("install", "claude", "--uninstall", cwd=project)
    assert {".claude/commands/leftoff-resume.md": b"my own"} == everything(project)


def test_a_link_in_the_home_is_followed_and_modes_stay(project: Path) -> None:
    """Settings that somebody keeps elsewhere, private ones too: the file behind the link changes, and that is said."""
    home = project / "home"
    real = home / "dotfiles" / "claude.json"
    put(real, "{}")
    real.chmod(0o600)
    (home / ".claude").mkdir()
    (home / SETTINGS["claude"]).symlink_to(real)
    done = succeed("install", "claude", "--user", cwd=project, HOME=str(home))
    assert f"it is a link, and {real} is what changes" in done.err
    assert (home / SETTINGS["claude"]).is_symlink() and "hooks" in json.loads(real.read_text())
    assert 0o600 == os.stat(real).st_mode & 0o777
    succeed("install", "claude", "--user", "--uninstall", cwd=project, HOME=str(home))
    assert ((home / SETTINGS["claude"]).is_symlink(), "{}") == (True, real.read_text())


@pytest.mark.parametrize("what", ["link", "folder", "pipe", "read-only"])
def test_settings_of_a_project_that_are_no_plain_file(project: Path, what: str) -> None:
    """A project may have come from anybody: nothing is followed, waited for or replaced, and nothing else changes."""
    path, elsewhere = project / SETTINGS["claude"], project.parent / f"{project.name}-elsewhere"
    elsewhere.mkdir()
    put(elsewhere / "settings.json", "{}")
    if what == "folder":
        path.parent.symlink_to(elsewhere)
    else:
        path.parent.mkdir(parents=True)
        if what == "link":
            path.symlink_to(elsewhere / "settings.json")
        elif what == "pipe":
            os.mkfifo(path)
        else:
            put(path, "{}")
            path.chmod(0o444)
    result = call("install", "claude", cwd=project)
    assert (6, "{}") == (result.code, (elsewhere / "settings.json").read_text()), str(result)
    assert ["settings.json"] == os.listdir(elsewhere) and [".claude"] == os.listdir(project)


@pytest.mark.parametrize(
    ("agent", "path", "text", "wanted"),
    [
        ("claude", ".claude/settings.json", "", '"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"'),
        ("claude", ".claude/settings.json", '{"env": {"A": "b"}}', '"A": "b"'),
        ("claude", ".claude/settings.json", '{"env": {}}\n', '"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"'),
        ("codex", ".codex/config.toml", "", "[tools.update_plan]\nenabled = true\n"),
        ("codex", ".codex/config.toml", "[tools]\nweb = true", "[tools.update_plan]\nenabled = true"),
        ("codex", ".codex/config.toml", "tools = { web = true }\n", "update_plan = "),
        ("codex", ".codex/config.toml", "[tools.update_plan]\nslow = 1\n", "slow = 1\nenabled = true\n"),
    ],
)
def test_the_todo_list_is_switched_on(agent: str, path: str, text: str, wanted: str, project: Path) -> None:
    """Default models have none. It is shown in the diff, and every byte comes back."""
    if text:
        put(project / path, text)
    before = everything(project)
    shown = succeed("install", agent, cwd=project).out
    assert wanted in (project / path).read_text() and ("TODO_TOOLS" in shown or "enabled" in shown)
    assert "" == succeed("install", agent, cwd=project).out
    succeed("install", agent, "--uninstall", cwd=project)
    assert before == everything(project)


@pytest.mark.parametrize(
    ("agent", "path", "text"),
    [
        ("claude", ".claude/settings.json", '{"env": {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "0"}}'),
        ("claude", ".claude/settings.json", '{"env": {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}}'),
        ("codex", ".codex/config.toml", "[tools]\nupdate_plan.enabled = false\n"),
    ],
)
def test_a_switch_that_somebody_set_stays(agent: str, path: str, text: str, project: Path) -> None:
    """On or off, it was decided; also where it is as we would set it."""
    put(project / path, text)
    before = everything(project)
    succeed("install", agent, cwd=project)
    assert text.strip("{}\n").split("}")[0] in (project / path).read_text()
    succeed("install", agent, "--uninstall", cwd=project)
    assert before == everything(project)


def test_commands_hide_none_of_the_agents_own(project: Path) -> None:
    """Those of an earlier leftoff, called /resume and /checkpoint, go; what somebody made of them stays."""
    from leftoff.agents.install.plan import digest

    folder = project / ".claude" / "commands"
    for name, text in (("resume.md", "as we wrote it"), ("checkpoint.md", "edited")):
        put(folder / name, text)
    known = {
        f".claude/commands/{name}": {"own": digest("as we wrote it")}
        for name in ("resume.md", "checkpoint.md")
    }
    put(project / ".claude" / ".leftoff-install.json", json.dumps(known))
    succeed("install", "claude", cwd=project)
    assert ["checkpoint.md", "leftoff-checkpoint.md", "leftoff-resume.md"] == sorted(os.listdir(folder))


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("claude", "New MCP server found"),
        ("codex", "Hooks need review"),
        ("gemini", "not running in a trusted"),
    ],
)
def test_what_the_agent_will_ask_is_said(agent: str, words: str, project: Path) -> None:
    """In its own words, so that they are known again; and where it looks, if that is only where it was started."""
    told = succeed("install", agent, cwd=project).err
    assert words in told and (agent != "codex") == ("only if it is started in this very folder" in told)
    (project / "home").mkdir()
    told = succeed("install", agent, "--user", cwd=project, HOME=str(project / "home")).err
    assert words in told and "this very folder" not in told


@pytest.mark.parametrize("agent", AGENTS)
def test_whether_hooks_fire(agent: str, project: Path) -> None:
    """Not installed is 3, installed and never seen 7, seen 0; what was seen before they were changed does not count."""
    from tests.agents.hooking import Session

    prompt, stop = ("BeforeAgent", "AfterAgent") if agent == "gemini" else ("UserPromptSubmit", "Stop")
    assert 3 == call("install", agent, "--check", cwd=project).code
    succeed("install", agent, cwd=project)
    asked = call("install", agent, "--check", cwd=project)
    assert 7 == asked.code and f"Not seen since they were installed: {prompt}, {stop}." in asked.out
    session = Session(project, agent=agent)
    session.env = {"AI_AGENT": "claude-code_2-1-325_harness"}
    for name in ("SessionStart", prompt, stop, "SessionEnd"):
        session.fire(name, prompt="hello", source="startup", reason="exit")
    found = succeed("install", agent, "--check", "--json", cwd=project).json
    assert {"SessionEnd", prompt, stop} == {one["event"] for one in found["events"]}
    assert ("2.1.325" if agent == "claude" else None) in {one["version"] for one in found["events"]}
    os.utime(project / f".{agent}" / ".leftoff-install.json", (2**32, 2**32))
    assert 7 == call("install", agent, "--check", cwd=project).code


def test_hooks_that_call_what_is_gone(project: Path) -> None:
    """As when its environment was removed: that is not installed."""
    succeed("install", "claude", cwd=project)
    path = project / SETTINGS["claude"]
    path.write_text(path.read_text().replace(str(LEFTOFF), "/gone/bin/leftoff"))
    found = call("install", "claude", "--check", cwd=project)
    assert 3 == found.code and "/gone/bin/leftoff, which is not there" in found.out
