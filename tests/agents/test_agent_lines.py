"""What is read from the lines that agents print, and from the words of the services behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from leftoff.agents.adapters import adapter
from leftoff.agents.agent_outcome import Outcome, is_limit, wait_told

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z


def life(agent: str, *lines: Mapping[str, object], code: int = 0, stderr: str = "") -> Outcome:
    """How a life looks that printed these lines."""
    out = Outcome()
    for line in lines:
        adapter(agent, {}).feed(json.dumps(line), out)
    out.warned = stderr
    out.close(code)
    return out


@pytest.mark.parametrize(
    "text",
    [
        "rate_limit",
        "Overloaded",
        "API Error: 529 Overloaded",
        "API Error: rate limit reached",
        "Error 429 Too Many Requests: quota exceeded",
        "Claude AI usage limit reached|1790000100",
        "You've hit your limit · resets 2pm (Asia/Shanghai)",
        "You've hit your usage limit. Upgrade to Pro (https://example.com) or try again in 2 days 17 hours.",
        "usage limit. Please try again in 2 days 3 hours",
        "exceeded retry limit, last status: 429",
        "Number of requests has exceeded your per-minute rate limit",
        "You exceeded your current quota, please check your plan",
        "The model is overloaded. Please try again later.",
        '{"code": 8, "status": "RESOURCE_EXHAUSTED"}',
        "Selected model is at capacity",
        "5-hour limit reached ∙ resets 3pm",
    ],
)
def test_words_of_a_service_that_is_busy(text: str) -> None:
    """They are known, whichever service says them."""
    assert is_limit(text)


@pytest.mark.parametrize(
    "text",
    [
        "Could not fix the rate limiter test",
        "The rate limiting middleware is broken",
        "The overloaded function could not be resolved",
        "The migration of the quota table failed",
        "It has 429 lines",
        "getaddrinfo ENOTFOUND api.example.com",
        "error_max_turns",
    ],
)
def test_words_about_something_else(text: str) -> None:
    """A failure that only speaks of such things is not waited for."""
    assert not is_limit(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("429 Too Many Requests, Retry-After: 2", 2),
        ("retry after 30", 30),
        ("retry-after-ms: 1500", 1.5),
        ('"retryDelay": "34s"', 34),
        ("try again in 20.5s", 20.5),
        ("try again in 1h 5m", 3900),
        ("Please try again in 2 days 3 hours 4 minutes.", 183840),
        ("try again in 5 minutes and 3 seconds", 303),
        ("usage limit reached|1790000100", 100),
        ('{"resets_at":1790000100}', 100),
        ('{"resets_in_seconds":9568}', 9568),
        ("resets at 2026-09-21T14:14:20Z", 60),
        ("resets 11pm (Asia/Shanghai)", 2800),
        ("resets 10pm (Asia/Shanghai)", 60),
        ("resets 8pm (Asia/Shanghai)", 78400),
        ("or try again at 2:13 PM (UTC).", 60),
        ("or try again at 2:14 PM (UTC).", 40),
        ("or try again at 12:14 PM (UTC).", 60),
        ("or try again at 12:13 PM (UTC).", 79180),
        ("resets 11:59pm (Australia/Brisbane)", 60),
        ("Try again at Sep 21st, 2026 2:13 PM (UTC).", 60),
        ("resets Jan 2, 3pm (UTC)", 8902000),
        ("Try again at Sep 22nd, 2026 3:05 PM (UTC).", 89500),
        ("Please try again later.", None),
        ("resets 3pm (Nowhere/Atall)", None),
    ],
)
def test_how_long_to_wait(text: str, seconds: float | None) -> None:
    """A length, a moment, a time of day; a bare number means seconds."""
    assert seconds == wait_told(text, NOW)


TURN = {"type": "step_start", "sessionID": "o1", "part": {"id": "p1"}}
CALLS = {"type": "step_finish", "sessionID": "o1", "part": {"reason": "tool-calls", "cost": 0.01}}
STOP = {"type": "step_finish", "sessionID": "o1", "part": {"reason": "stop", "cost": 0.02}}
TEXT = {"type": "text", "sessionID": "o1", "part": {"text": "done"}}


@pytest.mark.parametrize(
    ("lines", "code", "done"),
    [
        ([TURN, CALLS], -9, False),
        ([TURN, CALLS], 0, False),
        ([TURN, CALLS, TURN, TEXT, STOP], 0, True),
        ([TURN, CALLS, TURN, TEXT, STOP], -9, False),
        ([TURN, TEXT], 0, True),
        ([TURN, TEXT, STOP, TURN], 0, False),
    ],
)
def test_opencode_is_done_when_it_ends_well(lines: list[Mapping[str, object]], code: int, done: bool) -> None:
    """A turn that calls tools is followed by another; the exit code is the last word."""
    out = life("opencode", *lines, code=code)
    assert done == out.done(code)
    assert done or not out.ended


THREAD = {"type": "thread.started", "thread_id": "t1"}
ERROR = {"type": "error", "message": "Reconnecting... 1/5"}
FAILED = {"type": "turn.failed", "error": {"message": "it broke"}}
ITEM = {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "done"}}


@pytest.mark.parametrize(
    ("lines", "code", "ended", "error"),
    [
        ([THREAD, ERROR], -9, False, "Reconnecting... 1/5"),
        ([THREAD, ERROR], 143, False, "Reconnecting... 1/5"),
        ([THREAD, ERROR], 1, True, "Reconnecting... 1/5"),
        ([THREAD, ERROR, ITEM], 1, False, ""),
        ([THREAD, ERROR, FAILED], 1, True, "it broke"),
        ([THREAD, ERROR, ITEM, {"type": "turn.completed"}], 0, True, ""),
    ],
)
def test_an_error_of_codex_may_pass(
    lines: list[Mapping[str, object]], code: int, ended: bool, error: str
) -> None:
    """It is the end only where the turn failed, or where nothing came after it but a regular exit."""
    out = life("codex", *lines, code=code)
    assert (ended, error) == (out.ended, out.error)


def test_a_word_of_success_holds() -> None:
    """A process that is killed after it said so has done it; one that then ends in failure by itself has not."""
    said = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
    assert [True, True, False] == [life("claude", said, code=code).done(code) for code in (0, -9, 1)]


def test_a_word_of_success_of_gemini() -> None:
    """Its work is done by a process of its own; killed after it said so, that one makes the other end with 1."""
    said = {"type": "result", "status": "success", "stats": {}}
    codes = (0, -9, 1, 41)
    assert [True, True, True, False] == [life("gemini", said, code=code).done(code) for code in codes]
    assert not life("gemini", {**said, "status": "error"}, code=1).done(1)


INIT = {"type": "system", "subtype": "init", "session_id": "s1"}
NOT_FOUND = {
    "type": "result",
    "subtype": "error_during_execution",
    "is_error": True,
    "num_turns": 0,
    "session_id": "another",
    "errors": ["No conversation found with session ID: s1"],
}
SAID = {
    "type": "assistant",
    "message": {"id": "m", "content": [{"type": "text", "text": "session not found"}]},
}


@pytest.mark.parametrize(
    ("agent", "lines", "stderr", "refused"),
    [
        ("claude", [NOT_FOUND], "", True),
        ("claude", [INIT, NOT_FOUND], "", True),
        ("claude", [{**NOT_FOUND, "errors": ["The session's file is damaged"]}], "", True),
        ("claude", [{**NOT_FOUND, "errors": ["API Error: Connection refused"]}], "", False),
        ("claude", [INIT, SAID, NOT_FOUND], "", False),
        ("claude", [], "Error: getaddrinfo ENOTFOUND api.example.com", False),
        ("codex", [{"type": "error", "message": "no rollout found for thread id t1"}], "", True),
        ("codex", [], "Error: thread/read failed: thread not loaded: t1 (code -32600)", True),
        ("gemini", [], 'Error resuming session: Invalid session identifier "g1".', True),
        ("opencode", [], 'NotFoundError\n data: { message: "Session not found: o1" }', True),
        ("qwen", [], "No saved session found with ID q1. Run `qwen --resume` without an ID.", True),
    ],
)
def test_a_session_that_is_gone(
    agent: str, lines: list[Mapping[str, object]], stderr: str, refused: bool
) -> None:
    """Its agent says so, before the model says anything; that the network is gone is another thing."""
    out = life(agent, *lines, code=1, stderr=stderr)
    assert refused == out.refused
    assert "another" != out.session


def test_a_limit_in_a_line_of_its_own() -> None:
    """Claude says when the limit is over; that it is near is no limit."""
    info = {"status": "rejected", "resetsAt": NOW + 40}
    said = {"type": "result", "subtype": "success", "is_error": True, "result": "You've hit your limit"}
    out = life("claude", INIT, {"type": "rate_limit_event", "rate_limit_info": info}, said, code=1)
    assert (True, 40) == (out.limited, out.wait(NOW))
    near = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "resetsAt": NOW}}
    assert not life("claude", INIT, near, {**said, "result": "it is too hard"}, code=1).limited


def test_codexs_plan_is_one_item_for_many_calls() -> None:
    """Each change of it is a call, after which the model is asked again; that the turn ends is none."""
    plan = {"id": "i1", "type": "todo_list", "items": []}
    kinds = ("item.started", "item.updated", "item.updated", "item.completed")
    lines = [{"type": kind, "item": plan} for kind in kinds]
    assert 4 == life("codex", {"type": "turn.started"}, *lines, {"type": "turn.completed"}).turns
