"""Clearing what blocks a run, once a person says that it is resolved."""

from __future__ import annotations

from typing import NamedTuple

from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.lifecycle import Steps, retry
from leftoff.engine.write.commit import Seal, Terms
from leftoff.engine.write.report import report
from leftoff.engine.write.unmoved import Moved, is_seen
from leftoff.errors import Conflict, NotFound
from leftoff.host import user
from leftoff.model.ids import shown_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.write.audit import Audit
    from leftoff.engine.write.report import Find, Reported
    from leftoff.model.changes import ChangeSet, Scrubber
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import RunRow


class Unblocked(NamedTuple):
    """The run, and the steps that are to be done again."""

    done: Reported
    steps: list[str]


def unblock(
    store: Store,
    find: Find,
    step: str | None,
    at: int,
    *,
    seen: int | None = None,
    scrubber: Scrubber | None = None,
    audit: Audit | None = None,
) -> Unblocked:
    """The blocked steps (or one of them) are to be done, their errors cleared; the run is blocked no more.

    ``seen``: the version that somebody was asked about; what was told since then stays.
    """
    cleared: list[str] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(store, tx, row.run, row.run_id)
        cleared[:] = _clear_steps(reader, row, changes, (step, seen), at)
        if step is None:
            _clear_errors(reader, changes, seen)
        if not changes.changes:
            return None
        if audit is not None:
            audit.put(changes, at)
        return Seal("manual", cleared[0] if cleared else None, f"unblocked by {user()}")

    return Unblocked(report(store, find, make, Terms(at), scrubber=scrubber), cleared)


def _clear_steps(
    reader: Reader, row: RunRow, changes: ChangeSet, which: tuple[str | None, int | None], at: int
) -> list[str]:
    """The steps that are to be done again: the one that is named, or all that were blocked at that version."""
    step, seen = which
    writer = Steps(reader, changes, at)
    steps = writer.all()
    blocked = [path for path, record in steps.items() if record.get("status") == "blocked"]
    _check(steps, blocked, step, row)
    known = [path for path in blocked if is_seen(reader.view, row.run, "step", path, seen)]
    cleared = [path for path in known if step in (None, path)]
    if blocked and not cleared:
        raise Moved(f"What blocks run {row.run_id} was reported since.")
    for path in cleared:
        writer.move(path, retry(steps[path]))
        if reader.view.row(row.run, "error", path) is not None:
            changes.delete("error", path)
    if row.status == "blocked" and set(blocked) <= set(cleared):
        status_changes(changes, "running", at)
    return cleared


def _clear_errors(reader: Reader, changes: ChangeSet, seen: int | None) -> None:
    """Those that are of no step."""
    steps = reader.raw("step")
    for key in reader.raw("error"):
        if key not in steps and is_seen(reader.view, reader.run, "error", key, seen):
            changes.delete("error", key)


def _check(steps: dict[str, Any], blocked: list[str], step: str | None, row: RunRow) -> None:
    if step is None:
        return
    hint = f"Blocked: {', '.join(map(shown_step, blocked)) or 'none'}."
    if step not in steps:
        raise NotFound(f"Run {row.run_id} has no step {shown_step(step)}.", hint=hint)
    if step not in blocked:
        raise Conflict(f"Step {shown_step(step)} is not blocked.", hint=hint)
