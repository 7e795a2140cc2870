"""The faults that the tests of this process have made, counted for the reliability page."""

from __future__ import annotations

from collections import Counter

KINDS = ("kills", "power cuts", "failed system calls", "full disks", "damages")
_made: Counter[str] = Counter()


def made(kind: str, number: int = 1) -> None:
    """Count faults of one of `KINDS`."""
    assert kind in KINDS
    _made[kind] += number


def taken() -> dict[str, int]:
    """Return the faults since the last call, and start again from zero."""
    found = dict(_made)
    _made.clear()
    return found
