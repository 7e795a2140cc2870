"""What is kept, and for how long: rules as data, and what follows from them for the runs that are here.

Checkpoints are kept by trigger and count (-1: all), per phase if a rule says so; finished runs by status and age;
archives by number. Whatever a rule says, a run in progress stays, and so does the newest checkpoint of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from leftoff.clock import DAY_MS
from leftoff.engine.settings import BYTE_UNITS, SECOND_UNITS, amount
from leftoff.errors import Invalid
from leftoff.model.changes import Version
from leftoff.model.words import RUN_STATUS, TRIGGERS
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import RunRow

ALL = -1
ARCHIVE, REMOVE = "archive", "remove"
IN_PROGRESS = ("running", "paused", "blocked")
_KEYS = ("auto", "keep", "archives", "max_size", "trash", "logs")
TRASH_MS = 30 * DAY_MS


class Keep:
    """How many checkpoints of a trigger are kept: of the run, or of each of its phases."""

    def __init__(self, count: int, per_phase: bool = False) -> None:
        self.count = count
        self.per_phase = per_phase

    def __str__(self) -> str:
        if self.count == ALL:
            return "all"
        return f"the last {self.count}" + (" per phase" if self.per_phase else "")


class Policy(NamedTuple):
    """The rules of a project. ``runs``: by status, after how many milliseconds, and what then. ``trash``: how long what
    was removed can be brought back (``None``: until the user empties the trash). ``logs``: how long logs of finished
    runs are stored (``None``: as long as the run)."""

    keep: Mapping[str, Keep] = {}
    runs: Mapping[str, tuple[int, str]] = {}
    archives: int | None = None
    max_bytes: int | None = None
    auto: bool = False
    trash: int | None = TRASH_MS
    logs: int | None = None  # logs have no trash, and a clock may be wrong


def kept_for(completed: int, failed: int) -> Policy:
    """Archive completed runs after so many days, remove failed and abandoned ones; keep checkpoints as by default."""
    runs = {"completed": (completed * DAY_MS, ARCHIVE)}
    runs |= {status: (failed * DAY_MS, REMOVE) for status in ("failed", "abandoned")}
    return Policy(keep=DEFAULT.keep, runs=runs)


#: without a protocol, or if a protocol says nothing: milestones stay, what comes by the hundred is thinned out
DEFAULT = Policy(
    keep={
        "step_complete": Keep(100),
        "batch_start": Keep(20),
        "batch_complete": Keep(50),
        "agent_start": Keep(20),
        "agent_complete": Keep(50),
        "user_interrupt": Keep(10),
        "session_end": Keep(10),
        "error": Keep(20),
        "external": Keep(20),
    },
    runs={"completed": (90 * DAY_MS, REMOVE), "abandoned": (90 * DAY_MS, REMOVE)},
)


# -- as leftoff.toml says it


def policy(section: dict[str, Any], base: Policy = DEFAULT, *, auto: bool = False) -> Policy:
    """Return the rules that `[retention]` gives, over those of the protocol or the default."""
    keep, runs = dict(base.keep), dict(base.runs)
    for key in section:
        if key not in (*_KEYS, *RUN_STATUS):
            raise _wrong(key, f"has no key {key!r}", f"Keys: {', '.join((*_KEYS, *RUN_STATUS))}.")
    table = section.get("keep", {})
    if not isinstance(table, dict):
        raise _wrong(
            "keep", f"keep must be a table, not {table!r}", "For example: keep = {step_complete = 20}"
        )
    for trigger, count in table.items():
        name, old = f"keep.{trigger}", keep.get(trigger)
        if trigger not in TRIGGERS:
            known = f"Triggers: {', '.join(TRIGGERS)}."
            raise _wrong(name, f"keep: there is no trigger {trigger!r}", known)
        keep[trigger] = Keep(_count(count, name), per_phase=old is not None and old.per_phase)
    for status in RUN_STATUS:
        if status in section:
            action = runs.pop(status, (0, REMOVE))[1]
            age = _age(section[status], status)
            if age is not None:
                runs[status] = (age, action)
    is_auto = section.get("auto", auto)
    if not isinstance(is_auto, bool):
        raise _wrong("auto", f"auto must be true or false, not {is_auto!r}", "Without quotes: auto = true")
    archives = _count(section["archives"], "archives") if "archives" in section else base.archives
    size = int(amount(section["max_size"], BYTE_UNITS)) if "max_size" in section else base.max_bytes
    if size is not None and size < 0:
        told = f"max_size must be a size, not {section['max_size']!r}"
        raise _wrong("max_size", told, 'For example: "500 MB".')
    trash = _age(section["trash"], "trash") if "trash" in section else base.trash
    logs = _age(section["logs"], "logs") if "logs" in section else base.logs
    return Policy(keep, runs, archives, size, is_auto, trash, logs)


def _wrong(key: str, what: str, hint: str) -> Invalid:
    return Invalid(f"[retention] {what}.", path=key, hint=hint)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < ALL:
        raise _wrong(name, f"{name} must be a number, not {value!r}", "-1 keeps all.")
    return value


def _age(value: Any, name: str) -> int | None:
    if value in ("never", -1):
        return None
    age = age_ms(value)
    if age is None:
        raise _wrong(name, f"{name} must be an age, not {value!r}", 'For example: "7d", "12h", or "never".')
    return age


def age_ms(value: Any) -> int | None:
    """Return the milliseconds that an age such as "7d" stands for; ``None`` if it is not an age."""
    seconds = amount(value, SECOND_UNITS) if str(value).strip()[-1:].isalpha() else -1
    return int(seconds * 1000) if seconds >= 0 else None


# -- what follows


class Removal(NamedTuple):
    """One thing that the rules let go, and why: a run, or a checkpoint of it."""

    row: RunRow
    why: str
    action: str = REMOVE
    version: Version | None = None

    def to_json(self) -> dict[str, Any]:
        about = {"run_id": self.row.run_id, "why": self.why, "action": self.action}
        if self.version is None:
            return {"kind": "run", **about}
        named = {"seq": self.version.seq, "checkpoint_id": self.version.id}
        return {"kind": "checkpoint", **about, **named}


def plan(
    store: SqlStore, rules: Policy, now: int, phase_of: Callable[[Version], str]
) -> tuple[list[Removal], int]:
    """Return what the rules let go of the runs in the store, and how many checkpoints stay. Nothing is changed."""

    def look(view: View) -> tuple[list[Removal], int]:
        removals, kept = list[Removal](), 0
        for row in view.list_runs({}):
            gone = outlived(row, rules, now)
            if gone is not None:
                removals.append(gone)
                continue
            versions = view.versions(row.run, sealed=True)
            gone_too = dropped(row, versions, rules, phase_of)
            removals += gone_too
            kept += len(versions) - len(gone_too)
        return removals, kept

    return store.read(look) if store.exists() else ([], 0)


def outlived(row: RunRow, rules: Policy, now: int) -> Removal | None:
    """Return the removal of a run that is finished, and old enough."""
    rule = rules.runs.get(row.status)
    if rule is None or row.status in IN_PROGRESS or now - row.updated_at <= rule[0]:
        return None
    days = rule[0] // DAY_MS
    return Removal(row, f"{row.status} for more than {days} days", rule[1])


def dropped(
    row: RunRow, versions: list[Version], rules: Policy, phase_of: Callable[[Version], str]
) -> list[Removal]:
    """Return the checkpoints of a run (newest first) that the rules no longer keep."""
    seen: dict[tuple[str, str], int] = {}
    out = []
    for number, version in enumerate(versions):
        rule = rules.keep.get(version.trigger or "")
        if rule is None or rule.count == ALL:
            continue
        group = (version.trigger or "", phase_of(version) if rule.per_phase else "")
        seen[group] = seen.get(group, 0) + 1
        if seen[group] > rule.count and number > 0 and version.seq < row.seq:
            out.append(Removal(row, f"{version.trigger}: {rule} are kept", version=version))
    return out


def phase(version: Version) -> str:
    """Return the phase that a checkpoint belongs to: the top of its step's path."""
    return (version.step or "").partition("/")[0]
