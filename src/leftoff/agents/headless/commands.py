"""The command lines of agents: to start a session, and to go on with one."""

from __future__ import annotations

import re
import shlex
from typing import Any

from leftoff.errors import Invalid

KNOWN = ("claude", "codex", "gemini", "opencode")
CHOOSES = ("claude",)  # whose session id is ours to choose, before it starts
LIMITS = ("model", "turns", "budget", "permissions", "tools")  # what a step may ask of an agent
WATCHED = ("opencode",)  # who says of each turn what it cost, and is ended by us where that is too much
# What each agent's command line has an option for, or tells of while it works.
_ABLE: dict[str, tuple[str, ...]] = {
    "claude": LIMITS,
    "codex": ("model", "permissions"),
    "gemini": ("model", "permissions"),
    "opencode": ("model", "turns", "budget"),
}
_WHAT = {
    "model": "no choice of a model",
    "turns": "no limit of turns",
    "budget": "no limit of costs",
    "permissions": "no permissions",
    "tools": "no list of tools",
}


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

    def less(self, cost: float, turns: int) -> Asked:
        """What is left of the limits, after so much was spent; never nothing."""
        left = Asked({name: getattr(self, name) for name in self.__slots__})
        if left.turns is not None:
            left.turns = max(1, int(left.turns) - turns)
        if left.budget is not None and cost:
            left.budget = max(0.01, round(float(left.budget) - cost, 4))
        return left

    def over(self, cost: float, turns: int) -> str:
        """Which limit so much is over; empty: none."""
        if self.turns is not None and turns >= int(self.turns):
            return "error_max_turns"
        return "error_max_budget_usd" if self.budget is not None and cost >= float(self.budget) else ""


def not_able(agent: str, asked: str, custom: dict[str, Any]) -> str:
    """Why an agent cannot be asked for something, as a sentence; empty: it can."""
    if _is_custom(agent, custom):
        given = _template(agent, custom[agent], False)
        able = [name for name in LIMITS if any(f"{{{name}}}" in word for word in given)]
        hint = f"its command in leftoff.toml has no {{{asked}}}"
    else:
        able, hint = list(_ABLE[agent]), "its command line has none"
    return "" if asked in able else f"{agent} has {_WHAT[asked]}: {hint}"


def _is_custom(agent: str, custom: dict[str, Any]) -> bool:
    return agent in custom and ("command" in custom[agent] or agent not in KNOWN)


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
    if _is_custom(agent, custom):
        filled = {"prompt": prompt, "session": session or ""}
        filled.update({name: str(getattr(asked, name) or "") for name in LIMITS})
        return [_filled(word, filled) for word in _template(agent, custom[agent], resume)]
    build = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[agent]
    return build(prompt, asked, session, resume)


def _claude(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["claude", "-p", prompt, "--output-format", "stream-json", "--verbose"]
    words += ["--resume" if resume else "--session-id", session] if session else []
    words += _flag("--model", asked.model) + _flag("--max-turns", asked.turns)
    words += _flag("--max-budget-usd", asked.budget) + _flag("--permission-mode", asked.permissions)
    return words + _flag("--allowedTools", asked.tools)


def _codex(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    flags = ["--json", *_flag("--model", asked.model)]
    if resume and session:  # which takes no --sandbox
        flags += ["-c", f"sandbox_mode={asked.permissions}"] if asked.permissions else []
        return ["codex", "exec", "resume", session, *flags, prompt]
    return ["codex", "exec", *flags, *_flag("--sandbox", asked.permissions), prompt]


def _gemini(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["gemini", "-p", prompt, "--output-format", "stream-json"]
    words += ["--resume", session] if resume and session else []
    return words + _flag("--model", asked.model) + _flag("--approval-mode", asked.permissions)


def _opencode(prompt: str, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["opencode", "run", "--format", "json", *_flag("--model", asked.model)]
    return [*words, *(["-s", session] if resume and session else []), prompt]


def _flag(name: str, value: Any) -> list[str]:
    return [name, str(value)] if value not in (None, "") else []


def _template(agent: str, about: Any, resume: bool) -> list[str]:
    """The command of an agent from leftoff.toml: words with {prompt}, {session}, {turns}, … in them."""
    given = about.get("resume") if resume and isinstance(about, dict) else None
    given = given or (about.get("command") if isinstance(about, dict) else about)
    words = shlex.split(given) if isinstance(given, str) else given
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise Invalid(
            f"[agents.{agent}] has no command.",
            hint='For example: command = ["my-agent", "--do", "{prompt}"]',
        )
    return words


def _filled(word: str, values: dict[str, str]) -> str:
    """One pass, so that what is filled in is not looked at again."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found.group(1), found.group()), word)
