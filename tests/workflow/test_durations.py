"""Durations: what people write, in seconds; and seconds as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.workflow import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("2s", 2),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("7d", 604_800),
        ("1w", 604_800),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("90", 90),
        ("0.25", 0.25),
        (" 5s ", 5),
        ("0", 0),
        ("1m500ms", 60.5),
    ],
)
def test_what_it_means(text: str, seconds: float) -> None:
    """Numbers with units, larger ones first; a plain number is seconds."""
    assert seconds == durations.seconds(text)


@pytest.mark.parametrize(
    "text",
    ["", "m", "5 minutes", "-5s", "1e3", "5S", "30m1h", "1s1s", "1h30", "٣s", "inf", "5s;", "1_000", "101y"],
)
def test_what_is_none(text: str) -> None:
    """Anything else is refused by name, above all what might be meant differently."""
    with pytest.raises(ValueError, match=r"not a duration"):
        durations.seconds(text)


def test_a_hundred_years_are_enough() -> None:
    """A length that no clock could be asked for is refused."""
    with pytest.raises(ValueError, match="hundred years"):
        durations.seconds("9" * 30)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.004, "0.004s"),
        (0.5, "0.5s"),
        (9.96, "10s"),
        (12.4, "12s"),
        (59.6, "1m"),
        (90, "1m 30s"),
        (3600, "1h"),
        (5400, "1h 30m"),
        (3601, "1h"),
        (90_000, "1d 1h"),
        (604_800, "7d"),
    ],
)
def test_for_people(seconds: float, text: str) -> None:
    """At most two units that follow each other."""
    assert text == durations.duration_text(seconds)


@given(st.integers(min_value=0, max_value=10**9))
def test_what_people_read_can_be_written(seconds: int) -> None:
    """The text of a duration is a duration itself, less what it leaves out."""
    back = durations.seconds(durations.duration_text(seconds))
    assert 0 <= seconds - back < 3600 * 24
