"""What tests of leftoff, and of anything built on it, can use: a clock, a store that fails, the stores' contract.

``StoreContract`` needs pytest and is loaded when it is first asked for; the others need nothing.
"""

from __future__ import annotations

from leftoff.clock import Clock
from leftoff.testing.faulty import FaultyStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.testing.contract import StoreContract

__all__ = ["FakeClock", "FaultyStore", "StoreContract"]


def __getattr__(name: str) -> object:
    if name != "StoreContract":
        raise AttributeError(f"module 'leftoff.testing' has no attribute {name!r}")
    import pytest

    # Before the modules are imported: a failing assert in them then shows its values, as in a test file.
    pytest.register_assert_rewrite(
        "leftoff.testing.contract", "leftoff.testing.scribe", "leftoff.testing.rules"
    )
    from leftoff.testing.contract import StoreContract

    return StoreContract


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
