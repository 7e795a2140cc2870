"""What leftoff installs for each agent, and where: one class per agent.

A new agent needs its class here, its class in ``adapters.py`` for `agent:` steps, its name in
``leftoff.agents.AGENTS``, the names of its tools in ``hook_events.py`` if they are new, and its class in
``tests/real_agents/agents.py``.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from leftoff.agents.opencode_plugin import opencode_plugin
from leftoff.agents.settings_text import BLANKS, SettingsEntries, Switch, hook_commands, read_json_settings

SKILL = """---
name: leftoff
description: Keeps the progress of long work so that it survives a crash, a compaction or a new session. Use it for \
work of many steps, when asked to resume, continue, checkpoint or hand over, and when work was interrupted.
---

# leftoff

`leftoff` is a command that keeps the progress of a run: its steps, variables, notes, files and checkpoints.
In this session a run is kept by itself: what was asked, the todo list as its steps, the files that are edited.

- Where work stands: `leftoff brief`. All unfinished runs: `leftoff status`.
- Go on with an unfinished run: `leftoff resume RUN`. It prints what is known; finished steps are not done again.
- Work of many steps: `leftoff start NAME --steps a,b,c`, then per step `leftoff step start a`,
  `leftoff step done a --output FILE`, or `leftoff step fail a --error "why" --resume-with "what to do first"`.
- What comes next: `leftoff next`.
- Facts that later steps need: `leftoff set key=value`; for the next one at work: `leftoff note "text"`.
- Before something risky: `leftoff save --note "before the migration"`. Back to it: ask the person first.
- The end: `leftoff finish --summary "what was done"`.

Every verb explains itself: `leftoff help VERB`. Secrets are not stored.
"""

# The prefix avoids hiding an agent's own command, such as /resume.
COMMANDS = {
    "leftoff-checkpoint": (
        "Save a checkpoint of this session's progress",
        "Save the progress of this session with leftoff.\n\n"
        "1. Bring the todo list up to date, so that it says what is done and what is not.\n"
        '2. Note what the next one at work must know: `leftoff note "…"`.\n'
        '3. Run `leftoff save --note "…"` and tell its id.\n',
    ),
    "leftoff-resume": (
        "Go on with unfinished work",
        "Go on with unfinished work that leftoff has kept.\n\n"
        "1. Run `leftoff status` to see which runs are unfinished; if there are several, ask which one is meant.\n"
        "2. Run `leftoff resume RUN` and read what it prints: what is done, what is next, what changed since.\n"
        "3. Go on with the next step. Do not do finished steps again.\n",
    ),
}


_EVENTS = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure TaskCreated TaskCompleted SubagentStop "
    "PreCompact PostCompact Stop StopFailure SessionEnd"
).split()
_CLAUDE_WRITES = "Write|Edit|MultiEdit|NotebookEdit"
_QWEN_WRITES = "write_file|edit|notebook_edit"
_IN_THIS_FOLDER = (
    "\n{title} runs them only if it is started in this very folder, not in one below: "
    "`leftoff install {agent} --user` is for all."
)


def _events(matchers: dict[str, str], without: str = "") -> dict[str, str | None]:
    """Return the events of an agent with the names of Claude Code, each with its matcher."""
    return {event: matchers.get(event) for event in _EVENTS if event not in without.split()}


class Recipe:
    """What to install for one agent, in a project or in the user's home (``base``). Each agent is a subclass.

    Files of a project are shared in git, so they call `leftoff` by its name. Where it is not installed, the hooks do
    nothing. Files in the user's home call it by its path (``command``).
    """

    agent = ""
    title = ""
    folder_name = ""
    hooks_file = "settings.json"
    events: dict[str, str | None] = {}  # each with its matcher; None: it has none
    needed = (
        "UserPromptSubmit",
        "Stop",
    )  # of every session in which the agent was asked something and answered
    trust = ""  # what the agent asks before it runs hooks or starts the server, and what to answer
    at_the_top = False  # whether it reads a project's settings only in the folder that it is started in

    def __init__(self, base: str, command: str, *, user: bool) -> None:
        self.base = base
        self.user = user
        self.command = command if user else "leftoff"
        self.folder = os.path.join(base, *self.folder_name.split("/"))
        self.settings = os.path.join(self.folder, self.hooks_file)  # the file with the hooks

    @property
    def conditions(self) -> str:
        """Tell the user what the agent will ask before it runs the hooks."""
        if self.user or not self.at_the_top:
            return self.trust
        return self.trust + _IN_THIS_FOLDER.format(title=self.title, agent=self.agent)

    def entries(self) -> dict[str, SettingsEntries]:
        """Return our entries for each settings file, by path."""
        return {self.settings: SettingsEntries(self.agent, self.hooks(), self.server())}

    def server(self) -> dict[str, Any]:
        return {"command": self.command, "args": ["mcp"]}

    def hooks(self) -> dict[str, dict[str, Any]]:
        out: dict[str, dict[str, Any]] = {}
        for event, matcher in self.events.items():
            hook = {"type": "command", "command": self.line(), "timeout": self.timeout(event)}
            out[event] = {"matcher": matcher, "hooks": [hook]} if matcher else {"hooks": [hook]}
        return out

    def line(self) -> str:
        """Return the shell line of a hook. A colleague who has the settings from git may not have leftoff."""
        words = shlex.join([self.command, "hook", self.agent, *(["--user"] if self.user else [])])
        return f"command -v {shlex.quote(self.command)} >/dev/null || exit 0; exec {words}"

    def timeout(self, event: str) -> int:
        return 10

    def calls(self, text: str) -> list[str]:
        """Return what each hook in the text of the settings calls."""
        data = read_json_settings(text, self.settings)[0] if text.strip(BLANKS) else {}
        return hook_commands(data, self.agent)

    def files(self) -> dict[str, str]:
        """Return the text of the files that are ours alone, by path: the skill and the commands."""
        out = {os.path.join(self.folder, "skills", "leftoff", "SKILL.md"): SKILL}
        for name, (about, text) in COMMANDS.items():
            path, text = self.own_command(name, about, text)
            out[os.path.join(self.folder, path)] = text
        return out

    def own_command(self, name: str, about: str, text: str) -> tuple[str, str]:
        """Return the path and the text of a command that the user types."""
        return os.path.join("commands", f"{name}.md"), f"---\ndescription: {about}\n---\n\n{text}"


class ClaudeRecipe(Recipe):
    agent, title, folder_name, at_the_top = "claude", "Claude Code", ".claude", True
    events = _events(
        {
            "SessionStart": "startup|resume|clear|compact|fork",
            "PreToolUse": _CLAUDE_WRITES,
            "PostToolUse": f"{_CLAUDE_WRITES}|TodoWrite|TaskCreate|TaskUpdate|ExitPlanMode",
            "PostToolUseFailure": f"{_CLAUDE_WRITES}|Bash",
        }
    )
    trust = """\
Claude Code asks two things the first time: "Is this a project you created or one you trust?", then
"New MCP server found in this project: leftoff"; choose "Use this MCP server". `claude -p` runs the hooks unasked."""

    def entries(self) -> dict[str, SettingsEntries]:
        todo_list = Switch(("env", "CLAUDE_CODE_ENABLE_TODO_TOOLS"), "1")
        servers = os.path.join(self.base, ".claude.json" if self.user else ".mcp.json")
        return {
            self.settings: SettingsEntries(self.agent, self.hooks(), switch=todo_list),
            servers: SettingsEntries(self.agent, server=self.server()),
        }


class CodexRecipe(Recipe):
    agent, title, folder_name, hooks_file = "codex", "Codex", ".codex", "hooks.json"
    events = _events(
        {"PreToolUse": "apply_patch", "PostToolUse": "apply_patch|update_plan"},
        without="PostToolUseFailure TaskCreated TaskCompleted StopFailure",
    )
    trust = """\
Codex skips hooks without a word until you trust them: start `codex` here once. It asks whether to trust the folder,
then "Hooks need review"; choose "Trust all and continue". It asks again when they change, as after this. Until then
`codex exec` skips all settings of the project; `codex exec --trust` trusts the folder, but not its hooks."""

    def entries(self) -> dict[str, SettingsEntries]:
        todo_list = Switch(("tools", "update_plan", "enabled"), True)
        return {
            self.settings: SettingsEntries(self.agent, self.hooks()),
            os.path.join(self.folder, "config.toml"): SettingsEntries(
                self.agent, server=self.server(), switch=todo_list, server_key="mcp_servers"
            ),
        }

    def timeout(self, event: str) -> int:
        return 3 if event == "SessionEnd" else 10

    def own_command(self, name: str, about: str, text: str) -> tuple[str, str]:
        """Codex has no commands in a project, but shows skills as $NAME."""
        head = f"---\nname: {name}\ndescription: {about} (leftoff)\n---\n\n"
        return os.path.join("skills", name, "SKILL.md"), head + text


class GeminiRecipe(Recipe):
    agent, title, folder_name, at_the_top = "gemini", "Gemini CLI", ".gemini", True
    events = {
        "SessionStart": None,
        "BeforeAgent": None,
        "BeforeTool": "write_file|replace",
        "AfterTool": "write_file|replace|write_todos|run_shell_command",
        "PreCompress": "manual",  # the automatic one fires before each request, also if nothing is compressed
        "AfterAgent": None,
        "SessionEnd": None,
    }
    needed = ("BeforeAgent", "AfterAgent")
    trust = """\
Gemini CLI exits with 55 in a folder that it does not trust: "Gemini CLI is not running in a trusted directory."
Start `gemini` here once and trust it; in scripts, --skip-trust or GEMINI_CLI_TRUST_WORKSPACE=true."""

    def timeout(self, event: str) -> int:
        return 10_000  # milliseconds

    def own_command(self, name: str, about: str, text: str) -> tuple[str, str]:
        path = os.path.join("commands", f"{name}.toml")
        return path, f'description = "{about}"\nprompt = """\n{text}"""\n'


class OpencodeRecipe(Recipe):
    """OpenCode has no hooks in its settings. A plugin, which it loads from its folder, calls `leftoff hook`."""

    agent, title = "opencode", "OpenCode"
    folder_name, hooks_file = ".opencode", "opencode.json"
    trust = """\
OpenCode asks nothing: it loads the plugin and starts the MCP server the next time it starts in this folder."""

    def __init__(self, base: str, command: str, *, user: bool) -> None:
        self.folder_name = ".config/opencode" if user else ".opencode"
        super().__init__(base, command, user=user)
        self.plugin = os.path.join(self.folder, "plugins", "leftoff.js")

    def entries(self) -> dict[str, SettingsEntries]:
        server = {"type": "local", "command": [self.command, "mcp"], "enabled": True}
        return {self.settings: SettingsEntries(self.agent, server=server, server_key="mcp")}

    def calls(self, text: str) -> list[str]:
        return [self.command] if os.path.exists(self.plugin) else []

    def files(self) -> dict[str, str]:
        words = [self.command, "hook", self.agent, *(["--user"] if self.user else [])]
        return {**super().files(), self.plugin: opencode_plugin(words)}


class QwenRecipe(Recipe):
    agent, title, folder_name, at_the_top = "qwen", "Qwen Code", ".qwen", True
    events = _events(
        {
            "PreToolUse": _QWEN_WRITES,
            "PostToolUse": f"{_QWEN_WRITES}|todo_write|run_shell_command",
            "PostToolUseFailure": f"{_QWEN_WRITES}|run_shell_command",
        },
        without="TaskCreated TaskCompleted",
    )

    def entries(self) -> dict[str, SettingsEntries]:
        todo_list = Switch(("tools", "todoWrite", "enabled"), True)
        return {self.settings: SettingsEntries(self.agent, self.hooks(), self.server(), todo_list)}

    trust = """\
Qwen Code runs the hooks of a project at once, unless its setting for folder trust is on: then trust this folder.
In a terminal it asks about the MCP server: choose "Approve this server"."""


RECIPES: dict[str, type[Recipe]] = {
    recipe.agent: recipe for recipe in (ClaudeRecipe, CodexRecipe, GeminiRecipe, OpencodeRecipe, QwenRecipe)
}
