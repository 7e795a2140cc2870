"""Names: what may be an id, a key or a step, and how a REF is taken apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.errors import Invalid, Usage
from leftoff.model.ids import (
    MAX_KEY,
    MAX_RUN_ID,
    check_key,
    check_run_id,
    check_step,
    is_id_prefix,
    item_of,
    parent_of,
    parse_ref,
    quote_part,
    shown_step,
    slug,
    step_readings,
    unquote_part,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("run_id", ["a", "A-1._b", "_x", "9", "convert-20260131-090500", "x" * MAX_RUN_ID])
def test_run_ids(run_id: str) -> None:
    """Letters, digits and . _ - make a run id."""
    assert run_id == check_run_id(run_id)


@pytest.mark.parametrize("run_id", ["", "a b", "a/b", "a@1", "a~1", "\u00e9", ".a", "-a", "a\0", "x" * 201])
def test_bad_run_ids(run_id: str) -> None:
    """Anything that a REF, a shell or a file name would read as something else is refused, with what is allowed."""
    with pytest.raises(Invalid) as caught:
        check_run_id(run_id)
    assert "letters, digits" in caught.value.hint


@given(TEXT)
def test_slug_is_always_an_id(name: str) -> None:
    """Whatever a workflow is called, its runs get a valid id."""
    assert check_run_id(slug(name))


def test_slug_keeps_what_it_can() -> None:
    """Other characters become single dashes."""
    assert "Convert-the-PDFs-v1.2" == slug("Convert the  PDFs! (v1.2")
    assert "run" == slug("\u00e9\u00e8")


@pytest.mark.parametrize("key", ["a", "a/b", "caf\u00e9", "\U0010ffff", " ", "%", "x" * MAX_KEY, "a\nb"])
def test_keys(key: str) -> None:
    """Any text may be a key."""
    assert key == check_key(key)


@pytest.mark.parametrize("key", ["", "a\0b", "x" * (MAX_KEY + 1), "a\ud800", 1, None, b"a", ("a",)])
def test_bad_keys(key: Any) -> None:
    """Empty, endless, broken or not text at all: refused, saying which kind of key it is."""
    with pytest.raises(Invalid, match="variable"):
        check_key(key, "variable")


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c", "implementation/task-001", "a%2Fb/c", "a b/\u00e9"])
def test_steps(path: str) -> None:
    """A step is a slash path."""
    assert path == check_step(path)


@pytest.mark.parametrize("path", ["", "/", "/a", "a/", "a//b"])
def test_bad_steps(path: str) -> None:
    """A path with an empty part is refused."""
    with pytest.raises(Invalid):
        check_step(path)


@given(TEXT)
def test_parts_are_quoted(part: str) -> None:
    """One part of a path holds any text: slashes and NULs are percent-encoded, and come back."""
    quoted = quote_part(part)
    assert "/" not in quoted and "\0" not in quoted
    assert part == unquote_part(quoted)


def test_quoting_is_readable() -> None:
    """What needs no quoting is left as it is."""
    assert "a%2Fb 100%25.pdf" == quote_part("a/b 100%.pdf")


def test_parents() -> None:
    """The step that contains another is the path without its last part."""
    assert ["a/b", "a", "", ""] == [parent_of(path) for path in ("a/b/c", "a/b", "a", "")]


@pytest.mark.parametrize(
    ("text", "base", "at", "back"),
    [
        ("convert-1", "convert-1", None, None),
        ("convert-1@12", "convert-1", "12", None),
        ("convert-1@a3f9", "convert-1", "a3f9", None),
        ("convert-1~0", "convert-1", None, 0),
        ("convert-1~12", "convert-1", None, 12),
        ("@", "@", None, None),
        ("@~1", "@", None, 1),
        ("~1", "@", None, 1),
        ("@a3f9", "@", "a3f9", None),
        ("#42", "#42", None, None),
        ("Nature trail", "Nature trail", None, None),
        ("bob@example.com", "bob", "example.com", None),
        ("CP-enrich-20250114-a3f2", "CP-enrich-20250114-a3f2", None, None),
        ("a~b", "a~b", None, None),
        ("a~", "a~", None, None),
        ("a@", "a@", None, None),
    ],
)
def test_ref_grammar(text: str, base: str, at: str | None, back: int | None) -> None:
    """RUN, RUN@SEQ, RUN@ID, RUN~N, @ for the current run; what is none of these is a name."""
    ref = parse_ref(text)
    assert (text, base, at, back) == (ref.text, ref.base, ref.at, ref.back)


@pytest.mark.parametrize("text", ["", "a\0b"])
def test_no_ref(text: str) -> None:
    """Nothing names nothing."""
    with pytest.raises(Usage):
        parse_ref(text)


def test_id_prefixes() -> None:
    """Four to 64 lower-case hex digits are the start of a checkpoint's id: with a letter, or as many as are shown."""
    assert [True, True, False, False, False, False, False] == [
        is_id_prefix(text) for text in ("a3f9", "0" * 12, "a3f", "A3F9", "g123", "0" * 65, "1234")
    ]


@pytest.mark.parametrize(
    ("path", "shown", "item"),
    [
        ("shrink/pictures%2F1.txt", "shrink [pictures/1.txt]", "pictures/1.txt"),
        ("fetch/https:%2F%2Fa.b", "fetch [https://a.b]", "https://a.b"),
        ("phase/fetch/100%25", "phase/fetch [100%]", "100%"),
        ("a/b%2Fc/d", "a [b/c]/d", None),
        ("2-map/fetch[a%2Fb]", "2-map/fetch [a/b]", "a/b"),
        ("a%2Fb", "[a/b]", "a/b"),
        ("convert/a.pdf", "convert/a.pdf", None),
        ("Fix it [urgent]", "Fix it [urgent]", None),
    ],
)
def test_items_as_people_write_them(path: str, shown: str, item: str | None) -> None:
    """An item is shown as it is, and what is shown is one of the readings of itself."""
    assert (shown, item) == (shown_step(path), item_of(path))
    assert path in step_readings(shown) and path in step_readings(path)


@given(TEXT.filter(bool), TEXT.filter(bool))
def test_any_item_is_understood_as_it_is_shown(name: str, item: str) -> None:
    """Whatever an item is, its step is found by what is shown of it."""
    base = quote_part(name).replace("[", "(").replace("]", ")").replace("%", "_")
    path = f"{base}/{quote_part(item)}"
    assert path in step_readings(shown_step(path))


@pytest.mark.parametrize(
    "item", ["a/b", "50%", "a [b] c/d", "x/y [z/w]", "[/]", "a] [/", "line\nbreak/x", "ü/ñ"]
)
def test_an_item_is_read_as_it_is_shown(item: str) -> None:
    """Below a step, of a call, and one below another; on a terminal too, where a newline is escaped."""
    part = quote_part(item)
    for path in (f"shrink/{part}", f"fetch[{part}]", f"a/b/{part}", f"fan/{part}/sub/{part}", part):
        shown = shown_step(path)
        assert "%2F" not in shown and path in step_readings(shown), shown
        assert path in step_readings(shown.replace("\n", "\\n"))
