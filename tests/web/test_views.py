"""What pages make of values: scales, graphs, trees, colours, previews. No server, no browser."""

from __future__ import annotations

from typing import Any

import pytest

from leftoff.engine.history import Tried
from leftoff.engine.show import GraphNode
from leftoff.web import diagrams
from leftoff.web.diagrams import graph_boxes, graph_lines, timeline_rows
from leftoff.web.page_text import (
    MOST_SHOWN,
    bare_text,
    compared,
    duration_words,
    file_preview,
    size_words,
    tree,
)

MINUTE = 60_000
NIGHT = 10 * 60 * MINUTE
HOSTILE = "<img src=x onerror=alert(1)>"


# -- the timeline


def _tried(
    began: int, ended: int | None, became: str = "completed", step: str = "a", number: int = 1
) -> Tried:
    return Tried(step, number, began, ended, became)


def test_a_night_does_not_squash_the_work() -> None:
    """What was idle for long gets a small fixed width, and says how long it was."""
    evening, morning = _tried(0, 5 * MINUTE), _tried(NIGHT, NIGHT + 5 * MINUTE, number=2)
    (row,), scale = timeline_rows([evening, morning], NIGHT + 5 * MINUTE)
    assert scale is not None
    (gap,) = scale.gaps()
    assert "9 h 55 min idle" == gap.label
    assert diagrams._GAP == gap.width
    assert all(bar.width > 450 for bar in row.bars)
    assert row.bars[1].x + row.bars[1].width == pytest.approx(diagrams.WIDTH)


def test_a_short_pause_is_shown_as_it_was() -> None:
    """A gap that is short against the work is not compressed."""
    (row,), scale = timeline_rows([_tried(0, 30 * MINUTE), _tried(31 * MINUTE, 60 * MINUTE)], 60 * MINUTE)
    assert scale is not None and [] == scale.gaps()
    assert row.bars[1].x == pytest.approx(31 / 60 * diagrams.WIDTH, abs=0.1)


def test_each_attempt_is_a_bar_of_its_own() -> None:
    """In the row of its step, with words for those who do not see it."""
    tries = [
        _tried(0, MINUTE, "failed"),
        _tried(MINUTE, 2 * MINUTE, number=2),
        _tried(0, None, "running", "b"),
    ]
    rows, _ = timeline_rows(tries, 3 * MINUTE)
    assert ["a", "b"] == [row.step for row in rows]
    assert "a: attempt 1 failed, 1 min; attempt 2 completed, 1 min" == rows[0].label
    assert "b: attempt 1 running, 3 min" == rows[1].label


def test_what_took_no_time_is_still_seen() -> None:
    """And nothing lies beyond the edge."""
    tries = [_tried(n * MINUTE, n * MINUTE, step=str(n)) for n in range(200)]
    rows, _ = timeline_rows(tries, 200 * MINUTE)
    for row in rows:
        for bar in row.bars:
            assert bar.width >= diagrams._LEAST and bar.x + bar.width <= diagrams.WIDTH + 0.1


def test_waiting_for_a_person_stretches_nothing() -> None:
    """A wait over the night is seen, but it is no work: the scale is that of the work."""
    rows, scale = timeline_rows([_tried(0, MINUTE), _tried(MINUTE, None, "waiting", "ok?")], NIGHT)
    assert scale is not None and [(0, MINUTE)] == scale.spans
    assert "ok?: attempt 1 waits for a decision, 9 h 59 min" == rows[1].label
    assert [] == timeline_rows([], 0)[0]


# -- the graph


def test_boxes_stand_by_levels() -> None:
    """What waits stands to the right of what it waits for; steps of one level below each other."""
    nodes = [
        GraphNode("a", "a", 0, [], "completed"),
        GraphNode("b", "b", 1, ["a"], "running"),
        GraphNode("c", "c", 1, ["a"], "pending"),
    ]
    a, b, c = graph_boxes(nodes)
    assert a.x < b.x == c.x and b.y < c.y
    assert 2 == len(graph_lines([a, b, c]))


def test_items_are_one_box_with_their_counts() -> None:
    """However many there are."""
    (box,) = graph_boxes([GraphNode("a", HOSTILE, 0, [], "running", {"completed": 99_000, "failed": 1_000})])
    assert "99000 completed, 1000 failed" in box.label
    assert ["completed", "failed"] == [word for _, _, word in box.parts]
    assert len(box.title) <= diagrams._LETTERS


def test_a_long_row_is_wrapped() -> None:
    """A run whose steps follow each other is no wider than a page."""
    nodes = [GraphNode(str(n), str(n), n, [str(n - 1)] if n else [], "pending") for n in range(12)]
    boxes = graph_boxes(nodes)
    assert max(box.x for box in boxes) < 1200
    assert 3 == len({box.y for box in boxes})


# -- trees


def test_a_tree_has_an_end() -> None:
    """However large a value is, and however deep."""
    deep: Any = 1
    for _ in range(1000):
        deep = {"x": deep}
    assert len(tree(deep)) < 20
    lines = tree({"rows": list(range(100_000))})
    assert len(lines) <= 501
    assert ("…", "99501 more") == (lines[-1].name, lines[-1].value)


def test_two_trees_compared() -> None:
    """Only the places that differ."""
    found = compared(
        {"a": {"x": 1, "y": 2}, "b": 1, "gone": 1}, {"a": {"x": 1, "y": 3}, "b": True, "new": []}
    )
    assert [
        ("a.y", "changed", "2", "3"),
        ("b", "changed", "1", "true"),
        ("gone", "removed", "", "1"),
        ("new", "added", "", "[]"),
    ] == [(line.name, line.mark, line.old, line.value) for line in found]


# -- logs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m end", "red end"),
        ("\x1b]0;title\x07a\x1b[2Kb\x1b[10;20Hc", "abc"),
        ("10 %\r50 %\r100 %\r\nnext", "100 %\nnext"),
        ("a\x1b]0;title\nsecond", "a\nsecond"),  # a title that does not end hides its line alone
    ],
)
def test_logs_have_no_escapes(text: str, expected: str) -> None:
    """Nothing that a terminal obeys is left."""
    assert expected == bare_text(text)


# -- files


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"# Title", "text"),
        (b'{"b": [1]}', "text"),
        (b"{broken", "text"),
        (b"\x89PNG\r\n\x1a\n....", "picture"),
        (b"<svg onload='alert(1)'/>", "text"),
        (b"<script>alert(1)</script>", "text"),
        (b"<script>alert(1)</script>", "text"),
        (b"\xff\xfe\x00", "none"),
        (b"a\0b", "none"),
    ],
)
def test_previews(data: bytes, kind: str) -> None:
    """By its bytes; nothing that could run is more than text."""
    assert kind == file_preview([data], str)["kind"]


def test_only_the_beginning_of_a_long_file() -> None:
    """Also where a character is cut in two; and secrets are masked."""
    found = file_preview(
        [b"x" * (MOST_SHOWN - 1), "ä".encode(), b"more"], lambda text: text.replace("x", "y")
    )
    assert found["cut"] and "y" * (MOST_SHOWN - 1) == found["text"]


# -- words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.02, "20 ms"),
        (1, "1 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (90_061, "1 d 1 h"),
        (-5, "0 ms"),
    ],
)
def test_durations(seconds: float | None, words: str) -> None:
    """The two largest units."""
    assert words == duration_words(seconds)


def test_sizes() -> None:
    """In units of a thousand."""
    assert ["0 bytes", "999 bytes", "1.0 KB", "150 KB", "1.5 GB"] == [
        size_words(n) for n in (0, 999, 1000, 150_000, 1.5e9)
    ]
