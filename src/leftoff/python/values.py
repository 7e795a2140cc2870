"""Encode variables, arguments and results as JSON, and decode them to what they were.

JSON stays as it is. Any other value becomes ``{"$type": NAME, "value": …}`` with the name of its kind
(`leftoff.python.value_kinds`). A dict that has the key ``$type`` itself, or keys that are not text, is written as
pairs, so that a reader never mistakes it for such a value. A value without a kind is refused with its name and path.
Nothing is pickled, and reading a record runs no constructor of the user's classes.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from leftoff.errors import Invalid, LeftoffError, Redacted, Unsupported
from leftoff.model.changes import TYPE, Encoded, is_typed
from leftoff.model.codec import (
    BINARY_PIECE,
    MARK,
    MAX_DEPTH,
    Binary,
    Entries,
    FrozenDict,
    FrozenList,
    HoledDict,
    HoledList,
    Mark,
    exact_copy,
    made,
    marks,
    refuse_redacted,
    text,
)
from leftoff.python.value_kinds import (
    COLUMN_PIECE,
    DICT,
    FLOAT,
    HINT,
    Column,
    Kind,
    Members,
    Pairs,
    kind_named,
    kind_to_write,
    own_copy,
)

_PLAIN = frozenset((str, int, float, bool, type(None)))
EXACT = _PLAIN - {float}
_INFINITE = (float("inf"), float("-inf"))
_DICTS = frozenset((dict, FrozenDict))
_LISTS = frozenset((list, FrozenList))
_HINT = (
    "Kept are JSON, tuples, sets, bytes, dates, paths, enums, Decimal, UUID, Counter, OrderedDict, defaultdict, "
    "dataclasses, msgspec structs, attrs classes, pydantic models, numpy and pandas values; for any other class: "
    "leftoff.register(cls, encode, decode)."
)


def encode_value(value: Any, name: str) -> Any:
    """Return the value as JSON, or the value itself if it is JSON. ``name`` starts the path in an error."""
    names: set[str] = set()
    if type(value) in EXACT or (exact_copy(value, names) is not None and TYPE not in names):
        return value
    return _encode(value, name, MAX_DEPTH)


class Result:
    """The result of a step as a record has it, and what the caller of the step gets.

    ``json``: in it, large bytes are `Binary` and long columns of tables `Entries`. ``typed``: it is not the value
    itself. ``names``: the keys of all its dicts; ``None`` if it may not be exact JSON, and has no parts.
    """

    __slots__ = ("_own", "_parts", "json", "names", "typed")

    def __init__(self, value: Any, name: str) -> None:
        names: set[str] = set()
        self.names: set[str] | None = names
        self._parts: list[Entries] = []
        self._own = self.json = exact_copy(value, names)
        self.typed = self.json is None or TYPE in names
        if self.typed:
            self._own = own_copy(value)
            value = value if self._own is None else self._own
            self.json = _encode(value, name, MAX_DEPTH, self._parts)
            self.typed = self.json is not value
            if exact_copy(self.json, names) is None:
                self.names, self.json = None, made(self.json)

    @property
    def own(self) -> Any:
        """Return an object for the caller alone that equals what a reader gets, or ``None`` if that is not certain."""
        return self._own if all(part.plain for part in self._parts) else None


def encode_variable(value: Any, name: str, base: Any = None) -> Any:
    """Return a variable's value for a change set. ``base``: its JSON before; entries that are the same are skipped."""
    kind = type(value)
    if kind in _PLAIN and (kind is not float or value - value == 0):
        return value
    if base is None or kind not in _LISTS or type(base) is not FrozenList:
        return Encoded(with_marks(value, name))
    out, known = list(value), len(base)
    for i, item in enumerate(out):
        if type(item) not in EXACT and not (i < known and item is base[i]):
            out[i] = with_marks(item, f"{name}[{i}]")
    return Encoded(out)


def with_marks(value: Any, name: str) -> Any:
    """Return the value as JSON. Parts that a reader got as redacted stay redacted."""
    try:
        return encode_value(value, name)
    except (Invalid, Redacted):
        if isinstance(value, Mark):
            return MARK
        if not _has_marks(value):
            raise
    if isinstance(value, list):
        return [with_marks(item, f"{name}[{i}]") for i, item in enumerate(list.__iter__(value))]
    return {key: with_marks(item, f"{name}.{key}") for key, item in dict.items(value)}


def _has_marks(value: Any) -> bool:
    try:
        return bool(marks(value))
    except RecursionError:  # it contains itself
        return False


def restored(value: Any, name: str) -> Any:
    """Return a variable as it was, from frozen JSON. Lists and dicts stay frozen; other values are new objects."""
    if not isinstance(value, (dict, list)) or not is_typed(value):
        return value
    if isinstance(value, list):
        items = [restored(item, f"{name}[{i}]") for i, item in enumerate(list.__iter__(value))]
        return HoledList(items) if type(value) is HoledList else FrozenList(items)
    if TYPE in value:
        return decode_value(value, name)
    entries = {key: restored(item, f"{name}.{key}") for key, item in dict.items(value)}
    return HoledDict(entries) if type(value) is HoledDict else FrozenDict(entries)


def _encode(value: Any, path: str, depth: int, parts: list[Entries] | None = None) -> Any:
    cls = type(value)
    if cls is float and (value != value or value in _INFINITE):
        return {TYPE: FLOAT.name, "value": repr(value)}
    if cls in _PLAIN:
        return value
    if cls is Binary:
        return value if parts is not None and value.size > BINARY_PIECE else str(value)
    if cls is Column:
        if parts is not None and len(value) > COLUMN_PIECE:
            parts.append(Entries(lambda: (_encode(some, path, depth) for some in value)))
            return parts[-1]
        value = list(chain.from_iterable(value))
        cls = list
    if depth == 0:
        raise Invalid(f"{path} is nested more than {MAX_DEPTH} levels deep, or contains itself.", path=path)
    if cls in _DICTS:
        if all(type(key) is str and key != TYPE for key in value):
            return {key: _encode(item, f"{path}.{key}", depth - 1, parts) for key, item in value.items()}
        return {TYPE: DICT.name, "value": _encode(Pairs(value), path, depth - 1, parts)}
    if cls in _LISTS:
        if EXACT.issuperset(map(type, value)):
            return list(value)
        return [_encode(item, f"{path}[{i}]", depth - 1, parts) for i, item in enumerate(value)]
    if cls is Pairs:
        return [
            [_encode(key, f"a key of {path}", depth, parts), _encode(item, f"{path}[{key!r}]", depth, parts)]
            for key, item in value.entries.items()
        ]
    if cls is Members:
        encoded = [_encode(item, f"an entry of {path}", depth, parts) for item in value.entries]
        return sorted(encoded, key=lambda entry: text(entry, path))
    if cls is HoledDict or cls is HoledList:
        refuse_redacted(value)
    if isinstance(value, Mark):
        raise Redacted(path)
    kind = kind_to_write(cls)
    if kind is not None:
        inside = f"{path} ({cls.__name__})" if ":" in kind.name else path
        return {TYPE: kind.name, "value": _encode(kind.take(value), inside, depth - 1, parts)}
    for base in (str, int, float):
        if isinstance(value, base):  # a class derived from it without a kind of its own
            return base.__str__(value) if base is str else base(value)
    article = "an" if cls.__qualname__[:1].lower() in "aeiou" else "a"
    raise Invalid(f"{path} is {article} {cls.__qualname__}, which cannot be recorded.", path=path, hint=_HINT)


def decode_value(value: Any, where: str) -> Any:
    """Return the value that JSON stands for, in new lists and dicts. ``where`` names the record in an error."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list):
        return [decode_value(item, where) for item in value]
    if type(value) is Mark:
        raise Redacted(where)
    if TYPE not in value:
        return {key: decode_value(item, where) for key, item in value.items()}
    name = value[TYPE]
    kind: Kind = kind_named(name, where)
    stored = decode_value(value.get("value"), where)
    try:
        return kind.make(stored)
    except LeftoffError as error:
        raise Unsupported(f"{where} does not fit {name}: {error.message}", hint=error.hint) from None
    except Exception as error:
        raise Unsupported(
            f"{where} cannot be made a {name} again: {type(error).__name__}: {error}", hint=HINT
        ) from error
