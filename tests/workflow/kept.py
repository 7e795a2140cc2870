"""Classes whose values are kept by durable functions, where a record can find them again."""

from __future__ import annotations

import enum
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic


class Colour(enum.Enum):
    RED = "r"
    GREEN = {"g": 1}


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Page:
    url: str
    links: list[Page] = field(default_factory=list)
    colour: Colour | None = None


@dataclass(frozen=True, slots=True)
class Doubled:
    """Its constructor changes what it is given; a record must not go through it again."""

    number: int
    start: InitVar[int] = 0
    half: float = field(init=False, default=0.0)

    def __post_init__(self, start: int) -> None:
        object.__setattr__(self, "number", self.number * 2 + start)


class Point(NamedTuple):
    x: int
    y: tuple[int, ...] = ()


class Struct(msgspec.Struct, frozen=True):
    name: str
    tags: set[str] = msgspec.field(default_factory=set)

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "name", self.name + "!")


@attrs.frozen
class Attrs:
    x: int
    _hidden: Any = attrs.field(default=None, alias="hidden")
    made: list[int] = attrs.Factory(list)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", arbitrary_types_allowed=True)
    number: int = pydantic.Field(default=0, gt=-10)
    inner: Attrs | None = None
    alias: str = pydantic.Field(default="", alias="Alias")
    _private: int = pydantic.PrivateAttr(default=7)

    @pydantic.field_validator("number")
    @classmethod
    def more(cls, value: int) -> int:
        """Validating again would change it again."""
        return value + 1


class Root(pydantic.RootModel[list[int]]):
    pass


class Opaque:
    """Nothing that is kept by itself."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Row(TypedDict):
    id: int
