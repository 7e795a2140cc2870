"""`leftoff install` adds entries to settings that people wrote, and `--uninstall` removes them without a trace."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leftoff.agents.install_plan import InstallPlan, text_digest
from leftoff.agents.install_recipes import ClaudeRecipe
from leftoff.errors import Conflict
from tests.cli.command import LEFTOFF, call, succeed

TOML = ".codex/config.toml"
AGENTS = ("claude", "codex", "gemini", "opencode", "qwen")
HOOKED = ("claude", "codex", "gemini", "qwen")  # with hooks in their settings
SETTINGS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".opencode/opencode.json",
    "qwen": ".qwen/settings.json",
}

FILES = {
    "empty file": "",
    "blank file": " \n\n",
    "empty object": "{}",
    "four spaces": '{\n    "model": "opus",\n    "env": {"A": "b"}\n}\n',
    "tabs": '{\n\t"model": "opus",\n\t"permissions": {\n\t\t"allow": []\n\t}\n}',
    "one line": '{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}',
    "CRLF": '{\r\n  "model": "opus",\r\n  "hooks": {\r\n    "Stop": []\r\n  }\r\n}\r\n',
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


@pytest.mark.parametrize(
    ("agent", "name"),
    [*(("claude", name) for name in FILES), ("codex", "other hooks"), ("gemini", "four spaces")],
)
def test_in_and_out(name: str, agent: str, project: Path) -> None:
    """Existing settings stay, installing twice changes nothing, and uninstalling restores every byte."""
    put(project / SETTINGS[agent], FILES[name])
    put(project / ".mcp.json", FILES[name])
    before = everything(project)
    succeed("install", agent, cwd=project)
    installed = everything(project)
    read = json.loads((project / SETTINGS[agent]).read_text("utf-8-sig"))
    old = FILES[name].strip().strip("\ufeff")
    for key, value in (json.loads(old) if old else {}).items():
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


@pytest.mark.parametrize(
    "name", ["four spaces", "CRLF", "other hooks", "empty hooks", "tabs", "empty object", "one line"]
)
def test_a_hand_edit_between(name: str, project: Path) -> None:
    """After a hand edit, uninstall removes our entries and keeps the rest, in the file's indentation."""
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
    left = path.read_bytes().decode()
    old = json.loads(FILES[name])
    kept = {event: groups for event, groups in old.get("hooks", {}).items() if groups}
    assert {**old, "hooks": {**kept, "Notification": [{"hooks": []}]}} == json.loads(left)
    assert ("\r\n" in FILES[name]) == ("\r\n" in left) and ("\t" in FILES[name]) == ("\t" in left)


COMMENTS = """// mine
{
  "a": "// no comment, }", /* b */ // c
  "hooks": { // d
    "Stop": [ /* f */ ], // g
  },
}
"""


@pytest.mark.parametrize("agent", HOOKED)
def test_a_file_with_comments_is_left_to_its_user(agent: str, project: Path) -> None:
    """It is refused with the text to paste. After that, install does the rest, and uninstall says what to remove."""
    path = project / SETTINGS[agent]
    put(path, COMMENTS)
    before = everything(project)
    refused = call("install", agent, "--json", cwd=project)
    assert 4 == refused.code and "comments" in refused.err and before == everything(project)
    paste = json.loads(refused.out)["error"]["hint"].partition(":\n")[2]
    assert 3 == call("install", agent, "--check", cwd=project).code
    path.write_text("// mine\n{\n" + paste + ", // pasted\n}\n")
    pasted = path.read_bytes()
    succeed("install", agent, cwd=project)
    assert pasted == path.read_bytes() and 5 <= len(everything(project))
    assert 7 == call("install", agent, "--check", cwd=project).code
    installed = everything(project)
    refused = call("install", agent, "--uninstall", cwd=project)
    assert 4 == refused.code and "Remove this" in refused.err and installed == everything(project)
    path.write_text(COMMENTS)
    succeed("install", agent, "--uninstall", cwd=project)
    assert before == everything(project)


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


def test_hooks_of_a_project_name_no_place(project: Path) -> None:
    """Its settings are shared in git. A hook that calls leftoff by a path is brought up to date."""
    for agent in AGENTS:
        succeed("install", agent, cwd=project)
    own = [str(LEFTOFF), str(project), os.path.expanduser("~")]
    for name, data in everything(project).items():
        assert not [place for place in own if place.encode() in data], name
    path = project / SETTINGS["claude"]
    hook = json.loads(path.read_text())["hooks"]["Stop"][0]["hooks"][0]
    old = {"type": "command", "command": "/old/place/leftoff", "args": ["hook", "claude"], "timeout": 10}
    path.write_text(path.read_text().replace(json.dumps(hook["command"]), json.dumps("/old/place/leftoff")))
    data = json.loads(path.read_text())
    for groups in data["hooks"].values():
        groups[0]["hooks"] = [old]
    path.write_text(json.dumps(data))
    succeed("install", "claude", cwd=project)
    assert "/old/place" not in path.read_text()
    assert [hook] == json.loads(path.read_text())["hooks"]["Stop"][0]["hooks"]


def run_hook(hook: dict[str, Any], event: str, folder: Path, path: str) -> tuple[int, str, str]:
    """Run a hook as an agent does."""
    given = json.dumps({"session_id": "s", "cwd": str(folder), "hook_event_name": event})
    env = {**os.environ, "PATH": path}
    done = subprocess.run(
        hook["command"], shell=True, input=given, capture_output=True, text=True, cwd=folder, env=env
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("agent", HOOKED)
def test_what_is_installed_works(agent: str, project: Path) -> None:
    """The command of each hook ends well and says nothing, with leftoff on the PATH and without it."""
    succeed("install", agent, cwd=project)
    hooks = json.loads((project / SETTINGS[agent]).read_text())["hooks"]
    commands = {groups[0]["hooks"][0]["command"] for groups in hooks.values()}
    assert 1 == len(commands)
    for groups in hooks.values():
        assert (10_000 if agent == "gemini" else 10) >= groups[0]["hooks"][0]["timeout"]
    event, groups = next(iter(hooks.items()))
    for path in (f"{LEFTOFF.parent}:/usr/bin:/bin", "/usr/bin:/bin"):
        assert (0, "", "") == run_hook(groups[0]["hooks"][0], event, project, path)


@pytest.mark.parametrize("does", ["echo no JSON", "exec cat never"])
def test_opencode_works_whatever_its_hook_does(does: str, project: Path) -> None:
    """Its plugin runs inside of OpenCode: an answer that it cannot read, or none, must not stop the user's prompt."""
    succeed("install", "opencode", cwd=project)
    fake, script = project / "bin" / "leftoff", project / "play.mjs"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{does}\n")
    fake.chmod(0o755)
    os.mkfifo(project / "never")
    plugin = (project / ".opencode/plugins/leftoff.js").read_text().replace("10_000", "200")
    (project / "plugin.mjs").write_text(plugin)
    script.write_text(
        'import { Leftoff } from "./plugin.mjs"\n'
        "const client = { session: { get: async () => ({ data: {} }) } }\n"
        "const hooks = await Leftoff({ client, directory: process.cwd() })\n"
        'const parts = [{ type: "text", text: "hello" }]\n'
        'await hooks["chat.message"]({ sessionID: "s" }, { parts })\n'
        'console.log("asked")\nprocess.exit(0)\n'
    )
    env = {**os.environ, "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["node", str(script)], cwd=project, env=env, capture_output=True, text=True)
    os.close(os.open(project / "never", os.O_RDWR | os.O_NONBLOCK))  # ends the hook
    assert (0, "asked\n") == (done.returncode, done.stdout), done.stderr


def test_the_server_is_registered(project: Path) -> None:
    """For each agent where it looks for MCP servers."""
    for agent in AGENTS:
        succeed("install", agent, cwd=project)
    wanted = {"command": "leftoff", "args": ["mcp"]}
    assert wanted == json.loads((project / ".mcp.json").read_text())["mcpServers"]["leftoff"]
    for agent in ("gemini", "qwen"):
        found = json.loads((project / SETTINGS[agent]).read_text())
        assert wanted == found["mcpServers"]["leftoff"]
    codex = tomllib.loads((project / ".codex/config.toml").read_text())
    assert wanted == codex["mcp_servers"]["leftoff"]
    opencode = json.loads((project / SETTINGS["opencode"]).read_text())
    assert ["leftoff", "mcp"] == opencode["mcp"]["leftoff"]["command"]


def test_settings_that_only_have_a_version_are_removed(project: Path) -> None:
    """Qwen Code and OpenCode write one into a file that leftoff made."""
    for agent, key in (("qwen", "$version"), ("opencode", "$schema")):
        succeed("install", agent, cwd=project)
        path = project / SETTINGS[agent]
        path.write_text(json.dumps({**json.loads(path.read_text()), key: 4}))
        succeed("install", agent, "--uninstall", cwd=project)
    assert [] == list(project.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "x"',
        '# mine\nmodel = "x"\n',
        "a = 1\r\n\r\n[b]\r\nc = 2\r\n",
        "a = 1\r\nb = 2",
        "a = 1\n\n\n",
        'text = """\n[mcp_servers.leftoff]\ncommand = "no"\n"""',
        "# a comment at the end",
        "mcp_servers.z.command = 'z'\n",
        "[mcp_servers]\n",
        '[mcp_servers.other]\ncommand = "o"\nargs = ["mcp"]\n',
        "[[many]]\nx = 1\n[many.sub]\ny = { z = [1, 2] }\n",
        "[tools]\nweb = true",
        "[tools]\nupdate_plan.enabled = false\n",
        "[mcp_servers.leftoff]\ncommand = 'leftoff'\nargs = ['mcp']\nenv = { A = '1' }\n",
        "[tools.update_plan]\nenabled = true\n[mcp_servers.leftoff]\ncommand = 'leftoff'\nargs = ['mcp']\n",
    ],
)
def test_toml_in_and_out(text: str, project: Path) -> None:
    """Codex's settings are only appended to, and every byte comes back."""
    path = project / ".codex" / "config.toml"
    put(path, text)
    succeed("install", "codex", cwd=project)
    installed = path.read_bytes()
    data = tomllib.loads(installed.decode())
    assert installed.startswith(text.encode()) and ["mcp"] == data["mcp_servers"]["leftoff"]["args"]
    assert ("enabled = false" not in text) == data["tools"]["update_plan"]["enabled"]
    succeed("install", "codex", cwd=project)
    assert installed == path.read_bytes()
    succeed("install", "codex", "--uninstall", cwd=project)
    assert {".codex/config.toml": text.encode()} == everything(project)


@pytest.mark.parametrize("text", ["a = 1", "a = 1\n"])
def test_toml_that_was_edited_since(text: str, project: Path) -> None:
    """Tables that Codex or its user appended stay; a key in our own table goes with it."""
    path = project / ".codex" / "config.toml"
    put(path, text)
    succeed("install", "codex", cwd=project)
    theirs = '[projects."/x"]\ntrust_level = "trusted"\n'
    edited = path.read_text().replace('["mcp"]\n', '["mcp"]\nstartup_timeout_sec = 30\n') + theirs
    path.write_text("top = true\n" + edited.replace('"leftoff"', '"/old/place/leftoff"'))
    succeed("install", "codex", cwd=project)
    assert "top = true\n" + edited == path.read_text()
    succeed("install", "codex", "--uninstall", cwd=project)
    assert f"top = true\na = 1\n{theirs}" == path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = { z = { command = 'z' } }\n",
        "tools = { web = true }\n",
        "[tools.update_plan]\nslow = 1\n",
    ],
)
def test_toml_that_cannot_be_appended_to(text: str, project: Path) -> None:
    """It is refused with the text to paste."""
    put(project / ".codex" / "config.toml", text)
    before = everything(project)
    refused = call("install", "codex", cwd=project)
    assert 4 == refused.code and before == everything(project)
    assert (
        '[mcp_servers.leftoff]\ncommand = "leftoff"\nargs = ["mcp"]\n[tools.update_plan]\nenabled = true\n'
        in refused.err
    )


def test_tables_that_were_pasted(project: Path) -> None:
    """Install leaves them alone and does the rest. Uninstall says what to remove."""
    path = project / TOML
    server = f"[mcp_servers.leftoff]\ncommand = '{LEFTOFF}'\nargs = ['mcp']\n"
    pasted = server + "[tools]\nupdate_plan = { enabled = true }\n"
    put(path, pasted)
    succeed("install", "codex", cwd=project)
    assert pasted == path.read_text()
    refused = call("install", "codex", "--uninstall", cwd=project)
    assert 4 == refused.code and "[mcp_servers.leftoff]" in refused.err
    path.write_text("a = 1\n")
    succeed("install", "codex", "--uninstall", cwd=project)
    assert {TOML: b"a = 1\n"} == everything(project)


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
    assert f"{LEFTOFF} hook claude --user" in hook["command"]
    assert "leftoff" in json.loads((home / ".claude.json").read_text())["mcpServers"]
    succeed("install", "claude", "--user", "--uninstall", cwd=project, HOME=str(home))
    assert [] == list(home.iterdir())


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


def test_a_server_that_runs_leftoff_already(project: Path) -> None:
    """It is updated, with all that it has besides, and given back."""
    text = '{"mcpServers":{"leftoff":{"command":"/old/leftoff","args":["mcp"],"env":{"A":"1"}}}}'
    put(project / ".mcp.json", text)
    succeed("install", "claude", cwd=project)
    wanted = {"command": "leftoff", "args": ["mcp"], "env": {"A": "1"}}
    assert wanted == json.loads((project / ".mcp.json").read_text())["mcpServers"]["leftoff"]
    succeed("install", "claude", "--uninstall", cwd=project)
    assert {".mcp.json": text.encode()} == everything(project)


def test_hooks_that_call_leftoff_already(project: Path) -> None:
    """They become one for each event, and are given back."""
    hook = {"type": "command", "command": "leftoff", "args": ["hook", "claude"], "timeout": 60}
    mine = {"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [hook]}, {"hooks": [hook, hook]}]}}
    put(project / SETTINGS["claude"], json.dumps(mine))
    succeed("install", "claude", cwd=project)
    found = json.loads((project / SETTINGS["claude"]).read_text())["hooks"]["SessionStart"]
    line = "command -v leftoff >/dev/null || exit 0; exec leftoff hook claude"
    now = {"type": "command", "command": line, "timeout": 60}
    assert [{"matcher": "startup|resume|clear|compact|fork", "hooks": [now]}] == found
    succeed("install", "claude", "--uninstall", cwd=project)
    assert {SETTINGS["claude"]: json.dumps(mine).encode()} == everything(project)


@pytest.mark.parametrize("agent", AGENTS)
def test_without_its_journal_ours_is_known_by_its_form(agent: str, project: Path) -> None:
    """As in a clone of a repository that has the settings and not the journal."""
    put(project / "README", "theirs")
    succeed("install", agent, cwd=project)
    (project / f".{agent}" / ".leftoff-install.json").unlink()
    succeed("install", agent, "--uninstall", cwd=project)
    assert {"README": b"theirs"} == everything(project)


@pytest.mark.parametrize("uninstall", [False, True])
def test_what_another_program_writes_meanwhile_is_not_lost(uninstall: bool, project: Path) -> None:
    """An agent stores a permission in its settings between our read and our write."""
    path = project / SETTINGS["claude"]
    put(path, '{"model": "x"}')
    recipe = ClaudeRecipe(str(project), str(LEFTOFF), user=False)
    if uninstall:
        InstallPlan(recipe, uninstall=False).apply()
    plan = InstallPlan(recipe, uninstall=uninstall)
    put(path, '{"permissions": {"deny": ["Bash"]}}')
    before = everything(project)
    with pytest.raises(Conflict, match="in the meantime"):
        plan.apply()
    assert before == everything(project)


def test_our_own_files_are_brought_up_to_date(project: Path) -> None:
    """A skill of an older leftoff is replaced; one that was there before, just so, stays at the end."""
    skill, journal = project / ".claude/skills/leftoff/SKILL.md", project / ".claude/.leftoff-install.json"
    succeed("install", "claude", cwd=project)
    text = skill.read_text()
    skill.write_text("older")
    journal.write_text(journal.read_text().replace(text_digest(text), text_digest("older")))
    succeed("install", "claude", cwd=project)
    assert text == skill.read_text()
    succeed("install", "claude", "--uninstall", cwd=project)
    assert {} == everything(project)
    put(skill, text)
    succeed("install", "claude", cwd=project)
    succeed("install", "claude", "--uninstall", cwd=project)
    assert [skill] == [path for path in project.rglob("*") if path.is_file()]


def test_a_text_that_an_agent_cut_in_two(project: Path) -> None:
    """Half of an emoji can be read from JSON, and written back."""
    put(project / ".mcp.json", '{\n  "history": "cut \\ud83d"\n}\n')
    before = everything(project)
    succeed("install", "claude", cwd=project)
    assert '"cut \\ud83d"' in (project / ".mcp.json").read_text()
    succeed("install", "claude", "--uninstall", cwd=project)
    assert before == everything(project)


@pytest.mark.parametrize(
    ("agent", "path", "text", "where"),
    [
        ("codex", TOML, "a = = 1\n", "config.toml:1:5: this is not TOML"),
        ("codex", TOML, "[[mcp_servers]]\na = 1\n", "config.toml: mcp_servers is not"),
        ("codex", TOML, "x = 1\nmcp_servers = 3\n", "config.toml: mcp_servers is not"),
        ("codex", TOML, "x = 1\n[mcp_servers]\nleftoff = 3\n", "config.toml: leftoff is not a server"),
        ("codex", TOML, "[mcp_servers.leftoff]\nurl = 'https://x'\n", "another server is called leftoff"),
        ("claude", ".mcp.json", '{"mcpServers": []}', ".mcp.json: mcpServers is not"),
        ("claude", ".mcp.json", '{"mcpServers": {"leftoff": null}}', "leftoff is not a server"),
        ("claude", ".mcp.json", '{"mcpServers": {"leftoff": {"type": "http"}}}', "another server"),
        ("claude", ".mcp.json", '{"mcpServers": {"leftoff": {"command": "npx"}}}', "another server"),
        ("claude", SETTINGS["claude"], '{"hooks": 3}', "settings.json: hooks is not an object"),
        ("claude", SETTINGS["claude"], '{"hooks": {"Stop": {}}}', "settings.json: Stop is not a list"),
        ("claude", SETTINGS["claude"], '{"env": 1}', "settings.json: env is not a table"),
        ("claude", SETTINGS["claude"], "{", "settings.json:1:2: this is not JSON"),
        ("claude", SETTINGS["claude"], '{"a" 1}', "settings.json:1:6: this is not JSON"),
        ("claude", SETTINGS["claude"], "{} {}", "settings.json:1:4: this is not JSON"),
        ("claude", SETTINGS["claude"], "[]", "settings.json: the settings are not an object"),
        ("claude", ".claude/.leftoff-install.json", "[]", "is not as leftoff wrote it"),
    ],
)
def test_what_cannot_be_changed(agent: str, path: str, text: str, where: str, project: Path) -> None:
    """The message says where and why, and nothing is changed."""
    put(project / path, text)
    result = call("install", agent, cwd=project)
    assert 4 == result.code and where in result.err and "Nothing was changed." in result.err
    assert {path: text.encode()} == everything(project)


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
    path.write_text(path.read_text().replace("exec leftoff", "exec /gone/bin/leftoff"))
    found = call("install", "claude", "--check", cwd=project)
    assert 3 == found.code and "/gone/bin/leftoff, which is not there" in found.out
