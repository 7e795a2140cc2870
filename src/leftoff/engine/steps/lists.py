"""The list that an agent keeps of its work, as the steps of its run.

A list is given whole each time. What is new is added, what changed is changed, what is not on it any more and was not
done is dropped. What was done stays on record where the next list leaves it out.

An entry is a session's: an id counts only there, for every session counts from 1, and only the session that wrote an
entry drops it. A session that took the run up and writes an entry of the same text means the same step, which stays as
it is until the entry says something else than that it is pending.
"""

from __future__ import annotations

from leftoff.engine.steps import lifecycle
from leftoff.model.ids import quote_part, slug
from leftoff.model.words import STEP_ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_LONGEST = 60  # characters of a step's name
LISTED_BY = "listed_by"  # in a step's record: the session on whose list it is


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


class List:
    """The steps of a run, as the list of a session changes them."""

    def __init__(self, steps: lifecycle.Steps, session: str) -> None:
        self.steps = steps
        self.session = session
        self.there = steps.all()

    def is_ours(self, record: dict[str, Any]) -> bool:
        return bool(record.get(LISTED_BY, self.session) == self.session)

    def move(self, path: str, item: Item, order: int | None) -> None:
        """A step becomes what its entry says; what a person decides is not for an agent's list to say."""
        if self.steps.is_approval(path):
            return
        old = self.steps.get(path)
        if old is not None and self._says_nothing_new(old, item):
            record = {**old, "entry": item.status, LISTED_BY: self.session}
        else:
            record = _moved(old or {"by": "list"}, item, self.steps.now)
            record.pop("entry", None)
            record[LISTED_BY] = self.session
        if item.task is not None:
            record["task"] = item.task
        if order is not None:
            record["order"] = order
        if record != old:
            self.steps.move(path, record)

    def _says_nothing_new(self, old: dict[str, Any], item: Item) -> bool:
        """An entry of another session's step that is written anew, or has not changed since."""
        if not self.is_ours(old):
            return item.status == "pending"
        return old.get("entry") == item.status


def put_list(steps: lifecycle.Steps, items: list[Item], session: str) -> None:
    """Make a list the steps of a run."""
    known = List(steps, session)
    wanted = _names(items)
    names = {name for name, _ in wanted}
    kept = []
    for path, record in known.there.items():
        if path in names or record.get("by") != "list":
            continue
        if record.get("status") in STEP_ENDED or not known.is_ours(record):
            kept.append(record)
        else:
            steps.remove(path)
    first = 1 + max((record.get("order", 0) for record in kept), default=-1)
    for place, (name, item) in enumerate(wanted):
        old = known.there.get(name)
        order = first + place if old is None or old.get("by") == "list" else None
        known.move(name, item, order)


def _moved(old: dict[str, Any], item: Item, now: str) -> dict[str, Any]:
    """A step's record after its entry said so."""
    record = dict(old) if old.get("status") == item.status else _TO[item.status](old, now)
    record["title"] = item.text
    return record


_TO: dict[str, Any] = {
    "pending": lambda record, now: lifecycle.put_back(record),
    "running": lifecycle.start,
    "completed": lambda record, now: lifecycle.complete(lifecycle.begun(record, now), now),
    "skipped": lifecycle.skip,
}


# -- tasks that are told of one by one


def put_task(steps: lifecycle.Steps, item: Item, session: str) -> str | None:
    """Add a task, or change the one with that id or that text; its step, if there is one."""
    known = List(steps, session)
    path = _path_of(known, item)
    if path is None:
        return None
    old = known.there.get(path)
    if not item.text:
        item.text = str((old or {}).get("title") or path)
    last = max((entry.get("order", 0) for entry in known.there.values()), default=-1)
    known.move(path, item, None if "order" in (old or ()) else last + 1)
    return path


def _path_of(known: List, item: Item) -> str | None:
    """The step of a task: the session's of that id, else that of the same text; ``None`` where it is not known."""
    if item.task is not None:
        for path, record in known.there.items():
            if record.get("task") == item.task and known.is_ours(record):
                return path
    if not item.text:
        return None
    named = name_of(item.text)
    same = known.there.get(named)
    taken = same is not None and known.is_ours(same) and same.get("task") not in (None, item.task)
    return f"{named}-{item.task}" if taken else named
