"""Report whether leftoff is installed for an agent, and whether its hooks fire."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from leftoff.agents.hook_log import SeenEvent, events_seen
from leftoff.agents.install_plan import InstallPlan, journal_path
from leftoff.agents.recipes import Recipe
from leftoff.agents.settings_text import BLANKS, hook_commands, read_json_settings
from leftoff.clock import iso
from leftoff.errors import Invalid
from leftoff.operations.settings.agent_files import SettingsFiles

# The events of every session in which the agent was asked something and answered.
_NEEDED = {
    "claude": ("UserPromptSubmit", "Stop"),
    "codex": ("UserPromptSubmit", "Stop"),
    "gemini": ("BeforeAgent", "AfterAgent"),
}
_NOT_INSTALLED, _NOT_SEEN = 3, 7  # exit codes


@dataclass
class InstallCheck:
    """The result of a check. Events count only if they came after leftoff was last installed."""

    agent: str
    hooks: int
    current: bool
    missing_commands: list[str]  # what the hooks call that does not exist
    events: list[SeenEvent]
    missing: list[str]
    conditions: str

    @property
    def code(self) -> int:
        if not self.hooks or self.missing_commands:
            return _NOT_INSTALLED
        return _NOT_SEEN if self.missing else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "installed": bool(self.hooks) and not self.missing_commands,
            "current": self.current,
            "events": [
                {"event": one.event, "seen_at": iso(int(one.at * 1000)), "version": one.version or None}
                for one in self.events
            ],
            "missing": self.missing,
        }

    def lines(self) -> list[str]:
        again = f"`leftoff install {self.agent}`"
        if not self.hooks:
            return [f"leftoff is not installed for {self.agent} here.", f"{again} does it."]
        if self.missing_commands:
            return [
                f"The hooks call {self.missing_commands[0]}, which is not there.",
                f"{again} brings them up to date.",
            ]
        version = next((f" {one.version}" for one in self.events if one.version), "")
        out = [f"{self.hooks} hooks are installed for {self.agent}{version}."]
        out += [f"  {one.event:<20}last seen {iso(int(one.at * 1000))}" for one in self.events]
        if not self.current:
            out.append(f"They are not as this leftoff would write them: {again} brings them up to date.")
        if self.missing:
            out += [f"Not seen since they were installed: {', '.join(self.missing)}.", self.conditions]
            out.append("Then ask it anything, and check again.")
        return out


def check_install(recipe: Recipe, store: str) -> InstallCheck:
    """Compare an agent's settings with the events that the project's store has seen."""
    text = SettingsFiles(recipe.base, user=recipe.user).read(recipe.settings) or ""
    data = read_json_settings(text, recipe.settings)[0] if text.strip(BLANKS) else {}
    commands = hook_commands(data, recipe.agent)
    try:
        since = os.path.getmtime(journal_path(recipe))
    except OSError:
        since = 0.0
    events = [one for one in events_seen(store, recipe.agent) if one.at >= since]
    came = {one.event for one in events}
    gone = {command for command in commands if os.path.isabs(command) and not os.access(command, os.X_OK)}
    return InstallCheck(
        recipe.agent,
        len(commands),
        bool(commands) and _is_current(recipe),
        sorted(gone),
        events,
        [name for name in _NEEDED[recipe.agent] if commands and name not in came],
        recipe.conditions,
    )


def _is_current(recipe: Recipe) -> bool:
    """Return whether installing again would change nothing."""
    try:
        return all(change.action == "keep" for change in InstallPlan(recipe, uninstall=False).changes)
    except Invalid:
        return False
