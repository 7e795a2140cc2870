"""The one canonical encoding, for ever: what is hashed is what is stored.

Compact JSON in UTF-8, keys sorted, floats as Python's shortest ``repr``, ints of any size. Everything that would
not come back as it went in is refused with the path of the offender: NaN and infinities, lone surrogates, keys
that are not text, and the types that JSON encoders accept silently (tuples, sets, bytes, dates, enums, …).

The result of a step or workflow is the exception: its dicts keep their order (``keep`` names its entry in the record).
So two results have equal bytes if they are equal and their keys are in the same order.

Stored bytes are one tag byte and a payload:

``J`` canonical JSON · ``L``, ``D`` the head of a list or dict whose entries are ``item`` records ·
``R`` JSON ``{"paths": […], "value": …}``, the entries at ``paths`` redacted · ``B`` the 32 bytes of a blob's
sha256, then JSON about it, or nothing where the blob holds the stored bytes of the value itself.

The C parts of the standard library's ``json`` are used directly: importing ``json`` itself costs as much as
starting Python does.
"""

from __future__ import annotations

from leftoff.errors import Corrupt, Invalid
from leftoff.model.digest import sha256 as sha256
from leftoff.model.frozen import FrozenDict, FrozenList, mark, marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

MAX_DEPTH = 200
JSON, LIST, DICT, REDACTED, BLOB = b"J", b"L", b"D", b"R", b"B"
_MARKED = b'{"redacted":true}'  # how a mark, and whatever looks like one, is encoded

_PLAIN = frozenset((str, int, float, bool, type(None)))
_OK_DICT = frozenset((dict, FrozenDict))
_OK_LIST = frozenset((list, FrozenList))


def _unknown(value: object) -> NoReturn:
    raise TypeError(type(value).__name__)


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


class _Context:
    """What the C scanner wants to know."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)
    memo: dict[str, str] = {}


def _parts() -> tuple[
    Callable[[Any], str], list[Callable[[Any, int], Iterable[str]]], Callable[[str, int], Any]
]:
    """Quoting a text, encoding a value (keys as they are, keys sorted), scanning one: in C, or from ``json``."""
    try:
        from _json import encode_basestring, make_encoder, make_scanner
    except ImportError:
        from json import JSONDecoder, JSONEncoder
        from json.encoder import encode_basestring as quote

        options: Any = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
        encoders: Any = [JSONEncoder(sort_keys=sort, **options).iterencode for sort in (False, True)]
        decoder: Any = JSONDecoder(parse_constant=_constant)
        return quote, encoders, decoder.scan_once
    make: Any = make_encoder
    context: Any = _Context()
    encoders = [
        make(None, _unknown, encode_basestring, None, ":", ",", sort, False, False) for sort in (False, True)
    ]
    return encode_basestring, encoders, make_scanner(context)


_quote, (_iterencode_as_is, _iterencode), _scan = _parts()


def _is_json(value: object, depth: int) -> bool:
    """Whether a list or dict holds only exact JSON types; what it refuses, the slow walk looks at again."""
    kind = type(value)
    if depth == 0:
        return False
    if kind in _OK_DICT:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or (type(item) not in _PLAIN and not _is_json(item, depth - 1)):
                return False
        return True
    if kind in _OK_LIST:
        for item in value:  # type: ignore[attr-defined]
            if type(item) not in _PLAIN and not _is_json(item, depth - 1):
                return False
        return True
    return False


def text(value: object, name: str = "value", keep: str = "") -> str:
    """Canonical JSON as text. ``name`` starts the path in an error.

    ``keep``: the entry of a record in which dicts keep the order of their keys.
    """
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind not in _PLAIN and not _is_json(value, MAX_DEPTH):
        value = _normal(value, name, MAX_DEPTH)
    try:
        if keep and isinstance(value, dict) and isinstance(dict.get(value, keep), (dict, list)):
            return _record(value, keep)
        return "".join(_iterencode(value, 0))
    except (ValueError, TypeError, RecursionError):
        _normal(value, name, MAX_DEPTH)  # says which entry it is
        raise


def _record(record: dict[str, Any], keep: str) -> str:
    parts = (
        _quote(key) + ":" + "".join((_iterencode_as_is if key == keep else _iterencode)(item, 0))
        for key, item in sorted(dict.items(record))
    )
    return "{" + ",".join(parts) + "}"


def encode(value: object, name: str = "value", keep: str = "") -> bytes:
    """Canonical JSON, refused with the offender's path where it would not come back as it is."""
    out = text(value, name, keep)
    try:
        return out.encode()
    except UnicodeEncodeError:
        _normal(value, name, MAX_DEPTH)
        raise


def store(value: object, name: str = "value", keep: str = "") -> bytes:
    """Stored bytes of a value: tagged as redacted where a mark is in it, which it still is when it is read back."""
    inner = encode(value, name, keep)
    paths = marks(value) if _MARKED in inner else []
    if not paths:
        return JSON + inner
    return REDACTED + b'{"paths":' + encode(sorted(paths, key=text)) + b',"value":' + inner + b"}"


def encode_entries(values: list[Any], base: Any, name: str) -> list[bytes | None]:
    """Stored bytes of each entry of a list; ``None`` where it is the very object that ``base`` has in that place.

    One loop with everything at hand: large lists are assigned whole, again and again.
    """
    quote, iterencode, join = _quote, _iterencode, "".join
    known = len(base) if base is not None else 0
    out: list[bytes | None] = []
    add = out.append
    try:
        for index, value in enumerate(values):
            if index < known and value is base[index]:
                add(None)
                continue
            kind = type(value)
            if kind is str:
                add(("J" + quote(value)).encode())
            elif kind in _PLAIN or _is_json(value, MAX_DEPTH - 1):
                add(("J" + join(iterencode(value, 0))).encode())
            else:
                add(store(value, f"{name}[{index}]"))
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError):
        store(values[len(out)], f"{name}[{len(out)}]")  # says what is wrong, and where
        raise
    return out


def decode(data: bytes | str) -> Any:
    """The value of JSON text; ``ValueError`` where it is none."""
    source = data.decode() if isinstance(data, bytes) else data
    try:
        value, end = _scan(source, _skip(source, 0))
    except (StopIteration, RecursionError) as error:
        raise ValueError("not JSON") from error
    except SystemError:  # the C scanner can only say what is wrong once this is loaded
        import json.decoder

        value, end = json.decoder.JSONDecoder(parse_constant=_constant).raw_decode(source, _skip(source, 0))
    if _skip(source, end) != len(source):
        raise ValueError(f"extra text after the JSON value, at character {end}")
    return value


def key_twice(source: str) -> str | None:
    """A key that an object in JSON text has more than once: ``decode`` takes the last of them."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            found.append(next(key for key in keys if keys.count(key) > 1))

    try:
        from _json import make_scanner
    except ImportError:
        from json import JSONDecoder

        JSONDecoder(object_pairs_hook=look).raw_decode(source, _skip(source, 0))
    else:
        context: Any = _Context()
        context.object_pairs_hook = look
        scan: Any = make_scanner(context)
        scan(source, _skip(source, 0))
    return found[0] if found else None


def _skip(source: str, index: int) -> int:
    while index < len(source) and source[index] in " \t\r\n":
        index += 1
    return index


def _normal(value: Any, path: str, depth: int) -> Any:
    """The value with subclasses of JSON's types made plain; refused, naming the path, where that loses anything."""
    kind = type(value)
    if kind is bool or value is None:
        return value
    if _is_enum(kind):
        raise _not_json(value, path, "Store its .value or .name.")
    if isinstance(value, str):
        return _normal_text(value, path)
    if isinstance(value, int):
        return _normal_int(value, path)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise Invalid(
                f"{path} is {value!r}, which is not JSON.",
                path=path,
                hint="Use null (in Python: None), or text.",
            )
        return float(value)
    if depth == 0 and isinstance(value, (dict, list)):
        raise Invalid(
            f"{path} is nested more than {MAX_DEPTH} levels deep, or contains itself.",
            path=path,
            hint="Store a flatter value, or what is inside under names of its own.",
        )
    if isinstance(value, dict):
        return {_normal_key(k, path): _normal(v, f"{path}.{k}", depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_normal(v, f"{path}[{i}]", depth - 1) for i, v in enumerate(value)]
    raise _not_json(value, path, _ADVICE.get(kind.__name__, "Convert it to JSON's types first."))


def _is_enum(kind: type) -> bool:
    """Whether a class is an Enum: by its metaclass's name, as importing ``enum`` costs half of starting Python."""
    return any(base.__name__ in ("EnumType", "EnumMeta") for base in type.mro(type(kind)))


_ADVICE = {
    "tuple": "Use a list: list(value).",
    "set": "Use a list: sorted(value).",
    "frozenset": "Use a list: sorted(value).",
    "bytes": "Decode it, or save a file and use run.artifact(path).",
    "bytearray": "Decode it, or save a file and use run.artifact(path).",
    "datetime": "Use value.isoformat().",
    "date": "Use value.isoformat().",
    "time": "Use value.isoformat().",
    "Decimal": "Use str(value).",
    "PosixPath": "Use str(path).",
    "UUID": "Use str(value).",
}


def _not_json(value: object, path: str, hint: str) -> Invalid:
    return Invalid(f"{path} is a {type(value).__name__}, which is not JSON.", path=path, hint=hint)


def _normal_text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(
            f"{path} has a lone surrogate at character {error.start}, which is not Unicode text.",
            path=path,
            hint="It usually comes from bytes that were not UTF-8; decode them with errors='replace'.",
        ) from None
    return str.__str__(value)


def _normal_int(value: int, path: str) -> int:
    try:
        int.__repr__(value)
    except ValueError:
        raise Invalid(
            f"{path} is an int of too many digits to be written.", path=path, hint="Use a string: hex(value)."
        ) from None
    return int(value)


def _normal_key(key: object, path: str) -> str:
    if not isinstance(key, str) or _is_enum(type(key)):
        raise Invalid(
            f"{path} has the key {key!r}, a {type(key).__name__}; keys of JSON objects are text.",
            path=path,
            hint="Use str(key).",
        )
    return _normal_text(key, f"{path} (its key)")


def payload(stored: bytes, where: str) -> Any:
    """The JSON value inside stored bytes of tag ``J`` or ``R`` (for ``R`` with the mark in each redacted place)."""
    try:
        if stored[:1] == JSON:
            return decode(stored[1:])
        if stored[:1] == REDACTED:
            found = decode(stored[1:])
            return mark(found["value"], found["paths"])
    except (ValueError, LookupError, TypeError) as error:
        raise Corrupt(f"{where} does not decode: {error}", where=where) from error
    raise Corrupt(f"{where} has the unknown tag {stored[:1]!r}", where=where)


def holes(stored: bytes) -> list[list[Any]]:
    """The paths that were redacted in a stored value."""
    return list(_scan(stored[10:].decode(), 0)[0]) if stored[:1] == REDACTED else []  # behind R{"paths":
