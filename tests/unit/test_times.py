"""Times as people say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.clock import ago, by_time, iso, lasted, millis

S, MIN, H, D = 1000, 60_000, 3_600_000, 86_400_000


@given(st.integers(0, 253_402_300_799_999))
def test_what_records_hold_is_read_back(ms: int) -> None:
    """From 1970 to 9999, a time that was written is the time that is read."""
    assert ms == millis(iso(ms))


@given(st.integers(0, 253_402_300_799_999), st.integers(-2000, 2000))
def test_what_records_hold_is_in_the_order_of_time(ms: int, apart: int) -> None:
    """Also the first millisecond of a second, of which no fraction is written."""
    other = max(0, ms // 1000 * 1000 + apart)
    assert (ms < other) == (by_time(iso(ms)) < by_time(iso(other)))


@pytest.mark.parametrize(
    "text", [None, 5, "", "today", "2026-01-31", "2026-01-31T09:05:00+01:00", "2026-01-31T09:05:00", "x" * 30]
)
def test_anything_else_is_no_time(text: object) -> None:
    """What is not UTC as we write it is not guessed at."""
    assert millis(text) is None


@pytest.mark.parametrize(
    ("age", "short", "words"),
    [
        (0, "just now", "just now"),
        (999, "just now", "just now"),
        (S, "1 s ago", "1 second ago"),
        (59 * S, "59 s ago", "59 seconds ago"),
        (2 * MIN, "2 min ago", "2 minutes ago"),
        (12 * MIN + 59 * S, "12 min ago", "12 minutes ago"),
        (3 * H, "3 h ago", "3 hours ago"),
        (47 * H, "47 h ago", "47 hours ago"),
        (3 * D, "3 d ago", "3 days ago"),
        (90 * D, "3 mo ago", "3 months ago"),
        (800 * D, "2 y ago", "2 years ago"),
        (-H, "in 1 h", "in 1 hour"),
    ],
)
def test_ages(age: int, short: str, words: str) -> None:
    """How long ago, short or in words."""
    assert (short, words) == (ago(10**12, 10**12 + age), ago(10**12, 10**12 + age, words=True))


def test_durations() -> None:
    """How long something took."""
    assert ["5 ms", "2 s", "3 min"] == [lasted(ms) for ms in (5, 2 * S, 3 * MIN)]
