"""Look at a run again that was found before: it may be gone, or have moved.

An operation of several transactions looks, works outside of them, and writes in the last one. That one gets the row on
which the operation decided. If the run has moved since, nothing is written, and the work begins again.
"""

from __future__ import annotations

from leftoff.errors import Conflict, NotFound
from leftoff.hints import Callable, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

    T = TypeVar("T")
    Find = Callable[[View], RunRow]  # returns the run that is meant

TRIES = 10  # a run that moves more often than that is being worked on


def gone(run_id: str) -> NotFound:
    """Return the error for a run that was there a moment ago."""
    return NotFound(f"Run {run_id} is gone.")


def need_store(store: Store, named: str = "") -> None:
    """Raise if there is no store: without one there is no run, and a report makes none. ``named``: what is meant."""
    if not store.exists():
        what = f"run {named}" if named else "run"
        hint = store.advice or "`leftoff start WORKFLOW` starts one."
        raise NotFound(f"There is no {what} here: {store.name} does not exist.", hint=hint)


def need_run(view: View, run: int, run_id: str) -> RunRow:
    """Return a run that was found before, as it is now."""
    row = view.run_row(run)
    if row is None:
        raise gone(run_id)
    return row


class Moved(Conflict):
    """Another process committed to the run in between."""

    retry = True
    default_hint = "Somebody works on it right now. Nothing was changed; try again when they have finished."


def need_unmoved(view: View, row: RunRow) -> None:
    """Raise ``Moved`` if a run is not at the version that was decided on."""
    now = need_run(view, row.run, row.run_id)
    if now.is_gone:
        raise gone(row.run_id)
    if (now.seq, now.digest) != (row.seq, row.digest):
        raise Moved(f"Run {row.run_id} went on from version {row.seq} to {now.seq} meanwhile.")


def unmoved_run(row: RunRow) -> Find:
    """Return how a report finds the run that was decided on, if it has not moved."""

    def find(view: View) -> RunRow:
        need_unmoved(view, row)
        return need_run(view, row.run, row.run_id)

    return find


def is_seen(view: View, run: int, collection: str, key: str, seen: int | None) -> bool:
    """Return whether a record is as it was at a version that a person was asked about; ``None``: they saw them all."""
    record = view.record(run, collection, key) if seen is not None else None
    return seen is None or (record is not None and record.seq <= seen)


def until_unmoved(work: Callable[[], T]) -> T:
    """Do the work, again from its beginning for as long as the run moves under it."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except Moved:
            pass
    return work()
