"""Small values with named fields, declared as for a dataclass, without what importing `dataclasses` costs.

    class Point(Fields):
        x: int
        y: int = 0

Fields are given by name or in order; one without a default must be given. Values compare by their fields.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform()
class Fields:
    """A value of named fields; a subclass annotates them."""

    if TYPE_CHECKING:
        _fields: tuple[str, ...]
    else:
        _fields = ()

    def __init_subclass__(cls) -> None:
        own = [name for name in cls.__annotations__ if name[0] != "_"]
        cls._fields = (*cls._fields, *(name for name in own if name not in cls._fields))

    if not TYPE_CHECKING:

        def __init__(self, *values: Any, **named: Any) -> None:
            if len(values) > len(self._fields):
                raise TypeError(f"{type(self).__name__} has {len(self._fields)} fields, not {len(values)}")
            mine = self.__dict__
            mine.update(zip(self._fields, values, strict=False))
            for name, value in named.items():
                if name in mine or name not in self._fields:
                    raise TypeError(
                        f"{type(self).__name__} cannot be given {name!r} {'twice' if name in mine else ''}"
                    )
                mine[name] = value
            for name in self._fields:
                if name not in mine and not hasattr(type(self), name):
                    raise TypeError(f"{type(self).__name__} must be given {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({shown})"

    def but(self, **changed: Any) -> Self:
        """The same with other values in some fields."""
        return type(self)(**{**{name: getattr(self, name) for name in self._fields}, **changed})
