"""Time, passed in. Everything that needs the time takes a clock; tests pass one that stands still.

Times are whole milliseconds since 1970 in tables, and ISO-8601 UTC text ending in ``Z`` in records and JSON.
No order is ever taken from them: order is by commit number.
"""

from __future__ import annotations

import time


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
    """``2026-01-31T09:05:00.123Z``; the fraction only where it is not zero."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000))
    rest = ms % 1000
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"


def by_time(text: object) -> str:
    """What times in records are ordered by: as plain texts, ``…00Z`` would come after ``…00.123Z``."""
    return str(text).removesuffix("Z")


def compact(ms: int) -> str:
    """``20260131-090500``, as run ids carry it."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(ms // 1000))
