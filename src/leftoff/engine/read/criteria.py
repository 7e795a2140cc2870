"""What a `criterion` record says."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def met(about: Any) -> bool | None:
    """Whether a criterion is met: ``true`` or ``{"met": true}``, and so for false; None where it is not said."""
    value = about.get("met") if isinstance(about, dict) else about
    return value if isinstance(value, bool) else None
