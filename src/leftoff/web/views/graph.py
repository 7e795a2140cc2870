"""The graph of a run's steps: boxes by levels, from left to right, with a line to each step from what it waits for."""

from __future__ import annotations

from typing import Any

from leftoff.model.fields import Fields
from leftoff.model.words import STEP_STATUS
from leftoff.operations import Project
from leftoff.operations.pages.one_run import Node, graph
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading

BOX, HIGH = 176, 46
ACROSS, DOWN = 56, 16
EDGE = 20
LETTERS = 21  # of a title
PER_ROW = 5  # boxes of a run whose steps simply follow each other
EDGES = 2000


class Box(Fields):
    """A step: where its box is, what it says, and its items by status as parts of a bar (x, width, status)."""

    node: Node
    x: int
    y: int
    title: str
    parts: list[tuple[int, int, str]]
    label: str


class Line(Fields):
    """From one box to another, as the path of an SVG."""

    path: str


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """The whole graph, as it is now."""
    found = graph(project, asked.caller, asked.run)
    boxes = _boxes(found.nodes)
    lines = _lines(boxes)
    return {
        **heading(project, asked),
        "tab": "graph",
        "boxes": boxes,
        "lines": lines,
        "left_out": found.left_out,
        "width": max((box.x + BOX for box in boxes), default=0) + EDGE,
        "height": max((box.y + HIGH for box in boxes), default=0) + EDGE,
        "box": (BOX, HIGH),
    }


def _is_row(nodes: list[Node]) -> bool:
    """Whether each step follows the one before: then it is wrapped like text."""
    return all(node.level == place for place, node in enumerate(nodes)) and len(nodes) > PER_ROW


def _boxes(nodes: list[Node]) -> list[Box]:
    rows: dict[int, int] = {}
    wraps = _is_row(nodes)
    out = []
    for place, node in enumerate(nodes):
        column, row = (place % PER_ROW, place // PER_ROW) if wraps else (node.level, rows.get(node.level, 0))
        rows[node.level] = row + 1
        x, y = EDGE + column * (BOX + ACROSS), EDGE + row * (HIGH + DOWN)
        title = node.title if len(node.title) <= LETTERS else f"{node.title[: LETTERS - 1]}…"
        out.append(Box(node, x, y, title, _parts(node), _label(node)))
    return out


def _parts(node: Node) -> list[tuple[int, int, str]]:
    """The items by status, side by side along the box."""
    total = sum(node.counts.values())
    out: list[tuple[int, int, str]] = []
    x = 0
    for word in STEP_STATUS:
        number = node.counts.get(word, 0)
        if number:
            width = max(2, (BOX - 16) * number // total)
            out.append((8 + x, width, word))
            x += width
    return out


def _label(node: Node) -> str:
    items = ", ".join(f"{number} {word}" for word, number in node.counts.items())
    return f"{node.title}: {node.status}{f' ({items})' if items else ''}"


def _lines(boxes: list[Box]) -> list[Line]:
    places = {box.node.step: box for box in boxes}
    out: list[Line] = []
    for box in boxes:
        for name in box.node.before:
            other = places.get(name)
            if other is not None and len(out) < EDGES:
                out.append(Line(_path(other, box)))
    return out


def _path(old: Box, new: Box) -> str:
    x1, y1, x2, y2 = old.x + BOX, old.y + HIGH // 2, new.x, new.y + HIGH // 2
    if x2 <= x1:  # the next row of a wrapped line
        middle = old.y + HIGH + DOWN // 2
        return f"M{x1} {y1}h12V{middle}H{x2 - 12}V{y2}h12"
    bend = (x2 - x1) // 2
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
