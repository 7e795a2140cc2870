"""Classes whose values are kept: field by field, or as somebody registered them.

Dataclasses, msgspec structs, attrs classes, pydantic models, named tuples and enums are known by what such classes
carry, so that none of these packages is needed. A value is taken apart into its fields and put together again from
them, without its ``__init__``: it comes back as it was, not as it would be made today. The record names the class as
``module:Class``, and only a class of such a kind, or a registered one, is ever looked for under such a name.
"""

from __future__ import annotations

import sys
from typing import Any

from leftoff.errors import Invalid, Unsupported, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The words of records for Python's own types.
ARRAYS = (
    "numpy.scalar",
    "numpy.ndarray",
    "pandas.Series",
    "pandas.DataFrame",
    "pandas.Index",
    "pandas.Timestamp",
    "pandas.Timedelta",
    "pandas.Period",
    "pandas.NA",
)
WORDS = frozenset(
    "dict tuple set frozenset bytes bytearray complex range float counter ordered-dict default-dict deque "
    "datetime date time timedelta decimal uuid path pure-posix-path pure-windows-path".split()
) | frozenset(ARRAYS)
HINT = (
    "Put it back as it was; or register it under the recorded name: leftoff.register(cls, …, name=NAME); or give the "
    "step a new version=, which runs it again."
)


class Kind:
    """One class: its name in records, how to take a value apart, how to make it again."""

    __slots__ = ("make", "name", "take")

    def __init__(self, name: str, take: Callable[[Any], Any], make: Callable[[Any], Any]) -> None:
        self.name = name
        self.take = take
        self.make = make


_known: dict[type, Kind | None] = {}
_registered: dict[str, Kind] = {}
_found: set[type] = set()  # under the names that they have in records


def register(
    cls: type,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    *,
    name: str | None = None,
) -> None:
    """Say how values of a class are recorded: ``encode`` gives anything that can be, ``decode`` makes it a value again.

    ``name`` is what records call it (left out: ``module:Class``). A class that is kept field by field anyway needs
    neither function: registering it under the name it once had makes old records readable.
    """
    if not isinstance(cls, type):
        raise Usage(f"{cls!r} is not a class.", hint="leftoff.register(Point, encode=…, decode=…)")
    own = _find(cls)
    take, make = encode or (own.take if own else None), decode or (own.make if own else None)
    if take is None or make is None:
        raise Usage(
            f"How is a {cls.__qualname__} recorded, and made again?",
            hint=f"leftoff.register({cls.__qualname__}, encode=lambda value: …, decode=lambda data: …)",
        )
    kind = Kind(name or name_of(cls), take, make)
    if kind.name in WORDS:
        raise Usage(
            f"{kind.name} is the name of one of Python's own types in records.", hint="Choose another."
        )
    _known[cls] = _registered[kind.name] = kind


def of(cls: type) -> Kind | None:
    """How values of exactly this class are kept; ``None`` where they are not."""
    try:
        return _known[cls]
    except KeyError:
        found = _known[cls] = _find(cls)
        return found


def _find(cls: type) -> Kind | None:
    for belongs, build in _KINDS:
        if belongs(cls):
            take, make = build(cls)
            return Kind(name_of(cls), take, make)
    return None


def name_of(cls: type) -> str:
    """What a record calls a class."""
    module = cls.__module__
    return f"{_main_name() or module if module == '__main__' else module}:{cls.__qualname__}"


def _main_name() -> str | None:
    """The name that others know the program by: what ``python -m`` was given, or that of its file."""
    main = sys.modules.get("__main__")
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None) or ""
    return (
        spec.name
        if spec is not None
        else path.replace("\\", "/").rpartition("/")[2].removesuffix(".py") or None
    )


def findable(cls: type) -> Kind | None:
    """Like ``of``, given that whoever reads a record finds the class under the name it has there."""
    kind = of(cls)
    if kind is None or cls in _found:
        return kind
    if _registered.get(kind.name) is not kind:
        try:
            there = _class(kind.name, "It")
        except Unsupported:
            there = None
        if there is not cls:
            raise Invalid(
                f"{kind.name} cannot be found again under that name.",
                hint="Define the class at the top of its module, or leftoff.register it under a name of its own.",
            )
    _found.add(cls)
    return kind


def named(name: str, where: str) -> Kind:
    """The kind that a record names."""
    found = _registered.get(name)
    if found is not None:
        return found
    cls = _class(name, where)
    kind = of(cls) if isinstance(cls, type) else None
    if kind is None:
        raise Unsupported(f"{where} is a {name}, which is no class whose values are kept.", hint=HINT)
    return kind


def _class(name: str, where: str) -> Any:
    module, _, qualname = name.partition(":")
    found: Any = _module(module, name, where)
    for part in qualname.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise Unsupported(
                f"{where} is a {name}, and module {module} has no {qualname} any more.", hint=HINT
            )
    return found


def _module(module: str, name: str, where: str) -> Any:
    """The module of a recorded class, if the program has loaded it: that runs it, and a record may come from anywhere.

    A program's own module is known by another name, too.
    """
    found = sys.modules.get(module)
    if found is None and module and module == _main_name():
        found = sys.modules.get("__main__")
    if found is None:
        raise Unsupported(
            f"{where} is a {name}, and this program has not imported {module}.",
            hint=f"Import it first. {HINT}",
        )
    return found


# -- the kinds: how such a class is recognised, and how its values are taken apart and made again


def is_enum(cls: type) -> bool:
    """Whether a class is an Enum: by its metaclass's name, as importing ``enum`` costs half of starting Python."""
    return any(base.__name__ in ("EnumType", "EnumMeta") for base in type.mro(type(cls)))


def _enum(cls: Any) -> tuple[Any, Any]:
    """By a member's name; combined flags have none, and go by their value."""
    names = cls.__members__

    def take(value: Any) -> Any:
        return value.name if names.get(value.name) is value else [value.value]

    return take, lambda kept: names[kept] if isinstance(kept, str) else cls(kept[0])


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _named_tuple(cls: Any) -> tuple[Any, Any]:
    def make(kept: dict[str, Any]) -> Any:
        return tuple.__new__(cls, [kept[field] for field in _fitting(cls, kept, dict.fromkeys(cls._fields))])

    return lambda value: dict(zip(cls._fields, value, strict=True)), make


def _fitting(cls: type, kept: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, given that a record has each that has no default, and no other."""
    gone = [name for name in kept if name not in fields]
    missing = [name for name in fields if name not in kept and fields[name] is None]
    if gone or missing:
        what = (
            f"it has {', '.join(gone)}, which the class has not"
            if gone
            else f"it has no {', '.join(missing)}"
        )
        raise Unsupported(f"{what}.", hint=HINT)
    return fields


def _by_fields(
    cls: type, defaults: Callable[[], dict[str, Any]], put: Any = object.__setattr__
) -> tuple[Any, Any]:
    """Take and make for classes with attributes; ``defaults``: field to what makes its default, or None."""

    def take(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in defaults() if hasattr(value, name)}

    def make(kept: dict[str, Any]) -> Any:
        fields = _fitting(cls, kept, defaults())
        made: Any = object.__new__(cls)
        for name, default in fields.items():
            put(made, name, kept[name] if name in kept else default())
        return made

    return take, make


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _dataclass(cls: Any) -> tuple[Any, Any]:
    from dataclasses import MISSING, fields

    def defaults() -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field in fields(cls):
            if field.default_factory is not MISSING:
                out[field.name] = field.default_factory
            else:
                out[field.name] = None if field.default is MISSING else _constant(field.default)
        return out

    return _by_fields(cls, defaults)


def _attrs(cls: Any) -> tuple[Any, Any]:
    def defaults() -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field in cls.__attrs_attrs__:
            factory = getattr(field.default, "factory", None)
            if factory is not None:
                out[field.name] = None if field.default.takes_self else factory
            else:
                nothing = type(field.default).__name__ == "_Nothing"
                out[field.name] = None if nothing else _constant(field.default)
        return out

    return _by_fields(cls, defaults)


def _struct(cls: Any) -> tuple[Any, Any]:
    """A msgspec struct can only be made by its class; afterwards its fields are what they were."""
    names = cls.__struct_fields__
    optional = names[len(names) - len(cls.__struct_defaults__) :]

    def make(kept: dict[str, Any]) -> Any:
        from msgspec.structs import force_setattr

        _fitting(cls, kept, {name: _constant(None) if name in optional else None for name in names})
        made = cls(**kept)
        for name, value in kept.items():
            force_setattr(made, name, value)
        return made

    return lambda value: {name: getattr(value, name) for name in names}, make


def _is_own(cls: type, base: type) -> bool:
    """Whether somebody made a class of their own of dict or list."""
    return issubclass(cls, base) and cls.__module__.partition(".")[0] not in (
        "builtins",
        "collections",
        "leftoff",
    )


def _dict(cls: Any) -> tuple[Any, Any]:
    return _of_builtin(cls, "pairs", lambda value: [[k, v] for k, v in dict.items(value)], dict.update)


def _list(cls: Any) -> tuple[Any, Any]:
    return _of_builtin(cls, "entries", lambda value: list(list.__iter__(value)), list.extend)


def _of_builtin(cls: Any, word: str, entries: Any, fill: Any) -> tuple[Any, Any]:
    """A dict or list of another class: its entries, and its attributes where it has any."""

    def take(value: Any) -> dict[str, Any]:
        held = getattr(value, "__dict__", None)
        out = {word: entries(value)}
        return {**out, "attributes": dict(held)} if held and held is not value else out

    def make(kept: dict[str, Any]) -> Any:
        made = cls.__new__(cls)
        fill(made, kept[word])
        for name, held in kept.get("attributes", {}).items():
            object.__setattr__(made, name, held)
        return made

    return take, make


_PARTS = {"extra": "__pydantic_extra__", "private": "__pydantic_private__"}


def _model(cls: Any) -> tuple[Any, Any]:
    """A pydantic model: its fields, which of them were set, and what else it holds."""

    def take(value: Any) -> dict[str, Any]:
        out = {"fields": dict(value.__dict__), "set": sorted(value.__pydantic_fields_set__)}
        out.update((word, dict(held)) for word, name in _PARTS.items() if (held := getattr(value, name)))
        return out

    def make(kept: dict[str, Any]) -> Any:
        fields = {
            name: None if field.is_required() else field for name, field in cls.__pydantic_fields__.items()
        }
        held = kept["fields"]
        values = {  # in the order of the class, as its own methods write them
            name: held[name] if name in held else field.get_default(call_default_factory=True)
            for name, field in _fitting(cls, held, fields).items()
        }
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", values)
        object.__setattr__(made, "__pydantic_fields_set__", set(kept["set"]))
        for word, name in _PARTS.items():
            empty: dict[str, Any] | None = (
                {} if word == "extra" and cls.model_config.get("extra") == "allow" else None
            )
            object.__setattr__(made, name, kept.get(word, empty))
        return made

    return take, make


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], tuple[Any, Any]]], ...] = (
    (is_enum, _enum),
    (_is_named_tuple, _named_tuple),
    (lambda cls: "__dataclass_fields__" in cls.__dict__, _dataclass),
    (lambda cls: hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_defaults__"), _struct),
    (lambda cls: "__attrs_attrs__" in cls.__dict__, _attrs),
    (lambda cls: hasattr(cls, "__pydantic_fields__") and hasattr(cls, "model_construct"), _model),
    (lambda cls: _is_own(cls, dict), _dict),
    (lambda cls: _is_own(cls, list), _list),
)
