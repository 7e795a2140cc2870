"""The list that an agent keeps of its work, as the steps of its run.

A list is given whole each time. What is new is added, what changed is changed, what is not on it any more and was not
done is dropped. What was done stays on record where the next list leaves it out.
"""

from __future__ import annotations

from leftoff.engine.steps import lifecycle
from leftoff.model.ids import quote_part, slug
from leftoff.model.words import STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import RunRow

_LONGEST = 60  # characters of a step's name


class Item:
    """One entry of a list: its text and its status; the agent's own id of it, where it has one."""

    def __init__(self, text: str, status: str = "pending", task: str | None = None) -> None:
        self.text = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())
        self.status = status
        self.task = task


def name_of(text: str) -> str:
    """The name of a step, from the text of an entry: one that is easy to type where it can be."""
    if text.isascii():
        return slug(text.replace(".", " "))[:_LONGEST].rstrip("-").lower()
    return quote_part(text)[:_LONGEST].strip()


def _names(items: Iterable[Item]) -> list[tuple[str, Item]]:
    out: dict[str, Item] = {}
    for item in items:
        base, number = name_of(item.text), 2
        name = base
        while name in out:
            name, number = f"{base}-{number}", number + 1
        out[name] = item
    return list(out.items())


def put_list(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, items: list[Item], at: int) -> None:
    """Make a list the steps of a run."""
    steps = lifecycle.steps_in(store, tx, row, changes, at)
    there = steps.all()
    wanted = _names(items)
    names = {name for name, _ in wanted}
    kept = []
    for path, record in there.items():
        if path in names or record.get("by") != "list":
            continue
        if record.get("status") in STEP_ENDED:
            kept.append(record)
        else:
            steps.remove(path)
    first = 1 + max((record.get("order", 0) for record in kept), default=-1)
    for place, (name, item) in enumerate(wanted):
        old = there.get(name)
        order = first + place if old is None or old.get("by") == "list" else None
        _move(steps, name, item, order)


def _move(steps: lifecycle.Steps, path: str, item: Item, order: int | None) -> None:
    """A step becomes what its entry says; what a person decides is not for an agent's list to say."""
    if steps.is_approval(path):
        return
    old = steps.get(path)
    record = _moved(old or {"by": "list"}, item, steps.now)
    if order is not None:
        record["order"] = order
    if record != old:
        steps.move(path, record)


def _moved(old: dict[str, Any], item: Item, now: str) -> dict[str, Any]:
    """A step's record after its entry said so."""
    record = dict(old) if old.get("status") == item.status else _TO[item.status](old, now)
    record["title"] = item.text
    if item.task is not None:
        record["task"] = item.task
    return record


_TO: dict[str, Any] = {
    "pending": lambda record, now: lifecycle.put_back(record),
    "running": lifecycle.start,
    "completed": lambda record, now: lifecycle.complete(lifecycle.begun(record, now), now),
    "skipped": lifecycle.skip,
}


# -- tasks that are told of one by one


def put_task(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, item: Item, at: int) -> str | None:
    """Add a task, or change the one with that id or that text; its step, if there is one."""
    steps = lifecycle.steps_in(store, tx, row, changes, at)
    there = steps.all()
    path = next((p for p, r in there.items() if item.task is not None and r.get("task") == item.task), None)
    if path is None and item.text:
        named = name_of(item.text)
        same = there.get(named)
        path = named if same is None or same.get("task") in (None, item.task) else f"{named}-{item.task}"
    if path is None:
        return None
    old = there.get(path)
    if not item.text:
        item.text = str((old or {}).get("title") or path)
    last = max((entry.get("order", 0) for entry in there.values()), default=-1)
    _move(steps, path, item, None if "order" in (old or ()) else last + 1)
    return path
