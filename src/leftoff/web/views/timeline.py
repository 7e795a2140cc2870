"""The timeline of a run: each attempt a bar of its own, waiting visible, idle time between the work compressed.

Everything is placed in thousandths of the width, so that the page scales it. A gap in which nothing was done, and which
is long against the work around it, gets a fixed small width and says how long it was: a night must not squash the work.
"""

from __future__ import annotations

from typing import Any

from leftoff.model.fields import Fields
from leftoff.operations import Project
from leftoff.operations.pages.one_run import Life, Tried, lives
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, number
from leftoff.web.views.words import duration, step

WIDTH = 1000.0
GAP = 24.0  # of a compressed gap
LEAST = 3.0  # of a bar
IDLE = 0.08  # of the time that was worked: a gap that is longer is compressed
SHORTEST_GAP = 60_000
ROWS = 120
MOST = 400


class Bar(Fields):
    """One attempt, or one wait."""

    x: float
    width: float
    became: str
    label: str


class Row(Fields):
    """A step, and what was tried at it. ``label``: all of it in words, for those who do not see it."""

    step: str
    bars: list[Bar]
    label: str


class Gap(Fields):
    """Time in which nothing was done."""

    x: float
    width: float
    label: str


class Mark(Fields):
    """A moment on the axis."""

    x: float
    at: int


class Scale:
    """From moments to places: the spans in which anything was done side by side, what lies between them compressed."""

    def __init__(self, spans: list[tuple[int, int]]) -> None:
        busy = _merged(spans)
        worked = sum(end - begin for begin, end in busy) or 1
        longest = max(SHORTEST_GAP, int(worked * IDLE))
        self.spans = _merged([(begin, end) for begin, end in _joined(busy, longest)])
        total = sum(end - begin for begin, end in self.spans) or 1
        room = max(WIDTH / 4, WIDTH - GAP * (len(self.spans) - 1))
        self._gap = min(GAP, (WIDTH - room) / max(1, len(self.spans) - 1))
        self._by = room / total

    def place(self, at: int) -> float:
        """Where a moment is."""
        x = 0.0
        for begin, end in self.spans:
            if at <= end:
                return x + max(0, at - begin) * self._by
            x += (end - begin) * self._by + self._gap
        return WIDTH

    def gaps(self) -> list[Gap]:
        """What is compressed."""
        pairs = zip(self.spans, self.spans[1:], strict=False)
        return [
            Gap(round(self.place(end), 1), round(self._gap, 1), f"{duration((begin - end) / 1000)} idle")
            for (_, end), (begin, _) in pairs
        ]

    def marks(self) -> list[Mark]:
        """The beginning of each span, and the end of all, as far as there is room between them."""
        found: list[Mark] = []
        moments = [begin for begin, _ in self.spans] + [end for _, end in self.spans[-1:]]
        for at in moments:
            x = round(self.place(at), 1)
            if not found or x - found[-1].x >= WIDTH / 8:
                found.append(Mark(x, at))
        return found


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def _joined(busy: list[tuple[int, int]], longest: int) -> list[tuple[int, int]]:
    """Spans with no more than so much between them are one."""
    out: list[tuple[int, int]] = []
    for begin, end in busy:
        if out and begin - out[-1][1] <= longest:
            out[-1] = (out[-1][0], end)
        else:
            out.append((begin, end))
    return out


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?life=``: only what was done in that one."""
    life = number(asked.query.get("life"))
    found = lives(project, asked.caller, asked.run, life, MOST)
    rows, scale = draw(found.tried, project.now)
    shown = rows[-ROWS:]
    driven = [each for each in found.lives if each.epoch or each.commits > 1]  # no driver: only its beginning
    return {
        **heading(project, asked),
        "tab": "timeline",
        "rows": shown,
        "gaps": scale.gaps() if scale is not None else [],
        "marks": scale.marks() if scale is not None else [],
        "lives": [_life(each, place) for place, each in enumerate(driven, 1)],
        "life": life,
        "left_out": found.cut or len(rows) > len(shown),
    }


def draw(tried: list[Tried], now: int) -> tuple[list[Row], Scale | None]:
    """A row for each step, in the order in which they began."""
    if not tried:
        return [], None
    working = [each for each in tried if each.became != "waiting"] or tried
    scale = Scale([(each.began, max(each.began + 1, _end(each, now))) for each in working])
    rows: dict[str, list[Tried]] = {}
    for each in tried:
        rows.setdefault(each.step, []).append(each)
    return [_row(name, some, scale, now) for name, some in rows.items()], scale


def _end(each: Tried, now: int) -> int:
    """When it ended; what was cut off, nobody knows when, is shown as a moment."""
    if each.ended is not None:
        return each.ended
    return max(now, each.began) if each.became in ("running", "waiting") else each.began


def _row(name: str, some: list[Tried], scale: Scale, now: int) -> Row:
    bars = [_bar(each, scale, now) for each in some]
    return Row(name, bars, f"{step(name)}: {'; '.join(bar.label for bar in bars)}")


def _bar(each: Tried, scale: Scale, now: int) -> Bar:
    end = _end(each, now)
    x = min(scale.place(each.began), WIDTH - LEAST)
    width = max(LEAST, scale.place(end) - x)
    took = duration((end - each.began) / 1000)
    what = "waits for a decision" if each.became == "waiting" and each.ended is None else each.became
    label = (
        f"waited {took}"
        if each.became == "waiting" and each.ended
        else f"attempt {each.number} {what}, {took}"
    )
    return Bar(round(x, 1), round(width, 1), each.became.replace(" ", "-"), label)


def _life(life: Life, place: int) -> dict[str, Any]:
    return {
        "epoch": life.epoch,
        "name": f"Life {place}",
        "began": life.began,
        "took": (life.ended - life.began) / 1000,
        "commits": life.commits,
    }
