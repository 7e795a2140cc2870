"""The one canonical encoding, for ever: what is hashed is what is stored. And the digest of a state.

Compact JSON in UTF-8, keys sorted, floats as Python's shortest ``repr``, ints of any size. Everything that would
not come back as it went in is refused with the path of the offender: NaN and infinities, lone surrogates, keys
that are not text, and the types that JSON encoders accept silently (tuples, sets, bytes, dates, enums, …).

The result of a step or workflow is the exception: its dicts keep their order (``keep`` names its entry in the record).
So two results have equal bytes if they are equal and their keys are in the same order.

Stored bytes are one tag byte and a payload:

``J`` canonical JSON · ``L``, ``D`` the head of a list or dict whose entries are ``item`` records ·
``R`` JSON ``{"paths": […], "value": …}``, the entries at ``paths`` redacted · ``B`` the 32 bytes of a blob's
sha256, then JSON about it, or nothing if the blob holds the stored bytes of the value itself.

The digest of a state is a sum, so that a commit costs what it changes: ``sum of sha256(collection NUL key NUL
sha256(stored bytes)) modulo 2**256`` over the live records. Adding and removing a record are both one addition, history
leaves no trace in it, and it can be checked at every kept version after any pruning. It detects corruption; it is not a
signature.

The C parts of the standard library's ``json`` are used directly, because importing ``json`` costs each command two
milliseconds.

OpenSSL's sha256 is several times as fast on long input, but loading OpenSSL takes two milliseconds. So it is used if it
is loaded already (the Python API loads it); a command that hashes a few records uses the interpreter's own. Code that
has much to hash calls ``long_sha256``, which is always OpenSSL's.
"""

from __future__ import annotations

import sys
from _json import encode_basestring, make_encoder, make_scanner
from _operator import itemgetter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn

from leftoff.errors import Corrupt, Frozen, Invalid, Redacted

if TYPE_CHECKING:
    from _hashlib import HASH  # slow to load

Row = tuple[str, bytes, bytes]  # key, hash, stored bytes

MAX_DEPTH = 200
JSON, LIST, DICT, REDACTED, BLOB = b"J", b"L", b"D", b"R", b"B"
_MARKED = b'{"redacted":true}'  # how a mark, and data that looks like one, is encoded


class Binary:
    """Bytes that stand for their base64, which is made piece by piece when it is written.

    ``make`` returns anything that has that many bytes.
    """

    __slots__ = ("_make", "size")

    def __init__(self, make: Callable[[], Any], size: int) -> None:
        self._make, self.size = make, size

    def __iter__(self) -> Iterator[bytes]:
        from binascii import b2a_base64

        data = memoryview(self._make())
        for start in range(0, len(data), BINARY_PIECE):
            yield b2a_base64(data[start : start + BINARY_PIECE], newline=False)

    def __str__(self) -> str:
        return b"".join(self).decode()


class Entries:
    """The entries of a long list, which are made piece by piece when they are written.

    ``make`` yields lists of JSON. ``plain``: so far, all of them were text, numbers, booleans or None.
    """

    __slots__ = ("_make", "plain")

    def __init__(self, make: Callable[[], Iterator[list[Any]]]) -> None:
        self._make, self.plain = make, True

    def __iter__(self) -> Iterator[list[Any]]:
        for some in self._make():
            self.plain = self.plain and _PLAIN.issuperset(map(type, some))
            yield some


class Checked(dict):  # type: ignore[type-arg]
    """A step's record whose result is known to be exact JSON.

    ``names``: the keys of all dicts in the result. ``has_parts``: it has `Binary` or `Entries` in it.
    """

    __slots__ = ("has_parts", "names")

    def __init__(self, record: dict[str, Any], names: set[str], has_parts: bool) -> None:
        super().__init__(record)
        self.names, self.has_parts = names, has_parts


_PLAIN = frozenset((str, int, float, bool, type(None), Binary, Entries))


# -- frozen values
#
# ``run.variables["x"].append(1)`` would be lost silently, because nothing tells the run about it. So values that are
# read back are real lists and dicts (``==``, ``isinstance`` and ``json.dumps`` work) whose mutators raise ``Frozen``.
# Being immutable, they can be recognised by identity when they are assigned again. Copies are ordinary, mutable ones.
#
# A value with redacted entries is made of ``HoledDict`` and ``HoledList``, on the way to each such entry. Their own
# methods raise; code of leftoff that must see the marks reads them with ``dict.items(value)`` and
# ``list.__iter__(value)``.


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
    """Return where an entry is, as it is written after the name of the value: ``[0].token``."""
    return "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path)


# -- the encoding

_OK_DICT = frozenset((dict, FrozenDict))
_OK_LIST = frozenset((list, FrozenList))
_KNOWN = _PLAIN | _OK_DICT | _OK_LIST
_TEXT, _DICTS_ONLY = frozenset((str,)), frozenset((dict,))
_TYPED = {"$type", "value"}
_ROWS = 1024  # entries that are checked and encoded together
BINARY_PIECE = 3 << 17  # bytes; shorter ones are encoded at once


def _unknown(value: object) -> Any:
    if type(value) is Binary:
        return str(value)
    if type(value) is Entries:
        return list(chain.from_iterable(map(_without_names, value)))
    raise TypeError(type(value).__name__)


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


class _Context:
    """The options of the C scanner."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)
    memo: dict[str, str] = {}


_quote: Callable[[Any], str] = encode_basestring


def _encoder(sort: bool) -> Callable[[Any, int], Iterable[str]]:
    make: Any = make_encoder
    found: Callable[[Any, int], Iterable[str]] = make(
        None, _unknown, _quote, None, ":", ",", sort, False, False
    )
    return found


_iterencode_as_is, _iterencode = _encoder(sort=False), _encoder(sort=True)
_scan: Callable[[str, int], Any] = make_scanner(_Context())  # type: ignore[arg-type]


def exact_copy(value: Any, names: set[str], depth: int = MAX_DEPTH) -> Any:
    """Return a copy of a list or dict that holds only exact JSON types; ``None`` for any other value.

    The keys of all dicts are added to ``names``. C code looks at all entries of a container, and of a table, at once.
    """
    kind = type(value)
    if depth == 0 or (kind not in _OK_DICT and kind not in _OK_LIST):
        return None
    entries: Any
    if kind in _OK_DICT:
        copy: Any = dict(value)
        entries = copy.values()
        if not _TEXT.issuperset(map(type, copy)):
            return None
        names.update(copy)
    else:
        copy = entries = list(value)
    kinds = set(map(type, entries))
    if kinds <= _PLAIN:
        return None if float in kinds and _has_infinite(entries) else copy
    if not kinds <= _KNOWN or (float in kinds and _has_infinite(entries)):
        return None
    if kinds == _DICTS_ONLY and copy is entries and depth > 1:
        rows: list[Any] = []
        while len(rows) < len(copy):  # so many that the processor's cache has room for them
            some = _copied_rows(copy[len(rows) : len(rows) + _ROWS], names)
            if some is None:
                break
            rows += some
        else:
            return rows
    for key, item in enumerate(copy) if copy is entries else copy.items():
        if type(item) not in _PLAIN:
            copy[key] = exact_copy(item, names, depth - 1)
            if copy[key] is None:
                return None
    return copy


def _copied_rows(rows: list[dict[Any, Any]], names: set[str]) -> list[Any] | None:
    """Return copies of dicts that have the same keys and hold only scalars of JSON, else ``None``."""
    copies = list(map(dict.copy, rows))
    columns = [*copies[0]]
    if {len(columns)} != set(map(len, copies)) or not _TEXT.issuperset(
        map(type, chain.from_iterable(copies))
    ):
        return None
    try:
        for column in columns:
            kinds = set(map(type, map(itemgetter(column), copies)))
            if not kinds <= _PLAIN or (float in kinds and _has_infinite(map(itemgetter(column), copies))):
                return None
    except KeyError:
        return None
    names.update(columns)
    return copies


def _has_infinite(entries: Iterable[Any]) -> bool:
    """Return whether a float among the entries is infinite or not a number."""
    floats = [item for item in entries if type(item) is float]
    total = sum(floats)
    if total - total == 0:
        return False
    return any(item - item != 0 for item in floats)  # the sum of large numbers may be infinite, too


def text(
    value: object, name: str = "value", keep: str = "", names: set[str] | None = None, tag: str = ""
) -> str:
    """Return canonical JSON as text, after ``tag``. ``name`` starts the path in an error.

    ``keep``: the entry of a record in which dicts keep the order of their keys. ``names``: gets the keys of all dicts.
    """
    kind = type(value)
    if kind is str:
        return tag + _quote(value)
    names, rest = set() if names is None else names, value
    if type(value) is Checked and keep:
        names |= value.names
        rest = {key: item for key, item in value.items() if key != keep}
    if kind not in _PLAIN and exact_copy(rest, names) is None:
        value = _normal(value, name, MAX_DEPTH)
        exact_copy(value, names)
    try:
        if keep and isinstance(value, dict) and isinstance(dict.get(value, keep), (dict, list)):
            return tag + "".join(p if isinstance(p, str) else p.decode() for p in pieces(value, keep))
        return "".join((tag, *_iterencode(value, 0)))
    except (ValueError, TypeError, RecursionError):
        _normal(value, name, MAX_DEPTH)  # says which entry it is
        raise


def in_pieces(value: Any, levels: int = 8) -> bool:
    """Return whether a value is written in pieces: it has a long container, or a part that is not made yet."""
    kind = type(value)
    if kind not in _OK_DICT and kind not in _OK_LIST:
        return kind is Binary or kind is Entries
    if len(value) > _ROWS or levels == 0:
        return levels > 0
    return any(in_pieces(item, levels - 1) for item in (value.values() if kind in _OK_DICT else value))


def pieces(record: dict[str, Any], keep: str) -> Iterator[str | bytes]:
    """Yield in pieces what `text` returns of a record whose entry ``keep`` is `in_pieces`. Base64 is bytes.

    No piece ends within a text.
    """
    start = "{"
    for key, item in sorted(dict.items(record)):
        yield f"{start}{_quote(key)}:"
        if key == keep:
            yield from _pieces(item)
        else:
            yield "".join(_iterencode(item, 0))
        start = ","
    yield "}"


def _pieces(value: Any) -> Iterator[str | bytes]:
    if type(value) is Binary:
        yield '"'
        yield from value
        yield '"'
    elif type(value) is Entries:
        start = "["
        for some in value:
            yield start + "".join(_iterencode_as_is(_without_names(some), 0))[1:-1]
            start = ","
        yield "]"
    elif not in_pieces(value):
        yield "".join(_iterencode_as_is(value, 0))
    else:
        is_list = type(value) in _OK_LIST
        entries: Iterator[Any] = iter(value if is_list else value.items())
        start = "{["[is_list]
        if len(value) > _ROWS:
            while some := list(islice(entries, _ROWS)):
                yield start + "".join(_iterencode_as_is(some if is_list else dict(some), 0))[1:-1]
                start = ","
        else:
            for entry in entries:
                yield start if is_list else f"{start}{_quote(entry[0])}:"
                yield from _pieces(entry if is_list else entry[1])
                start = ","
        yield "}]"[is_list]


def _without_names(entries: list[Any]) -> list[Any]:
    """Return a part of `Entries`. Raise ``ValueError`` if it has names, which were not searched."""
    names: set[str] = set()
    if exact_copy(entries, names) is None or not names <= _TYPED:
        raise ValueError("The entries have names, or are not exact JSON.")
    return entries


def made(value: Any) -> Any:
    """Return JSON in which all `Binary` and `Entries` are text and lists."""
    if type(value) is Binary:
        return str(value)
    if type(value) is Entries:
        return list(chain.from_iterable(value))
    if type(value) is dict:
        return {key: made(item) for key, item in value.items()}
    return list(map(made, value)) if type(value) is list else value


def encode(value: object, name: str = "value", keep: str = "") -> bytes:
    """Return canonical JSON. Raise ``Invalid`` with the offender's path if it would not come back as it is."""
    out = text(value, name, keep)
    try:
        return out.encode()
    except UnicodeEncodeError:
        _normal(value, name, MAX_DEPTH)
        raise


def store(value: object, name: str = "value", keep: str = "") -> bytes:
    """Return stored bytes of a value, tagged as redacted if a mark is in it."""
    inner = encode(value, name, keep)
    paths = marks(value) if _MARKED in inner else []
    if not paths:
        return JSON + inner
    return REDACTED + b'{"paths":' + encode(sorted(paths, key=text)) + b',"value":' + inner + b"}"


def encode_entries(values: list[Any], base: Any, name: str) -> list[bytes | None]:
    """Return stored bytes of each entry of a list; ``None`` for the very object that ``base`` has in that place.

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
            elif kind in _PLAIN or exact_copy(value, set(), MAX_DEPTH - 1) is not None:
                add(("J" + join(iterencode(value, 0))).encode())
            else:
                add(store(value, f"{name}[{index}]"))
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError):
        store(values[len(out)], f"{name}[{len(out)}]")  # says what is wrong, and where
        raise
    return out


def decode(data: bytes | str) -> Any:
    """Return the value of JSON text. Raise ``ValueError`` if it is not JSON."""
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
    """Return a key that an object in JSON text has more than once. ``decode`` takes the last of them."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            found.append(next(key for key in keys if keys.count(key) > 1))

    context: Any = _Context()
    context.object_pairs_hook = look
    make_scanner(context)(source, _skip(source, 0))
    return found[0] if found else None


def _skip(source: str, index: int) -> int:
    while index < len(source) and source[index] in " \t\r\n":
        index += 1
    return index


def _normal(value: Any, path: str, depth: int) -> Any:
    """Return the value with subclasses of JSON's types made plain. Raise ``Invalid`` if that loses anything."""
    kind = type(value)
    if kind is bool or value is None:
        return value
    if _is_enum(kind):
        raise _not_json(value, path, "Store its .value or .name.")
    if isinstance(value, str):
        return _normal_text(value, path)
    if isinstance(value, int):
        try:
            int.__repr__(value)
        except ValueError:
            what = f"{path} is an int of too many digits to be written."
            raise Invalid(what, path=path, hint="Use a string: hex(value).") from None
        return int(value)
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
            hint="Store a flatter value, or what is inside under other names.",
        )
    if isinstance(value, dict):
        return {_normal_key(k, path): _normal(v, f"{path}.{k}", depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_normal(v, f"{path}[{i}]", depth - 1) for i, v in enumerate(value)]
    raise _not_json(value, path, "Convert it to JSON's types first.")


def _is_enum(kind: type) -> bool:
    """Whether a class is an Enum: by its metaclass's name, as importing ``enum`` costs half of starting Python."""
    return any(base.__name__ in ("EnumType", "EnumMeta") for base in type.mro(type(kind)))


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


def _normal_key(key: object, path: str) -> str:
    if not isinstance(key, str) or _is_enum(type(key)):
        raise Invalid(
            f"{path} has the key {key!r}, a {type(key).__name__}; keys of JSON objects are text.",
            path=path,
            hint="Use str(key).",
        )
    return _normal_text(key, f"{path} (its key)")


def payload(stored: bytes, where: str) -> Any:
    """Return the JSON value of stored bytes of tag ``J`` or ``R`` (for ``R`` with the mark in each redacted place)."""
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
    """Return the paths that were redacted in a stored value."""
    return list(_scan(stored[10:].decode(), 0)[0]) if stored[:1] == REDACTED else []  # after R{"paths":


# -- hashes and digests

MASK = (1 << 256) - 1
_PAYS = 4000  # records of a few hundred bytes: from here on, loading OpenSSL pays
_HASH, _STORED = itemgetter(1), itemgetter(2)


def _openssl() -> Callable[..., HASH]:
    from hashlib import sha256

    return sha256


def _own() -> Callable[..., HASH]:
    """Return the interpreter's own sha256, if it was built with one."""
    try:
        own: Any = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        return _openssl()
    found: Callable[..., HASH] = own.sha256
    return found


sha256: Callable[..., HASH] = _openssl() if "_hashlib" in sys.modules else _own()


def long_sha256(data: bytes = b"") -> HASH:
    """Hash files and whole stores."""
    return _openssl()(data)


def term(collection: str, key: str, value_hash: bytes) -> int:
    """Return what one live record adds to the digest."""
    return int.from_bytes(sha256(f"{collection}\0{key}\0".encode() + value_hash).digest(), "big")


def sum_of(collection: str, rows: Collection[Row]) -> int:
    """Return what many live records of one collection add to the digest: the sum of ``term`` of each."""
    hashed = _openssl() if len(rows) > _PAYS else sha256
    prefix = f"{collection}\0".encode()
    terms = [hashed(prefix + key.encode() + b"\0" + hash).digest() for key, hash, _ in rows]
    return sum(map(int.from_bytes, terms))


def sound(rows: Collection[Row]) -> bool:
    """Return whether all stored bytes match their hashes."""
    hashed = _openssl() if len(rows) > _PAYS else sha256
    try:
        return [found.digest() for found in map(hashed, map(_STORED, rows))] == list(map(_HASH, rows))
    except TypeError:  # not even bytes
        return False


def to_bytes(digest: int) -> bytes:
    return digest.to_bytes(32, "big")


def tagged(digest: bytes) -> str:
    """Return a digest as it is shown, and stored in text: ``sha256:…``."""
    return "sha256:" + digest.hex()


def checkpoint_id(run_id: str, seq: int, digest: bytes) -> str:
    """Return 64 hex characters, of which people use any unique prefix of at least four. One of the first four is a
    letter, so that a prefix is never a number."""
    made = sha256(f"{run_id}:{seq}:{digest.hex()}".encode()).hexdigest()
    while made[:4].isdigit():
        made = sha256(made.encode()).hexdigest()
    return made


def same_json(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: 1, 1.0 and true are three values, 0.0 and -0.0 two."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return (
        type(left) is type(right) and left == right and (type(left) is not float or repr(left) == repr(right))
    )
