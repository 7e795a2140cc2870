"""Interleaved rounds, and the medians taken over them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.remote import Remote


@dataclass(frozen=True)
class Comparison:
    """Seconds per operation of both sides, round by round."""

    ours: list[float]
    theirs: list[float]

    @property
    def speed(self) -> float:
        """How many times as fast as the peer we are: the median of the rounds' own ratios."""
        return statistics.median(b / a for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def slowness(self) -> float:
        """How many times the peer's time we take."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    def rates(self, peer: str) -> dict[str, object]:
        """Both sides as operations per second."""
        return {
            "leftoff_per_s": round(1 / statistics.median(self.ours)),
            f"{peer}_per_s": round(1 / statistics.median(self.theirs)),
            "rounds": len(self.ours),
        }

    def times(self, peer: str) -> dict[str, object]:
        """Both sides as milliseconds per operation."""
        return {
            "leftoff_ms": round(statistics.median(self.ours) * 1e3, 3),
            f"{peer}_ms": round(statistics.median(self.theirs) * 1e3, 3),
            "rounds": len(self.ours),
        }


def interleave(
    sides: Sequence[Remote], rounds: int, size: int, method: str = "round", warm: bool = True
) -> list[list[float]]:
    """Seconds per operation of each side; in every other round the order is reversed."""
    taken: list[list[float]] = [[] for _ in sides]
    if warm:
        for remote in sides:
            remote.call(method, size=max(1, size // 4))
    for n in range(rounds):
        order = range(len(sides)) if n % 2 == 0 else reversed(range(len(sides)))
        for index in order:
            taken[index].append(float(sides[index].call(method, size=size)) / size)
    return taken


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
