"""Lengths of time as people write them: ``30m``, ``1h30m``, ``500ms``, or a number of seconds."""

from __future__ import annotations

import re
from itertools import pairwise

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)"
_WHOLE = re.compile(rf"{_PART}(?:\s*{_PART})*", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
LONGEST = 100 * 365 * 86400.0  # what a clock can be asked to wait for
_WORDS = {
    "milliseconds": "ms", "msecs": "ms", "seconds": "s", "minutes": "m", "hours": "h", "hrs": "h", "days": "d",
    "weeks": "w",
}  # fmt: skip
FORM = "A duration is like 500ms, 2s, 30m, 1h30m or 7d; a plain number is seconds."


def seconds(text: str) -> float:
    """Return the seconds that a text means. Raise ``ValueError`` with what is wrong with it."""
    word = text.strip()
    if _NUMBER.fullmatch(word):
        return _bounded(float(word))
    if not _WHOLE.fullmatch(word):
        raise ValueError(f"`{text}` is not a duration")
    found = _PARTS.findall(word)
    sizes = [_SECONDS[unit] for _, unit in found]
    if any(later >= earlier for earlier, later in pairwise(sizes)):
        raise ValueError(f"`{text}` is not a duration: larger units come first, each once")
    return _bounded(sum(float(number) * _SECONDS[unit] for number, unit in found))


def meant(text: str) -> str:
    """Return what was probably meant by words like ``5 minutes``; empty if that is not clear."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", text.lower())
    for word, unit in _WORDS.items():
        if found and len(found[2]) > 1 and word.startswith(found[2].removesuffix("s")):
            return f"{found[1]}{unit}"
    return ""


def _bounded(value: float) -> float:
    if value > LONGEST:
        raise ValueError("a duration of over a hundred years")
    return round(value, 3)


def text(length: float) -> str:
    """Return a length of time for people, in at most two units: ``1h 30m``, ``12s``, ``0.5s``."""
    if length < 10:
        short = max(0.0, length)
        if short >= 0.1 or not short:
            return f"{short:.1f}".removesuffix(".0") + "s"
        return f"{short:.3f}".rstrip("0").rstrip(".") + "s"
    rest = int(length + 0.5)
    parts = []
    for unit in ("d", "h", "m", "s"):
        size = int(_SECONDS[unit])
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])
