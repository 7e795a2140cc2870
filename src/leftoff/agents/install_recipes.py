"""What leftoff installs for each agent, and where: one recipe per agent, as data."""

from __future__ import annotations

import os
import shlex
from typing import Any

from leftoff.agents.settings_text import SettingsEntries, Switch

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


_CLAUDE_WRITES = "Write|Edit|MultiEdit|NotebookEdit"
_CLAUDE_LISTS = "TodoWrite|TaskCreate|TaskUpdate|ExitPlanMode"

# event: its matcher (None: it has none)
_EVENTS: dict[str, dict[str, str | None]] = {
    "claude": {
        "SessionStart": "startup|resume|clear|compact|fork",
        "UserPromptSubmit": None,
        "PreToolUse": _CLAUDE_WRITES,
        "PostToolUse": f"{_CLAUDE_WRITES}|{_CLAUDE_LISTS}",
        "PostToolUseFailure": f"{_CLAUDE_WRITES}|Bash",
        "TaskCreated": None,
        "TaskCompleted": None,
        "SubagentStop": None,
        "PreCompact": None,
        "PostCompact": None,
        "Stop": None,
        "StopFailure": None,
        "SessionEnd": None,
    },
    "codex": {
        "SessionStart": None,
        "UserPromptSubmit": None,
        "PreToolUse": "apply_patch",
        "PostToolUse": "apply_patch|update_plan",
        "SubagentStop": None,
        "PreCompact": None,
        "PostCompact": None,
        "Stop": None,
        "SessionEnd": None,
    },
    "gemini": {
        "SessionStart": None,
        "BeforeAgent": None,
        "BeforeTool": "write_file|replace",
        "AfterTool": "write_file|replace|write_todos|run_shell_command",
        "PreCompress": "manual",  # the automatic one fires before each request, also if nothing is compressed
        "AfterAgent": None,
        "SessionEnd": None,
    },
}
# The setting that turns the agent's todo list on, if it is off by default.
_CLAUDE_TODO = Switch(("env", "CLAUDE_CODE_ENABLE_TODO_TOOLS"), "1")
_CODEX_TODO = Switch(("tools", "update_plan", "enabled"), True)
# What the agent asks before it runs hooks or starts the server, and what to answer.
_TRUST = {
    "claude": """\
Claude Code asks two things the first time: "Is this a project you created or one you trust?", then
"New MCP server found in this project: leftoff"; choose "Use this MCP server". `claude -p` runs the hooks unasked.""",
    "codex": """\
Codex skips hooks without a word until you trust them: start `codex` here once. It asks whether to trust the folder,
then "Hooks need review"; choose "Trust all and continue". It asks again when they change, as after this.""",
    "gemini": """\
Gemini CLI exits with 55 in a folder that it does not trust: "Gemini CLI is not running in a trusted directory."
Start `gemini` here once and trust it; in scripts, --skip-trust or GEMINI_CLI_TRUST_WORKSPACE=true.""",
}
# These agents read a project's settings only in the folder that they are started in.
_AT_THE_TOP = {"claude": "Claude Code", "gemini": "Gemini CLI"}
_FOLDERS = {"claude": ".claude", "codex": ".codex", "gemini": ".gemini"}
_HOOKS = {"claude": "settings.json", "codex": "hooks.json", "gemini": "settings.json"}


class Recipe:
    """What to install for one agent, in a project or in the user's home (``base``)."""

    def __init__(self, agent: str, base: str, command: str, *, user: bool) -> None:
        self.agent = agent
        self.base = base
        self.user = user
        self.command = command
        self.folder = os.path.join(base, _FOLDERS[agent])
        self.settings = os.path.join(self.folder, _HOOKS[agent])  # the file with the hooks

    @property
    def conditions(self) -> str:
        """Tell the user what the agent will ask before it runs the hooks."""
        told = _TRUST[self.agent]
        if self.user or self.agent not in _AT_THE_TOP:
            return told
        return (
            f"{told}\n{_AT_THE_TOP[self.agent]} runs them only if it is started in this very folder, not in one below: "
            f"`leftoff install {self.agent} --user` is for all."
        )

    def entries(self) -> dict[str, SettingsEntries]:
        """Return our entries for each settings file, by path."""
        server = {"command": self.command, "args": ["mcp"]}
        if self.agent == "gemini":
            return {self.settings: SettingsEntries("gemini", self._hooks(), server)}
        if self.agent == "codex":
            config = os.path.join(self.folder, "config.toml")
            return {
                self.settings: SettingsEntries("codex", self._hooks()),
                config: SettingsEntries("codex", server=server, switch=_CODEX_TODO),
            }
        servers = os.path.join(self.base, ".claude.json" if self.user else ".mcp.json")
        return {
            self.settings: SettingsEntries("claude", self._hooks(), switch=_CLAUDE_TODO),
            servers: SettingsEntries("claude", server=server),
        }

    def _hooks(self) -> dict[str, dict[str, Any]]:
        out: dict[str, dict[str, Any]] = {}
        for event, matcher in _EVENTS[self.agent].items():
            group = {"hooks": [self._hook(event)]}
            out[event] = {"matcher": matcher, **group} if matcher else dict(group)
        return out

    def _hook(self, event: str) -> dict[str, Any]:
        words = ["hook", self.agent, *(["--user"] if self.user else [])]
        if self.agent == "claude":
            return {"type": "command", "command": self.command, "args": words, "timeout": 10}
        line = shlex.join([self.command, *words])
        seconds = 3 if self.agent == "codex" and event == "SessionEnd" else 10
        timeout = seconds * 1000 if self.agent == "gemini" else seconds
        return {"type": "command", "command": line, "timeout": timeout}

    def files(self) -> dict[str, str]:
        """Return the text of the skill and the commands, by path."""
        out = {os.path.join(self.folder, "skills", "leftoff", "SKILL.md"): SKILL}
        for name, (about, text) in COMMANDS.items():
            if self.agent == "gemini":
                path = os.path.join("commands", f"{name}.toml")
                text = f'description = "{about}"\nprompt = """\n{text}"""\n'
            elif self.agent == "codex":  # it has no commands in a project, but shows skills as $NAME
                path = os.path.join("skills", name, "SKILL.md")
                text = f"---\nname: {name}\ndescription: {about} (leftoff)\n---\n\n{text}"
            else:
                path = os.path.join("commands", f"{name}.md")
                text = f"---\ndescription: {about}\n---\n\n{text}"
            out[os.path.join(self.folder, path)] = text
        return out
