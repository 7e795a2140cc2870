"""The command lines of agents: to start a session, and to go on with one."""

from __future__ import annotations

import shlex
from typing import Any

from leftoff.errors import Invalid

KNOWN = ("claude", "codex", "gemini", "opencode")
CHOOSES = ("claude",)  # whose session id is ours to choose, before it starts


class Asked:
    """What a step asks of an agent, whichever it is."""

    __slots__ = ("budget", "model", "permissions", "tools", "turns")

    def __init__(self, given: dict[str, Any]) -> None:
        self.model = given.get("model")
        self.turns = given.get("turns")
        self.budget = given.get("budget")
        self.permissions = given.get("permissions")
        tools = given.get("tools")
        self.tools = ",".join(map(str, tools)) if isinstance(tools, list) else tools


def check_agent(name: str, custom: dict[str, Any]) -> str:
    """A name that stands for an agent."""
    if name in KNOWN or name in custom:
        return name
    known = ", ".join([*KNOWN, *custom])
    raise Invalid(
        f"There is no agent {name!r}.", hint=f"One of {known}; or add it to leftoff.toml as [agents.{name}]."
    )


def command_of(
    agent: str,
    prompt: str,
    asked: Asked,
    custom: dict[str, Any],
    *,
    session: str | None = None,
    resume: bool = False,
) -> list[str]:
    """The words that start a session, or with ``resume`` go on with it."""
    if agent in custom and ("command" in custom[agent] or agent not in KNOWN):
        return _templated(agent, prompt, custom[agent], session, resume)
    build = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[agent]
    return build(prompt, asked, session, resume)


def _claude(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["claude", "-p", prompt, "--output-format", "stream-json", "--verbose"]
    words += ["--resume" if resume else "--session-id", session] if session else []
    words += _flag("--model", asked.model) + _flag("--max-turns", asked.turns)
    words += _flag("--max-budget-usd", asked.budget) + _flag("--permission-mode", asked.permissions)
    return words + _flag("--allowedTools", asked.tools)


def _codex(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    flags = ["--json", *_flag("--model", asked.model), *_flag("--sandbox", asked.permissions)]
    if resume and session:
        return ["codex", "exec", *flags, "resume", session, prompt]
    return ["codex", "exec", *flags, prompt]


def _gemini(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["gemini", "-p", prompt, "--output-format", "stream-json"]
    words += ["--resume", session] if resume and session else []
    return words + _flag("--model", asked.model) + _flag("--approval-mode", asked.permissions)


def _opencode(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["opencode", "run", "--format", "json", *_flag("--model", asked.model)]
    return [*words, *(["-s", session] if resume and session else []), prompt]


def _flag(name: str, value: Any) -> list[str]:
    return [name, str(value)] if value not in (None, "") else []


def _templated(agent: str, prompt: str, about: Any, session: str | None, resume: bool) -> list[str]:
    """An agent from leftoff.toml: its command, with {prompt} and {session} filled in."""
    given = about.get("resume") if resume and isinstance(about, dict) else None
    given = given or (about.get("command") if isinstance(about, dict) else about)
    words = shlex.split(given) if isinstance(given, str) else given
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise Invalid(
            f"[agents.{agent}] has no command.",
            hint='For example: command = ["my-agent", "--do", "{prompt}"]',
        )
    return [word.replace("{prompt}", prompt).replace("{session}", session or "") for word in words]
