"""Lengths of time as people write them (``30m``, ``1h30m``, ``500ms``, or a number of seconds), and retries."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)"
_WHOLE = re.compile(rf"{_PART}(?:\s*{_PART})*", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
LONGEST = 100 * 365 * 86400.0  # what a clock can be asked to wait for
LONGEST_PAUSE = 3600.0  # between two attempts, whatever the factor; a longer backoff counts
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


def _bounded(value: float) -> float:
    if value > LONGEST:
        raise ValueError("a duration of over a hundred years")
    return round(value, 3)


def duration_text(length: float) -> str:
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


class Retries(NamedTuple):
    """How often a failed attempt is repeated, and the pause before: backoff, then factor times as long each time."""

    max: int = 0
    backoff: float = 1.0
    factor: float = 2.0
    jitter: bool = True

    def pause(self, failed: int) -> float:
        """Return the seconds to wait after so many failures. With jitter it is between half of that and all of it."""
        from random import uniform

        try:
            length = min(self.backoff * self.factor ** (failed - 1), max(LONGEST_PAUSE, self.backoff))
        except OverflowError:
            length = max(LONGEST_PAUSE, self.backoff)
        return round(length * uniform(0.5, 1.0) if self.jitter else length, 3)


ONCE = Retries()
