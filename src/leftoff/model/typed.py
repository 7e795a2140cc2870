"""Values as people type and see them: what a word of a command line means (``K=V``), and the JSON nearest to a value.

A value prints back as it was typed. So ``true``, ``false``, ``null`` and JSON containers are what they say, a number is
one only if it is written as leftoff would write it, and everything else is text: ``tag=1.10``, ``sha=1e5``, ``zip=007``
and ``name="x"`` lose nothing. ``K:=JSON`` says what is meant. ``K=@FILE`` takes the value from a file, by the same
rule, except that text keeps every blank and newline.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from typing import Any

from leftoff.errors import Usage
from leftoff.model.changes import TYPE, is_typed
from leftoff.model.codec import decode, encode, text

_LITERALS = {"true": True, "false": False, "null": None}
_NUMBER = "-0123456789"
MOST_BYTES = 64 << 20  # of a file that a value is taken from
TEXT, JSON, FILE = "text", "json", "file"


def typed(word: str) -> Any:
    """Return the value that a word stands for."""
    if word in _LITERALS:
        return _LITERALS[word]
    first = word.lstrip(" \t\r\n")[:1]
    if first and first in "[{":
        try:
            value = decode(word)
        except ValueError:  # text that only starts like JSON
            return word
        return _storable(value, "The value")
    if word[:1] and word[0] in _NUMBER:
        try:
            value = decode(word)
            return value if text(value) == word else word
        except ValueError:  # not a number, or one that cannot be written
            return word
    return word


def _storable(value: Any, what: str) -> Any:
    """Return a value. Raise ``Usage`` if it cannot be stored: infinity, half a surrogate pair, too deep."""
    try:
        encode(value, what)
    except ValueError as error:
        raise Usage(getattr(error, "message", str(error)), hint=getattr(error, "hint", "")) from None
    return value


def json_value(word: str, what: str) -> Any:
    """Return a value that must be JSON. ``what`` names it in the error."""
    try:
        value = decode(word)
    except ValueError as error:
        why = str(error)
        shown = word if len(word) <= 60 else word[:60] + "…"
        raise Usage(
            f"{what} is not JSON: {shown!r}" + (f" ({why})." if why != "not JSON" else "."),
            hint="""Text needs its own quotes: '"text"'. Lists and objects: '[1, 2]', '{"a": 1}'.""",
        ) from None
    return _storable(value, what)


def from_file(content: str) -> Any:
    """Return the value of a file: a literal, number or container without its padding, else the text as it is."""
    inner = content.strip(" \t\r\n")
    value = typed(inner)
    return content if value is inner else value


def split(word: str) -> tuple[str, str, str]:
    """Return key, kind of value (``text``, ``json`` or ``file``) and value of ``K=V``, ``K:=JSON`` or ``K=@FILE``."""
    key, mark, value = word.partition("=")
    kind = TEXT
    if key.endswith(":"):
        key, kind = key[:-1], JSON
    elif value.startswith("@"):
        value, kind = value[1:], FILE
    if not mark or not key:
        raise Usage(
            f"{word[:80]!r} is not K=V.", hint="For example: count=3 · name=Ada · n:=1.10 · plan=@plan.md"
        )
    return key, kind, value


# -- as people see a value

_MOST = 100  # entries of an array, bytes of bytes
_FORMATS = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
_FORMATS |= {"f2": "e", "f4": "f", "f8": "d", "M8": "q", "m8": "q"}
_PER_SECOND = {"D": 1 / 86400, "h": 1 / 3600, "m": 1 / 60, "s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


def readable(value: Any) -> Any:
    """Return a value as JSON that is nothing but itself: a tuple and a set are lists, a date is text, a dataclass is an
    object with its fields. An array that is too long to be read is described in a line.

    Neither the class of a value nor numpy or pandas is needed for that.
    """
    return _readable(value) if is_typed(value) else value


def _readable(value: Any) -> Any:
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {TYPE, "value"} or not isinstance(value[TYPE], str):
        return {key: _readable(item) for key, item in value.items()}
    try:
        return _untyped(value[TYPE], value["value"])
    except (TypeError, ValueError, LookupError, AttributeError, Error):  # it only looks like an encoded value
        return value


def _untyped(word: str, inside: Any) -> Any:
    if word in ("tuple", "set", "frozenset", "deque"):
        return [_readable(item) for item in inside]
    if word in ("dict", "counter", "ordered-dict"):
        return _object(inside)
    if word == "default-dict":
        return _object(inside[1])
    if word in ("bytes", "bytearray"):
        data = a2b_base64(inside)
        return repr(data) if len(data) <= _MOST else f"{len(data)} bytes"
    if word == "range":
        return f"range({', '.join(map(str, inside))})"
    if word == "timedelta":
        from datetime import timedelta

        return str(timedelta(*inside))
    if word == "datetime" and isinstance(inside, list):
        return f"{inside[0]} {inside[1]}" if inside[1] else inside[0]
    if word == "numpy.scalar":
        kind, data = inside
        return _numbers(kind, a2b_base64(data["value"]))[0] if kind != "O" else _readable(data)
    if word == "numpy.ndarray":
        return _array(inside)
    if word == "pandas.Series":
        return _array(inside[0][1])
    if word == "pandas.Index":
        return _index(inside)
    if word == "pandas.Period":
        return inside[0]
    if word == "pandas.DataFrame":
        columns, values, index = inside
        while index[0] == "levels":
            index = index[1][0]
        rows = len(range(*index[1])) if index[0] == "range" else int(index[1][1][0])
        names = [str(name) for name in _index(columns)]
        if rows * len(names) > _MOST:
            return f"table of {rows} rows: {', '.join(names)}"
        return {name: _array(column[1]) for name, column in zip(names, values, strict=True)}
    inside = _readable(inside)
    if ":" not in word:  # another kind of pandas, a path, a number, …
        return inside
    if isinstance(inside, dict):  # a class, in one of the forms of leftoff.python.value_kinds
        keys = inside.keys()
        if {"pairs"} <= keys <= {"pairs", "attributes"}:
            return _object(inside["pairs"])
        if {"entries"} <= keys <= {"entries", "attributes"}:
            return inside["entries"]
        if {"fields", "set"} <= keys <= {"fields", "set", "extra", "private"}:
            return {**inside["fields"], **inside.get("extra", {})}
    return inside[0] if isinstance(inside, list) and len(inside) == 1 else inside


def _object(pairs: Any) -> dict[str, Any]:
    found = ((_readable(key), _readable(item)) for key, item in pairs)
    return {key if isinstance(key, str) else text(key): item for key, item in found}


def _index(index: Any) -> Any:
    kind, data, _ = index
    if kind == "range":
        return list(range(*data)[:_MOST])
    if kind != "levels":
        return _entries(data)
    return [list(each) for each in zip(*map(_index, data), strict=True)]


def _array(parts: Any) -> Any:
    kind, shape, _ = parts
    count = 1
    for size in shape:
        count *= size
    if count > _MOST:
        return f"array of {' x '.join(map(str, shape))} entries, {kind}"
    return _nested(_entries(parts), shape)


def _entries(parts: Any) -> list[Any]:
    kind, _, data = parts
    if isinstance(data, dict) and "$type" in data:
        return _numbers(kind, a2b_base64(data["value"]))
    if isinstance(data, dict):  # text of a column, under its name
        (data,) = data.values()
    return [_readable(each) for each in data]


def _nested(entries: list[Any], shape: list[int]) -> Any:
    if not shape:
        return entries[0]
    if len(shape) == 1:
        return entries
    size = len(entries) // shape[0] if shape[0] else 0
    return [_nested(entries[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


def _numbers(kind: str, data: bytes) -> list[Any]:
    """Return the entries of an array from its bytes: ``<f8`` is little-endian, eight bytes each."""
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
