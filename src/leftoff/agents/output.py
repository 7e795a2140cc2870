"""What the agents print: one line of JSON for each thing that happens, in a dialect of each."""

from __future__ import annotations

import json
import re
from typing import Any

from leftoff.agents.rate_limits import is_limit, wait_told
from leftoff.engine.read.quoting import without_escapes

_REFUSED = re.compile(
    r"no conversation found|no rollout found|rollout \S+ is empty|no recorded session"
    r"|(?:session|thread|conversation)\b[^\n]{0,80}\b(?:not found|not loaded|does not exist|is gone)"
    r"|invalid session|no (?:previous )?sessions? found|unknown (?:session|thread)",
    re.IGNORECASE,
)
_OUT_OF_REACH = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONN\w+|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|getaddrinfo|fetch failed|network|offline"
    r"|connection (?:error|refused|reset|closed)|unable to connect|could not resolve|timed? ?out|\bdns\b|\b50[234]\b",
    re.IGNORECASE,
)
_MISUSED = re.compile(
    r"^error: (?:option|unknown|unexpected|unrecognized|invalid|the argument|a value is required)"
    r"|^(?:Invalid values|Unknown arguments?|Not enough arguments):?",
    re.IGNORECASE | re.MULTILINE,
)
# Exit codes that say: called in the wrong way, nobody logged in, a bad setting, a folder that is not trusted.
_MISUSES = {"codex": (2,), "gemini": (41, 42, 44, 52, 55)}
_WORKER_KILLED = 1  # of Gemini, where the process that does its work was killed
_BY_SIGNAL = 128  # exit codes from here on say that a signal ended it
_REPLIES = 20_000  # characters of what an agent without lines of JSON printed
_MORE_TO_COME = ("tool-calls", "tool_calls")  # why a turn of OpenCode ends in whose place another one begins
_CUT_SHORT = ("length", "content-filter", "error")
_CODEX_TALK = ("agent_message", "reasoning", "todo_list", "error", "")


class Outcome:
    """What is known of one life of an agent's process, so far."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.begun = False  # it said what only a session says that is there
        self.worked = False  # the model said or did something
        self.ended = False  # it said how it ended
        self.ok = False
        self.sure = True  # what it said last holds, even if it was killed afterwards
        self.last_words = False  # nothing that it does by itself comes after its word of success
        self.text = ""
        self.subtype = ""
        self.error = ""
        self.warned = ""  # on stderr, at last
        self.rejected = False  # the service said "not now", in a line of its own
        self.until: float | None = None  # when it will not any more, in seconds since 1970
        self.cost: float | None = None  # of this life
        self.total: float | None = None  # of its session in all its lives, where that is what it says
        self.turns: int | None = None
        self.seen: set[str] = set()  # what was counted already

    def close(self, code: int) -> None:
        """Its process has ended: what it said last is how, unless it was killed and could not say all."""
        self.warned = without_escapes(self.warned)
        if code < 0 and not self.sure:
            self.ended = self.ok = False
        elif not self.ended and self.error and 0 <= code < _BY_SIGNAL:
            self.ended = True

    def done(self, code: int) -> bool:
        """Whether it did what it was asked.

        A word of success counts even where the process was killed afterwards; not where it ended in failure by itself.
        """
        return self.ok and (code <= 0 or (self.last_words and code == _WORKER_KILLED))

    @property
    def said(self) -> str:
        """Why it failed, in its own words; where it gave none, what it printed on stderr at last."""
        return self.error or (self.warned if not self.ended else "")

    @property
    def limited(self) -> bool:
        """Whether the service said: not now."""
        return not self.ok and (self.rejected or is_limit(self.subtype) or is_limit(self.said))

    @property
    def refused(self) -> bool:
        """Whether a session that was to be resumed is not there any more."""
        if self.worked or self.ok:
            return False
        words = f"{self.error}\n{self.warned}"
        return bool(_REFUSED.search(words)) or (self.ended and not self.begun and not self.out_of_reach)

    @property
    def out_of_reach(self) -> bool:
        """Whether it is the way to the service that fails, whichever session is asked for."""
        return bool(_OUT_OF_REACH.search(f"{self.error}\n{self.warned}"))

    def misused(self, agent: str, code: int) -> bool:
        """Whether it did not even begin, for a reason that is there the next time as well."""
        if self.begun or self.limited or self.out_of_reach or not 0 < code < _BY_SIGNAL:
            return False
        return code in _MISUSES.get(agent, ()) or bool(_MISUSED.search(self.warned))

    def wait(self, now: float) -> float | None:
        """How many seconds to wait, where it said so."""
        return max(1.0, self.until - now) if self.until else wait_told(self.said, now)

    def count(self, what: object) -> None:
        """One more turn, unless this was counted."""
        if what is None or str(what) not in self.seen:
            self.turns = (self.turns or 0) + 1
            self.seen.add(str(what))

    def fail(self, error: str) -> None:
        """It said that it failed, and why."""
        self.ended, self.ok, self.error = True, False, error or self.error or "it failed"


def feed(agent: str, line: str, out: Outcome, *, plain: bool = False) -> str | None:
    """Take in a line; what is worth showing of it, if anything. ``plain``: what is no JSON of its own is the result."""
    read = _READERS.get(agent)
    found: Any = None
    if read is not None and line.lstrip().startswith("{"):
        try:
            found = json.loads(line)
        except ValueError:
            pass
    if read is not None and isinstance(found, dict):
        return read(found, out)
    if plain:
        out.begun = out.worked = True
        out.text = f"{out.text}{line}\n"[-_REPLIES:]
    return line or None  # a warning, a banner: whatever it is, it is for people


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """A message, however deep it is wrapped."""
    if isinstance(value, dict):
        inner = next((_text(value[key]) for key in ("message", "data", "error") if value.get(key)), "")
        return inner or json.dumps(value)
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    return value if isinstance(value, str) else ""


def _claude(line: dict[str, Any], out: Outcome) -> str | None:
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
        return _blocks(content if isinstance(content, list) else [])
    elif kind == "result":
        return _claude_result(line, out)
    return None


def _claude_result(line: dict[str, Any], out: Outcome) -> str:
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
    elif kind == "turn.started":
        out.begun, out.ended, out.ok = True, False, False
        out.count(None)
    elif kind in ("item.started", "item.updated", "item.completed"):
        return _codex_item(_map(line.get("item")), out, kind)
    elif kind == "turn.completed":
        out.ended = out.ok = True
    elif kind == "turn.failed":
        out.fail(_text(line.get("error")) or _text(line.get("message")))
        return out.error
    elif kind == "error":  # "Reconnecting... 1/5": it may well go on; it is why, where nothing else comes
        out.error = _text(line.get("message")) or _text(line.get("error"))
        return out.error
    return None


def _codex_item(item: dict[str, Any], out: Outcome, event: str) -> str | None:
    kind, completed = _text(item.get("type")), event == "item.completed"
    out.begun, out.worked, out.error = True, True, ""
    # One item for all calls that change it; it is completed with the turn.
    if kind == "todo_list" and not completed:
        out.count(None)
    if kind not in _CODEX_TALK and (completed or item.get("id")):
        out.count(item.get("id"))  # the model is asked again with what the tool said
    if not completed:
        return None
    if kind == "agent_message":
        out.text = _text(item.get("text"))
        return out.text
    return f"[{kind}]"


def _gemini(line: dict[str, Any], out: Outcome) -> str | None:
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


def _opencode(line: dict[str, Any], out: Outcome) -> str | None:
    part, kind = _map(line.get("part")), line.get("type")
    out.sure = False  # no line says that all is done: the exit code does
    if kind == "error":
        out.fail(_text(line.get("error")))
        return out.error
    out.session, out.begun = _text(line.get("sessionID")) or out.session, True
    if kind == "step_start":
        out.ended = out.ok = False
        out.count(part.get("id"))
    elif kind == "text":
        # With exit code 0 this is the last word, where the line after it got lost.
        out.worked = out.ok = True
        out.text = _text(part.get("text"))
        return out.text
    elif kind == "tool_use":
        out.worked, out.ok = True, False
        return f"[{part.get('tool')}]"
    elif kind == "step_finish":
        _opencode_step(part, out)
    return None


def _opencode_step(part: dict[str, Any], out: Outcome) -> None:
    out.worked = True
    out.cost = (out.cost or 0.0) + (_number(part.get("cost")) or 0.0)
    reason = _text(part.get("reason"))
    if reason in _CUT_SHORT:
        out.fail(f"its answer was cut short ({reason})")
        return
    out.ended = out.ok = reason not in _MORE_TO_COME


_READERS = {"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}
