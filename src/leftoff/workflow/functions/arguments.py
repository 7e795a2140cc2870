"""What was passed to a function, by parameter, and the digest that tells one call from another.

The names come from the function's code object: importing ``inspect`` would cost as much as starting Python does. A
parameter that was left out is left out here too, so that one with a default may be added without changing any digest.
"""

from __future__ import annotations

from leftoff.api.values import canonical, encode
from leftoff.errors import Invalid
from leftoff.model.codec import sha256
from leftoff.model.frozen import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.model.changes import Scrubber

MORE = "*"  # positional arguments that no parameter names
SHOWN = 200  # characters of canonical JSON: arguments up to this size are in the record as they are
_VARARGS, _VARKEYS = 0x04, 0x08


class Signature:
    """The parameters of a function."""

    __slots__ = ("_all", "_fixed", "_loose", "_name", "_names", "_only", "_open", "required")

    def __init__(self, function: Any, name: str) -> None:
        code = getattr(function, "__code__", None)
        self._name = name
        self._open = code is None  # something written in C: nothing is known
        flags = code.co_flags if code is not None else _VARARGS | _VARKEYS
        count = code.co_argcount if code is not None else 0
        known = code.co_varnames if code is not None else ()
        bound = 1 if hasattr(function, "__func__") else 0  # a method of an object has its first argument
        self._names: tuple[str, ...] = known[bound:count]
        self._only = known[count : count + (code.co_kwonlyargcount if code is not None else 0)]
        self._fixed = max(0, code.co_posonlyargcount - bound) if code is not None else 0
        self._loose = (bool(flags & _VARARGS), bool(flags & _VARKEYS))
        self._all = frozenset((*self._names[self._fixed :], *self._only))
        needed = count - bound - len(getattr(function, "__defaults__", None) or ())
        named = getattr(function, "__kwdefaults__", None) or {}
        self.required = (*self._names[:needed], *(word for word in self._only if word not in named))

    def has(self, name: str) -> bool:
        """Whether a keyword of this name is the function's own."""
        return name in self._all

    def names(self, name: str) -> bool:
        """Whether there is a parameter of this name; of something written in C nobody knows."""
        return self._open or name in self._names or name in self._only or self._loose[1]

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Parameter to argument, or the ``TypeError`` that the call itself would give."""
        names = self._names
        bound = dict(zip(names, args, strict=False))
        if named:
            self._check_named(bound, named)
            bound.update(named)
        if len(args) > len(names):
            if not self._loose[0]:
                raise TypeError(
                    f"{self._name}() takes {len(names)} positional arguments but {len(args)} were given"
                )
            bound[MORE] = list(args[len(names) :])
        if len(bound) < len(self.required) or named:
            missing = [word for word in self.required if word not in bound]
            if missing:
                raise TypeError(f"{self._name}() is missing {', '.join(missing)}")
        return bound

    def _check_named(self, bound: dict[str, Any], named: dict[str, Any]) -> None:
        for word in named:
            if word in bound and word in self._all:
                raise TypeError(f"{self._name}() got multiple values for argument {word!r}")
            if word not in self._all and not self._loose[1]:
                raise TypeError(f"{self._name}() got an unexpected keyword argument {word!r}")

    def spread(self, bound: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments, from what ``bind`` gave."""
        rest = dict(bound)
        more = rest.pop(MORE, [])
        by_place = self._names if more else self._names[: self._fixed]
        args = [rest.pop(name) for name in by_place if name in rest]
        return [*args, *more], rest


def encoded(bound: dict[str, Any], function: str) -> dict[str, Any]:
    """The arguments as JSON, or an error that says which of them cannot be."""
    try:
        return {name: encode(value, name) for name, value in bound.items()}
    except Invalid as error:
        raise Invalid(
            f"{function} was called with what cannot be recorded: {error.message}",
            path=error.path,
            hint=error.hint,
        ) from None


class Digest:
    """A call's arguments: their digest, and themselves where they are short. Secrets are in neither."""

    __slots__ = ("shown", "text")

    def __init__(self, arguments: dict[str, Any], scrubber: Scrubber | None) -> None:
        written = canonical(arguments, "arguments")
        if scrubber is not None and scrubber.suspicious("args", written):
            clean, paths = scrubber.scrub("args", arguments)
            arguments = mark(clean, paths)
            written = canonical(arguments, "arguments")
        self.text = f"sha256:{sha256(written.encode()).hexdigest()}"
        self.shown = arguments if 2 < len(written) <= SHOWN else None
