"""Which dialects there are: the five that come with leftoff, and whatever is installed beside it.

A package adds one with an entry point in the group `leftoff.dialects` whose object is a ``Dialect``. Plugins are asked
for only where a name is none of the five, or every dialect is wanted: looking for entry points reads the whole
environment.
"""

from __future__ import annotations

from importlib import import_module

from leftoff.dialects.core.base import Dialect
from leftoff.dialects.core.repairs import Rejected, Unknown, shown
from leftoff.engine.config.settings import FILE
from leftoff.engine.workspace.project_files import ProjectFiles, mode_at, replace_at
from leftoff.errors import Conflict, Invalid, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.config.settings import Settings

BUILT_IN = ("bmad", "crunch", "dotagent", "sitebuilder", "claude")
READERS = ("generic",)  # whose files are imported, and never kept in step
GROUP = "leftoff.dialects"
_SURE = 40  # from here on a document is taken for one of a dialect


def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    if name in (*BUILT_IN, *READERS):
        found: Dialect = import_module(f"leftoff.dialects.{name}.document").DIALECT
        return found
    plugins = {each.name: each for each in _plugins()}
    if name in plugins:
        return plugins[name]
    known = ", ".join((*BUILT_IN, *READERS, *plugins))
    raise Usage(f"There is no dialect {name!r}.", hint=f"Dialects: {known}.")


def dialects() -> list[Dialect]:
    """All of them."""
    return [dialect(name) for name in (*BUILT_IN, *READERS)] + _plugins()


def _plugins() -> list[Dialect]:
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=GROUP):
        try:
            loaded = point.load()
        except Exception as error:  # whatever a package does when it is loaded
            raise Usage(
                f"The dialect {point.name} of an installed package cannot be loaded: {error}",
                hint="Repair or uninstall that package.",
            ) from None
        if isinstance(loaded, Dialect):
            found.append(loaded)
    return found


def recognise(document: dict[str, Any], path: str) -> Dialect:
    """The dialect that a document is most likely of."""
    if "$schema" in document and "properties" in document:
        raise Rejected(f"{path} is a JSON Schema, not a checkpoint.")
    scores = [(each.recognise(document, path), each) for each in dialects()]
    best, found = max(scores, key=lambda pair: pair[0])
    if best < _SURE:
        keys = ", ".join(shown(key) for key in list(document)[:5])
        hint = (
            "Nothing of it was imported. If it is one of them all the same: --dialect D (`leftoff dialects`)."
        )
        way = dialect(READERS[0]).way(document)
        if way is not None:
            hint = f"Nothing of it was imported. `leftoff import FILE --dialect {READERS[0]}` reads {way}."
        error = Unknown(f"{path} is none of the dialects that leftoff knows; its keys are {keys}.", hint=hint)
        error.way = way
        raise error
    return found


_KEYS = ("dialect", "approvals")


def mirrored(project: str, settings: Settings) -> Dialect | None:
    """The dialect whose files are kept in step with the store, or ``None``."""
    return settings.parsed("mirror", _named) if settings.section("mirror") else None


def _named(section: dict[str, Any]) -> Dialect:
    """The dialect that a section [mirror] names."""
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
    """The phases of the protocol that go on only once a person has approved them."""
    return list(settings.section("mirror").get("approvals", []))


def set_dialect(project: str, settings: Settings, name: str) -> list[str]:
    """Say in leftoff.toml that the project follows a protocol; what was written. One that it follows already stays."""
    if name in READERS:
        raise Usage(
            f"Files of {name} are only read, not kept in sync.",
            hint=f"`leftoff import FILE --dialect {name}`",
        )
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
