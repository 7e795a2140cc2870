"""What a process knows of a run's head, so that a commit need not look it up again.

It is a cache with one rule: it counts only if, inside the transaction, the run is still at ``seq``. Every commit looks
at that first, so another writer costs a few look-ups, never a wrong answer.
"""

from __future__ import annotations

from leftoff.errors import NotFound, Rewound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

    # hash, status, ord and leaf, as the store has them; then what it adds to the digest, where that is known
    Row = tuple[Any, ...]

    class Learned(Protocol):
        """What a commit knows of the rows it wrote."""

        empty: frozenset[str]
        fresh: dict[tuple[str, str], Row | None]
        lengths: dict[str, int]
        items: dict[str, Any]

        def packed_counts(self) -> str: ...


LIMIT = 20_000  # rows remembered; a run with more is looked up


class Head:
    """One run, as last seen by this process."""

    __slots__ = ("at", "counts", "empty", "items", "lengths", "rows", "run", "run_id")

    def __init__(self, run: int, run_id: str, seq: int, digest: int) -> None:
        self.run = run
        self.run_id = run_id
        self.at = (seq, digest)  # one thing: threads read it while another sets it
        self.counts = ""  # of its leaf steps by status, packed; empty: not known
        self.rows: dict[tuple[str, str], Row | None] = {}
        self.empty: frozenset[str] = frozenset()  # collections without any record
        self.lengths: dict[str, int] = {}  # of spread lists
        self.items: dict[str, Any] = {}  # hashes of the entries of spread variables that were assigned whole

    @property
    def seq(self) -> int:
        return self.at[0]

    @classmethod
    def of(cls, row: RunRow) -> Head:
        """The head of a run as its row has it."""
        head = cls(row.run, row.run_id, row.seq, int.from_bytes(row.digest, "big"))
        head.counts = row.counts
        return head

    def adopt(self, since: int, seq: int, digest: int, learned: Learned | None) -> None:
        """A commit of ours became durable: it went from ``since`` to ``seq``, and this is what it learned."""
        if seq <= self.seq:
            return  # a thread that committed later was told earlier
        self.empty = learned.empty if learned is not None else frozenset()
        if learned is None:
            self.rows, self.lengths, self.items = {}, {}, {}
        elif since == self.seq and len(self.rows) < LIMIT:
            self.rows.update(learned.fresh)
            self.lengths.update(learned.lengths)
            self.items.update(learned.items)
        else:
            self.rows, self.lengths, self.items = learned.fresh, learned.lengths, learned.items
        self.counts = learned.packed_counts() if learned is not None else ""
        self.at = (seq, digest)


def need_known(view: View, head: Head, seq: int, digest: bytes) -> None:
    """What this process knows of was acknowledged by the store, so it must be in its history: it is at ``seq`` now."""
    known, content = head.at
    if seq > known:
        version = view.version(head.run, known) if known > 0 else None
        if version is None:  # none is known, or it was pruned
            return
        digest = version.digest
    if seq < known or int.from_bytes(digest, "big") != content:
        error = Rewound(
            f"The store lost version {known} of run {head.run_id}, which it had acknowledged: it is at version {seq}, "
            "without that."
        )
        error.run_id, error.kept, error.newest = head.run_id, seq, known
        raise error


def gone(run_id: str) -> NotFound:
    """Of a run that was there a moment ago."""
    return NotFound(f"Run {run_id} is gone.")


def need_store(store: Store, named: str = "") -> None:
    """Reports make no store: without one there is no run. ``named``: what was asked for."""
    if not store.exists():
        what = f"run {named}" if named else "run"
        hint = store.advice or "`leftoff start WORKFLOW` starts one."
        raise NotFound(f"There is no {what} here: {store.name} does not exist.", hint=hint)


def need_run(view: View, run: int, run_id: str) -> RunRow:
    """A run that was found before, as it is by now."""
    row = view.run_row(run)
    if row is None:
        raise gone(run_id)
    return row
