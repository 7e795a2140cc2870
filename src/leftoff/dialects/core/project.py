"""Which dialect a project follows: `[mirror] dialect` of leftoff.toml."""

from __future__ import annotations

import os

from leftoff.dialects.core.registry import dialect
from leftoff.engine.config.settings import FILE
from leftoff.errors import Conflict, Invalid, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.core.base import Dialect
    from leftoff.engine.config.settings import Settings

_KEYS = ("dialect",)


def mirrored(project: str, settings: Settings) -> Dialect | None:
    """The dialect whose files are kept in step with the store, or ``None``."""
    section = settings.section("mirror")
    if not section:
        return None
    for key in section:
        if key not in _KEYS:
            raise Invalid(f"leftoff.toml: [mirror] has no key {key!r}.", hint=f"Keys: {', '.join(_KEYS)}.")
    name = section.get("dialect")
    if not isinstance(name, str):
        raise Invalid("leftoff.toml: [mirror] needs a dialect.", hint='For example: dialect = "bmad"')
    try:
        return dialect(name)
    except Usage as error:
        raise Invalid(f"leftoff.toml: [mirror] {error.message}", hint=error.hint) from None


def set_dialect(project: str, settings: Settings, name: str) -> list[str]:
    """Say in leftoff.toml that the project follows a protocol; what was written. One that it follows already stays."""
    there = settings.section("mirror").get("dialect")
    if there == name:
        return []
    if settings.section("mirror"):
        raise Conflict(
            f"leftoff.toml has a section [mirror] already, for {there}.",
            hint="Edit it by hand: a project follows one protocol.",
        )
    path = os.path.join(project, FILE)
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        text += "" if text.endswith("\n") or not text else "\n"
    text += ("\n" if text else "") + f'[mirror]\ndialect = "{name}"\n'
    temp = f"{path}.{os.urandom(4).hex()}"
    with open(temp, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temp, path)
    return [FILE]
