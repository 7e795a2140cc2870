"""The settings that are in force, and where each comes from."""

from __future__ import annotations

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.project import Project

DEFAULT = "default"
_GROUPS = ("heartbeat", "capture", "redaction", "run")


class Setting(Fields):
    """A setting by its name in leftoff.toml. ``source``: the file and line that says so, a variable, or ``default``."""

    name: str
    value: Any
    source: str


def in_force(project: Project) -> list[Setting]:
    """All of them, in the order of their names; what nobody trusted is not among them."""
    from leftoff.engine.config.settings import OPAQUE

    settings = project.settings
    out = [Setting("store", project.store.name, _of_store(project))]
    for name in ("lock_timeout", "blobs"):
        out.append(Setting(name, getattr(settings, name), settings.source_of(name)))
    for group in _GROUPS:
        values = getattr(settings, group)
        for name in sorted(values._fields):
            out.append(Setting(f"{group}.{name}", getattr(values, name), settings.source_of(group, name)))
    for group in sorted(OPAQUE):
        for name, value in settings.section(group).items():
            out.append(Setting(f"{group}.{name}", value, settings.source_of(group, name)))
    return out


def _of_store(project: Project) -> str:
    """Where it was said which store is meant."""
    from leftoff.engine.config.caller import CALLER

    if project.is_store_given:
        return "--store"
    if CALLER.store:
        return "LEFTOFF_STORE"
    return project.settings.source_of("store") if project.settings.store else DEFAULT
