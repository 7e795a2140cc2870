"""Operations of several transactions: what was decided in the first must still be so in the last.

Whoever looks, works outside of a transaction and writes in another gives the last one the row it decided on. Where the
run has moved since, nothing is written, and the work begins again with what is there by then.
"""

from __future__ import annotations

from leftoff.engine.head_cache import gone, need_run
from leftoff.errors import Conflict
from leftoff.hints import Callable, TypeVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.report_commit import Find
    from leftoff.store.base import View
    from leftoff.store.rows import RunRow

    T = TypeVar("T")

TRIES = 10  # a run that moves more often than that is being worked on


class Moved(Conflict):
    """Somebody committed to the run in between."""

    retry = True
    default_hint = "Somebody works on it right now. Nothing was changed; try again when they have finished."


def need_unmoved(view: View, row: RunRow) -> None:
    """Raise ``Moved`` where a run is not at the version that was decided on."""
    now = view.run_row(row.run)
    if now is None or now.is_gone:
        raise gone(row.run_id)
    if (now.seq, now.digest) != (row.seq, row.digest):
        raise Moved(f"Run {row.run_id} went on from version {row.seq} to {now.seq} meanwhile.")


def unmoved_run(row: RunRow) -> Find:
    """How a report finds the run that was decided on, if it is still so."""

    def find(view: View) -> RunRow:
        need_unmoved(view, row)
        return need_run(view, row.run, row.run_id)

    return find


def is_seen(view: View, run: int, collection: str, key: str, seen: int | None) -> bool:
    """Whether a record is as it was at a version, which somebody was asked about; ``None``: they saw them all."""
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
