"""Whether an annotated return type can be kept: told before a step begins, not after an hour's work.

Only what is certain counts. Text annotations that do not evaluate yet, type variables, protocols, abstract classes
and classes that others derive from may all stand for something that can be kept: the value will show.
"""

from __future__ import annotations

from typing import Any

from leftoff.api import kinds, values
from leftoff.errors import Usage

_NEVER = frozenset(
    "Iterator AsyncIterator Generator AsyncGenerator Coroutine Awaitable Callable AsyncIterable".split()
)
_DEPTH = 10


def check_return(function: Any, name: str) -> None:
    """Refuse a step whose function is annotated to return what cannot be recorded."""
    if not getattr(function, "__annotations__", None):
        return
    annotation = _annotation(function)
    refused = _refused(annotation, _DEPTH) if annotation is not None else None
    if refused is not None:
        raise Usage(
            f"Step {name} returns {refused}, which cannot be recorded.",
            hint="Return JSON, a dataclass, a struct, an attrs class or a pydantic model; or say first "
            "how it is recorded: leftoff.register(cls, encode, decode).",
        )


def _annotation(function: Any) -> Any:
    try:
        found = function.__annotations__.get("return")
        if isinstance(found, str):
            found = eval(found, function.__globals__)  # the program's own text, as typing.get_type_hints does
    except Exception:  # a name that is defined later
        return None
    return found


def _refused(annotation: Any, depth: int) -> str | None:
    """The name of the part that cannot be kept, if one certainly cannot."""
    origin: Any = getattr(annotation, "__origin__", None)
    if depth == 0:
        return None
    if getattr(origin, "__name__", None) in _NEVER:
        return f"a {origin.__name__}"
    if _is_union(annotation, origin) or origin in (list, dict, tuple, set, frozenset):
        for part in annotation.__args__:
            found = _refused(part, depth - 1)
            if found is not None:
                return found
        return None
    return f"a {annotation.__qualname__}" if origin is None and _certainly_not(annotation) else None


def _is_union(annotation: Any, origin: Any) -> bool:
    return type(annotation).__name__ in ("UnionType", "Union") or getattr(origin, "_name", None) == "Union"


def _certainly_not(cls: Any) -> bool:
    if not isinstance(cls, type) or values.supports(cls) or kinds.of(cls) is not None:
        return False
    abstract = cls.__module__ in ("collections.abc", "typing", "typing_extensions")
    if abstract or cls is object or issubclass(cls, (str, int, float)):
        return cls.__name__ in _NEVER
    open_ended = getattr(cls, "__abstractmethods__", None) or getattr(cls, "_is_protocol", False)
    typed_dict = hasattr(cls, "__required_keys__")
    return not open_ended and not typed_dict and not type.__subclasses__(cls)
