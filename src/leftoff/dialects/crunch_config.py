"""Crunch's `.claude/checkpoint-config.yaml`: what is sealed, what is kept, and where the files go."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Any

from leftoff.dialects.document_text import read_bytes, read_document
from leftoff.dialects.draft import is_int
from leftoff.dialects.loose_values import Repairs
from leftoff.engine.retention.policy import ALL, DEFAULT, Keep, Policy
from leftoff.errors import Invalid
from leftoff.model.words import ROLLBACK_BEGIN, TRIGGERS

FILE = ".claude/checkpoint-config.yaml"
LOCATION = ".claude/crunch/{issue}/checkpoints"
#: the protocol's table, and our decision for the triggers that it leaves open (the last three)
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
#: the triggers that each switch of `checkpoint_triggers` is about
SWITCHES = {
    "phase_transition": ("phase_transition",),
    "batch_complete": ("batch_complete",),
    "agent_complete": ("agent_complete",),
    "conflict_events": ("conflict_start", "conflict_resolved"),
}
#: triggers that somebody asked for: sealed whatever is switched off
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
    """The settings of the file, with the protocol's own values for the rest."""

    def __init__(self, document: dict[str, Any] | None = None) -> None:
        section = _mapping(document or {}, "checkpoint")
        storage = _mapping(section, "storage")
        self.enabled = _flag(section, "enabled", True)
        self.auto = _flag(section, "auto_checkpoint", True)
        self.switches = _mapping(section, "checkpoint_triggers")
        self.counts = _mapping(section, "retention")
        self.compress = _flag(storage, "compress", False)
        self.location = storage.get("location", LOCATION)
        parts = self.location.split("/") if isinstance(self.location, str) else [""]
        if parts[0] == "" or ".." in parts or "{issue}" not in self.location or "\0" in self.location:
            what = "storage.location must be a folder inside the project with {issue} in it"
            raise _wrong(f"{what}, not {self.location!r}")
        self.location = os.path.normpath(self.location)
        size = storage.get("max_size_mb")
        if size is not None and (not isinstance(size, (int, float)) or isinstance(size, bool) or size <= 0):
            raise _wrong(f"max_size_mb must be a number, not {size!r}")
        self.max_bytes = int(size * 10**6) if size is not None else None
        self.unknown = [
            *_unknown(document or {}, EXAMPLE),
            *_unknown(self.counts, dict.fromkeys(TRIGGERS), "retention"),
        ]

    def seals(self, trigger: str) -> bool:
        """Return whether a checkpoint of this trigger is sealed. Others are only committed."""
        if trigger in ASKED:
            return True
        switch = next((name for name, triggers in SWITCHES.items() if trigger in triggers), None)
        on = switch is None or _flag(self.switches, switch, True)
        return self.enabled and self.auto and on

    def policy(self) -> Policy:
        keep = {**DEFAULT.keep, **TABLE}
        for trigger, count in self.counts.items():
            if not is_int(count) or count < ALL:
                raise _wrong(f"retention.{trigger} must be a number, -1 for all, not {count!r}")
            old = keep.get(trigger)
            keep[trigger] = Keep(count, per_phase=old is not None and old.per_phase)
        return Policy(keep=keep, runs=DEFAULT.runs, max_bytes=self.max_bytes)


_loaded: dict[str, tuple[tuple[int, int, int], Config]] = {}


def load_config(project: str) -> Config:
    """Return the project's configuration. It is read again when the file changed."""
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


def _unknown(document: dict[str, Any], known: dict[str, Any], where: str = "") -> list[str]:
    """Return the names of unknown settings, such as mistyped ones."""
    out = []
    for key, value in document.items():
        if key not in known:
            like = get_close_matches(str(key), known, 1)
            name = f"{where}.{key}" if where else str(key)
            out.append(name + (f" (did you mean {like[0]}?)" if like else ""))
        elif isinstance(known[key], dict) and isinstance(value, dict) and key != "retention":
            out += _unknown(value, known[key], key)
    return out


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
