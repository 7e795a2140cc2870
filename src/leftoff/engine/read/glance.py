"""Runs at a glance: which of them need a person and why, which are at work, and what each said last.

All unfinished runs are looked at, by their rows and leases alone; what costs more is asked for those that are shown.
"""

from __future__ import annotations

import os

from leftoff.engine.read.info import info
from leftoff.engine.read.logs import FILE
from leftoff.engine.read.state import Reader
from leftoff.engine.read.timing import timing
from leftoff.engine.steps.approvals import is_rejected, waiting
from leftoff.engine.write.lease import state as lease_state
from leftoff.files import open_below
from leftoff.host import GONE
from leftoff.model.fields import Fields
from leftoff.model.versions import counts_of
from leftoff.model.words import UNFINISHED
from leftoff.store.rows import ATTEMPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.read.info import RunInfo
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

APPROVAL, BLOCKED, FAILED, DEAD = "approval", "blocked", "failed", "dead"
URGENT = (APPROVAL, BLOCKED, FAILED, DEAD)  # what a person is needed for, what only they can do first
_TIMED = 1000  # leaf steps of a run whose times are added up
_TAIL = 2000  # bytes of a log, for its last line
_SAID = 300  # characters
_LOOKED_AT = 20  # failed steps, for those that were rejected
_EVER = 1 << 62
_LAST_KEY = "\U0010ffff"


class Question(Fields):
    """A step that waits for a decision."""

    step: str
    ask: str
    options: list[str]
    asked_at: str | None
    deadline: str | None


class Glance(Fields):
    """A run as an overview shows it. ``why``: what it needs a person for, or ``None``. ``failed``: the first step that
    failed or is blocked, and what is said of that. ``rejected``: the first steps that a person, or a deadline, said no
    to: they can be asked again. ``said``: the last words of whoever works on it. ``times``: see
    ``timing``; empty where there are too many steps."""

    info: RunInfo
    why: str | None = None
    questions: list[Question] = []
    failed: tuple[str, str] | None = None
    rejected: list[str] = []
    said: str = ""
    times: dict[str, float | None] = {}


def need_of(row: RunRow, gone: bool) -> str | None:
    """What a run needs a person for, by its row; ``gone``: whoever drove it is."""
    counts = counts_of(row.counts)
    if row.status not in UNFINISHED:
        return None
    if counts["waiting"]:
        return APPROVAL
    if row.status == "blocked" or counts["blocked"]:
        return BLOCKED
    if row.status == "failed":
        return FAILED
    return DEAD if gone and row.status == "running" else None


def unfinished(view: View, now: int, where: dict[str, Any]) -> list[tuple[RunRow, str | None]]:
    """Every unfinished run, latest first, and what it needs a person for."""
    rows = view.list_runs({**where, "status": UNFINISHED})
    gone = {run_id for run_id, lease in view.leases() if lease_state(lease, now) == GONE}
    return [(row, need_of(row, row.run_id in gone)) for row in rows]


def glance(
    store: Store, view: View, row: RunRow, why: str | None, now: int, limits: tuple[int, int]
) -> Glance:
    """What is shown of an unfinished run."""
    reader = Reader(store, view, row.run, row.run_id)
    asked = waiting(store, view, row) if why == APPROVAL else {}
    questions = [
        Question(
            step,
            about.ask,
            about.offered,
            about.approval.get("asked_at"),
            about.approval.get("deadline"),
        )
        for step, about in asked.items()
    ]
    total = sum(counts_of(row.counts).values())
    return Glance(
        info(view, row, now, limits),
        why,
        questions,
        _failure(reader, row, why),
        _rejected(reader) if counts_of(row.counts)["failed"] else [],
        last_words(store, reader),
        timing(store, row, now) if total <= _TIMED else {},
    )


def _failure(reader: Reader, row: RunRow, why: str | None) -> tuple[str, str] | None:
    """The first step that failed or is blocked, and what its record says of that."""
    path = reader.view.leaf(row.run, why) if why in (BLOCKED, FAILED) else None
    found = reader.value("step", path) if path is not None else None
    if path is None or found is None:
        return None
    error = found.plain.get("error")
    told = error.get("message") or error.get("type") if isinstance(error, dict) else error
    return path, str(told or "")


def _rejected(reader: Reader) -> list[str]:
    """Of the first steps that failed those that were rejected."""
    failed = {
        path: reader.value("step", path) for path in reader.view.leaves(reader.run, "failed", _LOOKED_AT)
    }
    return [path for path, found in failed.items() if found is not None and is_rejected(found.plain)]


def last_words(store: Store, reader: Reader) -> str:
    """What was said last in a run: by the agent in its last turn, in the newest note, or in the log of what runs."""
    for collection, keys in (("turn", ("said", "prompt")), ("note", ("text",))):
        key = reader.view.last_key(reader.run, collection, "", _LAST_KEY)
        found = reader.value(collection, key) if key is not None else None
        plain = found.plain if found is not None else None
        said = next((str(plain[k]) for k in keys if plain.get(k)), "") if isinstance(plain, dict) else ""
        if said:
            return said[:_SAID]
    attempts = reader.view.latest_attempts(reader.run, 0, _EVER, 1)
    return (
        _last_line(os.path.join(store.folder, attempts[0].log, FILE)) if attempts and attempts[0].log else ""
    )


def _last_line(path: str) -> str:
    try:
        with open(open_below(path, ATTEMPTS), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:_SAID] for line in reversed(lines) if line.strip()), "")
