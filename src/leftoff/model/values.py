"""How a value becomes records, and back.

A list or dict variable over 4 KiB encoded is stored as one record per entry (``item``, one level deep) under a head
record that says only which of the two it is; everything else is one record. That depends on the value alone, so
equal states have equal digests, however they came about.

What is no JSON is written as ``{"$type": NAME, "value": …}``, by whoever knows the type (``leftoff.api.values``). JSON
that has the key ``$type`` itself is kept as pairs, so that nobody takes it for such a value.
"""

from __future__ import annotations

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
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SPREAD_OVER = 4096  # bytes of canonical JSON

TYPE = "$type"  # the key that says what a value is

LIST_HEAD = sha256(LIST).digest()
DICT_HEAD = sha256(DICT).digest()


class Encoded:
    """A value that is JSON by now, with ``$type`` where it was something else."""

    __slots__ = ("json",)

    def __init__(self, json: Any) -> None:
        self.json = json


def escaped(value: Any, depth: int = MAX_DEPTH) -> Any:
    """JSON that nobody takes for anything else: itself, unless a dict in it has the key ``$type``."""
    if depth == 0 or not is_typed(value, depth):
        return value
    if isinstance(value, list):
        return [escaped(item, depth - 1) for item in value]
    inside = {key: escaped(item, depth - 1) for key, item in dict.items(value)}
    if TYPE in inside:
        return {TYPE: "dict", "value": [[key, item] for key, item in inside.items()]}
    return inside


def is_typed(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether anything in a value is something else than the JSON that stands for it."""
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


def item_prefix(name: str) -> str:
    """What every item key of a variable starts with."""
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
    """The first key behind every key with this prefix (which ends in ``/``)."""
    return prefix[:-1] + "0"


def spread(name: str, value: Any) -> dict[str, bytes]:
    """Item key to stored bytes, for each entry."""
    prefix = item_prefix(name)
    if isinstance(value, list):
        return {index_key(prefix, i): store(v, f"{name}[{i}]") for i, v in enumerate(value)}
    return {entry_key(prefix, k): store(v, f"{name}.{k}") for k, v in value.items()}


def gather(name: str, head: bytes, items: Iterable[tuple[str, bytes]]) -> tuple[Any, list[list[Any]]]:
    """The value of a spread variable and its redacted paths, from its item records in key order."""
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
    """Stored bytes that refer to a blob: its hash, then JSON about it (none: the blob is the value itself)."""
    return BLOB + blob_hash + (encode(about, "artifact") if about is not None else b"")


def blob_of(stored: bytes) -> bytes | None:
    """The hash of the blob that stored bytes refer to."""
    return stored[1:33] if stored[:1] == BLOB else None


def blob_about(stored: bytes, where: str) -> Any:
    """The JSON that a blob record carries; ``None`` where the blob itself is the value."""
    if len(stored) < 33:
        raise Corrupt(f"{where} refers to no blob.", where=where)
    if len(stored) == 33:
        return None
    try:
        return decode(stored[33:])
    except ValueError as error:
        raise Corrupt(f"{where} does not decode: {error}", where=where) from error
