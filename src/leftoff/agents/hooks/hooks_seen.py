"""Which events of each agent have come, and when last: one small file each, in the store's folder.

`leftoff install --check` reads them: an agent that does not trust the hooks skips them silently.
"""

from __future__ import annotations

import os

from leftoff.model.fields import Fields
from leftoff.operations.sessions.hook_events import Event

FOLDER = "hooks"
_VERSION = '"cli_version":"'
_LONGEST = 40  # characters of a version


class Seen(Fields):
    """An event that came: its name, when it last came (seconds), and the version of the agent, if known."""

    event: str
    at: float
    version: str


def keep(folder: str, agent: str, event: Event) -> None:
    """Note that an event has come, if the store's folder exists. Errors are ignored."""
    path = os.path.join(folder, FOLDER, f"{agent}.{event.raw}")
    try:
        if event.name != "UserPromptSubmit":
            os.utime(path)
            return
    except OSError:
        pass
    try:
        if not event.raw.isalnum() or not os.path.isdir(folder):
            return
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(
            path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as file:
            file.write(version_of(agent, event.text("transcript_path")))
    except OSError:
        pass


def version_of(agent: str, transcript: str) -> str:
    """Return the version of the agent's program; empty if it does not say."""
    if agent == "claude":  # claude-code_2-1-325_harness
        words = os.environ.get("AI_AGENT", "").split("_")
        return words[1].replace("-", ".")[:_LONGEST] if len(words) > 1 and words[0] == "claude-code" else ""
    if agent == "codex" and transcript:
        with open(transcript, encoding="utf-8", errors="replace") as file:
            head = file.read(4096)
        return head.partition(_VERSION)[2].partition('"')[0][:_LONGEST]
    return ""


def seen(folder: str, agent: str) -> list[Seen]:
    """Return the events of an agent that have come, by name."""
    out = []
    top = os.path.join(folder, FOLDER)
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else ():
        who, _, event = name.partition(".")
        if who == agent:
            path = os.path.join(top, name)
            with open(path, encoding="utf-8", errors="replace") as file:
                out.append(Seen(event, os.path.getmtime(path), file.read(_LONGEST)))
    return out
