"""What the agents print: one line of JSON for each thing that happens, in a dialect of each."""

from __future__ import annotations

import json
import re
from typing import Any

_LIMITED = re.compile(
    r"rate.?limit(?!er)|overload|usage limit|quota|too many requests|resource.?exhausted|\b429\b|\b529\b",
    re.IGNORECASE,
)
# How agents' command lines say that there is no such conversation (any more).
_REFUSED = re.compile(
    r"no (?:conversation|rollout|session)\S*\s+(?:was\s+)?found|(?:session|thread|conversation)\b.{0,80}?\bnot found"
    r"|(?:invalid|unknown|no such) (?:session|thread|conversation)|cannot resume",
    re.IGNORECASE | re.DOTALL,
)
_PART = r"(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)?[a-z]*\b"
_WAIT = re.compile(
    rf"(?:retry|try|again|wait|reset)\D{{0,30}}?((?:{_PART}[\s,]*(?:and\s+)?)+)", re.IGNORECASE
)
_EPOCH = re.compile(r"\|(\d{10})\b")
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Outcome:
    """What is known of one life of an agent's process, so far."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.ended = False  # it said how it ended
        self.ok = False
        self.text = ""
        self.subtype = ""
        self.error = ""
        self.cost: float | None = None
        self.turns: int | None = None
        self.begun = False  # it said anything that only a started session says
        self.complaints = ""  # the end of what it printed on stderr

    @property
    def limited(self) -> bool:
        """Whether the service said: not now."""
        return not self.ok and bool(_LIMITED.search(f"{self.subtype} {self.why}"))

    @property
    def refused(self) -> bool:
        """Whether it said that there is no such session."""
        return not self.ok and not self.turns and bool(_REFUSED.search(f"{self.error} {self.complaints}"))

    @property
    def why(self) -> str:
        """What it said of a failure; where it said nothing, what it complained of."""
        return self.error or self.complaints

    def wait(self, now: float) -> float | None:
        """How many seconds to wait, where it said so."""
        epoch = _EPOCH.search(self.why)
        if epoch:
            return max(1.0, float(epoch.group(1)) - now)
        found = _WAIT.search(self.why)
        if not found:
            return None
        parts = re.findall(_PART, found.group(1), re.IGNORECASE)
        return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)

    def to_json(self, agent: str) -> dict[str, Any]:
        """As the step's result."""
        about = {
            "agent": agent,
            "session_id": self.session,
            "result": self.text,
            "subtype": self.subtype or None,
            "cost_usd": self.cost,
            "turns": self.turns,
        }
        return {key: value for key, value in about.items() if value is not None}


def feed(agent: str, line: str, out: Outcome) -> str | None:
    """Take in a line; what is worth showing of it, if anything."""
    read = _READERS.get(agent)
    if read is None:
        out.text = f"{out.text}{line}\n"[-20_000:]
        return line
    try:
        found = json.loads(line)
    except ValueError:
        return line or None  # a warning, a banner: whatever it is, it is for people
    return read(found, out) if isinstance(found, dict) else line


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("message") or value.get("data") or json.dumps(value))
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else []


def _claude(line: dict[str, Any], out: Outcome) -> str | None:
    kind = line.get("type")
    out.session = _text(line.get("session_id")) or out.session
    if kind == "system":
        out.begun = out.begun or line.get("subtype") == "init"
    elif kind == "assistant":
        content = (line.get("message") or {}).get("content")
        return _blocks(content if isinstance(content, list) else [])
    elif kind == "result":
        out.ended, out.subtype = True, _text(line.get("subtype"))
        out.ok = out.subtype == "success" and not line.get("is_error")
        out.text = _text(line.get("result"))
        told = (out.subtype, out.text, _text(line.get("error")), *_texts(line.get("errors")))
        out.error = "" if out.ok else " ".join(filter(None, told))
        out.cost, out.turns = _number(line.get("total_cost_usd")), _number(line.get("num_turns"))
        return out.text or out.subtype
    return None


def _blocks(content: list[Any]) -> str | None:
    shown = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "text":
            shown.append(_text(block.get("text")))
        elif isinstance(block, dict) and block.get("type") == "tool_use":
            shown.append(f"[{block.get('name')}]")
    return "\n".join(filter(None, shown)) or None


def _codex(line: dict[str, Any], out: Outcome) -> str | None:
    kind = _text(line.get("type"))
    if kind == "thread.started":
        out.session, out.begun = _text(line.get("thread_id")) or out.session, True
    elif kind == "item.completed":
        item = line.get("item") or {}
        if item.get("type") == "agent_message":
            out.text = _text(item.get("text"))
            return out.text
        return f"[{item.get('type')}]"
    elif kind == "turn.completed":
        out.ended, out.ok, out.turns = True, True, (out.turns or 0) + 1
    elif kind in ("turn.failed", "error"):
        out.ended, out.ok = kind == "turn.failed", False  # it goes on after an error, unless the turn failed
        out.error = _text(line.get("error")) or _text(line.get("message"))
        return out.error
    return None


def _gemini(line: dict[str, Any], out: Outcome) -> str | None:
    kind = line.get("type")
    if kind == "init":
        out.session, out.begun = _text(line.get("session_id")) or out.session, True
    elif kind == "message" and line.get("role") == "assistant":
        said = _text(line.get("content"))
        out.text = out.text + said if line.get("delta") else said
        return said
    elif kind == "tool_use":
        return f"[{line.get('tool_name')}]"
    elif kind in ("result", "error"):
        out.ended = kind == "result" or out.ended
        out.ok = kind == "result" and line.get("status", "success") == "success"
        out.error = "" if out.ok else _text(line.get("error")) or _text(line.get("message")) or "it failed"
        return out.error or None
    return None


def _opencode(line: dict[str, Any], out: Outcome) -> str | None:
    part = line.get("part") or {}
    out.session = _text(line.get("sessionID")) or out.session
    out.begun = out.begun or bool(out.session)
    kind = line.get("type")
    if kind == "text":
        out.text = _text(part.get("text"))
        return out.text
    if kind == "step_start":
        out.ended = out.ok = False  # another one follows
    elif kind == "step_finish":
        last = part.get("reason") in (None, "stop")  # others are followed by the next step
        out.ended, out.ok, out.turns = last, last, (out.turns or 0) + 1
        out.cost = (out.cost or 0.0) + (_number(part.get("cost")) or 0.0)
    elif kind == "error":
        out.ended, out.ok, out.error = True, False, _text(line.get("error"))
        return out.error
    return None


_READERS = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}
