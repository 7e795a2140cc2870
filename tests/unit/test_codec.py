"""The canonical encoding: fixed bytes for what is JSON, a named place for what is not."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import pathlib
import uuid
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.errors import Corrupt, Invalid
from leftoff.model.codec import MAX_DEPTH, decode, encode, freeze, holes, payload, text

# Golden examples: these bytes are on people's disks, so they never change.
GOLDEN: list[tuple[Any, bytes]] = [
    (None, b"null"),
    (True, b"true"),
    (False, b"false"),
    (0, b"0"),
    (-1, b"-1"),
    (2**64 + 1, b"18446744073709551617"),
    (-(10**30), b"-1000000000000000000000000000000"),
    (0.0, b"0.0"),
    (-0.0, b"-0.0"),
    (1.0, b"1.0"),
    (0.1, b"0.1"),
    (1e16, b"1e+16"),
    (1e-7, b"1e-07"),
    (1.7976931348623157e308, b"1.7976931348623157e+308"),
    (5e-324, b"5e-324"),
    ("", b'""'),
    ("plain", b'"plain"'),
    ("caf\u00e9 \u2028 \U0001f600", '"caf\u00e9 \u2028 \U0001f600"'.encode()),
    ('"\\/\b\f\n\r\t', b'"\\"\\\\/\\b\\f\\n\\r\\t"'),
    ("\0\x01\x1f\x7f", b'"\\u0000\\u0001\\u001f\x7f"'),
    ([], b"[]"),
    ({}, b"{}"),
    ([1, [2, {"b": 1, "a": None}]], b'[1,[2,{"a":null,"b":1}]]'),
    ({"b": 1, "a": 2, "A": 3, "\u00e9": 4, "": 5}, '{"":5,"A":3,"a":2,"b":1,"\u00e9":4}'.encode()),
    ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'.encode()),
]


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Flags(enum.Flag):
    ON = 1


class ChoicesMeta(enum.EnumMeta):
    """As frameworks make their own."""


class Choice(str, enum.Enum, metaclass=ChoicesMeta):  # noqa: UP042 - a metaclass of its own is the point
    A = "a"


Point = namedtuple("Point", "x y")

# What encoders accept silently, or turn into something else.
REFUSED: dict[str, Any] = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "a lone surrogate": "a\ud800b",
    "a tuple": (1, 2),
    "a named tuple": Point(1, 2),
    "a set": {1},
    "a frozenset": frozenset([1]),
    "bytes": b"x",
    "a bytearray": bytearray(b"x"),
    "a memoryview": memoryview(b"x"),
    "a datetime": datetime.datetime(2026, 1, 31),
    "a date": datetime.date(2026, 1, 31),
    "a time": datetime.time(9, 5),
    "a timedelta": datetime.timedelta(seconds=1),
    "a Decimal": decimal.Decimal("1.1"),
    "a UUID": uuid.UUID(int=0),
    "a path": pathlib.Path("a"),
    "a complex": 1j,
    "a range": range(3),
    "an Enum": Colour.RED,
    "an IntEnum": Level.LOW,
    "a StrEnum": Word.YES,
    "a Flag": Flags.ON,
    "an Enum of another metaclass": Choice.A,
    "a mapping that is no dict": UserDict({"a": 1}),
    "a function": len,
    "an object": object(),
    "an int of too many digits": 10**5000,
}


@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=[repr(value)[:40] for value, _ in GOLDEN])
def test_golden_bytes(value: Any, expected: bytes) -> None:
    """The canonical bytes of a value are fixed for ever, and read back as the value."""
    assert expected == encode(value)
    back = decode(expected)
    assert value == back and type(value) is type(back)


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_refused_with_its_path(value: Any) -> None:
    """What would not come back as it is is refused, and the error says where it is."""
    with pytest.raises(Invalid) as caught:
        encode({"jobs": [1, {"due": value}]}, "plan")
    assert "plan.jobs[1].due" == caught.value.path
    assert "plan.jobs[1].due" in caught.value.message
    assert caught.value.hint or "int of too many digits" in caught.value.message
    with pytest.raises(Invalid) as caught:  # the value itself may be the offender
        encode(value, "due")
    assert "due" == caught.value.path


@pytest.mark.parametrize("key", [1, 1.5, None, True, (1,), b"k", Level.LOW, Word.YES, Choice.A])
def test_keys_are_text(key: Any) -> None:
    """A key that is not text is refused, naming the dict that has it: encoders would turn it into text."""
    with pytest.raises(Invalid) as caught:
        encode({"jobs": [{key: 1}]}, "plan")
    assert "plan.jobs[0]" == caught.value.path
    assert repr(key) in caught.value.message


def test_surrogate_in_a_key() -> None:
    """A lone surrogate in a key is refused like one in a value."""
    with pytest.raises(Invalid, match="lone surrogate"):
        encode({"jobs": {"a\udfff": 1}}, "plan")


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded() -> None:
    """A value of the greatest depth survives, one level more is refused; how deep does not matter."""
    deepest = nested(MAX_DEPTH - 1)
    assert deepest == decode(encode(deepest))
    for depth in (MAX_DEPTH + 1, 5_000):
        with pytest.raises(Invalid, match=f"more than {MAX_DEPTH} levels"):
            encode(nested(depth), "deep")


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_self_containing_is_refused(kind: str) -> None:
    """A list or dict that contains itself is refused, naming the place."""
    looped: Any = [] if kind == "list" else {}
    if kind == "list":
        looped.append(looped)
    else:
        looped["again"] = looped
    with pytest.raises(Invalid, match="contains itself") as caught:
        encode({"x": looped}, "plan")
    assert caught.value.path.startswith("plan.x[0]" if kind == "list" else "plan.x.again")


def test_subclasses_become_plain() -> None:
    """Subclasses of JSON's own types survive as what they are underneath."""

    class Name(str):
        __slots__ = ()

    class Count(int):
        pass

    class Ratio(float):
        pass

    counts: dict[str, Any] = defaultdict(int, {"b": Count(2)})
    value = OrderedDict([("z", Name("n")), ("a", [Ratio(0.5), counts]), (Name("k"), True)])
    assert b'{"a":[0.5,{"b":2}],"k":true,"z":"n"}' == encode(value)


def test_frozen_values_encode_as_they_are() -> None:
    """What was read from a run can be stored again, to the same bytes."""
    value = {"a": [1, {"b": [None]}]}
    assert encode(value) == encode(freeze(value))


def test_text_that_looks_like_a_number_stays_text() -> None:
    """No value changes its type on the way."""
    value = ["1", "1.0", "true", "null", "NaN", 1, 1.0, True, None]
    back = decode(encode(value))
    assert [type(item) for item in value] == [type(item) for item in back]


JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | JSON_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(JSON_TEXT, inner),
)


def exact(value: Any) -> str:
    """A value with its types: 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{exact(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(exact, value)) + "]"
    return f"{type(value).__name__} {value!r}"


@given(JSON_VALUES)
def test_round_trip(value: Any) -> None:
    """Every JSON value reads back exactly, and its bytes are those of any other way to write it down."""
    stored = encode(value)
    assert exact(value) == exact(decode(stored))
    assert stored == encode(decode(stored))
    assert json.loads(stored) == value


@given(JSON_VALUES)
def test_agrees_with_the_standard_library(value: Any) -> None:
    """The parts of `json` that are used directly give what `json` itself gives."""
    same = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":"))
    assert same == text(value)


@given(st.text())
def test_any_text_survives_or_is_refused(value: str) -> None:
    """Text with a lone surrogate is refused; all other text survives."""
    if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        with pytest.raises(Invalid, match="lone surrogate"):
            encode(value)
    else:
        assert value == decode(encode(value))


@pytest.mark.parametrize("bad", [b"", b"nope", b"[1", b"1 2", b"NaN", b"Infinity", b'{"a":1', b"\xff"])
def test_decoding_what_is_no_json(bad: bytes) -> None:
    """Bytes that are not one JSON value are a ValueError, whatever is wrong with them."""
    with pytest.raises(ValueError):
        decode(bad)


def test_payload_by_tag() -> None:
    """The tag byte says how stored bytes are read; redacted ones keep their marks and say where."""
    assert {"a": 1} == payload(b'J{"a":1}', "x")
    redacted = b'R{"paths":[["b"]],"value":{"a":1,"b":{"redacted":true}}}'
    assert {"a": 1, "b": {"redacted": True}} == payload(redacted, "x")
    assert [["b"]] == holes(redacted)
    assert [] == holes(b'J{"a":1}')


@pytest.mark.parametrize("stored", [b"", b"Z1", b"J", b"Jnope", b"R[]", b"R{}", b"J\xff"])
def test_payload_names_what_does_not_decode(stored: bytes) -> None:
    """Stored bytes that cannot be read are Corrupt, naming the record; never another error, never a value."""
    with pytest.raises(Corrupt, match="variable/x of run r") as caught:
        payload(stored, "variable/x of run r")
    assert "variable/x of run r" == caught.value.where
