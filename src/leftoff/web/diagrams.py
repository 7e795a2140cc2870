"""The values of the screens that draw a run: its timeline, the graph of its steps, the history of its checkpoints."""

from __future__ import annotations

from typing import Any, NamedTuple

from leftoff.engine.history import Tried, find_lives
from leftoff.engine.project import Project
from leftoff.engine.show import GraphNode, step_graph
from leftoff.model.ids import shown_step
from leftoff.model.words import STEP_STATUS
from leftoff.operations.checkpoints import history
from leftoff.operations.runs import target
from leftoff.web.page_text import duration_words
from leftoff.web.run_screens import heading
from leftoff.web.served import ScreenRequest

# -- the timeline: each attempt is a bar. All places are thousandths of the width, so that the page can scale them.

WIDTH = 1000.0
_GAP = 24.0  # the width of an idle time that is compressed: a night must not squash the work
_LEAST = 3.0  # the width of a bar
_IDLE = 0.08  # a longer gap, as a share of the time worked, is compressed
_SHORTEST_GAP = 60_000
_ROWS = 120
_ATTEMPTS = 400

Span = tuple[int, int]


class Bar(NamedTuple):
    """One attempt, or one wait."""

    x: float
    width: float
    became: str
    label: str


class TimelineRow(NamedTuple):
    """A step and its attempts. ``label``: all of it in words, for screen readers."""

    step: str
    bars: list[Bar]
    label: str


class Gap(NamedTuple):
    x: float
    width: float
    label: str


class AxisMark(NamedTuple):
    """A moment on the axis."""

    x: float
    at: int


class Scale:
    """Map moments to places: the spans in which work was done, with the idle time between them compressed."""

    def __init__(self, spans: list[Span]) -> None:
        busy = _merged(spans, 0)
        worked = sum(end - begin for begin, end in busy) or 1
        self.spans = _merged(busy, max(_SHORTEST_GAP, int(worked * _IDLE)))
        total = sum(end - begin for begin, end in self.spans) or 1
        room = max(WIDTH / 4, WIDTH - _GAP * (len(self.spans) - 1))
        self._gap = min(_GAP, (WIDTH - room) / max(1, len(self.spans) - 1))
        self._by = room / total

    def place(self, at: int) -> float:
        x = 0.0
        for begin, end in self.spans:
            if at <= end:
                return x + max(0, at - begin) * self._by
            x += (end - begin) * self._by + self._gap
        return WIDTH

    def gaps(self) -> list[Gap]:
        pairs = zip(self.spans, self.spans[1:], strict=False)
        return [
            Gap(
                round(self.place(end), 1), round(self._gap, 1), f"{duration_words((begin - end) / 1000)} idle"
            )
            for (_, end), (begin, _) in pairs
        ]

    def marks(self) -> list[AxisMark]:
        """Return the beginning of each span and the end of the last, as far as there is room between them."""
        found: list[AxisMark] = []
        for at in [begin for begin, _ in self.spans] + [end for _, end in self.spans[-1:]]:
            x = round(self.place(at), 1)
            if not found or x - found[-1].x >= WIDTH / 8:
                found.append(AxisMark(x, at))
        return found


def _merged(spans: list[Span], longest: int) -> list[Span]:
    """Join spans that overlap or have at most so much time between them."""
    out: list[Span] = []
    for begin, end in sorted(spans):
        if out and begin - out[-1][1] <= longest:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def timeline_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """``?life=``: only what was done in that life of the run, that is, by one driver."""
    life = asked.number("life")
    found = find_lives(project.store, target(project, asked.caller, asked.run), life, _ATTEMPTS)
    rows, scale = timeline_rows(found.tried, project.now)
    driven = [
        each for each in found.lives if each.epoch or each.commits > 1
    ]  # not the start, which has no driver
    return {
        **heading(project, asked),
        "tab": "timeline",
        "rows": rows[-_ROWS:],
        "gaps": scale.gaps() if scale is not None else [],
        "marks": scale.marks() if scale is not None else [],
        "lives": [
            {
                "epoch": each.epoch,
                "name": f"Life {place}",
                "began": each.began,
                "took": (each.ended - each.began) / 1000,
                "commits": each.commits,
            }
            for place, each in enumerate(driven, 1)
        ],
        "life": life,
        "left_out": found.cut or len(rows) > _ROWS,
    }


def timeline_rows(tried: list[Tried], now: int) -> tuple[list[TimelineRow], Scale | None]:
    """Return a row for each step, in the order in which they began."""
    if not tried:
        return [], None
    working = [each for each in tried if each.became != "waiting"] or tried
    scale = Scale([(each.began, max(each.began + 1, _end(each, now))) for each in working])
    bars: dict[str, list[Bar]] = {}
    for each in tried:
        end, is_wait = _end(each, now), each.became == "waiting"
        x = min(scale.place(each.began), WIDTH - _LEAST)
        width = max(_LEAST, scale.place(end) - x)
        took = duration_words((end - each.began) / 1000)
        what = "waits for a decision" if is_wait and each.ended is None else each.became
        label = f"waited {took}" if is_wait and each.ended else f"attempt {each.number} {what}, {took}"
        bar = Bar(round(x, 1), round(width, 1), each.became.replace(" ", "-"), label)
        bars.setdefault(each.step, []).append(bar)
    rows = [
        TimelineRow(name, some, f"{shown_step(name)}: {'; '.join(bar.label for bar in some)}")
        for name, some in bars.items()
    ]
    return rows, scale


def _end(each: Tried, now: int) -> int:
    """Return when an attempt ended. One that was interrupted at an unknown time is shown as a moment."""
    if each.ended is not None:
        return each.ended
    return max(now, each.began) if each.became in ("running", "waiting") else each.began


# -- the graph: boxes by levels, from left to right, with a line to each step from those it waits for

BOX, HIGH = 176, 46
_ACROSS, _DOWN = 56, 16
_EDGE = 20
_LETTERS = 21  # of a title
_PER_ROW = 5  # boxes, if each step follows the one before: then they are wrapped like text
_LINES = 2000


class Box(NamedTuple):
    """A step: the place of its box, what it says, and its items by status as parts of a bar (x, width, status)."""

    node: GraphNode
    x: int
    y: int
    title: str
    parts: list[tuple[int, int, str]]
    label: str


def graph_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """The whole graph, as it is now."""
    found = step_graph(project.store, target(project, asked.caller, asked.run))
    boxes = graph_boxes(found.nodes)
    return {
        **heading(project, asked),
        "tab": "graph",
        "boxes": boxes,
        "lines": graph_lines(boxes),
        "left_out": found.left_out,
        "width": max((box.x + BOX for box in boxes), default=0) + _EDGE,
        "height": max((box.y + HIGH for box in boxes), default=0) + _EDGE,
        "box": (BOX, HIGH),
    }


def graph_boxes(nodes: list[GraphNode]) -> list[Box]:
    wraps = all(node.level == place for place, node in enumerate(nodes)) and len(nodes) > _PER_ROW
    rows: dict[int, int] = {}
    out = []
    for place, node in enumerate(nodes):
        column, row = (
            (place % _PER_ROW, place // _PER_ROW) if wraps else (node.level, rows.get(node.level, 0))
        )
        rows[node.level] = row + 1
        x, y = _EDGE + column * (BOX + _ACROSS), _EDGE + row * (HIGH + _DOWN)
        title = node.title if len(node.title) <= _LETTERS else f"{node.title[: _LETTERS - 1]}…"
        items = ", ".join(f"{number} {word}" for word, number in node.counts.items())
        label = f"{node.title}: {node.status}{f' ({items})' if items else ''}"
        parts, total, at = [], sum(node.counts.values()), 8
        for word in STEP_STATUS:  # the items by status, side by side along the box
            if number := node.counts.get(word, 0):
                parts.append((at, max(2, (BOX - 16) * number // total), word))
                at += parts[-1][1]
        out.append(Box(node, x, y, title, parts, label))
    return out


def graph_lines(boxes: list[Box]) -> list[str]:
    """Return the lines from one box to another, each as the path of an SVG."""
    places = {box.node.step: box for box in boxes}
    out = []
    for old, new in [(places[name], box) for box in boxes for name in box.node.before if name in places]:
        x1, y1, x2, y2 = old.x + BOX, old.y + HIGH // 2, new.x, new.y + HIGH // 2
        if x2 <= x1:  # the next row of boxes that are wrapped
            middle = old.y + HIGH + _DOWN // 2
            out.append(f"M{x1} {y1}h12V{middle}H{x2 - 12}V{y2}h12")
        else:
            bend = (x2 - x1) // 2
            out.append(f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}")
    return out[:_LINES]


# -- the history of checkpoints

_PAGE = 100


def history_screen(project: Project, asked: ScreenRequest) -> dict[str, Any]:
    """The checkpoints, newest first, each with the runs that were forked from it. ``?before=``: only the versions
    before that one."""
    before = asked.number("before")
    found = history(project, asked.caller, asked.run, None if before is not None else _PAGE + 1)
    versions = [each for each in found.versions if before is None or each.seq < before]
    shown, forks = versions[:_PAGE], found.forks()
    return {
        **heading(project, asked),
        "tab": "history",
        "points": [(each.to_json(), forks.get(each.seq, [])) for each in shown],
        "next": shown[-1].seq if len(versions) > _PAGE else None,
    }
