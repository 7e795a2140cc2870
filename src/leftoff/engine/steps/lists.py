"""The list that an agent keeps of its work, as the steps of its run.

A list is given whole each time. What is new is added, what changed is changed, what is not on it any more and was not
done is dropped. What was done stays on record where the next list leaves it out.
"""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.read.state import Reader
from leftoff.model.ids import quote_part, slug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import RunRow

_LONGEST = 60  # characters of a step's name
_ENDED = ("completed", "skipped")


class Item:
    """One entry of a list: its text and its status; the agent's own id of it, where it has one."""

    __slots__ = ("status", "task", "text")

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
    there = Reader(store, tx, row.run, row.run_id).plain("step")
    wanted = _names(items)
    names = {name for name, _ in wanted}
    kept = []
    for path, record in there.items():
        if path in names or record.get("by") != "list":
            continue
        if record.get("status") in _ENDED:
            kept.append(record)
        else:
            changes.delete("step", path)
    first = 1 + max((record.get("order", 0) for record in kept), default=-1)
    for place, (name, item) in enumerate(wanted):
        old = there.get(name)
        record = moved(old, item, at)
        if old is None or old.get("by") == "list":
            record["order"] = first + place
        if record != old:
            changes.put("step", name, record)


def moved(old: dict[str, Any] | None, item: Item, at: int) -> dict[str, Any]:
    """A step's record after its entry said so."""
    record: dict[str, Any] = dict(old) if old is not None else {"by": "list"}
    before = record.get("status")
    if item.status == "running" and before != "running":
        record["attempt"] = int(record.get("attempt") or 0) + 1
        record["started_at"] = iso(at)
    if item.status in _ENDED and before not in _ENDED:
        record.setdefault("started_at", iso(at))
        record["completed_at"] = iso(at)
    elif item.status not in _ENDED:
        record.pop("completed_at", None)
    record["status"] = item.status
    record["title"] = item.text
    if item.task is not None:
        record["task"] = item.task
    return record


# -- tasks that are told of one by one


def put_task(store: Store, tx: Tx, row: RunRow, changes: ChangeSet, item: Item, at: int) -> bool:
    """Add a task, or change the one with that id or that text; whether there is one."""
    there = Reader(store, tx, row.run, row.run_id).plain("step")
    path = next((p for p, r in there.items() if item.task is not None and r.get("task") == item.task), None)
    if path is None and item.text:
        named = name_of(item.text)
        same = there.get(named)
        path = named if same is None or same.get("task") in (None, item.task) else f"{named}-{item.task}"
    if path is None:
        return False
    old = there.get(path)
    if not item.text:
        item.text = str((old or {}).get("title") or path)
    record = moved(old, item, at)
    if "order" not in record:
        record["order"] = 1 + max((entry.get("order", 0) for entry in there.values()), default=-1)
    changes.put("step", path, record)
    return True
