"""All runs of a store at once: which need a person and why, what each said last, and what changed since the last look.

An overview looks at all unfinished runs by their rows and leases alone. More is looked up only for the runs that are
shown. A supervisor remembers what it reported in a file next to the store, so that it reports each change once: of
health, of what a run waits for, or of its end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from leftoff.clock import iso
from leftoff.engine.approvals import ask_again, expire_due, how, is_rejected, waiting
from leftoff.engine.attempt_logs import LOG_FILE
from leftoff.engine.commit import Seal, Terms, report
from leftoff.engine.lease import state as lease_state
from leftoff.engine.run_info import RunInfo, info, list_info, run_info
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import SuperviseSettings
from leftoff.engine.show import timing
from leftoff.files import open_plain, write_private
from leftoff.host import GONE
from leftoff.model.changes import ChangeSet, counts_of
from leftoff.model.ids import shown_step
from leftoff.model.words import FINISHED, UNFINISHED, in_words
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow

# -- an overview

APPROVAL, BLOCKED, FAILED, DEAD = "approval", "blocked", "failed", "dead"
URGENT = (APPROVAL, BLOCKED, FAILED, DEAD)  # why a run needs a person, the most urgent first
_TIMED = 1000  # leaf steps of a run whose times are added up
_TAIL = 2000  # bytes of a log, for its last line
_SAID = 300  # characters
_LOOKED_AT = 20  # failed steps, for those that were rejected
_EVER = 1 << 62
_LAST_KEY = "\U0010ffff"


class Question(NamedTuple):
    """A step that waits for a decision."""

    step: str
    ask: str
    options: list[str]
    asked_at: str | None
    deadline: str | None


class Glance(NamedTuple):
    """A run as an overview shows it.

    ``why``: why it needs a person, or ``None``. ``failed``: the first step that failed or is blocked, and its error.
    ``rejected``: the first steps that a person or a deadline rejected; they can be asked again. ``said``: the last
    words of the agent or the process. ``times``: see ``timing``; empty if there are too many steps.
    """

    info: RunInfo
    why: str | None = None
    questions: list[Question] = []
    failed: tuple[str, str] | None = None
    rejected: list[str] = []
    said: str = ""
    times: dict[str, float | None] = {}


def needing(store: SqlStore, now: int, limits: tuple[int, int], most: int) -> list[Glance]:
    """Return the runs that need a person, the most urgent first."""

    def look(view: View) -> list[Glance]:
        found = [(row, why) for row, why in unfinished_runs(view, now, {}) if why is not None]
        found.sort(key=lambda each: URGENT.index(each[1]))
        return [glance(store, view, row, why, now, limits) for row, why in found[:most]]

    return store.read(look) if store.exists() else []


def wanted(seen: Glance) -> list[tuple[str, str]]:
    """Return what a run wants of a person, and the command for it. A program's run continues with the program."""
    run, run_id = seen.info, seen.info.run_id
    if seen.questions:
        return [
            (f"{shown_step(q.step)}: {q.ask}", how(run_id, q.step, options=q.options)) for q in seen.questions
        ]
    step = seen.failed[0] if seen.failed else run.current_step or run.next_step
    what = ": ".join(part for part in (shown_step(step or ""), seen.failed[1] if seen.failed else "") if part)
    if seen.why == APPROVAL and step is not None:
        return [(f"{what} is done by a person", how(run_id, step, "step done --run"))]
    if seen.rejected and seen.why == FAILED:
        return [(what, ask_again(run_id, seen.rejected[0]))]
    program = run.row.card.get("program")
    if program is not None and seen.why != BLOCKED:
        return [(what, f"Start the program {program} again: it continues the run.")]
    return [(what, f"leftoff {'unblock' if seen.why == BLOCKED else 'resume'} {run_id}")]


def need_of(row: RunRow, gone: bool) -> str | None:
    """Return why a run needs a person. ``gone``: its driver has died."""
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


def unfinished_runs(view: View, now: int, where: dict[str, Any]) -> list[tuple[RunRow, str | None]]:
    """Return every unfinished run, latest first, and why it needs a person."""
    rows = view.list_runs({**where, "status": UNFINISHED})
    gone = {run_id for run_id, lease in view.leases() if lease_state(lease, now) == GONE}
    return [(row, need_of(row, row.run_id in gone)) for row in rows]


def glance(
    store: SqlStore, view: View, row: RunRow, why: str | None, now: int, limits: tuple[int, int]
) -> Glance:
    """Return an unfinished run as an overview shows it."""
    reader, counts = Reader(store, view, row.run, row.run_id), counts_of(row.counts)
    questions, failed = [], None
    if why == APPROVAL:
        for step, asked in waiting(store, view, row).items():
            about = asked.approval
            questions.append(
                Question(step, asked.ask, asked.offered, about.get("asked_at"), about.get("deadline"))
            )
    path = view.leaf(row.run, why) if why in (BLOCKED, FAILED) else None
    if path is not None:
        error = reader.record("step", path).get("error")
        told = error.get("message") or error.get("type") if isinstance(error, dict) else error
        failed = path, str(told or "")
    some = view.leaves(row.run, "failed", _LOOKED_AT) if counts["failed"] else []
    rejected = [path for path in some if is_rejected(reader.record("step", path))]
    times = timing(store, row, now) if sum(counts.values()) <= _TIMED else {}
    shown = info(view, row, now, limits)
    return Glance(shown, why, questions, failed, rejected, _last_words(store, reader), times)


def _last_words(store: SqlStore, reader: Reader) -> str:
    """Return the last words: by the agent in its last turn, in the newest note, or in the log of what runs."""
    for collection, keys in (("turn", ("said", "prompt")), ("note", ("text",))):
        record = reader.record(collection, reader.view.last_key(reader.run, collection, "", _LAST_KEY))
        if said := next((str(record[key]) for key in keys if record.get(key)), ""):
            return said[:_SAID]
    attempts = reader.view.latest_attempts(reader.run, 0, _EVER, 1)
    if not attempts or not attempts[0].log:
        return ""
    try:
        path = os.path.join(store.folder, attempts[0].log, LOG_FILE)
        with open(open_plain(path, os.O_NOFOLLOW), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:_SAID] for line in reversed(lines) if line.strip()), "")


# -- what changed

MEMORY_FILE = "supervise.json"
_NEWEST = 1000  # runs that are looked at although they may be finished: what ended since the last look is among them
_SAYS = {
    "quiet": "has shown no sign of life for a while",
    "stalled": "has shown no sign of life for long",
    "dead": "was interrupted: its driver died",
    "alive": "is alive again",
}


class RunChange(NamedTuple):
    """Something that happened to a run and that a supervisor reports."""

    event: str
    run: dict[str, Any]
    message: str
    at: int

    def to_json(self) -> dict[str, Any]:
        return {"event": self.event, "at": iso(self.at), "message": self.message, "run": self.run}


class Memory:
    """What was reported of each run."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, MEMORY_FILE)
        self.runs: dict[str, dict[str, Any]] = {}
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
            if isinstance(found, dict) and all(isinstance(value, dict) for value in found.values()):
                self.runs = found
        except (OSError, ValueError):
            pass  # nothing was reported yet, or the file is unreadable and all is reported again

    def of(self, run_id: str) -> dict[str, Any]:
        return self.runs.setdefault(run_id, {})

    def save(self) -> None:
        write_private(self.path, [json.dumps(self.runs).encode()], durable=False)


def look_for_changes(store: SqlStore, memory: Memory, now: int, limits: tuple[int, int]) -> list[RunChange]:
    """Return what changed since the last look. Update the memory without saving it."""
    if not store.exists():
        return []
    parts: tuple[dict[str, Any], ...] = ({"limit": _NEWEST}, {"status": UNFINISHED})
    found = {each.run_id: each for part in parts for each in list_info(store, now, limits, **part)}
    infos = [_expired(store, each, now, limits) for each in found.values()]
    first = not memory.runs
    changes: list[RunChange] = []
    for each in infos:
        told = memory.of(each.run_id)
        asked = _waiting_steps(store, each)
        known = {"status": each.status, "health": each.health, "waiting": [*asked]}
        if not (first and each.status in FINISHED):  # what ended before the first look is not news
            changes += _changes(each, told, known, asked, now)
        told.update(known)
    there = {each.run_id for each in infos}
    memory.runs = {run_id: told for run_id, told in memory.runs.items() if run_id in there}
    return changes


def _expired(store: SqlStore, known: RunInfo, now: int, limits: tuple[int, int]) -> RunInfo:
    """Reject what waited past its deadline in a run without a live driver, which would do it itself."""
    if known.status in FINISHED or not known.steps["waiting"] or known.health == "alive":
        return known
    asked = store.read(lambda view: waiting(store, view, known.row))
    if not any(one.due(now) for one in asked.values()):
        return known

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        steps = expire_due(store, tx, row, changes, now)
        return Seal("approval", steps[0], "nobody decided in time") if steps else None

    report(store, lambda view: view.run_row(known.row.run) or known.row, make, Terms(now))
    return run_info(store, known.row.run, now, limits) or known


def _waiting_steps(store: SqlStore, known: RunInfo) -> dict[str, list[str]]:
    """Return the steps that wait for a person, and the options of each question."""
    if known.status in FINISHED or not known.steps["waiting"]:
        return {}

    def look(view: View) -> dict[str, list[str]]:
        asked = waiting(store, view, known.row)
        steps = view.leaves(known.row.run, "waiting", 50)
        return {step: asked[step].options if step in asked else [] for step in steps}

    return store.read(look)


def _changes(
    about: RunInfo, told: dict[str, Any], known: dict[str, Any], asked: dict[str, list[str]], now: int
) -> Iterator[RunChange]:
    run = about.to_json()
    before, health = told.get("health"), known["health"]
    begins = health == "alive" and before in (None, "idle", "finished")
    if health in _SAYS and health != before and not begins:
        yield RunChange("health", run, f"{about.run_id} {_SAYS[health]}.", now)
    for step in known["waiting"]:
        if step not in (told.get("waiting") or ()):
            command = how(about.run_id, step, options=asked[step])
            what = f"{about.run_id} is waiting for a person: {shown_step(step)} (`{command}`)."
            yield RunChange("waiting", run, what, now)
    if known["status"] != told.get("status") and known["status"] in ("blocked", "failed", *FINISHED):
        event = "finished" if known["status"] in FINISHED else known["status"]
        yield RunChange(event, run, f"{about.run_id} {in_words(known['status'])}.", now)


def may_restart(told: dict[str, Any], known: RunInfo, settings: SuperviseSettings, now: int) -> bool:
    """Return whether a dead run may be resumed again now: not too often, unless it got further since."""
    done = known.steps["completed"] + known.steps["skipped"]
    if done > told.get("done_at_restart", -1):
        told.update(restarts=0)
    if told.get("restarts", 0) >= settings.max_restarts:
        return False
    return bool(now >= told.get("restart_after", 0))


def remember_restart(told: dict[str, Any], known: RunInfo, settings: SuperviseSettings, now: int) -> None:
    """Remember a restart, and when the next one may be."""
    number = told.get("restarts", 0) + 1
    wait = min(settings.backoff * 2 ** (number - 1), 3600.0)
    done = known.steps["completed"] + known.steps["skipped"]
    told.update(restarts=number, restart_after=now + int(wait * 1000), done_at_restart=done)
