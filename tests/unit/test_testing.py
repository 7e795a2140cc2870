"""What `leftoff.testing` offers, and what it needs for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leftoff.clock import Clock, iso
from leftoff.testing import FakeClock


def test_clock_stands_still() -> None:
    """Time passes only when it is told to, for both hands by the same amount."""
    clock = FakeClock()
    assert isinstance(clock, Clock)
    assert ("2026-02-02T02:40:00Z", 0.0) == (iso(clock.now()), clock.monotonic())
    assert clock.now() == clock.now()
    clock.advance(1500)
    assert ("2026-02-02T02:40:01.500Z", 1.5) == (iso(clock.now()), clock.monotonic())


def test_clock_can_be_put_back() -> None:
    """Somebody may put the clock back; the hand that measures never goes back."""
    clock = FakeClock(5000)
    clock.advance(1000)
    clock.set(2000)
    assert (2000, 1.0) == (clock.now(), clock.monotonic())
    with pytest.raises(ValueError):
        clock.advance(-1)


def test_needs_no_pytest() -> None:
    """Programs without pytest can use the clock and the faulty store."""
    script = """
import sys
sys.modules["pytest"] = None
from leftoff.testing import FakeClock, FaultyStore
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (0, "") == (result.returncode, result.stderr)
