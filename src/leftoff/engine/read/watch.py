"""Watching all runs of a store: what changed since the last look, told once each.

What was told is remembered beside the store, so that a supervisor that is called once in a while says nothing twice. A
change is one of health (alive, quiet, stalled, dead), of what a run waits for, or of its end.
"""

from __future__ import annotations

import json
import os

from leftoff.clock import iso
from leftoff.engine.read.info import list_info, run_info
from leftoff.engine.steps.approvals import expire_due, how, waiting
from leftoff.engine.write.commit import Seal, Terms
from leftoff.engine.write.report import report
from leftoff.errors import Invalid
from leftoff.model.fields import Fields
from leftoff.model.ids import shown_step
from leftoff.model.words import FINISHED, in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.engine.read.info import RunInfo
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

FILE = "supervise.json"
KEYS = ("command", "url", "every", "restart", "limit", "backoff")
_HEALTH = ("alive", "quiet", "stalled", "dead")
_SAYS = {
    "quiet": "has shown no sign of life for a while",
    "stalled": "has shown no sign of life for long",
    "dead": "is dead: the process that drove it is gone",
    "alive": "is alive again",
}


class Change(Fields):
    """Something that happened to a run, worth telling somebody."""

    event: str
    run: dict[str, Any]
    message: str
    at: int

    def to_json(self) -> dict[str, Any]:
        return {"event": self.event, "at": iso(self.at), "message": self.message, "run": self.run}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class Memory:
    """What was told of each run."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, FILE)
        self.runs: dict[str, dict[str, Any]] = {}
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
            if isinstance(found, dict) and all(isinstance(value, dict) for value in found.values()):
                self.runs = found
        except (OSError, ValueError):
            pass  # nothing was told yet; or it cannot be read, and is told again

    def of(self, run_id: str) -> dict[str, Any]:
        return self.runs.setdefault(run_id, {})

    def save(self) -> None:
        """Whole or not at all, and only for its owner."""
        fresh = f"{self.path}.{os.getpid()}"
        with open(fresh, "w", encoding="utf-8", opener=_private) as file:
            json.dump(self.runs, file)
        os.replace(fresh, self.path)

    def keep(self, there: set[str]) -> None:
        """Forget runs that are gone."""
        self.runs = {run_id: told for run_id, told in self.runs.items() if run_id in there}


def look(store: Store, memory: Memory, now: int, limits: tuple[int, int]) -> list[Change]:
    """What changed since the last look; the memory is up to date afterwards, and not yet saved."""
    if not store.exists():
        return []
    infos = [_expired(store, info, now, limits) for info in list_info(store, now, limits)]
    first = not memory.runs
    changes: list[Change] = []
    for info in infos:
        told = memory.of(info.run_id)
        known = {"status": info.status, "health": info.health, "waiting": _waiting(store, info)}
        if first and info.status in FINISHED:  # what ended before anybody watched is no news
            told.update(known)
            continue
        changes += _changes(info, told, known, now)
        told.update(known)
    memory.keep({info.run_id for info in infos})
    return changes


def _expired(store: Store, info: RunInfo, now: int, limits: tuple[int, int]) -> RunInfo:
    """A run that nobody looks after: what waited past its deadline is rejected. A live driver does that itself."""
    if info.status in FINISHED or not info.steps["waiting"] or info.health == "alive":
        return info
    asked = store.read(lambda view: waiting(store, view, info.row))
    if not any(one.due(now) for one in asked.values()):
        return info

    def find(view: View) -> RunRow:
        return view.run_row(info.row.run) or info.row

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        steps = expire_due(store, tx, row, changes, now)
        return Seal("approval", steps[0], "nobody decided in time") if steps else None

    report(store, find, make, Terms(now))
    return run_info(store, info.row.run, now, limits) or info


def _waiting(store: Store, info: RunInfo) -> list[str]:
    if info.status in FINISHED or not info.steps["waiting"]:
        return []

    def paths(view: View) -> list[str]:
        return view.leaves(info.row.run, "waiting", 50)

    return store.read(paths)


def _changes(info: RunInfo, told: dict[str, Any], known: dict[str, Any], now: int) -> Iterator[Change]:
    run = info.to_json()
    before, health = told.get("health"), known["health"]
    if (
        health in _HEALTH
        and health != before
        and not (health == "alive" and before in (None, "idle", "finished"))
    ):
        yield Change("health", run, f"{info.run_id} {_SAYS[health]}.", now)
    for step in known["waiting"]:
        if step not in (told.get("waiting") or ()):
            what = f"{info.run_id} is waiting for a person: {shown_step(step)} (`{how(info.run_id, step)}`)."
            yield Change("waiting", run, what, now)
    if known["status"] != told.get("status") and known["status"] in ("blocked", "failed", *FINISHED):
        event = "finished" if known["status"] in FINISHED else known["status"]
        yield Change(event, run, f"{info.run_id} {in_words(known['status'])}.", now)


class Settings:
    """`[supervise]` of leftoff.toml."""

    def __init__(self, section: dict[str, Any]) -> None:
        unknown = [key for key in section if key not in KEYS]
        if unknown:
            raise Invalid(
                f"[supervise] has no {unknown[0]!r}.", path=unknown[0], hint=f"It has: {', '.join(KEYS)}."
            )
        self.command = _text(section, "command")
        self.url = _text(section, "url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise Invalid(
                f"[supervise] url is not a URL: {self.url[:80]!r}.", path="url", hint="http://… or https://…"
            )
        self.every = _number(section, "every", 5.0)
        self.restart = section.get("restart", False)
        if not isinstance(self.restart, bool):
            raise Invalid("[supervise] restart must be true or false.", path="restart", hint="restart = true")
        self.limit = int(_number(section, "limit", 5))
        self.backoff = _number(section, "backoff", 30.0)


def _text(section: dict[str, Any], key: str) -> str | None:
    value = section.get(key)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"[supervise] {key} must be text.", path=key, hint=f'{key} = "…"')
    return value


def _number(section: dict[str, Any], key: str, default: float) -> float:
    value = section.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise Invalid(f"[supervise] {key} must be a number above 0.", path=key, hint=f"{key} = {default:g}")
    return float(value)


# -- restarts


def may_restart(told: dict[str, Any], info: RunInfo, settings: Settings, now: int) -> bool:
    """Whether a dead run may be tried again by now: not too often, unless it got further in between."""
    done = info.steps["completed"] + info.steps["skipped"]
    if done > told.get("done_at_restart", -1):
        told.update(restarts=0)
    if told.get("restarts", 0) >= settings.limit:
        return False
    return bool(now >= told.get("restart_after", 0))


def restarted(told: dict[str, Any], info: RunInfo, settings: Settings, now: int) -> None:
    """Remember a restart, and when the next one may be."""
    number = told.get("restarts", 0) + 1
    wait = min(settings.backoff * 2 ** (number - 1), 3600.0)
    done = info.steps["completed"] + info.steps["skipped"]
    told.update(restarts=number, restart_after=now + int(wait * 1000), done_at_restart=done)
