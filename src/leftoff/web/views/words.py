"""How values are put into words: durations, sizes, times, steps. Filters of all templates."""

from __future__ import annotations

import json
from typing import Any

from leftoff.clock import iso
from leftoff.model.ids import shown_step
from leftoff.web.views.ansi import parts

_SIZES = ("bytes", "KB", "MB", "GB", "TB")
_LONG = 160  # characters of a value in one line

# What a run needs a person for, and what each state is called on a page.
NEEDS = {"approval": "Decision", "blocked": "Blocked", "failed": "Failed", "dead": "Died", "ask": "Question"}


def duration(seconds: float | None) -> str:
    """``4 min 12 s``: the two largest units."""
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


def roughly(seconds: float) -> str:
    """``15 min``: the largest unit, as estimates are no better than that."""
    for name, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size or (name == "min" and seconds > 50):
            return f"{max(1, round(seconds / size))} {name}"
    return f"{max(1, round(seconds))} s"


def size(number: float | None) -> str:
    """``1.2 MB``."""
    if number is None:
        return "–"
    left = float(number)
    for unit in _SIZES:
        if left < 1000 or unit == _SIZES[-1]:
            return f"{left:.0f} {unit}" if unit == "bytes" or left >= 100 else f"{left:.1f} {unit}"
        left /= 1000
    raise AssertionError


def moment(value: int | str | None) -> str:
    """Milliseconds or ISO text as ISO text; empty where there is none."""
    return iso(value) if isinstance(value, int) else value or ""


def clock(value: int | str | None) -> str:
    """A moment as it reads before the script puts it into the reader's zone."""
    text = moment(value)
    return f"{text[:10]} {text[11:16]} UTC" if text else "–"


def short(value: Any) -> str:
    """A value in one line."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "…"
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def step(path: str | None) -> str:
    """A step as people read it."""
    return shown_step(path) if path else ""


def need(why: str | None) -> str:
    """What a run needs a person for, in a word."""
    return NEEDS.get(why or "", "")


def unescaped(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(part for _, part in parts(text))


FILTERS = {
    "unescaped": unescaped,
    "duration": duration,
    "roughly": roughly,
    "size": size,
    "moment": moment,
    "clock": clock,
    "short": short,
    "step": step,
    "need": need,
}
