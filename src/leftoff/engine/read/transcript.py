"""The last words of an agent that died: from the end of the transcript that its own program kept.

Every agent writes one JSON object per line, each in a form of its own; what they have in common is who speaks, and the
text. A transcript is written late and may be cut off anywhere, so whatever cannot be read is passed over.
"""

from __future__ import annotations

import os

from leftoff.model.codec import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TAIL = 1 << 18  # bytes that are looked at
_AGENT = ("assistant", "gemini", "model")
_SAME = 60  # characters by which a prompt is known again


def last_words(path: str, prompt: str) -> str:
    """What the agent said last after that prompt; empty where that is not known."""
    start = " ".join(prompt.split())[:_SAME]
    for line in reversed(_tail(path)):
        for who, text in _said(line):
            if who == "user" and start and start in " ".join(text.split()):
                return ""
            if who in _AGENT and text.strip():
                return text.strip()
    return ""


def _tail(path: str) -> list[bytes]:
    """The last lines of a regular file; none where there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with open(fd, "rb") as file:
        size = os.fstat(fd).st_size  # that of a pipe or a device is 0
        file.seek(max(size - _TAIL, 0)) if size else None
        return file.read(_TAIL).splitlines() if size else []


def _said(line: bytes) -> Iterator[tuple[str, str]]:
    """Who says what in a line."""
    try:
        found = decode(line)
    except (ValueError, StopIteration, RecursionError):
        return
    outer = found if isinstance(found, dict) else {}
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
