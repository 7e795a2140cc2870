"""What bmad's events do to a run that is there: its steps by their numbers, and what is announced."""

from __future__ import annotations

from leftoff.dialects.bmad.document import DIALECT
from leftoff.dialects.draft import last_of, step_of
from leftoff.dialects.protocol import state_at
from leftoff.engine.read.state import Reader
from leftoff.engine.steps import lifecycle
from leftoff.engine.steps.reports import StepReport, step_changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.bmad.events import Event
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

ANNOUNCED = "announced"  # in the record of a step that nobody has begun: what somebody thought comes next


def step_at(store: Store, view: View, row: RunRow, number: int) -> str:
    """The step of that number: the so-manyth leaf, else one that is called so."""
    return step_of(state_at(store, view, row, DIALECT).leaves(), number)


def save(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, event: Event, at: int) -> None:
    """Before a step: the run's variables and status, and the step that begins."""
    number = event.number("step-number")
    for key, value in event.variables().items():
        changes.put("variable", key, value)
    changes.put("run", "status", event.status("running"))
    if number is not None:
        path = step_at(store, tx, row, number)
        record = Reader(store, tx, row.run, row.run_id).value("step", path)
        if record is None or record.plain.get("status") not in ("running", "completed"):
            step_changes(store, tx, row, changes, StepReport("start", path), at)


def announce(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, number: int) -> None:
    """The step that comes next, where there can be one: the protocol names one behind the last step, too."""
    leaves = state_at(store, tx, row, DIALECT).leaves()
    total, path = row.card.get("total"), step_of(leaves, number)
    last = total if isinstance(total, int) else last_of(leaves)
    if (last is None or number <= last) and tx.row(row.run, "step", path) is None:
        lifecycle.put(changes, path, lifecycle.declare(number - 1, {ANNOUNCED: True}))


def forget_announced(store: Store, tx: Tx, row: RunRow, changes: ChangeSet) -> None:
    """At the end of a run: a step that was only announced was none."""
    steps = lifecycle.steps_in(store, tx, row, changes, 0)
    for path, step in steps.all().items():
        if step.get("status") == "pending" and step.get(ANNOUNCED):
            steps.remove(path)
