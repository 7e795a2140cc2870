"""What a process knows of a run's head, so that a commit need not look it up again.

It is a cache with one rule: it counts only if, inside the transaction, the run is still at ``seq``. Every commit looks
at that first, so another writer costs a few look-ups, never a wrong answer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Row = tuple[bytes, str | None, str | None, int | None]

LIMIT = 20_000  # rows remembered; a run with more is looked up


class Head:
    """One run, as last seen by this process."""

    __slots__ = ("digest", "lengths", "rows", "run", "run_id", "seq")

    def __init__(self, run: int, run_id: str, seq: int, digest: int) -> None:
        self.run = run
        self.run_id = run_id
        self.seq = seq
        self.digest = digest
        self.rows: dict[tuple[str, str], Row | None] = {}
        self.lengths: dict[str, int] = {}  # of spread lists

    def adopt(
        self,
        since: int,
        seq: int,
        digest: int,
        rows: dict[tuple[str, str], Row | None],
        lengths: dict[str, int],
    ) -> None:
        """A commit of ours became durable: it went from ``since`` to ``seq``."""
        if seq <= self.seq:
            return  # a thread that committed later was told earlier
        if since == self.seq and len(self.rows) < LIMIT:
            self.rows.update(rows)
            self.lengths.update(lengths)
        else:
            self.rows, self.lengths = rows, lengths
        self.digest = digest
        self.seq = seq
