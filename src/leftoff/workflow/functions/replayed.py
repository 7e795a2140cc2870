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
    plain.hint = ""  # its text is the message alone, as it was the first time
    original = _original(kind)
    if original is None:
        return plain
    try:
        both = _both(original)
        made = _bare(both, original)
    except TypeError:  # a class that cannot be made or derived from so
        return plain
    made.args = plain.args
    made.__dict__.update(plain.__dict__)
    return made


def _bare(both: type[StepFailed], original: type[Exception]) -> StepFailed:
    """An instance without its ``__init__``, which may want anything."""
    try:
        return BaseException.__new__(both)
    except TypeError:  # OSError and its like are made by nobody else
        return original.__new__(both)


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
