"""The coding agents as programs: one adapter for each, with its command line and the lines that it prints.

An adapter turns what a step asks (``StepWishes``) into words of the agent's own, and reads its lines of JSON into an
``Outcome``. ``adapter`` returns the one for a name: a known agent's, or one made from a table of leftoff.toml.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

from leftoff.agents.agent_outcome import Outcome
from leftoff.errors import Invalid

LIMITS = ("model", "turns", "budget", "permissions", "tools")
_BY_AGENT = ("model", "permissions")  # may be one word for all agents, or a mapping from agents to words
_LONGEST = 100_000  # bytes of a prompt on a command line; Linux has 131,072 for a word
_REPLIES = 20_000  # characters of what an agent without lines of JSON printed
_KEYS = ("command", "resume")  # of an agent in leftoff.toml
_EXAMPLE = 'For example: command = ["my-agent", "--do", "{prompt}"]'


class StepWishes(NamedTuple):
    """What a step asks of an agent, in the agent's own words: at first, or what is left of it."""

    model: Any = None
    turns: Any = None
    budget: Any = None
    permissions: Any = None
    tools: Any = None

    @classmethod
    def of(cls, about: dict[str, Any]) -> StepWishes:
        """Read it from a step. Tools may be a list."""
        found = {name: about.get(name) for name in LIMITS}
        if isinstance(found["tools"], list):
            found["tools"] = ",".join(map(str, found["tools"]))
        return cls(**found)


class AgentCall(NamedTuple):
    """The words that start an agent, and its prompt if that comes on stdin."""

    words: list[str]
    stdin: str | None = None


class Adapter:
    """What leftoff knows of one agent."""

    name = ""
    options: tuple[str, ...] = ()  # limits that its command line has an option for
    counted: tuple[str, ...] = ()  # limits that are kept by watching its lines
    chooses = False  # whether the id of a new session is ours to choose
    resumes = True  # whether it can continue a session
    is_template = False  # whether leftoff.toml says how it is called
    permissions: dict[str, str] = {}  # our word for what it may do unasked: its own
    misuses: tuple[
        int, ...
    ] = ()  # exit codes for a wrong call, no login, a bad setting, a folder without trust
    talks: tuple[str, ...] = ()  # the words that start it for a person
    talks_again: tuple[str, ...] = ()  # the same, to continue the session whose id follows

    def words(self, prompt: str | None, asked: StepWishes, session: str | None, resume: bool) -> list[str]:
        """Return the command line. No prompt: it comes on stdin."""
        raise NotImplementedError

    def read(self, line: dict[str, Any], out: Outcome) -> str | None:
        """Take in one line of JSON; return what of it is worth showing."""
        raise NotImplementedError

    def call(
        self, prompt: str, asked: StepWishes, *, session: str | None = None, resume: bool = False
    ) -> AgentCall:
        """Return how a session is started, or with ``resume`` continued.

        A prompt that a command line cannot hold, or that looks like an option, comes on stdin.
        """
        session = session_named(session)
        if len(prompt.encode("utf-8", "surrogateescape")) > _LONGEST or prompt.startswith("-"):
            return AgentCall(self.words(None, asked, session, resume), prompt)
        return AgentCall(self.words(prompt, asked, session, resume))

    def handover(self, prompt: str) -> list[str]:
        """Return the words that start it for a person, with a prompt."""
        return [*self.talks, prompt]

    def feed(self, line: str, out: Outcome) -> str | None:
        """Take in a line that it printed; return what of it is worth showing."""
        if line.lstrip().startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if isinstance(found, dict):
                return self.read(found, out)
        return line or None  # a warning, a banner: whatever it is, it is for people

    # -- what a step may ask

    def asked_of(self, name: str, about: dict[str, Any]) -> Any:
        """Return what a step asks of this agent under a name; ``None`` if nothing."""
        value = about.get(name)
        return value.get(self.name) if name in _BY_AGENT and isinstance(value, dict) else value

    def own_permission(self, word: str) -> str:
        """Return the agent's own word for a permission, which may be said in our word or in any agent's own."""
        ours = [key for other in _KNOWN.values() for key, own in other.permissions.items() if word == own]
        said = word if any(word in other.permissions for other in _KNOWN.values()) else next(iter(ours), "")
        if said not in self.permissions:
            known = list(self.permissions)
            raise Invalid(
                f"`permissions: {word}` does not go with the agent {self.name}.",
                hint=f"It can {', '.join(known)}. Or say it for each: permissions: {{{self.name}: {known[0]}}}.",
            )
        return self.permissions[said]

    def asked(self, about: dict[str, Any], **left: Any) -> StepWishes:
        """Return what a step asks, in the agent's own words. ``left``: what is left of its limits."""
        given = {name: self.asked_of(name, about) for name in LIMITS}
        if given["permissions"] is not None:
            given["permissions"] = self.own_permission(given["permissions"])
        return StepWishes.of(given | left)

    def check(self, about: dict[str, Any]) -> None:
        """Raise ``Invalid`` if a step asks for something that this agent has no option for."""
        can = (*self.options, *self.counted)
        for limit in LIMITS:
            if self.asked_of(limit, about) is not None and limit not in can:
                hint = f"It has {', '.join(can)}."
                if self.is_template:
                    hint = f"Put it into the command of [agents.{self.name}]."
                raise Invalid(
                    f"`{limit}` does not go with the agent {self.name}.",
                    hint=f"{hint} Leave it out, or take another agent.",
                )
        agents = about.get("agents") or [self.name]
        for name in _BY_AGENT:
            value = about.get(name)
            for other in value if isinstance(value, dict) else ():
                if other not in agents:
                    raise Invalid(
                        f"`{name}` is given for {other}, which is not an agent of the step.",
                        hint=f"The step has {', '.join(agents)}.",
                    )
        word = self.asked_of("permissions", about)
        if word is not None:
            self.own_permission(str(word))


def _flag(name: str, value: Any) -> list[str]:
    return [name, str(value)] if value not in (None, "") else []


def _word(prompt: str | None) -> list[str]:
    return [] if prompt is None else [prompt]


# -- reading lines


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """Return a message, however deep it is wrapped."""
    if isinstance(value, dict):
        inner = next((_text(value[key]) for key in ("message", "data", "error") if value.get(key)), "")
        return inner or json.dumps(value)
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return value if isinstance(value, str) else ""


# -- Claude Code


class ClaudeAdapter(Adapter):
    name = "claude"
    options: tuple[str, ...] = LIMITS
    chooses = True
    permissions = {
        "default": "", "plan": "plan", "acceptEdits": "acceptEdits", "bypass": "bypassPermissions",
        "auto": "auto", "dontAsk": "dontAsk", "manual": "manual",
    }  # fmt: skip
    talks: tuple[str, ...] = ("claude",)
    talks_again: tuple[str, ...] = ("claude", "--resume")

    def words(self, prompt: str | None, asked: StepWishes, session: str | None, resume: bool) -> list[str]:
        words = ["claude", "-p", *_word(prompt), "--output-format", "stream-json", "--verbose"]
        words += ["--resume" if resume else "--session-id", session] if session else []
        words += _flag("--model", asked.model) + _flag("--max-turns", asked.turns)
        words += _flag("--max-budget-usd", asked.budget) + _flag("--permission-mode", asked.permissions)
        return words + _flag("--allowedTools", asked.tools)

    def read(self, line: dict[str, Any], out: Outcome) -> str | None:
        kind = line.get("type")
        if kind == "system" and line.get("subtype") == "init":
            out.session, out.begun = _text(line.get("session_id")) or out.session, True
        elif kind == "rate_limit_event":
            about = _map(line.get("rate_limit_info"))
            out.rejected = about.get("status") == "rejected"
            out.until = _number(about.get("resetsAt")) if out.rejected else None
        elif kind == "assistant":
            message = _map(line.get("message"))
            if line.get("error"):
                return _text(line["error"])  # the command line speaks, not the model; its `result` follows
            out.begun = out.worked = True
            out.count(message.get("id"))
            content = message.get("content")
            shown = []
            for block in content if isinstance(content, list) else ():
                if isinstance(block, dict) and block.get("type") == "text":
                    shown.append(_text(block.get("text")))
                elif isinstance(block, dict) and block.get("type") == "tool_use":
                    shown.append(f"[{block.get('name')}]")
            return "\n".join(filter(None, shown)) or None
        elif kind == "result":
            return self._read_result(line, out)
        return None

    def _read_result(self, line: dict[str, Any], out: Outcome) -> str:
        out.ended, out.subtype = True, _text(line.get("subtype"))
        out.ok = out.subtype == "success" and not line.get("is_error")
        out.text = _text(line.get("result"))
        if not out.ok:
            told = (out.text, _text(line.get("error")), _text(line.get("errors")))
            out.error = " ".join(filter(None, told)) or out.subtype
            out.rejected = out.rejected or line.get("api_error_status") in (429, 529)
        total, turns = _number(line.get("total_cost_usd")), _number(line.get("num_turns"))
        out.total = total if total is not None else out.total
        part = line.get("model_usage_since_last_result")
        if isinstance(part, dict):
            costs = (_number(_map(used).get("costUSD")) or 0.0 for used in part.values())
            out.cost = (out.cost or 0.0) + sum(costs)
        out.turns = turns if turns is not None else out.turns
        return out.text or out.error or out.subtype


# -- Codex


class CodexAdapter(Adapter):
    name = "codex"
    options = ("model", "permissions")
    counted = ("turns",)
    permissions = {
        "default": "", "plan": "read-only", "acceptEdits": "workspace-write", "bypass": "danger-full-access",
    }  # fmt: skip
    misuses = (2,)
    talks, talks_again = ("codex",), ("codex", "resume")

    def words(self, prompt: str | None, asked: StepWishes, session: str | None, resume: bool) -> list[str]:
        flags = ["--json", *_flag("--model", asked.model)]
        told = ["-" if prompt is None else prompt]
        if resume and session:
            # `resume` does not know --sandbox
            mode = ["-c", f'sandbox_mode="{asked.permissions}"'] if asked.permissions else []
            return ["codex", "exec", "resume", session, *flags, *mode, *told]
        return ["codex", "exec", *flags, *_flag("--sandbox", asked.permissions), *told]

    def read(self, line: dict[str, Any], out: Outcome) -> str | None:
        kind = _text(line.get("type"))
        if kind == "thread.started":
            out.session, out.begun = _text(line.get("thread_id")) or out.session, True
        elif kind == "turn.started":
            out.begun, out.ended, out.ok = True, False, False
            out.count(None)
        elif kind in ("item.started", "item.updated", "item.completed"):
            return self._read_item(_map(line.get("item")), out, kind == "item.completed")
        elif kind == "turn.completed":
            out.ended = out.ok = True
        elif kind == "turn.failed":
            out.fail(_text(line.get("error")) or _text(line.get("message")))
            return out.error
        elif kind == "error":  # "Reconnecting... 1/5": it is the reason only if nothing else comes
            out.error = _text(line.get("message")) or _text(line.get("error"))
            return out.error
        return None

    def _read_item(self, item: dict[str, Any], out: Outcome, completed: bool) -> str | None:
        kind = _text(item.get("type"))
        out.begun, out.worked, out.error = True, True, ""
        # One item for all calls that change it; it is completed with the turn.
        if kind == "todo_list" and not completed:
            out.count(None)
        is_talk = kind in ("agent_message", "reasoning", "todo_list", "error", "")
        if not is_talk and (completed or item.get("id")):
            out.count(item.get("id"))  # the model is asked again with what the tool said
        if not completed:
            return None
        if kind == "agent_message":
            out.text = _text(item.get("text"))
            return out.text
        return f"[{kind}]"


# -- Gemini CLI


class GeminiAdapter(Adapter):
    name = "gemini"
    options = ("model", "permissions", "tools")
    counted = ("turns",)
    chooses = True
    permissions = {"default": "default", "plan": "plan", "acceptEdits": "auto_edit", "bypass": "yolo"}
    misuses = (41, 42, 44, 52, 55)
    talks, talks_again = ("gemini", "-i"), ("gemini", "--resume")

    def words(self, prompt: str | None, asked: StepWishes, session: str | None, resume: bool) -> list[str]:
        words = ["gemini", *(["-p", prompt] if prompt is not None else []), "--output-format", "stream-json"]
        words += ["--resume" if resume else "--session-id", session] if session else []
        words += _flag("--model", asked.model) + _flag("--approval-mode", asked.permissions)
        return words + _flag("--allowed-tools", asked.tools)

    def read(self, line: dict[str, Any], out: Outcome) -> str | None:
        kind = line.get("type")
        if kind == "init":
            out.session, out.begun = _text(line.get("session_id")) or out.session, True
            out.count(None)
        elif kind == "message" and line.get("role") == "assistant":
            out.begun = out.worked = True
            said = _text(line.get("content"))
            out.text = out.text + said if line.get("delta") else said
            return said
        elif kind == "tool_use":
            out.begun = out.worked = True
            out.count(line.get("tool_id"))
            out.text = ""  # the answer is what comes after the last of them
            return f"[{line.get('tool_name')}]"
        elif kind == "error":  # a warning; the `result` or the exit code says how it ended
            out.error = _text(line.get("message")) or _text(line.get("error"))
            return out.error
        elif kind == "result":
            if line.get("status", "success") != "success":
                out.fail(_text(line.get("error")) or _text(line.get("message")))
                return out.error
            out.ended, out.ok, out.error, out.last_words = True, True, "", True
        return None


# -- OpenCode


class OpencodeAdapter(Adapter):
    name = "opencode"
    options = ("model", "permissions")
    counted = ("turns", "budget")
    permissions = {"default": "", "plan": "plan", "bypass": "auto"}
    talks, talks_again = ("opencode", "--prompt"), ("opencode", "-s")

    def words(self, prompt: str | None, asked: StepWishes, session: str | None, resume: bool) -> list[str]:
        words = ["opencode", "run", "--format", "json", *_flag("--model", asked.model)]
        words += {"plan": ["--agent", "plan"], "auto": ["--auto"]}.get(asked.permissions, [])
        return [*words, *(["-s", session] if resume and session else []), *_word(prompt)]

    def read(self, line: dict[str, Any], out: Outcome) -> str | None:
        part, kind = _map(line.get("part")), line.get("type")
        out.sure = False  # no line says that all is done: the exit code does
        session = _text(line.get("sessionID"))
        out.session, out.begun = session or out.session, out.begun or bool(session)
        if kind == "error":
            out.fail(_text(line.get("error")))
            return out.error
        out.begun = True
        if kind == "step_start":
            out.ended = out.ok = False
            out.count(part.get("id"))
        elif kind == "text":
            # With exit code 0 this is the last word, if the line after it got lost.
            out.worked = out.ok = True
            out.text = _text(part.get("text"))
            return out.text
        elif kind == "tool_use":
            out.worked, out.ok = True, False
            return f"[{part.get('tool')}]"
        elif kind == "step_finish":
            out.worked = True
            out.cost = (out.cost or 0.0) + (_number(part.get("cost")) or 0.0)
            reason = _text(part.get("reason"))
            if reason in ("length", "content-filter", "error"):
                out.fail(f"its answer was cut short ({reason})")
            else:
                out.ended = out.ok = reason not in ("tool-calls", "tool_calls")  # else another turn follows
        return None


# -- Qwen Code


class QwenAdapter(ClaudeAdapter):
    """Qwen Code prints the lines of Claude Code, with no cost, and has options of its own."""

    name = "qwen"
    options = ("model", "turns", "permissions", "tools")
    permissions = {
        "default": "default", "plan": "plan", "acceptEdits": "auto-edit", "auto": "auto", "bypass": "yolo",
    }  # fmt: skip
    talks, talks_again = ("qwen", "-i"), ("qwen", "--resume")

    def words(self, prompt: str | None, asked: StepWishes, session: str | None, resume: bool) -> list[str]:
        words = ["qwen", *(["-p", prompt] if prompt is not None else []), "--output-format", "stream-json"]
        words += ["--resume" if resume else "--session-id", session] if session else []
        words += _flag("--model", asked.model) + _flag("--max-session-turns", asked.turns)
        return words + _flag("--approval-mode", asked.permissions) + _flag("--allowed-tools", asked.tools)


# -- an agent of leftoff.toml


class TemplateAdapter(Adapter):
    """An agent that a table of leftoff.toml describes: its command, with {prompt} and {session} in it."""

    is_template = True

    def __init__(self, name: str, about: dict[str, Any]) -> None:
        self.name = name
        self._start = self._command(about, "command")
        self._again = self._command(about, "resume") if "resume" in about else self._start
        self.resumes = "resume" in about
        self.chooses = any("{session}" in word for word in self._start)

    def _command(self, about: dict[str, Any], key: str) -> list[str]:
        given = about.get(key)
        try:
            words = shlex.split(given) if isinstance(given, str) else given
        except ValueError as error:
            raise Invalid(f"[agents.{self.name}] {key} is not a command: {error}.", hint=_EXAMPLE) from None
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise Invalid(f"[agents.{self.name}] has no {key}.", hint=_EXAMPLE)
        return words

    def call(
        self, prompt: str, asked: StepWishes, *, session: str | None = None, resume: bool = False
    ) -> AgentCall:
        words = self._again if resume else self._start
        filled = [word.replace("{session}", session_named(session) or "") for word in words]
        if not any("{prompt}" in word for word in words):
            return AgentCall(filled, prompt)
        if len(prompt.encode("utf-8", "surrogateescape")) > _LONGEST:
            raise Invalid(
                f"The prompt has {len(prompt):,} characters, too many for the command line of [agents.{self.name}].",
                hint="Leave {prompt} out of its command: then the prompt comes on stdin.",
            )
        return AgentCall([word.replace("{prompt}", prompt) for word in filled])

    def handover(self, prompt: str) -> list[str]:
        call = self.call(prompt, StepWishes())
        if call.stdin is not None:
            raise Invalid(
                f"The command of [agents.{self.name}] has no {{prompt}}, and a run is handed over in one.",
                hint=_EXAMPLE,
            )
        return call.words

    def feed(self, line: str, out: Outcome) -> str | None:
        out.begun = out.worked = True
        out.text = f"{out.text}{line}\n"[-_REPLIES:]
        return line or None


_KNOWN: dict[str, Adapter] = {
    one.name: one
    for one in (ClaudeAdapter(), CodexAdapter(), GeminiAdapter(), OpencodeAdapter(), QwenAdapter())
}


def custom_agents(section: dict[str, Any]) -> dict[str, Any]:
    """Return the agents of leftoff.toml, by name. Raise ``Invalid`` if the section has anything else."""
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


def adapter(name: str, custom: dict[str, Any]) -> Adapter:
    """Return the adapter for an agent. ``custom``: the agents of leftoff.toml. Raise ``Invalid`` if there is none."""
    about = custom.get(name)
    if name not in _KNOWN and about is None:
        known = ", ".join([*_KNOWN, *(other for other in custom if other not in _KNOWN)])
        raise Invalid(
            f"There is no agent {name!r}.",
            hint=f"One of {known}; or add it to leftoff.toml as [agents.{name}].",
        )
    for key in about or ():
        if key not in _KEYS:
            raise Invalid(f"[agents.{name}] has no key {key!r}.", hint=f"Its keys are {', '.join(_KEYS)}.")
    if about is not None and (name not in _KNOWN or "command" in about):
        return TemplateAdapter(name, about)
    return _KNOWN[name]


def session_named(known: Any) -> str | None:
    """Return the session that a run names, if it can be one: it may have come from anywhere, and a word that begins
    with a dash would be an option of the agent's, such as one that allows it everything."""
    return known if isinstance(known, str) and known and not known.startswith("-") else None
