"""What a step asks of an agent in words that hold for all of them: which model, and what it may do unasked.

Every agent has words of its own for what it may do. A step says one word, ours or any agent's own, and each agent of
its list is told the same in the word that it knows. A model is a name, of one agent or of several.
"""

from __future__ import annotations

import re
from typing import Any

from leftoff.errors import Invalid

BY_AGENT = ("model", "permissions")  # may be one word for all, or a mapping from agents to words
# What each agent calls it; empty: it is what the agent does unless told otherwise.
_PERMISSIONS: dict[str, dict[str, str]] = {
    "default": {"claude": "", "codex": "", "gemini": "default"},
    "plan": {"claude": "plan", "codex": "read-only", "gemini": "plan"},
    "acceptEdits": {"claude": "acceptEdits", "codex": "workspace-write", "gemini": "auto_edit"},
    "bypass": {"claude": "bypassPermissions", "codex": "danger-full-access", "gemini": "yolo"},
    "auto": {"claude": "auto"},
    "dontAsk": {"claude": "dontAsk"},
    "manual": {"claude": "manual"},
}
_MAKERS = {
    "claude": re.compile(r"claude|opus|sonnet|haiku", re.IGNORECASE),
    "codex": re.compile(r"gpt|codex|o[0-9]", re.IGNORECASE),
    "gemini": re.compile(r"gemini|gemma|flash", re.IGNORECASE),
}


def for_agent(agent: str, name: str, about: dict[str, Any]) -> Any:
    """What is asked of this agent under that name; None where nothing is."""
    value = about.get(name)
    return value.get(agent) if name in BY_AGENT and isinstance(value, dict) else value


def own_permission(agent: str, word: str) -> str:
    """The agent's own word for what it may do."""
    row = _PERMISSIONS.get(word) or next((row for row in _PERMISSIONS.values() if word in row.values()), {})
    if agent not in row:
        known = [name for name, own in _PERMISSIONS.items() if agent in own]
        raise Invalid(
            f"`permissions: {word}` does not go with the agent {agent}.",
            hint=f"It can {', '.join(known)}. Or say it for each: permissions: {{{agent}: {known[0]}}}.",
        )
    return row[agent]


def check_words(agent: str, agents: list[str], about: dict[str, Any]) -> None:
    """Raise what this agent would not understand. ``agents``: all that the step may be done by."""
    for name in BY_AGENT:
        value = about.get(name)
        for other in value if isinstance(value, dict) else ():
            if other not in agents:
                raise Invalid(
                    f"`{name}` is said for {other}, which is no agent of the step.",
                    hint=f"The step has {', '.join(agents)}.",
                )
    word, model = for_agent(agent, "permissions", about), for_agent(agent, "model", about)
    if word is not None:
        own_permission(agent, str(word))
    whose = [maker for maker, pattern in _MAKERS.items() if pattern.match(str(model or ""))]
    for_all = len(agents) > 1 and not isinstance(about.get("model"), dict)
    if for_all and whose and agent in _MAKERS and agent not in whose:
        raise Invalid(
            f"`model: {model}` does not go with the agent {agent}.",
            hint=f"Say whose it is, and the others take their own: model: {{{whose[0]}: {model}}}.",
        )
