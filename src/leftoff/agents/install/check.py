"""Whether leftoff is installed for an agent, and whether its hooks really fire."""

from __future__ import annotations

import os
from typing import Any

from leftoff.agents.hooks.hooks_seen import Seen, seen
from leftoff.agents.install.json_text import JsonText
from leftoff.agents.install.merge import command_of
from leftoff.agents.install.plan import NAME, Plan
from leftoff.agents.install.recipes import Recipe
from leftoff.clock import iso
from leftoff.model.fields import Fields
from leftoff.operations.settings.agent_files import SettingsFiles

# What comes in every session that is asked anything, and is answered.
_NEEDED = {
    "claude": ("UserPromptSubmit", "Stop"),
    "codex": ("UserPromptSubmit", "Stop"),
    "gemini": ("BeforeAgent", "AfterAgent"),
}
NOT_INSTALLED, NOT_SEEN = 3, 7  # exit codes: there is no such thing; a person must do something first


class Checked(Fields):
    """What was found. ``commands``: what the hooks call that is not there. ``events``: those that came since leftoff
    was installed; ``missing``: those that would have, had a session been asked anything, under these ``conditions``."""

    agent: str
    hooks: int
    current: bool
    commands: list[str]
    events: list[Seen]
    missing: list[str]
    conditions: str

    @property
    def code(self) -> int:
        if not self.hooks or self.commands:
            return NOT_INSTALLED
        return NOT_SEEN if self.missing else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "installed": bool(self.hooks) and not self.commands,
            "current": self.current,
            "events": [
                {"event": one.event, "seen_at": iso(int(one.at * 1000)), "version": one.version or None}
                for one in self.events
            ],
            "missing": self.missing,
        }

    def lines(self) -> list[str]:
        """For people: what is so, and what to do."""
        again = f"`leftoff install {self.agent}`"
        if not self.hooks:
            return [f"leftoff is not installed for {self.agent} here.", f"{again} does it."]
        if self.commands:
            return [
                f"The hooks call {self.commands[0]}, which is not there.",
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


def check(recipe: Recipe, store: str) -> Checked:
    """Look at an agent's settings, and at the events that the project's store has seen."""
    commands = _commands(recipe)
    since = _changed_at(recipe)
    events = [one for one in seen(store, recipe.agent) if one.at >= since]
    came = {one.event for one in events}
    missing = [name for name in _NEEDED[recipe.agent] if name not in came]
    current = all(change.action == "keep" for change in Plan(recipe, uninstall=False).changes)
    gone = sorted(
        {command for command in commands if os.path.isabs(command) and not os.access(command, os.X_OK)}
    )
    missing = missing if commands else []
    return Checked(recipe.agent, len(commands), current, gone, events, missing, recipe.conditions)


def _commands(recipe: Recipe) -> list[str]:
    """The leftoff that each hook calls."""
    text = SettingsFiles(recipe.base, user=recipe.user).read(recipe.settings)
    data = JsonText(text, recipe.settings).plain() if text is not None and text.strip() else {}
    hooks = data.get("hooks") if isinstance(data, dict) else None
    out = []
    for groups in hooks.values() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            inner = group.get("hooks") if isinstance(group, dict) else None
            found = [command_of(hook, recipe.agent) for hook in inner or ()]
            out += [command for command in found if command is not None]
    return out


def _changed_at(recipe: Recipe) -> float:
    """When leftoff was last put into the settings."""
    try:
        return os.path.getmtime(os.path.join(recipe.folder, NAME))
    except OSError:
        return 0.0
