"""A recorded failure as an exception: of the same class where that can be, so that the same ``except`` catches it."""

from __future__ import annotations

import sys

from leftoff.errors import StepFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_made: dict[type, type[StepFailed]] = {}


def step_failed(path: str, about: dict[str, Any]) -> StepFailed:
    """The failure of a step, from what its record says of it."""
    kind, message = str(about.get("type") or "Exception"), str(about.get("message") or "")
    plain = StepFailed(message, step=path, kind=kind)
    original = _original(kind)
    if original is None:
        return plain
    try:
        made = BaseException.__new__(_both(original))  # its own __init__ may want anything
    except TypeError:  # a class that cannot be made or derived from so
        return plain
    made.args = plain.args
    made.__dict__.update(plain.__dict__)
    return made


def _original(name: str) -> type[Exception] | None:
    """The exception's class, if the program has loaded it: nothing is imported for this."""
    module, _, qualname = name.rpartition(":")
    found: Any = sys.modules.get(module or "builtins")
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _both(original: type[Exception]) -> type[StepFailed]:
    if issubclass(original, StepFailed):
        return original
    if original not in _made:
        _made[original] = type(original.__name__, (StepFailed, original), {"__module__": original.__module__})
    return _made[original]
