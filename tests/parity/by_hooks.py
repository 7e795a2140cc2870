"""An agent's hooks: events as the agent sends them, through the hook's own function, without the process around it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from unittest import mock

import leftoff
from tests.parity.by_command import by_command
from tests.parity.playing import WORLD, Face, Op

SESSION = "s1"
Event = tuple[str, dict[str, Any]]


class Hooks(Face):
    """Plays the events of a case."""

    name = "hooks"
    takes_operations = False

    def script(self, events: Iterable[Event | Op]) -> None:
        for event in events:
            if isinstance(event, Op):  # what was there before the session
                by_command(self, event)
                continue
            name, more = event
            if name in WORLD:
                getattr(self, name)(**more)
            else:
                self.fire(name, more)
        assert "" == self.complaints()
        store = leftoff.open(self.folder / ".leftoff")
        self.run_id = store.list()[0].run_id
        store.close()

    def fire(self, name: str, more: dict[str, Any]) -> bytes:
        from leftoff.agents import hook_process as hook

        about = {"session_id": SESSION, "cwd": str(self.folder), "hook_event_name": name}
        call = hook.HookCall("claude")
        with mock.patch.multiple(hook, HOOK_S=60, LAST_S=60):
            return hook.process_hook(call, json.dumps({**about, **more}).encode())

    def complaints(self) -> str:
        """What went wrong, which an agent is never told."""
        log = self.folder / ".leftoff" / "hook.log"
        return log.read_text() if log.exists() else ""


def todos(**todos: str) -> Event:
    """The agent's todo list: text=status."""
    given = [{"content": text, "status": status} for text, status in todos.items()]
    return "PostToolUse", {"tool_name": "TodoWrite", "tool_input": {"todos": given}}
