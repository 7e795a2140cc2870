"""Variables, arguments and results as JSON, and back as what they were.

What is JSON stays as it is. Anything else becomes ``{"$type": NAME, "value": …}``: a word for Python's own types, and
``module:Class`` for a class that is kept field by field or registered (``leftoff.api.kinds``). A dict
that has the key ``$type`` itself, or keys that are not text, is kept as pairs; so nothing is ever mistaken. Whatever
has no such form is refused by name and place. Nothing is pickled, and reading a record runs no constructor of yours.
"""

from __future__ import annotations

import sys
from binascii import a2b_base64, b2a_base64
from typing import Any

from leftoff.api import kinds
from leftoff.errors import Invalid, LeftoffError, Redacted, Unsupported
from leftoff.model.codec import MAX_DEPTH, text
from leftoff.model.frozen import (
    MARK,
    FrozenDict,
    FrozenList,
    HoledDict,
    HoledList,
    Mark,
    marks,
    refuse_redacted,
)
from leftoff.model.values import TYPE, Encoded, is_typed

_PLAIN = frozenset((str, int, float, bool, type(None)))
_EXACT = _PLAIN - {float}
_INFINITE = (float("inf"), float("-inf"))
_DICTS = frozenset((dict, FrozenDict))
_LISTS = frozenset((list, FrozenList))
_HINT = (
    "Kept are JSON, tuples, sets, bytes, dates, paths, enums, Decimal, UUID, Counter, OrderedDict, defaultdict, "
    "dataclasses, msgspec structs, attrs classes, pydantic models, numpy and pandas values; for any other class: "
    "leftoff.register(cls, encode, decode)."
)


def encode(value: Any, name: str) -> Any:
    """The value as JSON: itself where it is; ``name`` starts the path in an error."""
    kind = type(value)
    if kind in _EXACT:
        return value
    if (kind in _DICTS or kind in _LISTS) and _is_json(value, MAX_DEPTH):
        return value
    return _encode(value, name, MAX_DEPTH)


def encoded(value: Any, name: str, base: Any = None) -> Any:
    """A variable's value for a change set. ``base``: the JSON it was; what is still the same is skipped."""
    kind = type(value)
    if kind in _PLAIN and (kind is not float or value - value == 0):
        return value
    if base is None or kind not in _LISTS or type(base) is not FrozenList:
        return Encoded(with_marks(value, name))
    out, known = list(value), len(base)
    for i, item in enumerate(out):
        if type(item) not in _EXACT and not (i < known and item is base[i]):
            out[i] = with_marks(item, f"{name}[{i}]")
    return Encoded(out)


def with_marks(value: Any, name: str) -> Any:
    """The value as JSON; what was redacted in it, and comes back from a reader, stays redacted."""
    try:
        return encode(value, name)
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
    """A variable as it was, from frozen JSON: lists and dicts stay frozen, anything else is the reader's own."""
    if not isinstance(value, (dict, list)) or not is_typed(value):
        return value
    if isinstance(value, list):
        items = [restored(item, f"{name}[{i}]") for i, item in enumerate(list.__iter__(value))]
        return HoledList(items) if type(value) is HoledList else FrozenList(items)
    if TYPE in value:
        return decode(value, name) if _is_ours(value) else value
    entries = {key: restored(item, f"{name}.{key}") for key, item in dict.items(value)}
    return HoledDict(entries) if type(value) is HoledDict else FrozenDict(entries)


def _is_ours(value: dict[str, Any]) -> bool:
    """Not what an older leftoff took as it was given, which may have such a key for any reason."""
    kind = dict.get(value, TYPE)
    return value.keys() == {TYPE, "value"} and isinstance(kind, str) and (kind in _MAKE or ":" in kind)


def _is_json(value: Any, depth: int) -> bool:
    """Whether a list or dict is JSON as it stands; what this refuses, the slow walk looks at again."""
    if depth == 0:
        return False
    if type(value) in _DICTS:
        for key, item in value.items():
            if type(key) is not str or key == TYPE:
                return False
            if (type(item) not in _PLAIN or item != item or item in _INFINITE) and not _is_json(
                item, depth - 1
            ):
                return False
        return True
    if type(value) in _LISTS:
        for item in value:
            if (type(item) not in _PLAIN or item != item or item in _INFINITE) and not _is_json(
                item, depth - 1
            ):
                return False
        return True
    return False


def _encode(value: Any, path: str, depth: int) -> Any:
    kind = type(value)
    if kind is float and (value != value or value in _INFINITE):
        return {TYPE: "float", "value": repr(value)}
    if kind in _PLAIN:
        return value
    if depth == 0:
        raise Invalid(f"{path} is nested more than {MAX_DEPTH} levels deep, or contains itself.", path=path)
    if kind in _DICTS:
        return _encode_dict(value, path, depth)
    if kind in _LISTS:
        return [_encode(item, f"{path}[{i}]", depth - 1) for i, item in enumerate(value)]
    own = _OWN.get(kind)
    if own is not None:
        return {TYPE: own[0], "value": own[1](value, path, depth - 1)}
    found = kinds.findable(kind)
    if found is not None:
        return {TYPE: found.name, "value": _encode(found.take(value), f"{path} ({kind.__name__})", depth - 1)}
    return _encode_other(value, kind, path, depth)


def _encode_dict(value: dict[Any, Any], path: str, depth: int) -> Any:
    if all(type(key) is str and key != TYPE for key in value):
        return {key: _encode(item, f"{path}.{key}", depth - 1) for key, item in value.items()}
    return {TYPE: "dict", "value": _pairs(value, path, depth - 1)}


def _encode_other(value: Any, kind: type, path: str, depth: int) -> Any:
    """Dates, paths and the like, whose modules are not loaded for those who have none; then text and numbers."""
    if kind is HoledDict or kind is HoledList:
        refuse_redacted(value)
    if isinstance(value, Mark):
        raise Redacted(path)
    other = _other(kind)
    if other is not None:
        return {TYPE: other[0], "value": other[1](value, path, depth - 1)}
    arrays = _array(value, kind, path, depth)
    if arrays is not None:
        return arrays
    if not kinds.is_enum(kind):
        for base in (str, int, float):
            if isinstance(value, base):  # numpy.float64, for one
                return base.__str__(value) if base is str else base(value)
    article = "an" if kind.__qualname__[:1].lower() in "aeiou" else "a"
    raise Invalid(
        f"{path} is {article} {kind.__qualname__}, which cannot be recorded.", path=path, hint=_HINT
    )


def _array(value: Any, kind: type, path: str, depth: int) -> Any:
    """What numpy and pandas have, where they are loaded at all."""
    if kind.__module__.partition(".")[0] not in ("numpy", "pandas"):
        return None
    from leftoff.api import arrays

    taken = arrays.take(value)
    if taken is None:
        return None
    word, parts = taken
    return {TYPE: word, "value": _encode(parts, f"{path} ({kind.__name__})", depth - 1)}


def decode(value: Any, where: str) -> Any:
    """The value that JSON stands for, in lists and dicts of its own; ``where`` names the record in an error."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, list):
        return [decode(item, where) for item in value]
    if kind is Mark:
        raise Redacted(where)
    if TYPE not in value:
        return {key: decode(item, where) for key, item in value.items()}
    return _decode_typed(value, where)


def _decode_typed(value: dict[str, Any], where: str) -> Any:
    name, inside = value[TYPE], value.get("value")
    make = _MAKE.get(name) or kinds.named(name, where).make
    decoded = decode(inside, where)
    try:
        return make(decoded)
    except LeftoffError as error:
        raise Unsupported(f"{where} does not fit {name}: {error.message}", hint=error.hint) from None
    except Exception as error:
        raise Unsupported(
            f"{where} cannot be made a {name} again: {type(error).__name__}: {error}", hint=kinds.HINT
        ) from error


def canonical(value: Any, name: str) -> str:
    """Canonical JSON text of an encoded value."""
    return text(value, name)


# -- Python's own types: the word, and how to take them apart


def _items(value: Any, path: str, depth: int) -> Any:
    return [_encode(item, f"{path}[{i}]", depth) for i, item in enumerate(value)]


def _members(value: Any, path: str, depth: int) -> Any:
    """The entries of a set in an order that depends on nothing but them."""
    return sorted(
        (_encode(item, f"an entry of {path}", depth) for item in value), key=lambda v: text(v, path)
    )


def _bytes(value: bytes, path: str, depth: int) -> str:
    return b2a_base64(value, newline=False).decode()


def _text(value: Any, path: str, depth: int) -> str:
    return str(value)


def _iso(value: Any, path: str, depth: int) -> str:
    return str(value.isoformat())


def _moment(value: Any, path: str, depth: int) -> Any:
    """A date and time; the name of its time zone too, where it has one, and which of two equal hours it is."""
    zone = getattr(value.tzinfo, "key", None)
    if zone is None:
        if value.fold:
            return [value.replace(fold=0).isoformat(), None, 1]
        return value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


def _length(value: Any, path: str, depth: int) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _pairs(value: Any, path: str, depth: int) -> Any:
    return [
        [_encode(key, f"a key of {path}", depth), _encode(item, f"{path}[{key!r}]", depth)]
        for key, item in value.items()
    ]


_FACTORIES = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple)}


def _with_default(value: Any, path: str, depth: int) -> Any:
    """A defaultdict with the builtin that makes its entries; of any other, the entries alone."""
    factory = value.default_factory
    word = factory.__name__ if factory in _FACTORIES.values() else None
    return [word, _pairs(value, path, depth)]


def _span(value: range, path: str, depth: int) -> list[int]:
    return [value.start, value.stop, value.step]


_OWN: dict[type, tuple[str, Any]] = {
    tuple: ("tuple", _items),
    set: ("set", _members),
    frozenset: ("frozenset", _members),
    bytes: ("bytes", _bytes),
    bytearray: ("bytearray", _bytes),
    complex: ("complex", _text),
    range: ("range", _span),
}
_ELSEWHERE = {
    ("datetime", "datetime"): ("datetime", _moment),
    ("datetime", "date"): ("date", _iso),
    ("datetime", "time"): ("time", _iso),
    ("datetime", "timedelta"): ("timedelta", _length),
    ("collections", "Counter"): ("counter", _pairs),
    ("collections", "OrderedDict"): ("ordered-dict", _pairs),
    ("collections", "defaultdict"): ("default-dict", _with_default),
    ("collections", "deque"): ("deque", _items),
    ("decimal", "Decimal"): ("decimal", _text),
    ("uuid", "UUID"): ("uuid", _text),
    ("pathlib", "PosixPath"): ("path", _text),
    ("pathlib", "WindowsPath"): ("path", _text),
    ("pathlib", "PurePosixPath"): ("pure-posix-path", _text),
    ("pathlib", "PureWindowsPath"): ("pure-windows-path", _text),
}


def _other(kind: type) -> tuple[str, Any] | None:
    """How a type of the standard library is kept, if it is that very type."""
    for (module, name), how in _ELSEWHERE.items():
        if kind.__name__ == name and getattr(sys.modules.get(module), name, None) is kind:
            return how
    return None


def supports(kind: type) -> bool:
    """Whether values of exactly this type can be kept."""
    if kind.__module__.partition(".")[0] in ("numpy", "pandas"):
        from leftoff.api import arrays

        return arrays.supports(kind)
    return kind in _PLAIN or kind in _DICTS or kind in _LISTS or kind in _OWN or _other(kind) is not None


def _make_moment(value: Any) -> Any:
    from datetime import datetime

    if isinstance(value, str):
        return datetime.fromisoformat(value)
    moment, zone, fold = value
    made = datetime.fromisoformat(moment).replace(fold=fold)
    if zone is None:
        return made
    from zoneinfo import ZoneInfo

    return made.replace(tzinfo=ZoneInfo(zone))


def _maker(module: str, name: str, method: str | None = None) -> Any:
    def make(value: Any) -> Any:
        from importlib import import_module

        kind = getattr(import_module(module), name)
        return getattr(kind, method)(value) if method else kind(value)

    return make


def _make_length(value: Any) -> Any:
    from datetime import timedelta

    return timedelta(*value)


def _make_default(value: Any) -> Any:
    from collections import defaultdict

    word, pairs = value
    return defaultdict(_FACTORIES[word] if word else None, pairs)


def _make_array(word: str) -> Any:
    def make(value: Any) -> Any:
        from leftoff.api import arrays

        return arrays.make(word, value)

    return make


_MAKE: dict[str, Any] = {
    "float": float,
    "counter": lambda pairs: _maker("collections", "Counter")(dict(map(tuple, pairs))),
    "ordered-dict": _maker("collections", "OrderedDict"),
    "default-dict": _make_default,
    "deque": _maker("collections", "deque"),
    **{word: _make_array(word) for word in kinds.ARRAYS},
    "dict": lambda pairs: {key: item for key, item in pairs},
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": a2b_base64,
    "bytearray": lambda value: bytearray(a2b_base64(value)),
    "complex": complex,
    "range": lambda value: range(*value),
    "datetime": _make_moment,
    "date": _maker("datetime", "date", "fromisoformat"),
    "time": _maker("datetime", "time", "fromisoformat"),
    "timedelta": _make_length,
    "decimal": _maker("decimal", "Decimal"),
    "uuid": _maker("uuid", "UUID"),
    "path": _maker("pathlib", "Path"),
    "pure-posix-path": _maker("pathlib", "PurePosixPath"),
    "pure-windows-path": _maker("pathlib", "PureWindowsPath"),
}
assert kinds.WORDS == _MAKE.keys()
