"""What can be said of a step where it is defined, or of one call of it: retries, timeout, key, version."""

from __future__ import annotations

from leftoff.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_RETRIES = "retries=3, or retries={'max': 3, 'backoff': '2s', 'factor': 2, 'jitter': True}"
_WORDS = ("max", "backoff", "factor", "jitter")
LONGEST = 3600.0  # seconds between two attempts, whatever the factor


class Retries:
    """How often a failed attempt is repeated, and the pause before: backoff, then factor times as long each time."""

    __slots__ = ("backoff", "factor", "jitter", "max")

    def __init__(self, max: int = 0, backoff: float = 1.0, factor: float = 2.0, jitter: bool = True) -> None:
        self.max = max
        self.backoff = backoff
        self.factor = factor
        self.jitter = jitter

    def pause(self, failed: int) -> float:
        """Seconds to wait after so many failures; with jitter, anything from half of it to all of it."""
        try:
            length = min(self.backoff * self.factor ** (failed - 1), LONGEST)
        except OverflowError:
            length = LONGEST
        if not self.jitter:
            return length
        from random import random

        return length * (0.5 + random() / 2)


def duration(value: Any, what: str) -> float:
    """Seconds, from a number or from text like ``10m``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if isinstance(value, str):
        from leftoff.workflow.definition.durations import seconds

        try:
            return seconds(value)
        except ValueError as error:
            raise Usage(f"{what}: {error}.", hint=f"{what}='10m', '1h30m', '500ms', or seconds.") from None
    raise Usage(f"{what}={value!r} is not a duration.", hint=f"{what}='10m', '1h30m', '500ms', or seconds.")


def retries_of(value: Any) -> Retries:
    if isinstance(value, Retries):
        return value
    given = value if isinstance(value, dict) else {"max": value}
    unknown = [word for word in given if word not in _WORDS]
    if unknown:
        raise Usage(f"retries has no {unknown[0]!r}.", hint=_RETRIES)
    most, factor = given.get("max", 0), given.get("factor", 2.0)
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        raise Usage(f"retries={most!r} is not a number of retries.", hint=_RETRIES)
    if not isinstance(factor, (int, float)) or isinstance(factor, bool) or factor < 1:
        raise Usage(f"retries: the factor {factor!r} must be a number of 1 or more.", hint=_RETRIES)
    backoff = duration(given.get("backoff", 1.0), "backoff")
    return Retries(most, backoff, float(factor), bool(given.get("jitter", True)))


class Options:
    """The options of a step or a workflow, checked."""

    __slots__ = ("idempotent", "ignore", "key", "name", "retries", "timeout", "version")

    def __init__(self, name: str, **given: Any) -> None:
        timeout, version, ignore = given.get("timeout"), given.get("version"), given.get("ignore", ())
        self.name = _name(name)
        self.retries = retries_of(given.get("retries", 0))
        self.timeout = None if timeout is None else duration(timeout, "timeout")
        self.key: str | Callable[..., Any] | None = given.get("key")
        self.version = None if version is None else str(version)
        self.idempotent: bool = given.get("idempotent", True)
        self.ignore = frozenset((ignore,) if isinstance(ignore, str) else ignore)
        if self.timeout == 0:
            raise Usage(f"{name}: a timeout of nothing leaves no time at all.", hint="timeout='10m'")


def _name(name: object) -> str:
    """Not too long, and nothing that a path has a meaning for: ``3-fetch`` is a number, ``fetch[a]`` a key."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= 200
        or name[0].isdigit()
        or any(c in name for c in "[]\0")
    ):
        raise Usage(
            f"{name!r} cannot name a step or a workflow.",
            hint='name="fetch": text without [ and ], no digit first.',
        )
    return name
