"""Time, passed in: code that needs the time takes a clock, and tests pass one that stands still.

Times are whole milliseconds since 1970 in tables, and ISO-8601 UTC text ending in ``Z`` in records and JSON.
No order is ever taken from them: order is by commit number.
"""

from __future__ import annotations

import time
from typing import Any

DAY_MS = 86_400_000


class Clock:
    """The system's clock."""

    def now(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring how long something took."""
        return time.monotonic()


SYSTEM = Clock()


def iso(ms: int) -> str:
    """``2026-01-31T09:05:00.123Z``; the fraction only if it is not zero."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000))
    rest = ms % 1000
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"


def by_time(text: object) -> str:
    """Return the key that orders times of records: as plain texts, ``…00Z`` would come after ``…00.123Z``."""
    return str(text).removesuffix("Z")


def compact(ms: int) -> str:
    """``20260131-090500``, as run ids carry it."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(ms // 1000))


_AGES = (
    (60_000, 1000, "s", "second"),
    (3_600_000, 60_000, "min", "minute"),
    (2 * DAY_MS, 3_600_000, "h", "hour"),
    (60 * DAY_MS, DAY_MS, "d", "day"),
    (730 * DAY_MS, 30 * DAY_MS, "mo", "month"),
    (1 << 60, 365 * DAY_MS, "y", "year"),
)


def ago(then: int, now: int, *, words: bool = False) -> str:
    """``2 min ago``; in words, ``2 minutes ago``."""
    age = now - then
    if -2000 < age < 1000:
        return "just now"
    amount = lasted(abs(age), words=words)
    return f"{amount} ago" if age > 0 else f"in {amount}"


def lasted(ms: int, *, words: bool = False) -> str:
    """``2 min``; in words, ``2 minutes``."""
    if ms < 1000:
        return "0 seconds" if words else f"{ms} ms"
    for below, unit, short, word in _AGES:
        if ms < below:
            number = ms // unit
            return f"{number} {word}{'' if number == 1 else 's'}" if words else f"{number} {short}"
    return "ages"


def millis(text: Any) -> int | None:
    """Milliseconds since 1970 of a UTC time as records hold it; ``None`` if it is not one."""
    if not isinstance(text, str) or len(text) < 19 or text[10] not in "T ":
        return None
    fraction, _, rest = text[19:].partition("Z")
    numbers = [text[0:4], text[5:7], text[8:10], text[11:13], text[14:16], text[17:19]]
    if rest or not all(n.isascii() and n.isdigit() for n in numbers) or not text.endswith("Z"):
        return None
    year, month, day, hour, minute, second = map(int, numbers)
    part = fraction[1:4].ljust(3, "0") if fraction.startswith(".") else "000"
    days = _days(year, month, day)
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + (int(part) if part.isdigit() else 0)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, in the calendar that is in use."""
    year -= month <= 2
    era, of_era = year // 400, year % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
