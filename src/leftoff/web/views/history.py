"""The checkpoints of a run as a graph: one line of work, which rollbacks leave and forks branch off from."""

from __future__ import annotations

from typing import Any

from leftoff.model.fields import Fields
from leftoff.operations import Project
from leftoff.operations.checkpoints import ForkedRun, history
from leftoff.web.asking import Asked
from leftoff.web.views.heading import heading, number

PAGE = 100
LANE, ROW = 18, 56  # pixels
MOST_LANES = 8


class Point(Fields):
    """A checkpoint: its lane, and the lines that pass it (as paths of an SVG that is as high as its row)."""

    about: dict[str, Any]
    lane: int
    paths: list[str]
    forks: list[ForkedRun]


def view(project: Project, asked: Asked) -> dict[str, Any]:
    """``?before=``: only those before that seq."""
    before = number(asked.query.get("before"))
    found = history(project, asked.caller, asked.run, None if before is not None else PAGE + 1)
    versions = [each for each in found.versions if before is None or each.seq < before]
    shown = versions[:PAGE]
    points = _points([each.to_json() for each in shown], found.parents(), found.forks())
    lanes = 1 + max((point.lane for point in points), default=0)
    return {
        **heading(project, asked),
        "tab": "history",
        "points": points,
        "width": LANE * lanes + 6,
        "row": ROW,
        "lane": LANE,
        "next": shown[-1].seq if len(versions) > PAGE else None,
    }


def _points(
    checkpoints: list[dict[str, Any]], parents: dict[int, int | None], forks: dict[int, list[ForkedRun]]
) -> list[Point]:
    """From the newest down: each lane waits for the checkpoint that its line goes on to."""
    lanes: list[int | None] = []
    out = []
    for about in checkpoints:
        seq, parent = about["seq"], parents.get(about["seq"])
        here = [place for place, wanted in enumerate(lanes) if wanted == seq]
        lane = here[0] if here else _free(lanes)
        above = [wanted for wanted in lanes]
        if lane == len(lanes):
            lanes.append(None)
            above.append(None)
        for place in here:
            lanes[place] = None
        lanes[lane] = parent
        out.append(Point(about, lane, _paths(above, lanes, lane, here), forks.get(seq, [])))
        while lanes and lanes[-1] is None:
            lanes.pop()
    return out


def _free(lanes: list[int | None]) -> int:
    return lanes.index(None) if None in lanes else len(lanes)


def _paths(above: list[int | None], below: list[int | None], lane: int, here: list[int]) -> list[str]:
    """The lines through one row: those that pass by, those that end in its point, the one that leaves it."""
    middle = ROW // 2
    x = _x(lane)
    out = []
    for place, wanted in enumerate(above):
        if wanted is None:
            continue
        if place in here:
            at = _x(place)
            out.append(f"M{at} 0C{at} {middle} {x} 0 {x} {middle}" if place != lane else f"M{x} 0V{middle}")
        else:
            out.append(f"M{_x(place)} 0V{ROW}")
    if below[lane] is not None:
        out.append(f"M{x} {middle}V{ROW}")
    return out


def _x(lane: int) -> int:
    return LANE * min(lane, MOST_LANES) + LANE // 2
