"""Which protocols there are.

Protocols themselves are loaded late: this module is also loaded to see that a project has no files of any.
"""

from __future__ import annotations

from importlib import import_module
from os.path import join, lexists
from typing import TYPE_CHECKING, Any

from leftoff.engine.settings import FILE, Settings
from leftoff.errors import Conflict, Invalid, LeftoffError, Usage

if TYPE_CHECKING:
    from leftoff.engine.project import Project
    from leftoff.protocols.protocol import Dialect

BUILT_IN = ("bmad", "crunch", "dotagent", "sitebuilder", "claude")
#: of each protocol: if any of its files exist, one of these paths does
HOMES = {
    "bmad": ("_bmad-output/.runs",),
    "crunch": (".claude/crunch", ".claude/checkpoint-config.yaml"),
    "dotagent": ("memory/state",),
    "sitebuilder": ("docs/agentic-orchestration/progress", "progress/checkpoints"),
    "claude": (".claude/checkpoints", ".claude/data/checkpoints"),
}
_SURE = 40  # from this score on a document is taken for one of a protocol
_KEYS = ("dialect", "approvals")  # of the section [mirror]


def dialect(name: str) -> Dialect:
    """Return the protocol of that name."""
    if name not in BUILT_IN:
        raise Usage(f"There is no dialect {name!r}.", hint=f"Dialects: {', '.join(BUILT_IN)}.")
    found: Dialect = import_module(f"leftoff.protocols.{name}").DIALECT
    return found


def dialects() -> list[Dialect]:
    return [dialect(name) for name in BUILT_IN]


def recognise(document: dict[str, Any], path: str) -> Dialect:
    """Return the protocol that a document most likely belongs to."""
    from leftoff.protocols.loose_values import Rejected, shown

    if "$schema" in document and "properties" in document:
        raise Rejected(f"{path} is a JSON Schema, not a checkpoint.")
    best, found = max(
        ((each.recognise(document, path), each) for each in dialects()), key=lambda pair: pair[0]
    )
    if best >= _SURE:
        return found
    keys = ", ".join(shown(key) for key in list(document)[:5])
    hint = "Nothing of it was imported. If it is one of them all the same: --dialect D (`leftoff dialects`)."
    raise Rejected(f"{path} is none of the dialects that leftoff knows; its keys are {keys}.", hint=hint)


def mirrored(project: str, settings: Settings) -> Dialect | None:
    """Return the protocol whose files are kept in sync with the store, or ``None``."""
    return settings.parsed("mirror", _named) if settings.section("mirror") else None


def _named(section: dict[str, Any]) -> Dialect:
    """Return the protocol that a section [mirror] names."""
    for key in section:
        if key not in _KEYS:
            raise Invalid(f"[mirror] has no key {key!r}.", path=key, hint=f"Keys: {', '.join(_KEYS)}.")
    name = section.get("dialect")
    if not isinstance(name, str):
        raise Invalid("[mirror] needs a dialect.", path="dialect", hint='For example: dialect = "bmad"')
    try:
        found = dialect(name)
    except Usage as error:
        raise Invalid(f"[mirror] {error.message}", path="dialect", hint=error.hint) from None
    phases, known = section.get("approvals", []), found.approved_phases
    if not isinstance(phases, list) or any(phase not in known for phase in phases):
        hint = f"A list of these: {', '.join(known)}." if known else f"{name} has no phases to approve."
        raise Invalid(f"[mirror] approvals is wrong: {phases!r}.", path="approvals", hint=hint)
    return found


def phases_to_approve(settings: Settings) -> list[str]:
    """Return the phases that a person must approve before the next one begins."""
    return list(settings.section("mirror").get("approvals", []))


def set_dialect(project: str, settings: Settings, name: str) -> list[str]:
    """Write to leftoff.toml that the project follows a protocol. Return the files that were written."""
    from leftoff.engine.project_files import ProjectFiles, mode_at, replace_at

    there = settings.section("mirror").get("dialect")
    if there == name:
        return []
    if settings.section("mirror"):
        raise Conflict(
            f"leftoff.toml has a section [mirror] already, for {there}.",
            hint="Edit it by hand: a project follows one protocol.",
        )
    files = ProjectFiles(project)
    text = ""
    if files.stat(FILE) is not None:
        text = (files.read(FILE) or b"").decode("utf-8-sig")
        text += "" if text.endswith("\n") or not text else "\n"
    text += ("\n" if text else "") + f'[mirror]\ndialect = "{name}"\n'
    with files.open(FILE) as at:
        replace_at(at, [text.encode()], mode_at(at), new=0o666)
    return [FILE]


def point_out(project: Project) -> None:
    """If the project has files of a protocol but no run, say how to import them."""
    for name, homes in HOMES.items():
        if not any(lexists(join(project.folder, home)) for home in homes):
            continue
        try:
            found = dialect(name).present(project.folder)
        except LeftoffError:  # its settings cannot be read
            found = []
        if found:
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            project.store.advice = f"`leftoff import . --dialect {name}` takes in what lies here."
            project.say(
                f"leftoff: files of the {name} protocol lie here ({found[0]}{more}), and no run. "
                f"`leftoff import . --dialect {name}` takes them in; "
                f"after `leftoff init --dialect {name}`, both stay in step."
            )
