"""What is read back from a run: lists and dicts that refuse to be changed in place.

``run.variables["x"].append(1)`` would be lost silently, because nothing tells the run about it. So the values are
real lists and dicts (``==``, ``isinstance`` and ``json.dumps`` work) whose mutators raise ``Frozen``. Being
immutable, they can be recognised by identity when they are assigned again. Copies are ordinary, mutable ones.

A value with redacted entries is made of ``HoledDict`` and ``HoledList``, on the way to each such entry. Their own
methods raise; code of leftoff that must see the marks reads them with ``dict.items(value)`` and
``list.__iter__(value)``.
"""

from __future__ import annotations

from leftoff.errors import Frozen, Redacted
from leftoff.hints import Any, Iterable, Iterator, NoReturn

_PLAIN = frozenset((str, int, float, bool, type(None)))


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
    """The mark of a redacted entry in plain data: equal to ``{"redacted": True}``, and known by its type."""

    __slots__ = ()

    def __copy__(self) -> Mark:
        return self

    def __deepcopy__(self, memo: object) -> Mark:
        return self

    def __reduce__(self) -> str:  # type: ignore[override]
        return "MARK"


MARK = Mark({"redacted": True})


class Hole(Mark):
    """The mark of a redacted entry in a value that a program reads: every use but ``repr`` raises ``Redacted``.

    C code may read a list or a dict without asking it, and so get at this object. It is a dict because `json` then
    asks it for its items, and its content is not JSON because other encoders do not ask.
    """

    __slots__ = ("_field", "_name")

    def __init__(self, name: str, field: str) -> None:
        super().__init__(redacted=...)
        self._name, self._field = name, field

    def refuse(self, *args: object, **named: object) -> NoReturn:
        raise Redacted(self._name, field=self._field)

    keys = values = items = get = copy = __copy__ = __deepcopy__ = __reduce__ = refuse
    __getitem__ = __iter__ = __reversed__ = __len__ = __contains__ = __eq__ = __ne__ = __or__ = __ror__ = (
        refuse
    )

    def __repr__(self) -> str:
        return "<redacted>"


def _read(value: Any) -> Any:
    if type(value) is Hole:
        value.refuse()
    return value


def refuse_redacted(value: Any, *args: object) -> NoReturn:
    """Raise ``Redacted`` for the first redacted entry of a holed value."""
    for key in marks(value)[0]:
        value = value[key]  # the last one raises
    raise AssertionError


class HoledDict(FrozenDict):
    """A dict some of whose entries are redacted, at any depth: reading one raises ``Redacted``."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return _read(super().__getitem__(key))

    def get(self, key: str, default: Any = None) -> Any:
        return _read(super().get(key, default))

    def __iter__(self) -> Iterator[str]:
        """Overridden for ``dict(x)``, ``**x``, ``x | y`` and ``x.copy()``, which read around ``[]`` otherwise."""
        return super().__iter__()

    def values(self) -> Any:
        for value in super().values():
            _read(value)
        return super().values()

    def items(self) -> Any:
        self.values()
        return super().items()

    __deepcopy__ = __reduce__ = refuse_redacted  # type: ignore[assignment]

    def __repr__(self) -> str:
        return super().__repr__()  # its own, so that `pprint` uses it


class HoledList(FrozenList):
    """A list some of whose entries are redacted, at any depth: reading one raises ``Redacted``."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return [_read(value) for value in found] if isinstance(index, slice) else _read(found)

    def __iter__(self) -> Iterator[Any]:
        return map(_read, super().__iter__())

    def __reversed__(self) -> Iterator[Any]:
        return map(_read, super().__reversed__())

    def copy(self) -> list[Any]:
        return list(self)

    def __add__(self, other: Any) -> Any:
        return list(self) + other

    def __radd__(self, other: Any) -> Any:
        return other + list(self)

    def __mul__(self, times: Any) -> Any:
        return list(self) * times

    __rmul__ = __mul__

    __deepcopy__ = __reduce__ = refuse_redacted  # type: ignore[assignment]

    def __repr__(self) -> str:
        return super().__repr__()


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
    """An ordinary, mutable copy, with marks in place of what is redacted."""
    if isinstance(value, Mark):
        return MARK
    if isinstance(value, dict):
        return {key: item if type(item) in _PLAIN else thaw(item) for key, item in dict.items(value)}
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
    if isinstance(value, Mark):
        return [[]]
    if isinstance(value, dict):
        entries: Iterable[tuple[Any, Any]] = dict.items(value)
    elif isinstance(value, list):
        entries = enumerate(list.__iter__(value))
    else:
        return []
    return [[key, *path] for key, item in entries if type(item) not in _PLAIN for path in marks(item)]


def guard(value: Any, name: str) -> Any:
    """Return the value frozen, with the marked entries guarded."""
    return freeze_holed(value, marks(value), name)


def freeze_holed(value: Any, paths: list[list[Any]], name: str, field: str = "") -> Any:
    """Return the value frozen, with the entries at ``paths`` guarded. Raise if all of it is redacted.

    ``name`` names the value in an error, ``field`` the last key that leads to it.
    """
    if not paths:
        return freeze(value)
    if [] in paths:
        raise Redacted(name, field=field)
    below: dict[Any, list[list[Any]]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])

    def child(key: Any, item: Any) -> Any:
        if key not in below:
            return freeze(item)
        place, last = f"{name}{place_of([key])}", key if isinstance(key, str) else field
        return Hole(place, last) if [] in below[key] else freeze_holed(item, below[key], place, last)

    if isinstance(value, dict):
        return HoledDict({k: child(k, v) for k, v in dict.items(value)})
    return HoledList([child(i, v) for i, v in enumerate(list.__iter__(value))])


def place_of(path: Iterable[Any]) -> str:
    """Return where an entry is, as it is written behind the name of the value: ``[0].token``."""
    return "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path)
