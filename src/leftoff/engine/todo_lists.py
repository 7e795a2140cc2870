"""The list that an agent keeps of its work, as the steps of its run.

A list is given whole each time. What is new is added, what changed is changed, what is no longer on it and was not done
is dropped. What was done stays on record.

An entry belongs to a session. Its id counts only there, because every session counts from 1, and only the session that
wrote an entry drops it. If a session that took the run up writes an entry of the same text, it means the same step,
which stays as it is until the entry says more than that it is pending.
"""

from __future__ import annotations

from leftoff.engine.step_lifecycle import Steps, complete, ensure_try, put_back, skip, start
from leftoff.hints import Any
from leftoff.model.ids import quote_part, slug
from leftoff.model.words import STEP_ENDED

_LONGEST = 60  # characters of a step's name
LISTED_BY = "listed_by"  # in a step's record: the session on whose list it is


class ListItem:
    """One entry of a list: its text and its status; the agent's own id of it, if it has one."""

    def __init__(self, text: str, status: str = "pending", task: str | None = None) -> None:
        self.text = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "").split())
        self.status = status
        self.task = task

    @property
    def name(self) -> str:
        """Return the name of its step: one that is easy to type if that is possible."""
        if self.text.isascii():
            return slug(self.text.replace(".", " "))[:_LONGEST].rstrip("-").lower()
        return quote_part(self.text)[:_LONGEST].strip()


def put_list(steps: Steps, items: list[ListItem], session: str) -> None:
    """Make a list the steps of a run."""
    there = steps.all()
    wanted: dict[str, ListItem] = {}
    for item in items:
        name, number = item.name, 2
        while name in wanted:
            name, number = f"{item.name}-{number}", number + 1
        wanted[name] = item
    kept = []
    for path, record in there.items():
        if path in wanted or record.get("by") != "list":
            continue
        if record.get("status") in STEP_ENDED or not _is_ours(record, session):
            kept.append(record)
        else:
            steps.remove(path)
    first = 1 + max((record.get("order", 0) for record in kept), default=-1)
    for place, (name, item) in enumerate(wanted.items()):
        old = there.get(name)
        order = first + place if old is None or old.get("by") == "list" else None
        _put_item(steps, name, item, order, session)


def put_task(steps: Steps, item: ListItem, session: str) -> str | None:
    """Add a task, or change the one with that id or that text. Return its step, if there is one."""
    there = steps.all()
    path = _task_path(there, item, session)
    if path is None:
        return None
    old = there.get(path) or {}
    if not item.text:
        item.text = str(old.get("title") or path)
    last = max((entry.get("order", 0) for entry in there.values()), default=-1)
    _put_item(steps, path, item, None if "order" in old else last + 1, session)
    return path


def _task_path(there: dict[str, dict[str, Any]], item: ListItem, session: str) -> str | None:
    """Return the step of a task: the session's with that id, else that of the same text."""
    if item.task is not None:
        for path, record in there.items():
            if record.get("task") == item.task and _is_ours(record, session):
                return path
    if not item.text:
        return None
    same = there.get(item.name)
    taken = same is not None and _is_ours(same, session) and same.get("task") not in (None, item.task)
    return f"{item.name}-{item.task}" if taken else item.name


def _is_ours(record: dict[str, Any], session: str) -> bool:
    return bool(record.get(LISTED_BY, session) == session)


def _put_item(steps: Steps, path: str, item: ListItem, order: int | None, session: str) -> None:
    """Make a step what its entry says, unless a person decides it: an agent's list cannot."""
    if steps.is_approval(path):
        return
    old, status = steps.get(path), item.status
    # An entry may be a rewrite of another session's, or not have changed since.
    said = (old.get("entry") if _is_ours(old, session) else "pending") if old is not None else None
    if old is not None and said == status:
        record = {**old, "entry": status}
    else:
        record = {**(old or {"by": "list"})}
        if record.get("status") != status:
            record = _moved(record, status, steps.now)
        record["title"] = item.text
        record.pop("entry", None)
    record[LISTED_BY] = session
    if item.task is not None:
        record["task"] = item.task
    if order is not None:
        record["order"] = order
    if record != old:
        steps.move(path, record)


def _moved(record: dict[str, Any], status: str, now: str) -> dict[str, Any]:
    if status == "running":
        return start(record, now)
    if status == "completed":
        return complete(ensure_try(record, now), now)
    return skip(record, now) if status == "skipped" else put_back(record)
