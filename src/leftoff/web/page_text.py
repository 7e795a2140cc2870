"""Put values into words and lines for a page: durations, sizes, trees, logs, files.

Nothing here makes HTML: functions return plain texts and parts, which the templates escape.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from leftoff.clock import iso
from leftoff.engine.history import differences, place_name
from leftoff.engine.quoting import without_escapes
from leftoff.model.changes import NOTHING
from leftoff.model.ids import shown_step
from leftoff.web.raw_files import media_type_of

# -- words: filters of all templates

_SIZES = ("bytes", "KB", "MB", "GB", "TB")
_LONG = 160  # characters of a value in one line
_NEEDS = {"approval": "Decision", "blocked": "Blocked", "failed": "Failed", "dead": "Interrupted"}


def duration_words(seconds: float | None) -> str:
    """Return the two largest units: ``4 min 12 s``."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    parts: list[str] = []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {name}" if number else "")
    return " ".join(part for part in parts[:2] if part)


def size_words(number: float | None) -> str:
    """Return bytes with a unit: ``1.2 MB``."""
    if number is None:
        return "–"
    left, place = float(number), 0
    while left >= 1000 and place < len(_SIZES) - 1:
        left, place = left / 1000, place + 1
    return f"{left:.0f} {_SIZES[place]}" if not place or left >= 100 else f"{left:.1f} {_SIZES[place]}"


def _moment(value: int | str | None) -> str:
    """Return milliseconds or ISO text as ISO text."""
    return iso(value) if isinstance(value, int) else value or ""


def _clock(value: int | str | None) -> str:
    """Return a moment as it reads before the script puts it into the reader's time zone."""
    text = _moment(value)
    return f"{text[:10]} {text[11:16]} UTC" if text else "–"


def short_value(value: Any) -> str:
    """Return a value in one line."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "…"
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


# -- what was printed for a terminal


def bare_text(text: str) -> str:
    """Remove colours and other control sequences. Of a line that was written over, the last text stays."""
    lines = (without_escapes(line).rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in lines)


FILTERS = {
    "unescaped": bare_text,
    "duration": duration_words,
    "size": size_words,
    "moment": _moment,
    "clock": _clock,
    "short": short_value,
    "step": lambda path: shown_step(path) if path else "",
    "need": lambda why: _NEEDS.get(why or "", ""),  # why a run needs a person
}


# -- values as trees

_MOST_LINES = 500
_DEEPEST = 8


class TreeLine(NamedTuple):
    """An entry: its name, its value if nothing is below it, how deep it is.

    ``mark``: added, removed or changed (then ``old`` is the value before).
    """

    depth: int
    name: str
    value: str
    mark: str = ""
    old: str = ""


def tree(value: Any) -> list[TreeLine]:
    """Return the lines of a value; the last one says how many are left out."""
    out: list[TreeLine] = []
    left = _add(out, value, 0)
    if left:
        out.append(TreeLine(0, "…", f"{left} more"))
    return out


def _entries(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(str(key), each) for key, each in value.items()]
    return [(str(number), each) for number, each in enumerate(value)] if isinstance(value, list) else []


def _add(out: list[TreeLine], value: Any, depth: int) -> int:
    """Add the entries of a value. Return how many did not fit."""
    left = 0
    for name, each in _entries(value):
        if len(out) >= _MOST_LINES:
            left += 1
            continue
        below = _entries(each) if depth < _DEEPEST else []
        out.append(TreeLine(depth, name, "" if below else short_value(each)))
        if below:
            left += _add(out, each, depth + 1)
    return left


def compared(old: dict[str, Any], new: dict[str, Any]) -> list[TreeLine]:
    """Return a line for each place where the values of two versions differ."""
    keys, out = {**old, **new}, []
    found = [
        each for key in keys for each in differences(old.get(key, NOTHING), new.get(key, NOTHING), (key,))
    ]
    for path, before, after in found[:_MOST_LINES]:
        mark = "added" if before is NOTHING else "removed" if after is NOTHING else "changed"
        told = short_value(before if after is NOTHING else after)
        out.append(
            TreeLine(0, place_name(path), told, mark, short_value(before) if mark == "changed" else "")
        )
    return out


# -- files

MOST_SHOWN = 100_000  # bytes


def file_preview(chunks: Iterable[bytes], mask: Callable[[str], str]) -> dict[str, Any]:
    """Return ``kind`` (text, picture, none) and what is shown; ``cut``: there is more."""
    data = b""
    for chunk in chunks:
        data += chunk
        if len(data) > MOST_SHOWN:
            break
    data, cut = data[:MOST_SHOWN], len(data) > MOST_SHOWN
    if media_type_of(data).startswith("image/"):
        return {"kind": "picture"}
    try:
        text = data.decode() if not cut else data.decode(errors="ignore")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return {"kind": "none", "why": "It is not text."}
    return {"kind": "text", "text": mask(text), "cut": cut}
