"""The items of a `foreach`, once they are known: recorded, then handed to the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.errors import Invalid
from leftoff.model.frozen import marks
from leftoff.model.ids import shown_step
from leftoff.workflow.run import items

if TYPE_CHECKING:
    from leftoff.workflow.definition.model import Step
    from leftoff.workflow.run.turn import ActiveRun

DECLARED_AT_ONCE = 500  # items in one commit


def declare(active: ActiveRun, step: Step, found: list[Any]) -> None:
    """Record the items, some hundreds in a commit; the last one says how many there are."""
    named = items.name(step, found, active.templates, active.state.values(step), active.redactor)
    stale = set(active.state.items(step.path)) - {path for path, _ in named}
    if stale:
        active.add(active.entries.no_items(sorted(stale)), durable=False)
    active.close()
    numbered = [(order, path, item) for order, (path, item) in enumerate(named)]
    for start in range(0, max(len(numbered), 1), DECLARED_AT_ONCE):
        some = numbered[start : start + DECLARED_AT_ONCE]
        last = start + DECLARED_AT_ONCE >= len(numbered)
        active.add(active.entries.items(step.path, some, len(named) if last else None), durable=last)
        active.close()
    active.state.set_items(step.path, named)
    active.tell("foreach", step=step.path, items=len(named))
    expanded(active, step, [(path, active.state.status(path)) for path, _ in named])


def item_of(active: ActiveRun, step: Step, unit: str) -> Any:
    """What an item's step is about. Where a secret in it was redacted on record, it is looked up again."""
    item = active.state.item(unit)
    if not marks(item):
        return item
    values = active.state.values(step)
    found = items.find(step, active.templates, values, active.project)
    named = dict(items.name(step, found or (), active.templates, values, active.redactor))
    if unit not in named:
        raise Invalid(
            f"{shown_step(unit)}: the item has a secret in it, which was not stored, and it cannot be found again.",
            hint="`leftoff run FILE --fresh` starts over; hand secrets to steps under `secrets:`.",
        )
    active.state.set_items(
        step.path,
        [(path, named.get(path, active.state.item(path))) for path in active.state.items(step.path)],
    )
    return named[unit]


def expanded(active: ActiveRun, step: Step, known: list[tuple[str, str]]) -> None:
    active.follow(step.path, active.scheduler.expand(step.path, known))
