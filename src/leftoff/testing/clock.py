"""A clock that stands still until it is told to move."""

from __future__ import annotations

from leftoff.clock import Clock

START = 1_770_000_000_000  # 2026-02-02T02:40:00Z


class FakeClock(Clock):
    """Pass it where a clock is asked for; ``advance`` moves both of its hands."""

    def __init__(self, now: int = START) -> None:
        self._now = now
        self._passed = 0

    def now(self) -> int:
        return self._now

    def monotonic(self) -> float:
        return self._passed / 1000

    def advance(self, ms: int) -> None:
        """Time passes. Only forwards: ``set`` is for a clock that someone put back."""
        if ms < 0:
            raise ValueError("time does not run backwards; set() puts the clock back")
        self._now += ms
        self._passed += ms

    def set(self, now: int) -> None:
        """Put the clock; no time passes by that."""
        self._now = now
