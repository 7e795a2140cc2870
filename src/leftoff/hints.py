"""The names that annotations need, and ``NamedTuple``, without ``typing`` and ``collections``.

Importing ``typing`` takes as long as starting Python. Agents call some verbs by the thousand, so the modules that
these verbs load import such names from here. A type checker sees the real ones.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Collection as Collection
    from collections.abc import Container as Container
    from collections.abc import Coroutine as Coroutine
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import Sequence as Sequence
    from typing import Any as Any
    from typing import BinaryIO as BinaryIO
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import TextIO as TextIO
    from typing import TypeVar as TypeVar
else:
    from _collections import _tuplegetter
    from _collections_abc import (  # noqa: F401
        Callable,
        Collection,
        Container,
        Coroutine,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    Any = BinaryIO = NoReturn = TextIO = object

    def TypeVar(name, **_):
        return name

    class _Declared(type):
        """Makes the annotations of a class body the fields of a tuple, as ``typing.NamedTuple`` does."""

        def __new__(meta, name, bases, body):
            fields = tuple(body.get("__annotations__", ()))
            if fields and bases == (NamedTuple,):
                defaults = tuple(body[field] for field in fields if field in body)
                body |= {field: _tuplegetter(at, "") for at, field in enumerate(fields)}
                words = ", ".join(fields)
                make = eval(f"lambda _cls, {words}: _new(_cls, ({words},))", {"_new": tuple.__new__})
                make.__defaults__ = defaults
                body |= {"__new__": make, "__slots__": (), "__match_args__": fields, "_fields": fields}
            return type.__new__(meta, name, bases, body)

    class NamedTuple(tuple, metaclass=_Declared):
        __slots__ = ()

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)

        def _replace(self, **changed):
            return type(self)(**{**self._asdict(), **changed})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))
