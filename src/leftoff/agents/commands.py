"""The command lines of agents: to start a session, and to go on with one; and what can be asked of each."""

from __future__ import annotations

import shlex
from typing import Any

from leftoff.agents.asked import BY_AGENT, check_words, for_agent, own_permission
from leftoff.errors import Invalid
from leftoff.model.fields import Fields

KNOWN = ("claude", "codex", "gemini", "opencode")
CHOOSES = ("claude", "gemini")  # whose session id is ours to choose, before it starts
LIMITS = ("model", "turns", "budget", "permissions", "tools")
# What an agent's command line has an option for; and what is counted from its lines, so that it can be stopped.
_OPTIONS = {
    "claude": LIMITS,
    "codex": ("model", "permissions"),
    "gemini": ("model", "permissions", "tools"),
    "opencode": ("model",),
}
_COUNTED = {"codex": ("turns",), "gemini": ("turns",), "opencode": ("turns", "budget")}
_LONGEST = 100_000  # bytes of a prompt on a command line; Linux has 131,072 for a word
_KEYS = ("command", "resume")  # of an agent in leftoff.toml


class Asked:
    """What a step asks of an agent, whichever it is: at first, or what is left of it."""

    __slots__ = ("budget", "model", "permissions", "tools", "turns")

    def __init__(self, given: dict[str, Any]) -> None:
        self.model = given.get("model")
        self.turns = given.get("turns")
        self.budget = given.get("budget")
        self.permissions = given.get("permissions")
        tools = given.get("tools")
        self.tools = ",".join(map(str, tools)) if isinstance(tools, list) else tools

    def told(self, agent: str, **left: Any) -> Asked:
        """The same in the words of one agent, with what is left of its limits."""
        given = {name: getattr(self, name) for name in Asked.__slots__}
        given |= {name: for_agent(agent, name, given) for name in BY_AGENT}
        if given["permissions"] is not None:
            given["permissions"] = own_permission(agent, given["permissions"])
        return Asked(given | left)


class Call(Fields):
    """The words that start an agent, and the prompt, where it comes on stdin."""

    words: list[str]
    stdin: str | None = None


# -- which agents there are


def custom_agents(section: dict[str, Any]) -> dict[str, Any]:
    """The agents of leftoff.toml, by name; what else is said of all of them is in order."""
    for key, value in section.items():
        if key != "wait" and not isinstance(value, dict):
            raise Invalid(
                f"[agents] has no key {key!r}.",
                path=key,
                hint=f"It has `wait`; an agent is a table, [agents.{key}].",
            )
    wait = section.get("wait", 1)
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 < wait < float("inf"):
        raise Invalid(
            f"[agents] wait is a number of seconds, not {wait!r}.", path="wait", hint="For example: wait = 30"
        )
    return {name: about for name, about in section.items() if name != "wait"}


def templated(agent: str, custom: dict[str, Any]) -> bool:
    """Whether leftoff.toml says how the agent is called."""
    return agent in custom and (agent not in KNOWN or "command" in custom[agent])


def check_agent(name: str, custom: dict[str, Any]) -> str:
    """A name that stands for an agent, which can be called."""
    if name not in KNOWN and name not in custom:
        known = ", ".join([*KNOWN, *(other for other in custom if other not in KNOWN)])
        raise Invalid(
            f"There is no agent {name!r}.",
            hint=f"One of {known}; or add it to leftoff.toml as [agents.{name}].",
        )
    for key in custom.get(name, ()):
        if key not in _KEYS:
            raise Invalid(f"[agents.{name}] has no key {key!r}.", hint=f"Its keys are {', '.join(_KEYS)}.")
    if templated(name, custom):
        for resume in (False, True):
            _template(name, custom[name], resume)
    return name


def check_asked(name: str, about: dict[str, Any], custom: dict[str, Any]) -> None:
    """What nobody could see to is not promised."""
    own = templated(name, custom)
    can = () if own else (*_OPTIONS[name], *_COUNTED.get(name, ()))
    for limit in LIMITS:
        if for_agent(name, limit, about) is not None and limit not in can:
            hint = (
                f"Put it into the command of [agents.{name}]." if own else f"It has {', '.join(can)}."
            ) + " Leave it out, or take another agent."
            raise Invalid(f"`{limit}` does not go with the agent {name}.", hint=hint)
    check_words(name, about.get("agents") or [name], about)


def counted(name: str, limit: str, custom: dict[str, Any]) -> bool:
    """Whether a limit is kept by watching the agent's lines."""
    return not templated(name, custom) and limit in _COUNTED.get(name, ())


def chooses(name: str, custom: dict[str, Any]) -> bool:
    """Whether the id of its session is ours to choose."""
    if templated(name, custom):
        return any("{session}" in word for word in _template(name, custom[name], False))
    return name in CHOOSES


def resumes(name: str, custom: dict[str, Any]) -> bool:
    """Whether it can go on with a session."""
    return not templated(name, custom) or "resume" in custom[name]


# -- how they are called


def session_named(known: Any) -> str | None:
    """The session that a run names, if it can be one: it may have come from anywhere, and what begins with a dash would
    be an option of the agent's, such as one that allows it everything."""
    return known if isinstance(known, str) and known and not known.startswith("-") else None


def call_of(
    agent: str,
    prompt: str,
    asked: Asked,
    custom: dict[str, Any],
    *,
    session: str | None = None,
    resume: bool = False,
) -> Call:
    """How a session is started, or with ``resume`` gone on with.

    A prompt that a command line cannot hold, or that looks like an option, comes on stdin.
    """
    session = session_named(session)
    if templated(agent, custom):
        return _filled(agent, prompt, _template(agent, custom[agent], resume), session)
    build = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[agent]
    if len(prompt.encode("utf-8", "surrogateescape")) > _LONGEST or prompt.startswith("-"):
        return Call(build(None, asked, session, resume), prompt)
    return Call(build(prompt, asked, session, resume))


def templated_words(agent: str, prompt: str, custom: dict[str, Any]) -> list[str]:
    """The words that start an agent of leftoff.toml, where only words will do."""
    call = _filled(agent, prompt, _template(agent, custom[agent], False), None)
    if call.stdin is not None:
        raise Invalid(
            f"The command of [agents.{agent}] has no {{prompt}}, and a run is handed over in one.",
            hint=_EXAMPLE,
        )
    return call.words


def _claude(prompt: str | None, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["claude", "-p", *_word(prompt), "--output-format", "stream-json", "--verbose"]
    words += ["--resume" if resume else "--session-id", session] if session else []
    words += _flag("--model", asked.model) + _flag("--max-turns", asked.turns)
    words += _flag("--max-budget-usd", asked.budget) + _flag("--permission-mode", asked.permissions)
    return words + _flag("--allowedTools", asked.tools)


def _codex(prompt: str | None, asked: Asked, session: str | None, resume: bool) -> list[str]:
    flags = ["--json", *_flag("--model", asked.model)]
    told = ["-" if prompt is None else prompt]
    if resume and session:
        # `resume` does not know --sandbox
        mode = ["-c", f'sandbox_mode="{asked.permissions}"'] if asked.permissions else []
        return ["codex", "exec", "resume", session, *flags, *mode, *told]
    return ["codex", "exec", *flags, *_flag("--sandbox", asked.permissions), *told]


def _gemini(prompt: str | None, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["gemini", *(["-p", prompt] if prompt is not None else []), "--output-format", "stream-json"]
    words += ["--resume" if resume else "--session-id", session] if session else []
    words += _flag("--model", asked.model) + _flag("--approval-mode", asked.permissions)
    return words + _flag("--allowed-tools", asked.tools)


def _opencode(prompt: str | None, asked: Asked, session: str | None, resume: bool) -> list[str]:
    words = ["opencode", "run", "--format", "json", *_flag("--model", asked.model)]
    return [*words, *(["-s", session] if resume and session else []), *_word(prompt)]


def _word(prompt: str | None) -> list[str]:
    return [] if prompt is None else [prompt]


def _flag(name: str, value: Any) -> list[str]:
    return [name, str(value)] if value not in (None, "") else []


def _template(agent: str, about: dict[str, Any], resume: bool) -> list[str]:
    """The command of an agent from leftoff.toml, with {prompt} and {session} in it."""
    key = "resume" if resume and "resume" in about else "command"
    given = about.get(key)
    try:
        words = shlex.split(given) if isinstance(given, str) else given
    except ValueError as error:
        raise Invalid(f"[agents.{agent}] {key} is not a command: {error}.", hint=_EXAMPLE) from None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise Invalid(f"[agents.{agent}] has no {key}.", hint=_EXAMPLE)
    return words


_EXAMPLE = 'For example: command = ["my-agent", "--do", "{prompt}"]'


def _filled(agent: str, prompt: str, words: list[str], session: str | None) -> Call:
    filled = [word.replace("{session}", session or "") for word in words]
    if not any("{prompt}" in word for word in words):
        return Call(filled, prompt)
    if len(prompt.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise Invalid(
            f"The prompt has {len(prompt):,} characters, too many for the command line of [agents.{agent}].",
            hint="Leave {prompt} out of its command: then the prompt comes on stdin.",
        )
    return Call([word.replace("{prompt}", prompt) for word in filled])
