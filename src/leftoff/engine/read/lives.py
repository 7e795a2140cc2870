"""When what of a run was done: each life of it, each attempt at a step, each wait for a person.

A life is what one driver did between taking the run and losing it: the commits of one epoch. Attempts of commands have
rows of their own; what Python code or an agent did is told by its step's record, and where it failed before, by the
checkpoints that say so.
"""

from __future__ import annotations

from leftoff.clock import millis
from leftoff.engine.read.state import Reader
from leftoff.engine.read.step_page import StepsWanted, step_page
from leftoff.host import ALIVE
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.store.base import Store, View
    from leftoff.store.rows import Attempt

_EVER = 1 << 62
_LOOKED_AT = 500  # checkpoints, for what failed before
COMPLETED, FAILED, RUNNING, CUT_OFF, WAITING = "completed", "failed", "running", "cut off", "waiting"


class Life(Fields):
    """The commits under one epoch: how many, and when the first and the last were made."""

    epoch: int
    began: int
    ended: int
    commits: int


class Tried(Fields):
    """One attempt at a step, or one wait: from when to when (``None``: it goes on), and what became of it."""

    step: str
    number: int
    began: int
    ended: int | None
    became: str


class Lives(Fields):
    """The lives of a run, and what was tried in them (or in the one that was asked for), oldest first. ``cut``: whether
    there was more, which is older."""

    lives: list[Life]
    tried: list[Tried]
    cut: bool


def lives(store: Store, target: Target, epoch: int | None, most: int) -> Lives:
    """``epoch``: only this life. ``most``: of the last so many attempts."""
    return store.read(lambda view: _lives(store, view, target, epoch, most))


def _lives(store: Store, view: View, target: Target, epoch: int | None, most: int) -> Lives:
    run = target.row.run
    found = [Life(*columns) for columns in view.lives(run)]
    since, until = _window(found, epoch)
    attempts = view.latest_attempts(run, since, until, most)
    tried = [_of_attempt(each) for each in attempts]
    reader = Reader(store, view, run, target.row.run_id)
    told = {each.step for each in tried}
    others = [
        each
        for each in [
            *_approvals(reader),
            *_of_records(store, target, told, most),
            *_failures(view, run, told),
        ]
        if since <= each.began < until
    ]
    tried = sorted([*tried, *others], key=lambda each: (each.began, each.step, each.number))
    return Lives(found, tried[-most:], len(attempts) == most or len(tried) > most)


def _window(found: list[Life], epoch: int | None) -> tuple[int, int]:
    """From when to when a life lasted: until the next one began."""
    for number, life in enumerate(found):
        if life.epoch == epoch:
            return life.began, found[number + 1].began if number + 1 < len(found) else _EVER
    return 0, _EVER


def _of_attempt(attempt: Attempt) -> Tried:
    if attempt.ended_at is not None:
        became = COMPLETED if attempt.exit_code == 0 else FAILED if attempt.exit_code is not None else CUT_OFF
    else:
        lives = attempt.process is not None and attempt.process.state() == ALIVE
        became = RUNNING if lives else CUT_OFF
    return Tried(attempt.step, attempt.number, attempt.started_at, attempt.ended_at, became)


def _approvals(reader: Reader) -> list[Tried]:
    """What waited for a person, and waits."""
    out = []
    for step, about in reader.plain("approval").items():
        began = millis(about.get("asked_at")) if isinstance(about, dict) else None
        if began is not None:
            out.append(Tried(step, 1, began, millis(about.get("decided_at")), WAITING))
    return out


def _of_records(store: Store, target: Target, told: set[str], most: int) -> list[Tried]:
    """What the records of steps say that have no attempts of their own."""
    begun = StepsWanted(status=("running", "completed", "failed", "blocked"), limit=most)
    out = []
    for record in step_page(store, target, begun).steps:
        began = millis(record.get("started_at"))
        if began is None or record["step"] in told or record.get("kind") == "approval":
            continue
        ended, status = millis(record.get("completed_at")), record.get("status")
        became = status if status in (COMPLETED, FAILED, RUNNING) else CUT_OFF
        number = record.get("attempt")
        out.append(Tried(record["step"], number if isinstance(number, int) else 1, began, ended, became))
    return out


def _failures(view: View, run: int, told: set[str]) -> list[Tried]:
    """When a step without attempts of its own failed before: a moment, as nobody knows when that try began."""
    versions = view.versions(run, sealed=True, limit=_LOOKED_AT)
    failed: dict[str, Any] = {}
    for version in reversed(versions):
        if version.trigger == "error" and version.step and version.step not in told:
            failed.setdefault(version.step, []).append(version.at)
    return [
        Tried(step, number, at, at, FAILED)
        for step, moments in failed.items()
        for number, at in enumerate(moments[:-1], 1)
    ]
