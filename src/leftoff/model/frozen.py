"""What is read back from a run: lists and dicts that refuse to be changed in place.

``run.variables["x"].append(1)`` would be lost silently, because nothing tells the run about it. So the values are
real lists and dicts (``==``, ``isinstance`` and ``json.dumps`` work) whose mutators raise ``Frozen``. Being
immutable, they can be recognised by identity when they are assigned again. Copies are ordinary, mutable ones.
"""

from __future__ import annotations

from leftoff.errors import Frozen, Redacted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def _refuse(self: object, *args: object, **named: object) -> NoReturn:
    kind = "list" if isinstance(self, list) else "dict"
    raise Frozen(f"This {kind} was read from a run; changing it in place would be lost.")


class FrozenList(list):  # type: ignore[type-arg]
    __slots__ = ()

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [thaw(value) for value in self]

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return list, (list(self),)


class FrozenDict(dict):  # type: ignore[type-arg]
    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    pop = popitem = clear = update = setdefault = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return {key: thaw(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class Mark(FrozenDict):
    """What stands in the place of a redacted entry: equal to ``{"redacted": True}``, and known by its type.

    So a value that was read, copied, changed elsewhere and assigned again still says what was redacted in it.
    """

    __slots__ = ()

    def __copy__(self) -> Mark:
        return self

    def __deepcopy__(self, memo: object) -> Mark:
        return self

    def __reduce__(self) -> str:  # type: ignore[override]
        return "MARK"


MARK = Mark({"redacted": True})


class HoledDict(FrozenDict):
    """A dict some of whose entries were redacted: reading one raises, listing shows the mark."""

    __slots__ = ("_holes", "_name")

    def __init__(self, value: dict[str, Any], name: str, holes: frozenset[str]) -> None:
        super().__init__(value)
        self._name = name
        self._holes = holes

    def __getitem__(self, key: str) -> Any:
        if key in self._holes:
            raise Redacted(f"{self._name}.{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - it is this that `get` is made of

    def __repr__(self) -> str:
        shown = (f"{k!r}: {'<redacted>' if k in self._holes else repr(v)}" for k, v in self.items())
        return "{" + ", ".join(shown) + "}"


class HoledList(FrozenList):
    """A list some of whose entries were redacted."""

    __slots__ = ("_holes", "_name")

    def __init__(self, value: list[Any], name: str, holes: frozenset[int]) -> None:
        super().__init__(value)
        self._name = name
        self._holes = holes

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        if isinstance(index, int) and (index + len(self) if index < 0 else index) in self._holes:
            raise Redacted(f"{self._name}[{index}]")
        return value

    def __repr__(self) -> str:
        shown = ("<redacted>" if i in self._holes else repr(v) for i, v in enumerate(self))
        return "[" + ", ".join(shown) + "]"


def freeze(value: Any) -> Any:
    """The same value, its lists and dicts frozen at every depth."""
    if isinstance(value, dict):
        return (
            value if isinstance(value, FrozenDict) else FrozenDict({k: freeze(v) for k, v in value.items()})
        )
    if isinstance(value, list):
        return value if isinstance(value, FrozenList) else FrozenList([freeze(v) for v in value])
    return value


def thaw(value: Any) -> Any:
    """An ordinary, mutable copy."""
    if type(value) is Mark:
        return value
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in dict.items(value)}
    if isinstance(value, list):
        return [thaw(item) for item in list.__iter__(value)]
    return value


def mark(value: Any, paths: list[list[Any]]) -> Any:
    """The value, changed in place: the mark at each of the paths."""
    for path in paths:
        if not path:
            return MARK
        inside = value
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = MARK
    return value


def marks(value: Any) -> list[list[Any]]:
    """The paths of the marks in a value."""
    if type(value) is Mark:
        return [[]]
    if isinstance(value, dict):
        return [[key, *path] for key, item in dict.items(value) for path in marks(item)]
    if isinstance(value, list):
        return [[index, *path] for index, item in enumerate(list.__iter__(value)) for path in marks(item)]
    return []


def guard(value: Any, name: str) -> Any:
    """Frozen, with the entries that are marked guarded."""
    return freeze_holed(value, marks(value), name)


def freeze_holed(value: Any, paths: list[list[Any]], name: str) -> Any:
    """Frozen, with the entries at ``paths`` guarded. A value redacted as a whole raises here."""
    if not paths:
        return freeze(value)
    if [] in paths:
        raise Redacted(name)
    below: dict[Any, list[list[Any]]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    whole = frozenset(key for key, rest in below.items() if [] in rest)

    def child(key: Any, item: Any) -> Any:
        inner = below.get(key, []) if key not in whole else []
        place = f"{name}.{key}" if isinstance(key, str) else f"{name}[{key}]"
        return freeze_holed(item, inner, place)

    if isinstance(value, dict):
        return HoledDict({k: child(k, v) for k, v in value.items()}, name, whole)
    return HoledList([child(i, v) for i, v in enumerate(value)], name, whole)
