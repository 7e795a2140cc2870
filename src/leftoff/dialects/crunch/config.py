"""crunch's `.claude/checkpoint-config.yaml`: what is sealed, what is kept, where the files go."""

from __future__ import annotations

import os

from leftoff.dialects.core.reading import read_bytes, read_document
from leftoff.dialects.core.repairs import Repairs
from leftoff.engine.retention.policy import ALL, DEFAULT, Keep, Policy
from leftoff.errors import Invalid
from leftoff.model.words import ROLLBACK_BEGIN, TRIGGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = ".claude/checkpoint-config.yaml"
LOCATION = ".claude/crunch/{issue}/checkpoints"

#: the protocol's table; what it leaves open (`conflict_start`, `session_end`, `batch_start`) is decided beside it
TABLE = {
    "phase_transition": Keep(ALL),
    "batch_complete": Keep(3, per_phase=True),
    "agent_complete": Keep(1, per_phase=True),
    "conflict_resolved": Keep(ALL),
    "user_interrupt": Keep(1),
    "manual": Keep(ALL),
    "conflict_start": Keep(ALL),
    "session_end": Keep(1),
    "batch_start": Keep(3, per_phase=True),
}
#: which of our triggers a switch of `checkpoint_triggers` is about
SWITCHES = {
    "phase_transition": ("phase_transition",),
    "batch_complete": ("batch_complete",),
    "agent_complete": ("agent_complete",),
    "conflict_events": ("conflict_start", "conflict_resolved"),
}
#: triggers that somebody asked for: they are sealed whatever is switched off
ASKED = ("manual", "user_interrupt", "session_end", "rollback", ROLLBACK_BEGIN, "external")

EXAMPLE: dict[str, Any] = {
    "checkpoint": {
        "enabled": True,
        "auto_checkpoint": True,
        "checkpoint_triggers": {
            "phase_transition": True,
            "batch_complete": True,
            "agent_complete": False,
            "conflict_events": True,
        },
        "retention": {
            "phase_transition": -1,
            "batch_complete": 3,
            "agent_complete": 1,
            "conflict_resolved": -1,
            "user_interrupt": 1,
            "manual": -1,
        },
        "storage": {"location": LOCATION, "compress": False, "max_size_mb": 50},
    }
}


class Config:
    """What the file says, and the protocol's own values for the rest."""

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        section = _mapping(document or {}, "checkpoint")
        storage = _mapping(section, "storage")
        self.enabled = _flag(section, "enabled", True)
        self.auto = _flag(section, "auto_checkpoint", True)
        self.switches = _mapping(section, "checkpoint_triggers")
        self.counts = _mapping(section, "retention")
        self.location = _location(storage.get("location", LOCATION))
        self.compress = _flag(storage, "compress", False)
        self.max_bytes = _megabytes(storage.get("max_size_mb"))
        self.unknown = [
            *_unknown(document or {}, EXAMPLE),
            *_unknown(self.counts, dict.fromkeys(TRIGGERS), "retention"),
        ]

    def seals(self, trigger: str) -> bool:
        """Whether a checkpoint of this trigger is sealed; what is not is committed all the same."""
        if trigger in ASKED:
            return True
        if not (self.enabled and self.auto):
            return False
        for switch, triggers in SWITCHES.items():
            if trigger in triggers:
                return _flag(self.switches, switch, True)
        return True

    def policy(self) -> Policy:
        keep = {**DEFAULT.keep, **TABLE}
        for trigger, count in self.counts.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < ALL:
                raise _wrong(f"retention.{trigger} must be a number, -1 for all, not {count!r}")
            old = keep.get(trigger)
            keep[trigger] = Keep(count, per_phase=old is not None and old.per_phase)
        return Policy(keep=keep, runs=DEFAULT.runs, max_bytes=self.max_bytes)


def _unknown(document: dict[str, Any], known: dict[str, Any], where: str = "") -> list[str]:
    """Keys that nobody reads, such as mistyped ones."""
    out = []
    for key, value in document.items():
        if key not in known:
            from difflib import get_close_matches

            like = get_close_matches(str(key), known, 1)
            out.append(
                f"{where}{'.' if where else ''}{key}" + (f" (did you mean {like[0]}?)" if like else "")
            )
        elif isinstance(known[key], dict) and isinstance(value, dict) and key != "retention":
            out += _unknown(value, known[key], key)
    return out


def load(project: str) -> Config:
    """The project's configuration; the protocol's own values where there is no file. Read again once it changed."""
    path = os.path.join(project, FILE)
    try:
        info = os.stat(path)
    except OSError:
        return Config()
    known = (info.st_ino, info.st_size, info.st_mtime_ns)
    if path not in _loaded or _loaded[path][0] != known:
        try:
            _loaded[path] = known, Config(read_document(read_bytes(path), path, Repairs()))
        except Invalid as error:
            raise Invalid(error.message, hint=f"Correct {FILE}, or remove it.") from None
    return _loaded[path][1]


_loaded: dict[str, tuple[tuple[int, int, int], Config]] = {}


def _wrong(what: str) -> Invalid:
    return Invalid(
        f"{FILE}: {what}.", hint="Correct it, or remove the file: then the protocol's own values count."
    )


def _mapping(document: dict[str, Any], key: str) -> dict[str, Any]:
    found = document.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _wrong(f"{key} must have keys, not be {found!r}")
    return found


def _flag(document: dict[str, Any], key: str, default: bool) -> bool:
    found = document.get(key, default)
    if not isinstance(found, bool):
        raise _wrong(f"{key} must be true or false, not {found!r}")
    return found


def _megabytes(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        raise _wrong(f"max_size_mb must be a number, not {value!r}")
    return int(value * 10**6)


def _location(value: Any) -> str:
    """A folder inside the project, one per issue."""
    parts = value.split("/") if isinstance(value, str) else []
    if not parts or ".." in parts or value.startswith("/") or "{issue}" not in value or "\0" in value:
        raise _wrong(
            f"storage.location must be a folder inside the project with {{issue}} in it, not {value!r}"
        )
    return os.path.normpath(str(value))
