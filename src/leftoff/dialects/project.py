"""Which dialect a project follows: `[mirror] dialect` of leftoff.toml."""

from __future__ import annotations

from leftoff.dialects.registry import dialect
from leftoff.errors import Invalid, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.base import Dialect
    from leftoff.engine.settings import Settings

_KEYS = ("dialect", "folder")


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
