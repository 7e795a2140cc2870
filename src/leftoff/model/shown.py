"""What people and scripts see of a value that is no JSON: the JSON that comes nearest to it.

A tuple and a set are lists, a date is text, a dataclass is an object with its fields. Neither the class nor numpy or
pandas is needed for that. What is too long to be read (an array of a thousand numbers, a picture) is told in a line.
"""

from __future__ import annotations

from binascii import Error, a2b_base64

from leftoff.model.values import TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 100  # entries of an array, bytes of bytes
_LISTS = frozenset(("tuple", "set", "frozenset", "deque"))
_PAIRS = frozenset(("dict", "counter", "ordered-dict"))
_FORMATS = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
_FORMATS |= {"f2": "e", "f4": "f", "f8": "d", "M8": "q", "m8": "q"}
_PER_SECOND = {
    "D": 1 / 86400,
    "h": 1 / 3600,
    "m": 1 / 60,
    "s": 1,
    "ms": 1000,
    "us": 1000_000,
    "ns": 1000_000_000,
}


def shown(value: Any) -> Any:
    """The value as JSON that is nothing but itself."""
    if isinstance(value, list):
        return [shown(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {TYPE, "value"} or not isinstance(value[TYPE], str):
        return {key: shown(item) for key, item in value.items()}
    try:
        return _typed(value[TYPE], value["value"])
    except (TypeError, ValueError, LookupError, AttributeError, Error):  # it only looks like one of ours
        return value


def _typed(word: str, inside: Any) -> Any:
    if word in _LISTS:
        return [shown(item) for item in inside]
    if word in _PAIRS:
        return _object(inside)
    if word == "default-dict":
        return _object(inside[1])
    if word in ("bytes", "bytearray"):
        return _bytes(a2b_base64(inside))
    if word == "range":
        return f"range({', '.join(map(str, inside))})"
    if word == "timedelta":
        from datetime import timedelta

        return str(timedelta(*inside))
    if word == "datetime" and isinstance(inside, list):
        return f"{inside[0]} {inside[1]}" if inside[1] else inside[0]
    if word.startswith(("numpy.", "pandas.")):
        return _of_arrays(word, inside)
    return _fields(shown(inside)) if ":" in word else shown(inside)


def _object(pairs: Any) -> dict[str, Any]:
    return {_key(shown(key)): shown(item) for key, item in pairs}


def _key(key: Any) -> str:
    from leftoff.model.codec import text

    return key if isinstance(key, str) else text(key)


def _bytes(data: bytes) -> str:
    return repr(data) if len(data) <= MOST else f"{len(data)} bytes"


def _fields(inside: Any) -> Any:
    """The fields of a class, as it is kept: see ``leftoff.api.kinds``."""
    if isinstance(inside, dict) and {"pairs"} <= inside.keys() <= {"pairs", "attributes"}:
        return _object(inside["pairs"])
    if isinstance(inside, dict) and {"entries"} <= inside.keys() <= {"entries", "attributes"}:
        return inside["entries"]
    if isinstance(inside, dict) and {"fields", "set"} <= inside.keys() <= {
        "fields",
        "set",
        "extra",
        "private",
    }:
        return {**inside["fields"], **inside.get("extra", {})}
    return inside[0] if isinstance(inside, list) and len(inside) == 1 else inside


# -- numpy and pandas


def _of_arrays(word: str, inside: Any) -> Any:
    if word == "numpy.scalar":
        kind, data = inside
        return _numbers(kind, a2b_base64(data["value"]))[0] if kind != "O" else shown(data)
    if word == "numpy.ndarray":
        return _array(inside)
    if word == "pandas.Series":
        return _array(inside[0][1])
    if word == "pandas.Index":
        return _index(inside)
    if word in ("pandas.Timestamp", "pandas.Timedelta", "pandas.NA"):
        return inside
    if word == "pandas.Period":
        return inside[0]
    columns, values, index = inside
    rows, names = _length(index), [str(name) for name in _index(columns)]
    if rows * len(names) > MOST:
        return f"table of {rows} rows: {', '.join(names)}"
    return {name: _array(column[1]) for name, column in zip(names, values, strict=True)}


def _length(index: Any) -> int:
    kind, data, _ = index
    return _length(data[0]) if kind == "levels" else int(data[1][0])


def _index(index: Any) -> Any:
    kind, data, _ = index
    if kind != "levels":
        return _entries(data)
    return [list(each) for each in zip(*map(_index, data), strict=True)]


def _array(parts: Any) -> Any:
    kind, shape, _ = parts
    count = 1
    for size in shape:
        count *= size
    if count > MOST:
        return f"array of {' x '.join(map(str, shape))} entries, {kind}"
    return _nested(_entries(parts), shape)


def _entries(parts: Any) -> list[Any]:
    kind, _, data = parts
    return _numbers(kind, a2b_base64(data["value"])) if isinstance(data, dict) else [shown(e) for e in data]


def _nested(entries: list[Any], shape: list[int]) -> Any:
    if not shape:
        return entries[0]
    if len(shape) == 1:
        return entries
    size = len(entries) // shape[0] if shape[0] else 0
    return [_nested(entries[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def _numbers(kind: str, data: bytes) -> list[Any]:
    """The entries of an array from its bytes: ``<f8`` is little-endian, eight bytes each."""
    from struct import calcsize, unpack

    order, word, unit = (kind[0] if kind[0] in "<>" else "="), kind[1:3], kind[4:-1]
    if kind[1] == "c":
        halves = _numbers(f"{kind[0]}f{int(kind[2:]) // 2}", data)
        return [str(complex(*pair)) for pair in zip(halves[::2], halves[1::2], strict=True)]
    one = _FORMATS[word]
    found = unpack(f"{order}{len(data) // calcsize(one)}{one}", data)
    if word == "M8" and unit in _PER_SECOND:
        return [_moment(each / _PER_SECOND[unit]) for each in found]
    return [each if each - each == 0 else repr(each) for each in found]


def _moment(second: float) -> str:
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=second)
    except OverflowError:
        return "NaT"
    return moment.replace(tzinfo=None).isoformat()
