"""Crunch's `.claude/checkpoint-config.yaml`: what is sealed, what is kept, and where the files go."""

from __future__ import annotations

import os
from typing import Any

from leftoff.engine.retention_policy import ALL, DEFAULT, Keep, Policy
from leftoff.errors import Invalid
from leftoff.model.words import ROLLBACK_BEGIN
from leftoff.protocols.document_draft import is_int
from leftoff.protocols.document_text import read_bytes, read_document
from leftoff.protocols.loose_values import Repairs

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
#: the switch of `checkpoint_triggers` that a trigger has
SWITCHES = {
    "phase_transition": "phase_transition",
    "batch_complete": "batch_complete",
    "agent_complete": "agent_complete",
    "conflict_start": "conflict_events",
    "conflict_resolved": "conflict_events",
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
        "retention": {trigger: keep.count for trigger, keep in list(TABLE.items())[:6]},
        "storage": {"location": LOCATION, "compress": False, "max_size_mb": 50},
    }
}


class Config:
    """The settings of the file, with the protocol's own values for the rest."""

    def __init__(self, document: dict[str, Any]) -> None:
        section = _setting(document, "checkpoint", {})
        storage = _setting(section, "storage", {})
        self.enabled = _setting(section, "enabled", True)
        self.auto = _setting(section, "auto_checkpoint", True)
        switches = _setting(section, "checkpoint_triggers", {})
        self.off = {name for name in switches if not _setting(switches, name, True)}
        self.compress = _setting(storage, "compress", False)
        location = _setting(storage, "location", LOCATION)
        parts = location.split("/")
        if parts[0] == "" or ".." in parts or "{issue}" not in location or "\0" in location:
            what = "storage.location must be a folder inside the project with {issue} in it"
            raise _wrong(f"{what}, not {location!r}")
        self.location = os.path.normpath(location)
        size, keep = storage.get("max_size_mb"), {**DEFAULT.keep, **TABLE}
        if size is not None and (not isinstance(size, (int, float)) or isinstance(size, bool) or size <= 0):
            raise _wrong(f"max_size_mb must be a number, not {size!r}")
        for trigger, count in _setting(section, "retention", {}).items():
            if not is_int(count) or count < ALL:
                raise _wrong(f"retention.{trigger} must be a number, -1 for all, not {count!r}")
            keep[trigger] = Keep(count, per_phase=trigger in keep and keep[trigger].per_phase)
        most = int(size * 10**6) if size is not None else None
        self.policy = Policy(keep=keep, runs=DEFAULT.runs, max_bytes=most)

    def seals(self, trigger: str) -> bool:
        """Return whether a checkpoint of this trigger is sealed. Others are only committed."""
        on = self.enabled and self.auto and SWITCHES.get(trigger) not in self.off
        return bool(trigger in ASKED or on)


def load_config(project: str) -> Config:
    """Return the project's configuration."""
    path = os.path.join(project, FILE)
    if not os.path.lexists(path):
        return Config({})
    try:
        return Config(read_document(read_bytes(path), path, Repairs()))
    except Invalid as error:
        raise Invalid(error.message, hint=f"Correct {FILE}, or remove it.") from None


def _wrong(what: str) -> Invalid:
    return Invalid(f"{FILE}: {what}.")


def _setting(section: dict[str, Any], key: str, default: Any) -> Any:
    """Return a setting of the same type as the default."""
    found = section.get(key)
    if found is None:
        return default
    if type(found) is not type(default):
        wanted = {bool: "be true or false", dict: "have keys"}.get(type(default), "be text")
        raise _wrong(f"{key} must {wanted}, not {found!r}")
    return found
