"""How old something is, as far as the store itself has seen time pass.

One clock that was put forward makes everything old at once. So what is removed for its age must be old by the stamps of
commits that were made meanwhile, too: between two of them, no more than a quarter of the age asked for is counted.
A store that nobody used for long looks the same as one with a wrong clock: there, things are kept for longer.
"""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.base import View

PARTS = 4  # an age is reached over at least so many stretches of time
TRUSTED_MS = 3_600_000  # what a clock may say at once


class Time(Fields):
    """The time by the clock, and when commits were made: of each hour the last, with its number."""

    now: int
    stamps: list[tuple[int, int]]

    @classmethod
    def of(cls, view: View, now: int) -> Time:
        return cls(now, view.stamps())

    def seen(self, since: int, n: int, age: int) -> int:
        """How much of an age the store has seen pass since a moment, at which it had made ``n`` commits."""
        most, last, seen = max(TRUSTED_MS, age // PARTS), since, 0
        for at, number in self.stamps:
            if number > n and last < at <= self.now:
                seen += min(at - last, most)
                last = at
        return seen + min(max(self.now - last, 0), most)

    def passed(self, since: int, n: int, age: int) -> bool:
        """Whether something is older than that, by the clock and by what the store has seen."""
        return self.now - since > age and self.seen(since, n, age) > age
