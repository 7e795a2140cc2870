"""How a value becomes records, and back; and how people see it.

A list or dict variable over 4 KiB encoded is stored as one record per entry (``item``, one level deep) under a head
record that says only which of the two it is; everything else is one record. That depends on the value alone, so
equal states have equal digests, however they came about.

A value that is not JSON is written as ``{"$type": NAME, "value": …}`` by ``leftoff.api.values``. JSON that has the key
``$type`` itself is stored as pairs, so that it is not taken for such a value. People and scripts see the JSON that
comes nearest to it (``readable``).
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Iterable
from typing import Any

from leftoff.errors import Corrupt
from leftoff.model.codec import (
    BLOB,
    DICT,
    LIST,
    MAX_DEPTH,
    REDACTED,
    decode,
    encode,
    holes,
    payload,
    sha256,
    store,
    text,
)

SPREAD_OVER = 4096  # bytes of canonical JSON

TYPE = "$type"  # the key that says what a value is

LIST_HEAD = sha256(LIST).digest()
DICT_HEAD = sha256(DICT).digest()


class Encoded:
    """A value that has become JSON, with ``$type`` where it was something else."""

    __slots__ = ("json",)

    def __init__(self, json: Any) -> None:
        self.json = json


def escaped(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return JSON that cannot be taken for anything else: itself, unless a dict in it has the key ``$type``."""
    if depth == 0 or not is_typed(value, depth):
        return value
    if isinstance(value, list):
        return [escaped(item, depth - 1) for item in value]
    inside = {key: escaped(item, depth - 1) for key, item in dict.items(value)}
    if TYPE in inside:
        return {TYPE: "dict", "value": [[key, item] for key, item in inside.items()]}
    return inside


def is_typed(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether anything in a value is something else than the JSON that represents it."""
    try:
        return isinstance(value, (dict, list)) and _has_type(value, depth)
    except RecursionError:
        return False  # too deep to be stored at all


def _has_type(value: Any, depth: int) -> bool:
    if depth == 0:
        raise RecursionError
    if isinstance(value, dict):
        if dict.__contains__(value, TYPE):
            return True
        inside: Iterable[Any] = dict.values(value)
    else:
        inside = list.__iter__(value)
    for item in inside:
        if isinstance(item, (dict, list)) and _has_type(item, depth - 1):
            return True
    return False


# -- records


def item_prefix(name: str) -> str:
    """Return how every item key of a variable starts."""
    if "%" in name or "/" in name:
        name = name.replace("%", "%25").replace("/", "%2F")
    return name + "/"


def index_key(prefix: str, index: int) -> str:
    return f"{prefix}{index:010d}"


def entry_key(prefix: str, key: str) -> str:
    if "%" in key or "\0" in key:
        key = key.replace("%", "%25").replace("\0", "%00")
    return prefix + key


def entry_name(prefix: str, item_key: str) -> str:
    return item_key[len(prefix) :].replace("%00", "\0").replace("%25", "%")


def after(prefix: str) -> str:
    """Return the first key after every key with this prefix (which ends in ``/``)."""
    return prefix[:-1] + "0"


def spread(name: str, value: Any) -> dict[str, bytes]:
    """Return item key to stored bytes, for each entry."""
    prefix = item_prefix(name)
    if isinstance(value, list):
        return {index_key(prefix, i): store(v, f"{name}[{i}]") for i, v in enumerate(value)}
    return {entry_key(prefix, k): store(v, f"{name}.{k}") for k, v in value.items()}


def gather(name: str, head: bytes, items: Iterable[tuple[str, bytes]]) -> tuple[Any, list[list[Any]]]:
    """Return the value of a spread variable and its redacted paths, from its item records in key order."""
    prefix = item_prefix(name)
    paths: list[list[Any]] = []
    as_list = head[:1] == LIST
    out_list: list[Any] = []
    out_dict: dict[str, Any] = {}
    for item_key, stored in items:
        where = f"item {item_key}"
        key: str | int
        if as_list:
            key = len(out_list)
            if item_key != index_key(prefix, key):
                raise Corrupt(f"{name} has no entry {key}; the next is {item_key}.", where=where)
            out_list.append(payload(stored, where))
        else:
            key = entry_name(prefix, item_key)
            out_dict[key] = payload(stored, where)
        if stored[:1] == REDACTED:
            paths.extend([key, *path] for path in holes(stored))
    if as_list:
        return out_list, paths
    return {key: out_dict[key] for key in sorted(out_dict)}, paths


def blob_stored(blob_hash: bytes, about: dict[str, Any] | None = None) -> bytes:
    """Return stored bytes that refer to a blob: its hash, then JSON about it (none: the blob is the value itself)."""
    return BLOB + blob_hash + (encode(about, "artifact") if about is not None else b"")


def blob_of(stored: bytes) -> bytes | None:
    """Return the hash of the blob that stored bytes refer to."""
    return stored[1:33] if stored[:1] == BLOB else None


def blob_about(stored: bytes, where: str) -> Any:
    """Return the JSON that a blob record carries; ``None`` if the blob itself is the value."""
    if len(stored) < 33:
        raise Corrupt(f"{where} refers to no blob.", where=where)
    if len(stored) == 33:
        return None
    try:
        return decode(stored[33:])
    except ValueError as error:
        raise Corrupt(f"{where} does not decode: {error}", where=where) from error


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
    except (TypeError, ValueError, LookupError, AttributeError, Error):  # it only looks like one of ours
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
        rows, names = int(index[1][1][0]), [str(name) for name in _index(columns)]
        if rows * len(names) > _MOST:
            return f"table of {rows} rows: {', '.join(names)}"
        return {name: _array(column[1]) for name, column in zip(names, values, strict=True)}
    inside = _readable(inside)
    if ":" not in word:  # another kind of pandas, a path, a number, …
        return inside
    if isinstance(inside, dict):  # a class, in one of the forms of leftoff.api.kinds
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
    if isinstance(data, dict):
        return _numbers(kind, a2b_base64(data["value"]))
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
