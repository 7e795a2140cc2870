"""The registry of value kinds: every type that is not JSON, and how a record stores its values.

A `Kind` has the name that records use, a function that takes a value apart into something that can be encoded, and a
function that makes the value again. There are three sources of kinds:

- Python's own types, under a short word (``set``, ``datetime``).
- Classes with fields (dataclasses, msgspec structs, attrs classes, pydantic models, named tuples, enums, and classes
  derived from dict or list), under ``module:Class``. They are recognised by the attributes that such classes have, so
  none of these packages is imported. A value is made again from its fields, without its ``__init__``.
- Classes that the program registered.

A record may come from anywhere. So a class is looked up only in modules that the program has imported, and only if it
is of one of these kinds.
"""

from __future__ import annotations

import collections
import enum
import os
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.errors import Invalid, Unsupported, Usage
from leftoff.model.codec import Binary

if TYPE_CHECKING:
    import datetime

HINT = (
    "Put it back as it was; or register it under the recorded name: leftoff.register(cls, …, name=NAME); or give the "
    "step a new version=, which runs it again."
)


class Kind(NamedTuple):
    """How the values of one class are recorded."""

    name: str
    take: Callable[[Any], Any]
    make: Callable[[Any], Any]


def register(
    cls: type,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    *,
    name: str | None = None,
) -> None:
    """Say how values of a class are recorded: ``encode`` gives anything that can be, ``decode`` makes it a value again.

    ``name`` is what records call it (left out: ``module:Class``). A class that is recorded field by field anyway needs
    neither function: registering it under the name it once had makes old records readable.
    """
    if not isinstance(cls, type):
        raise Usage(f"{cls!r} is not a class.", hint="leftoff.register(Point, encode=…, decode=…)")
    own = _class_kind(cls)
    take, make = encode or (own and own.take), decode or (own and own.make)
    if take is None or make is None:
        raise Usage(
            f"How is a {cls.__qualname__} recorded, and made again?",
            hint=f"leftoff.register({cls.__qualname__}, encode=lambda value: …, decode=lambda data: …)",
        )
    kind = Kind(name or class_name(cls), take, make)
    if kind.name in _WORDS or kind.name.startswith(("numpy.", "pandas.")):
        raise Usage(
            f"{kind.name} is the name of one of Python's own types in records.", hint="Choose another."
        )
    _by_class[cls] = _registered[kind.name] = kind


def kind_of(cls: type) -> Kind | None:
    """Return how values of exactly this class are recorded; None if they cannot be."""
    try:
        return _by_class[cls]
    except KeyError:
        package = cls.__module__.partition(".")[0]
        kind = _LIBRARY.get(package, {}).get(cls.__qualname__)
        if kind is None:
            kind = _array_kind(cls) if package in _ARRAY_MODULES else _class_kind(cls)
        _by_class[cls] = kind
        return kind


def kind_to_write(cls: type) -> Kind | None:
    """Like `kind_of`. Raise ``Invalid`` if a reader would not find the class under the name in the record."""
    kind = kind_of(cls)
    if kind is None or ":" not in kind.name or cls in _found or _registered.get(kind.name) is kind:
        return kind
    try:
        found = _find_class(kind.name, "It")
    except Unsupported:
        found = None
    if found is not cls:
        raise Invalid(
            f"{kind.name} cannot be found again under that name.",
            hint="Define the class at the top of its module, or leftoff.register it under another name.",
        )
    _found.add(cls)
    return kind


def kind_named(name: str, where: str) -> Kind:
    """Return the kind that a record names; ``where`` names the record in an error."""
    kind = _registered.get(name) or _WORDS.get(name) or _ARRAYS.get(name)
    if kind is None:
        cls = _find_class(name, where)
        kind = kind_of(cls) if isinstance(cls, type) else None
    if kind is None:
        raise Unsupported(f"{where} is a {name}, a class whose values cannot be stored.", hint=HINT)
    return kind


def class_name(cls: type) -> str:
    """Return the name of a class in records, ``module:Class``."""
    module = cls.__module__
    return f"{_main_name() or module if module == '__main__' else module}:{cls.__qualname__}"


def _main_name() -> str | None:
    """Return the importable name of the program: what ``python -m`` was given, or its file's name."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    return os.path.basename(getattr(main, "__file__", None) or "").removesuffix(".py") or None


def _find_class(name: str, where: str) -> Any:
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    if found is None and module and module == _main_name():
        found = sys.modules.get("__main__")
    if found is None:
        raise Unsupported(
            f"{where} is a {name}, and this program has not imported {module}.",
            hint=f"Import it first. {HINT}",
        )
    for part in qualname.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise Unsupported(
                f"{where} is a {name}, and module {module} has no {qualname} any more.", hint=HINT
            )
    return found


# -- Python's own types


def _take_datetime(value: datetime.datetime) -> Any:
    """Store the name of the time zone if it has one, and `fold`: which of two equal hours it is."""
    zone = getattr(value.tzinfo, "key", None)
    if zone is None:
        return [value.replace(fold=0).isoformat(), None, 1] if value.fold else value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


def _make_datetime(stored: Any) -> datetime.datetime:
    from datetime import datetime

    if isinstance(stored, str):
        return datetime.fromisoformat(stored)
    moment, zone, fold = stored
    made = datetime.fromisoformat(moment).replace(fold=fold)
    if zone is None:
        return made
    from zoneinfo import ZoneInfo

    return made.replace(tzinfo=ZoneInfo(zone))


_FACTORIES = {kind.__name__: kind for kind in (list, dict, set, int, float, str, tuple)}


def _take_defaultdict(value: Any) -> Any:
    """Store the entries, and the builtin that makes new ones. Any other factory is left out."""
    factory = value.default_factory
    return [factory.__name__ if factory in _FACTORIES.values() else None, Pairs(value)]


def _make_defaultdict(stored: Any) -> Any:
    word, pairs = stored
    return collections.defaultdict(_FACTORIES[word] if word else None, pairs)


class Pairs(NamedTuple):
    """A dict that the encoder writes as a list of pairs, because its keys need not be text."""

    entries: dict[Any, Any]


class Members(NamedTuple):
    """A set that the encoder writes as a list in an order that depends on nothing but its entries."""

    entries: Any


def _binary(value: Any) -> Binary:
    return Binary(lambda: value, len(value))


OWN_TYPES = {
    tuple: Kind("tuple", list, tuple),
    set: Kind("set", Members, set),
    frozenset: Kind("frozenset", Members, frozenset),
    bytes: Kind("bytes", _binary, a2b_base64),
    bytearray: Kind(
        "bytearray", lambda value: _binary(bytes(value)), lambda stored: bytearray(a2b_base64(stored))
    ),
    complex: Kind("complex", str, complex),
    range: Kind("range", lambda value: [value.start, value.stop, value.step], lambda stored: range(*stored)),
    collections.Counter: Kind("counter", Pairs, lambda pairs: collections.Counter(dict(map(tuple, pairs)))),
    collections.OrderedDict: Kind("ordered-dict", Pairs, collections.OrderedDict),
    collections.defaultdict: Kind("default-dict", _take_defaultdict, _make_defaultdict),
    collections.deque: Kind("deque", list, collections.deque),
}


def _library_kind(word: str, module: str, maker: str, take: Callable[[Any], Any] = str) -> Kind:
    """Return the kind of a class of the standard library. Its module is imported when a value is made again."""

    def make(stored: Any) -> Any:
        found: Any = import_module(module)
        for part in maker.split("."):
            found = getattr(found, part)
        return found(*stored) if word == "timedelta" else found(stored)

    return Kind(word, take, make)


def _take_isoformat(value: Any) -> str:
    return str(value.isoformat())


_PATH = _library_kind("path", "pathlib", "Path")
_LIBRARY = {
    "datetime": {
        "datetime": Kind("datetime", _take_datetime, _make_datetime),
        "date": _library_kind("date", "datetime", "date.fromisoformat", _take_isoformat),
        "time": _library_kind("time", "datetime", "time.fromisoformat", _take_isoformat),
        "timedelta": _library_kind(
            "timedelta",
            "datetime",
            "timedelta",
            lambda value: [value.days, value.seconds, value.microseconds],
        ),
    },
    "decimal": {"Decimal": _library_kind("decimal", "decimal", "Decimal")},
    "uuid": {"UUID": _library_kind("uuid", "uuid", "UUID")},
    "pathlib": {
        "PosixPath": _PATH,
        "WindowsPath": _PATH,
        "PurePosixPath": _library_kind("pure-posix-path", "pathlib", "PurePosixPath"),
        "PureWindowsPath": _library_kind("pure-windows-path", "pathlib", "PureWindowsPath"),
    },
}
# JSON that a record cannot hold as it is: an infinite number, a dict whose keys are not all text.
DICT = Kind("dict", Pairs, dict)
FLOAT = Kind("float", repr, float)

COLUMN_PIECE = 8192  # entries of a column that are made at once


class Bytes:
    """The bytes of an array. They are copied when they are written, and piece by piece."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __call__(self) -> Any:
        import numpy

        return numpy.ascontiguousarray(self.array).reshape(-1).view(numpy.uint8)


class Column:
    """The entries of an array or a pandas column, as lists of Python's own values. They are made piece by piece."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[list[Any]]:
        at = getattr(self._values, "iloc", self._values)
        for start in range(0, len(self), COLUMN_PIECE):
            yield _plain(at[start : start + COLUMN_PIECE]).tolist()


_WORDS = {kind.name: kind for kind in (*OWN_TYPES.values(), DICT, FLOAT)}
_WORDS |= {kind.name: kind for classes in _LIBRARY.values() for kind in classes.values()}
_by_class: dict[type, Kind | None] = dict(OWN_TYPES)
_by_class[Bytes] = Kind("bytes", lambda data: Binary(data, data.array.nbytes), a2b_base64)
_registered: dict[str, Kind] = {}
_found: set[type] = set()  # classes that are known to be found under their names


# -- classes with fields


def _class_kind(cls: Any) -> Kind | None:
    own = cls.__dict__
    top = cls.__module__.partition(".")[0]
    if issubclass(type(cls), enum.EnumMeta):
        take, make = _enum(cls)
    elif issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        take, make = _named_tuple(cls)
    elif "__dataclass_fields__" in own:
        take, make = _by_fields(cls, _dataclass_defaults)
    elif hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_defaults__"):
        take, make = _msgspec_struct(cls)
    elif "__attrs_attrs__" in own:
        take, make = _by_fields(cls, _attrs_defaults)
    elif hasattr(cls, "__pydantic_fields__") and hasattr(cls, "model_construct"):
        take, make = _pydantic_model(cls)
    elif issubclass(cls, (dict, list)) and top not in ("builtins", "collections", "leftoff"):
        take, make = _derived_container(cls, dict if issubclass(cls, dict) else list)
    else:
        return None
    return Kind(class_name(cls), take, make)


def _enum(cls: Any) -> tuple[Any, Any]:
    """Store a member by its name. Combined flags have none, and are stored by their value."""
    names = cls.__members__

    def take(value: Any) -> Any:
        return value.name if names.get(value.name) is value else [value.value]

    def make(stored: Any) -> Any:
        return names[stored] if isinstance(stored, str) else cls(stored[0])

    return take, make


def _named_tuple(cls: Any) -> tuple[Any, Any]:
    def take(value: Any) -> Any:
        return dict(zip(cls._fields, value, strict=True))

    def make(stored: dict[str, Any]) -> Any:
        _check_fields(stored, dict.fromkeys(cls._fields))
        return tuple.__new__(cls, [stored[field] for field in cls._fields])

    return take, make


def _check_fields(stored: dict[str, Any], fields: dict[str, Any]) -> None:
    """Raise ``Unsupported`` unless a record has every field without a default (None), and no unknown one."""
    gone = [name for name in stored if name not in fields]
    missing = [name for name in fields if name not in stored and fields[name] is None]
    if gone:
        raise Unsupported(f"it has {', '.join(gone)}, which the class has not.", hint=HINT)
    if missing:
        raise Unsupported(f"it has no {', '.join(missing)}.", hint=HINT)


def _by_fields(cls: Any, defaults_of: Callable[[Any], dict[str, Any]]) -> tuple[Any, Any]:
    """Return take and make for a class with attributes. ``defaults_of`` maps each field to its default factory."""

    def take(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in defaults_of(cls) if hasattr(value, name)}

    def make(stored: dict[str, Any]) -> Any:
        fields = defaults_of(cls)
        _check_fields(stored, fields)
        made: Any = object.__new__(cls)
        for name, default in fields.items():
            object.__setattr__(made, name, stored[name] if name in stored else default())
        return made

    return take, make


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _dataclass_defaults(cls: Any) -> dict[str, Any]:
    from dataclasses import MISSING, fields

    out: dict[str, Any] = {}
    for field in fields(cls):
        if field.default_factory is not MISSING:
            out[field.name] = field.default_factory
        else:
            out[field.name] = None if field.default is MISSING else _constant(field.default)
    return out


def _attrs_defaults(cls: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in cls.__attrs_attrs__:
        factory = getattr(field.default, "factory", None)
        if factory is not None:
            out[field.name] = None if field.default.takes_self else factory
        else:
            nothing = type(field.default).__name__ == "_Nothing"
            out[field.name] = None if nothing else _constant(field.default)
    return out


def _msgspec_struct(cls: Any) -> tuple[Any, Any]:
    """A struct can only be made by its class. Afterwards its fields are set to what they were."""
    names = cls.__struct_fields__
    optional = names[len(names) - len(cls.__struct_defaults__) :]

    def take(value: Any) -> Any:
        return {name: getattr(value, name) for name in names}

    def make(stored: dict[str, Any]) -> Any:
        from msgspec.structs import force_setattr

        _check_fields(stored, {name: "default" if name in optional else None for name in names})
        made = cls(**stored)
        for name, value in stored.items():
            force_setattr(made, name, value)
        return made

    return take, make


_PYDANTIC_PARTS = {"extra": "__pydantic_extra__", "private": "__pydantic_private__"}


def _pydantic_model(cls: Any) -> tuple[Any, Any]:
    """Store the fields, which of them were set, and the extra and private attributes."""

    def take(value: Any) -> dict[str, Any]:
        out = {"fields": dict(value.__dict__), "set": sorted(value.__pydantic_fields_set__)}
        for word, name in _PYDANTIC_PARTS.items():
            if getattr(value, name):
                out[word] = dict(getattr(value, name))
        return out

    def make(stored: dict[str, Any]) -> Any:
        fields, held = cls.__pydantic_fields__, stored["fields"]
        _check_fields(held, {name: None if field.is_required() else field for name, field in fields.items()})
        made = cls.__new__(cls)
        values = {  # in the order of the class, as its own methods write them
            name: held[name] if name in held else field.get_default(call_default_factory=True)
            for name, field in fields.items()
        }
        object.__setattr__(made, "__dict__", values)
        object.__setattr__(made, "__pydantic_fields_set__", set(stored["set"]))
        for word, name in _PYDANTIC_PARTS.items():
            allowed = word == "extra" and cls.model_config.get("extra") == "allow"
            object.__setattr__(made, name, stored.get(word, {} if allowed else None))
        return made

    return take, make


def _derived_container(cls: Any, base: Any) -> tuple[Any, Any]:
    """Store the entries of a class derived from dict or list, and its attributes if it has any."""
    word = "pairs" if base is dict else "entries"

    def take(value: Any) -> dict[str, Any]:
        entries = [list(pair) for pair in dict.items(value)] if base is dict else list(list.__iter__(value))
        attributes = getattr(value, "__dict__", None)
        out: dict[str, Any] = {word: entries}
        if attributes and attributes is not value:
            out["attributes"] = dict(attributes)
        return out

    def make(stored: dict[str, Any]) -> Any:
        made = cls.__new__(cls)
        base.update(made, stored[word]) if base is dict else base.extend(made, stored[word])
        for name, held in stored.get("attributes", {}).items():
            object.__setattr__(made, name, held)
        return made

    return take, make


# -- numpy and pandas. An array of numbers is stored as its bytes with type and shape; one of objects as a list of its
#    entries. A large one becomes a blob, as any large value does.

_ARRAY_MODULES = ("numpy", "pandas")
_PANDAS = {
    "NaTType": "Timestamp",
    "NAType": "NA",
}  # names in records; other classes are recorded under their own
_SIMPLE = "biufcmM"  # kinds of numpy types that are stored as bytes: booleans, numbers, times


def _array_kind(cls: type) -> Kind | None:
    """Return how values of a class of numpy or pandas are recorded; None if they cannot be."""
    if cls.__module__.partition(".")[0] == "pandas":
        name = "Index" if cls.__name__.endswith("Index") else _PANDAS.get(cls.__name__, cls.__name__)
        return _ARRAYS.get(f"pandas.{name}")
    import numpy

    if issubclass(cls, numpy.generic):
        return _ARRAYS["numpy.scalar"]
    return _ARRAYS["numpy.ndarray"] if cls is numpy.ndarray else None


def _take_scalar(value: Any) -> list[Any]:
    return [value.dtype.str, value.tobytes()] if value.dtype.kind in _SIMPLE else ["O", value.item()]


def _array(value: Any) -> list[Any]:
    if value.dtype.kind in _SIMPLE:
        return [value.dtype.str, list(value.shape), Bytes(value)]
    return [value.dtype.str if value.dtype.kind in "SU" else "O", list(value.shape), Column(value.ravel())]


def _take_frame(value: Any) -> list[Any]:
    columns = [_column(value.iloc[:, number]) for number in range(value.shape[1])]
    return [_index(value.columns), columns, _index(value.index)]


def _column(series: Any) -> list[Any]:
    """Return the type that pandas has for it, and its entries."""
    return [_dtype(series.dtype), _entries(series)]


def _entries(series: Any) -> list[Any]:
    """Return the entries of a column or an index. Text is stored under its name, so that redaction sees that."""
    import numpy

    own = isinstance(series.dtype, numpy.dtype)
    kind, shape, data = _array(series.to_numpy()) if own else ("O", [len(series)], Column(series))
    if isinstance(data, Column) and type(series.name) is str and series.name != "$type":
        data = {series.name: data}
    return [kind, shape, data]


def _dtype(kind: Any) -> Any:
    """Return the name of a type. Of a categorical one also its categories, in their order."""
    if type(kind).__name__ == "CategoricalDtype":
        return ["category", _index(kind.categories), bool(kind.ordered)]
    return str(kind)


def _plain(values: Any) -> Any:
    """Return entries as numpy has them. Those of pandas' own types become objects, with None if one is missing."""
    import numpy

    if isinstance(values.dtype, numpy.dtype):
        return values if isinstance(values, numpy.ndarray) else values.to_numpy()
    return values.astype(object).where(values.notna(), None).to_numpy()


def _index(index: Any) -> list[Any]:
    if hasattr(index, "levels"):
        levels = [_index(index.get_level_values(number)) for number in range(index.nlevels)]
        return ["levels", levels, list(index.names)]
    if type(index).__name__ == "RangeIndex":
        return ["range", [index.start, index.stop, index.step], index.name]
    return [_dtype(index.dtype), _entries(index.to_series()), index.name]


def own_copy(value: Any) -> Any:
    """Return a copy of bytes, an array or a table that equals what its record decodes to, or None if that costs more.

    The copy of a table shares the objects in its columns, so they must be text and numbers. Those of long columns are
    checked while they are encoded (`Entries.plain`).
    """
    cls = type(value)
    if cls is bytes:
        return value
    package = cls.__module__.partition(".")[0]
    if package == "numpy" and cls.__name__ == "ndarray" and value.dtype.kind in _SIMPLE:
        return value.copy()
    if (
        package != "pandas"
        or cls.__name__ != "DataFrame"
        or value.attrs
        or not value.flags.allows_duplicate_labels
    ):
        return None
    import pandas

    if not {type(value.index), type(value.columns)} <= {pandas.Index, pandas.RangeIndex}:
        return None
    columns = [value.iloc[:, number] for number in range(value.shape[1])]
    if not all(map(_is_exact, [value.index, value.columns, *columns])):
        return None
    return value.copy(deep=pandas.__version__ < "3")  # pandas 3 copies a column when either table changes it


def _is_exact(values: Any) -> bool:
    """Return whether all entries of a column are numbers, times or exact text, or the column is a long one."""
    if type(values.dtype).__name__ == "CategoricalDtype":
        return _is_exact(values.dtype.categories) and len(values.dtype.categories) <= COLUMN_PIECE
    if values.dtype.kind in _SIMPLE or len(values) > COLUMN_PIECE:
        return True
    return {str, int, float, bool, type(None)}.issuperset(map(type, values))


def _make_array_like(word: str, parts: Any) -> Any:
    import numpy

    if word == "numpy.scalar":
        kind, data = parts
        return numpy.frombuffer(data, dtype=kind)[0] if kind != "O" else data
    if word == "numpy.ndarray":
        return _make_array(parts)
    import pandas

    if word in ("pandas.Timestamp", "pandas.Timedelta"):
        return getattr(pandas, word[7:])(parts)
    if word == "pandas.NA":
        return pandas.NA
    if word == "pandas.Period":
        return pandas.Period(parts[0], freq=parts[1])
    if word == "pandas.Index":
        return _make_index(parts)
    if word == "pandas.Series":
        column, index, name = parts
        return _make_column(column, _make_index(index)).rename(name)
    columns, values, index = parts
    rows = _make_index(index)
    made = [_make_column(column, rows) for column in values]
    frame = pandas.concat(made, axis=1) if made else pandas.DataFrame(index=rows)
    frame.columns = _make_index(columns)
    return frame


def _make_array(parts: Any) -> Any:
    import numpy

    kind, shape, data = parts
    if isinstance(data, dict):  # the entries of a column, under its name
        (data,) = data.values()
    if isinstance(data, bytes):
        return numpy.frombuffer(data, dtype=kind).reshape(shape).copy()
    made: Any = numpy.empty(len(data), dtype=object if kind == "O" else kind)
    made[:] = data
    return made.reshape(shape)


def _make_index(parts: Any) -> Any:
    import pandas

    kind, data, name = parts
    if kind == "range":
        return pandas.RangeIndex(*data, name=name)
    if kind == "levels":
        return pandas.MultiIndex.from_arrays([_make_index(level) for level in data], names=name)
    return pandas.Index(_make_array(data), name=name).astype(_make_dtype(kind))


def _make_column(column: Any, rows: Any) -> Any:
    import pandas

    return pandas.Series(_make_array(column[1]), index=rows).astype(_make_dtype(column[0]))


def _make_dtype(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    import pandas

    return pandas.CategoricalDtype(_make_index(kind[1]), ordered=kind[2])


_TAKE = {
    "numpy.scalar": _take_scalar,
    "numpy.ndarray": _array,
    "pandas.Timestamp": _take_isoformat,
    "pandas.Timedelta": _take_isoformat,
    "pandas.Period": lambda value: [str(value), value.freqstr],
    "pandas.NA": lambda value: None,
    "pandas.DataFrame": _take_frame,
    "pandas.Series": lambda value: [_column(value), _index(value.index), value.name],
    "pandas.Index": _index,
}
_ARRAYS = {word: Kind(word, take, partial(_make_array_like, word)) for word, take in _TAKE.items()}
