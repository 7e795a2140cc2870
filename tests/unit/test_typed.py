"""What `K=V` means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.errors import Usage
from leftoff.model import typed
from leftoff.model.codec import text

SAME = [
    "1.10", "1e5", "1E5", "007", "1_000", "+1", "-0", ".5", "5.", "1e400", " 5", "5 ", "0x10", "NaN", "Infinity",
    "True", "None", " true", "nul", '"quoted"', "[1", '{"a"', "{a: 1}", "[1] x", "", "-", "٣", "9" * 5000, "@", "x",
]  # fmt: skip
JSON: dict[str, Any] = {
    "10": 10,
    "0": 0,
    "-1.5": -1.5,
    "1.0": 1.0,
    "-0.0": -0.0,
    "1e+16": 1e16,
    "123456789012345678901234567890": 123456789012345678901234567890,
    "true": True,
    "false": False,
    "null": None,
    "[1,2]": [1, 2],
    ' {"a": [1.10, "x"]}\n': {"a": [1.1, "x"]},
    "{}": {},
}


@pytest.mark.parametrize("word", SAME)
def test_what_would_not_print_back_is_text(word: str) -> None:
    """A number that would be written otherwise, and whatever only resembles JSON, stays as it was typed."""
    assert word == typed.typed(word)
    assert str is type(typed.typed(word))


@pytest.mark.parametrize("word", JSON)
def test_literals_and_containers_are_json(word: str) -> None:
    """true, false, null, numbers written our way, lists and objects are what they say."""
    found = typed.typed(word)
    assert (JSON[word], type(JSON[word])) == (found, type(found))


@given(st.text() | st.integers().map(str) | st.floats().map(repr) | st.from_regex(r"-?[0-9._eE+-]{1,12}"))
def test_a_value_prints_back_as_it_was_typed(word: str) -> None:
    """Whatever is typed, text and scalars come back character by character."""
    found = typed.typed(word)
    if not isinstance(found, (list, dict)):
        assert word == (found if isinstance(found, str) else text(found))


@given(st.text())
def test_text_from_a_file_keeps_every_character(content: str) -> None:
    """Text that is read is never trimmed; only literals, numbers and containers may be padded."""
    found = typed.from_file(content)
    assert content == found or not isinstance(found, str)


def test_padded_values_from_a_file() -> None:
    """A newline at the end of a file does not turn its number into text."""
    assert [42, True, {"a": 1}, "hi\n"] == [
        typed.from_file(x) for x in ("42\n", " true\n", '{\n "a": 1\n}\n', "hi\n")
    ]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("k=v", ("k", "text", "v")),
        ("k==v", ("k", "text", "=v")),
        ("k=", ("k", "text", "")),
        ("k:=1.10", ("k", "json", "1.10")),
        ("a:b=c", ("a:b", "text", "c")),
        ("k=@f.txt", ("k", "file", "f.txt")),
        ("k:=@f", ("k", "json", "@f")),
        ("a b=c d", ("a b", "text", "c d")),
    ],
)
def test_an_assignment_taken_apart(word: str, expected: tuple[str, str, str]) -> None:
    """The first `=` ends the key; `:=` and `=@` say how the value is meant."""
    assert expected == typed.split(word)


@pytest.mark.parametrize("word", ["", "=", "=v", ":=1", "novalue"])
def test_no_assignment(word: str) -> None:
    """Without a key or a sign it is wrong usage, and the hint shows how it goes."""
    with pytest.raises(Usage) as error:
        typed.split(word)
    assert "count=3" in error.value.hint


@pytest.mark.parametrize(
    "word", ["", "x", "{", "[1,]", "NaN", "1 2", "'a'", '"\\ud800"', "[" * 300 + "]" * 300, "1e999"]
)
def test_forced_json_must_be_json(word: str) -> None:
    """`K:=JSON` refuses what is none, or cannot be kept, as wrong usage."""
    with pytest.raises(Usage):
        typed.json_value(word, "The value of k")


@pytest.mark.parametrize("word", ['{"x": 1e999}', '["\\ud800"]', "[" * 300 + "]" * 300])
def test_a_container_that_cannot_be_kept_is_refused(word: str) -> None:
    """It is JSON, so it is not silently kept as text either."""
    with pytest.raises(Usage):
        typed.typed(word)
