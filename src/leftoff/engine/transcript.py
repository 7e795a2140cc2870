"""What an agent does not report, from the end of its transcript: its last words, and commands of Codex that failed.

Every program writes one JSON object per line, each in its own form. All have the speaker and the text in common.
A transcript is written late and may end anywhere, so unreadable lines are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from leftoff.model.codec import decode

_TAIL = 1 << 18  # bytes that are looked at
_AGENT = ("assistant", "gemini", "model")
ANSWERED, CANCELLED, OPEN = "answered", "cancelled", "open"
_SAME = 60  # characters by which a prompt is known again


def last_words(path: str, prompt: str) -> tuple[str, str]:
    """Return what the agent said last after that prompt, and the error of its service if one came after that. Each is
    empty if it is not known.

    Claude Code writes such an error as if the agent had said it, with a mark.
    """
    start, error = " ".join(prompt.split())[:_SAME], ""
    for line in reversed(_tail(path)):
        one = _decoded(line)
        for who, text in _said(one):
            if who == "user" and start and start in " ".join(text.split()):
                return "", error
            if who in _AGENT and text.strip() and one.get("isApiErrorMessage") is not True:
                return text.strip(), error
            if who in _AGENT:
                error = error or text.strip()
    return "", error


def gemini_end(path: str) -> str:
    """Return how the transcript of Gemini CLI ends: with an answer, with an interrupt, or with neither (``OPEN``).
    Empty if there is no transcript.

    Gemini CLI writes an answer once it is complete, and an interrupt at once; both before it calls its hooks.
    """
    lines = _tail(path)
    for one in map(_decoded, reversed(lines)):
        kind, text = one.get("type"), _text(one.get("content")).strip()
        if kind == "info" and text == "Request cancelled.":
            return CANCELLED
        if kind in ("gemini", "user"):
            return ANSWERED if kind == "gemini" and text else OPEN
    return OPEN if lines else ""


def failed_commands(path: str, turn: str) -> list[tuple[str, str]]:
    """Return the commands of one turn of Codex that failed, and the output of each."""
    out = []
    for line in _tail(path):
        told = _decoded(line).get("payload") if b'"CommandExecution"' in line else None
        item = told.get("item") if isinstance(told, dict) and told.get("turn_id") == turn else None
        if not isinstance(item, dict):
            continue
        words, code = item.get("command"), item.get("exit_code")
        if isinstance(words, list) and words and isinstance(code, int) and code:
            said = str(item.get("aggregated_output") or "").strip()
            out.append((str(words[-1]), f"Exit code {code}\n{said}".strip()))
    return out


def _tail(path: str) -> list[bytes]:
    """Return the last lines of a regular file; none if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size  # that of a pipe or a device is 0
        file.seek(max(size - _TAIL, 0)) if size else None
        return file.read(_TAIL).splitlines() if size else []


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        found = decode(line)
    except (ValueError, StopIteration, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _said(outer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield who says what in a line."""
    for one in (outer, outer.get("message"), outer.get("payload")):
        if isinstance(one, dict):
            who = one.get("role") or one.get("type")
            if isinstance(who, str):
                yield who, _text(one.get("content"))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
