"""Text for terminals and pipes: harmless, and as wide as it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.cli.screen import Column, crop, cropped, facts, fold, lay_out_table, line_width, plain, wrapped
from leftoff.cli.text import (
    clean,
    clean_lines,
    columns,
    pad,
    safe_json,
    size,
    value,
    width,
)
from leftoff.model.codec import text as canonical

ANY = st.text(st.characters(codec="utf-8"), max_size=60)


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202e\u2028\ufeff", r"\u202e\u2028\ufeff"),
        ("\U000e0001", r"\U000e0001"),
        ("a\u00a0b\u3000c", "a b c"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("日本語 é", "日本語 é"),
        ("\udcff", r"\xff"),
    ],
)
def test_clean(given_text: str, shown: str) -> None:
    """What a terminal would obey or hide is escaped; text stays text."""
    assert shown == clean(given_text)


@given(ANY)
def test_clean_text_is_printable(text: str) -> None:
    """Whatever goes in, what comes out has nothing in it that does something, and cleaning it again changes nothing."""
    out = clean(text)
    assert all(c.isprintable() or c in "\u200c\u200d" for c in out)
    assert out == clean(out)
    assert text.count("\n") == clean_lines(text).count("\n")


@given(
    st.recursive(st.none() | ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=8)
)
def test_safe_json_is_the_same_json(thing: object) -> None:
    """Escaping inside JSON changes how it is written, never what it says."""
    out = safe_json(canonical(thing))
    assert thing == json.loads(out)
    assert all(c.isprintable() or c in "\u200c\u200d" for c in out)


@given(ANY, st.integers(0, 30))
def test_crop_and_pad(text: str, room: int) -> None:
    """Cropped text fits, uncut text is left alone, and padding fills up exactly."""
    text = clean(text)
    out = crop(text, room)
    assert width(out) <= room
    assert out == text or out == "" or out.endswith("…")
    assert room == width(pad(out, room))


@given(ANY, st.integers(2, 30))
def test_fold_loses_nothing_but_spaces(text: str, room: int) -> None:
    """Folded text fits, and together the pieces say the same."""
    text = clean(text)
    pieces = fold(text, room)
    assert all(width(piece) <= room for piece in pieces)
    assert text.replace(" ", "") == "".join(pieces).replace(" ", "")


SPANS = st.lists(st.tuples(ANY.map(clean), st.sampled_from(["", "id", "dim"])), max_size=4)


@given(SPANS, st.integers(4, 50))
def test_lines_keep_to_the_width(line: list[tuple[str, str]], room: int) -> None:
    """Cropping and wrapping a line all keep to the width."""
    assert line_width(cropped(line, room)) <= room
    assert all(line_width(piece) <= room for piece in wrapped(line, room))


@given(SPANS, st.integers(12, 50), st.integers(0, 8))
def test_a_line_is_wrapped_whatever_its_styles_are(line: list[tuple[str, str]], room: int, hang: int) -> None:
    """A line of several styles breaks where the same text in one style would, further in, and keeps its styles."""
    bare = [("".join(text for text, _ in line), "")]
    lines = wrapped(line, room, hang)
    assert plain(wrapped(bare, room, hang)).split() == plain(lines).split()
    assert all(line_width(piece) <= room for piece in lines)
    assert all(piece[0] == (" " * hang, "") for piece in lines[1:] if hang)
    styled = [(c, style) for text, style in line for c in text if c != " "]
    assert styled == [(c, style) for piece in lines for text, style in piece for c in text if c != " "]


def test_where_a_line_is_wrapped() -> None:
    """It breaks at a space, not where another colour begins; what it is indented by is no such space."""
    version = [("@8", ""), (", checkpoint 42a231ade114, ", "dim"), ("manual", "id"), (": before", "dim")]
    assert ["@8, checkpoint 42a231ade114,", "manual: before"] == plain(wrapped(version, 30)).split("\n")
    hint = [(f"    {'x' * 12}", "dim")]
    assert [f"    {'x' * 8}", "    xxxx"] == plain(wrapped(hint, 12, 4)).split("\n")


@given(st.lists(st.tuples(SPANS, SPANS, SPANS), min_size=1, max_size=4), st.integers(16, 120))
def test_tables_keep_to_the_width(rows: list[tuple[list[tuple[str, str]], ...]], room: int) -> None:
    """A table of anything fits; so do facts."""
    heads = [Column("RUN", least=8), Column("TITLE", rank=2, least=6), Column("WHEN", right=True)]
    cells = [list(row) for row in rows]
    assert all(line_width(line) <= room for line in lay_out_table(heads, cells, room))
    pairs = [("name", row[0]) for row in rows]
    assert all(line_width(line) <= room for line in facts(pairs, room))


def test_the_least_important_column_goes_first() -> None:
    """Where there is no room for all, the highest rank is left out; the first column stays whole if it can."""
    heads = [
        Column("RUN", least=30),
        Column("TITLE", rank=1, least=20),
        Column("STEP", rank=2, least=20),
    ]
    row = [[("r" * 28, "")], [("t" * 40, "")], [("s" * 40, "")]]
    wide, narrow = lay_out_table(heads, [row], 80), lay_out_table(heads, [row], 60)
    assert ["RUN", "TITLE", "STEP"] == "".join(text for text, _ in wide[0]).split()
    assert ["RUN", "TITLE"] == "".join(text for text, _ in narrow[0]).split()
    assert "r" * 28 in "".join(text for text, _ in narrow[1])


def test_columns_and_values() -> None:
    """Plain columns are aligned by what a terminal shows; values are JSON on one line; sizes are short."""
    assert ["日本  x", "a     y"] == columns([("日本", "x"), ("a", "y")])
    assert ['{"a":"\\n"}', "[redacted]", '"\\x9b"'] == [
        value({"a": "\n"}),
        value({"redacted": True}),
        value("\x9b"),
    ]
    assert ["0 B", "999 B", "1.0 KB", "12 KB", "5.0 GB", ""] == [
        size(n) for n in (0, 999, 1000, 12_345, 5 * 10**9, None)
    ]
