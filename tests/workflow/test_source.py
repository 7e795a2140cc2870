"""YAML: values as YAML 1.2 has them, each with its place; what could hurt is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leftoff.errors import BadDefinition
from leftoff.workflow.yaml_source import DEEPEST, MOST_NODES, Problems, read_yaml


def value(text: str) -> Any:
    """What a text stands for."""
    problems = Problems("flow.yaml")
    node = read_yaml(text, problems)
    problems.check()
    return node.plain() if node is not None else None


def wrong(text: str) -> BadDefinition:
    """The error that a text is."""
    with pytest.raises(BadDefinition) as caught:
        value(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("1e3", 1000.0),
        ("1.10", 1.1),
        (".5", 0.5),
        ("0b11", "0b11"),
        ("~", None),
        ("null", None),
        ("'010'", "010"),
        ('"true"', "true"),
        ("=", "="),
        ("+12", 12),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_scalars(text: str, wanted: object) -> None:
    """The core schema of YAML 1.2, not the surprises of 1.1."""
    got = value(f"x: {text}")["x"]
    assert (type(wanted), wanted) == (type(got), got)


def test_every_node_knows_its_place() -> None:
    """Line and column count characters, from 1, wherever a value stands."""
    root = read_yaml("é: {ü: 'x', b: [1,\n   two]}\nc: |\n  text\n", Problems("f"))
    assert root is not None
    inner = root.get("é")
    assert inner is not None
    key, first = inner.value["ü"]
    second = inner.value["b"][1].value[1]
    assert [(1, 5), (1, 8), (2, 4)] == [(n.line, n.column) for n in (key, first, second)]
    block = root.get("c")
    assert block is not None and (3, 4) == (block.line, block.column)


def test_a_byte_order_mark_is_no_content() -> None:
    """A file that some editors write starts like any other."""
    assert {"a": 1} == value("\ufeffa: 1")


def test_nothing() -> None:
    """An empty text has no tree."""
    assert value("") is None and value("# only a comment\n") is None


def test_a_key_counts_once() -> None:
    """The second of two equal keys is an error that names the first, however deep, and however it is quoted."""
    error = wrong("a:\n  b: 1\n  c: 2\n  'b': 3\n")
    assert "flow.yaml:4:3: the key `b` is there twice" == error.message
    assert "The first one is on line 2." == error.hint


def test_aliases_and_merges() -> None:
    """An anchor is repeated by its alias, and merged by `<<`; own keys win."""
    text = "base: &base {a: 1, b: 2}\nsame: *base\nmore: {<<: *base, b: 3}\nboth: {<<: [*base, {c: 4}]}\n"
    found = value(text)
    assert {"a": 1, "b": 2} == found["same"]
    assert {"a": 1, "b": 3} == found["more"]
    assert {"a": 1, "b": 2, "c": 4} == found["both"]
    assert {"<<": 1} == value("'<<': 1")


def test_a_text_that_repeats_itself_without_end() -> None:
    """A billion laughs, and an anchor inside itself: refused before any memory is spent on it."""
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 12):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    assert f"more than {MOST_NODES:,} values" in wrong(bomb).message
    assert "`*a` is inside what it repeats" in wrong("a: &a [*a]").message
    assert "flow.yaml:1:4: no anchor `&b` for the alias `*b`" == wrong("a: *b").message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_a_text_of_endless_depth(opening: str) -> None:
    """Depth has a limit, which is found at once; the process lives on."""
    error = wrong(opening * 100_000)
    assert "nested too deep" in error.message and str(DEEPEST) in error.hint


def test_one_document() -> None:
    """A second document is an error where it starts."""
    assert "flow.yaml:2:1: a second document starts here" == wrong("a: 1\n---\nb: 2\n").message


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: {{ x }}\n", "2:4", "text with {{ in it needs quotes"),
        ("a: 1\nb: {{ x }}/y\n", "2:", "text with {{ in it needs quotes"),
        ("a:\n\t- b\n", "2:1", "not YAML: found character"),
        ("a: [x {{ y }}]\n", "1:", "text with {{ in it needs quotes"),
        ("a: b: c\n", "1:5", "mapping values are not allowed"),
        ("a: @x\n", "1:4", "cannot start any token"),
        ("a: 'x\nb: 2\n", "3:1", "unexpected end of stream (it begins on line 1)"),
        ("a: [1, 2\nb: 3\n", "2:2", "did not find expected ',' or ']' (it begins on line 1)"),
        ("a: 1\n  b: 2\n", "2:4", "mapping values are not allowed"),
        ("a:\n  - x\n  y: 1\n", "3:3", "did not find expected '-' indicator (it begins on line 2)"),
        ('a: "\\q"\n', "1:", "unknown escape character"),
        ("? [1, 2]\n: 3\n", "1:3", "a key must be text"),
        ("a: \x01\n", "1:4", "the character U+0001 cannot be in YAML"),
        ("é: \x00\n", "1:4", "the character U+0000 cannot be in YAML"),
        ("a: !!python/object:os.system x\n", "1:4", "the tag `!!python/object:os.system` does not fit here"),
        ("a: !env HOME\n", "1:4", "the tag `!env` does not fit here"),
        ("a: " + "9" * 2000 + "\n", "1:4", "a number of over 1,000 digits"),
        ("a: {<<: 1}\n", "1:9", "`<<` takes a mapping, or a list of them"),
    ],
)
def test_what_is_no_yaml(text: str, place: str, words: str) -> None:
    """Line and column of the trouble, and words that a person can act on."""
    error = wrong(text)
    assert error.message.startswith(f"flow.yaml:{place}"), error.message
    assert words in error.message
    assert error.hint and error.exit_code == 2


@given(st.text(max_size=60))
@example("\r[")
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but BadDefinition ever comes of a text."""
    try:
        value(text)
    except BadDefinition as error:
        assert error.message.startswith("flow.yaml:")


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"]), max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(_JSON)
def test_json_is_yaml(document: Any) -> None:
    """Whatever JSON says in visible characters, YAML says the same."""
    import json

    assert document == value(json.dumps(document, ensure_ascii=False))
