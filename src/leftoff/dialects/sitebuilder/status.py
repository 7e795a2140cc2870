"""sitebuilder's `STATUS.md`: a page that people write, in which one table is ours.

Of the page nothing changes but the rows of that table which are about tasks that are known here. What people added to
it stays: columns of their own, rows of tasks that nobody has begun, and the way its lines end.
"""

from __future__ import annotations

import re

from leftoff.dialects.draft import cell
from leftoff.dialects.sitebuilder.board import HEAD, TITLE
from leftoff.model.times import ago, millis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_BAR = re.compile(r"(?<!\\)\|")


def updated(page: str, known: list[dict[str, Any]], now: int) -> str:
    """The page with a row for each of these; the table, and its title, are added where there is none."""
    lines = page.split("\n")
    end = "\r" if lines[0].endswith("\r") else ""
    first, last = _table(lines, end)
    head, there = lines[first : first + 2], lines[first + 2 : last]
    names = _cells(head[0])
    rows = {_key(line, names): line for line in there}
    ours = {(cell(about["agent"]), cell(about["task"])): about for about in known}
    new = [_row(about, names, rows.get(key, ""), now) + end for key, about in sorted(ours.items())]
    kept = [line for line in there if _key(line, names) not in ours]
    return "\n".join([*lines[:first], *head, *new, *kept, *lines[last:]])


def _table(lines: list[str], end: str) -> tuple[int, int]:
    """Where our table is: the first one below the title that has agents and tasks; else it is added there."""
    title = next((number for number, line in enumerate(lines) if line.rstrip() == TITLE), None)
    if title is None:
        _close(lines, len(lines), end)
        title = len(lines) + (1 if lines else 0)
        lines += [*([end] if lines else []), TITLE + end, ""]
    below = stop = title + 1
    while stop < len(lines) and not lines[stop].startswith("#"):
        stop += 1
    for first, last in _tables(lines, below, stop):
        if {"agent", "task"} <= {name.lower() for name in _cells(lines[first])} and last - first > 1:
            return first, last
    stop = _close(lines, stop, end)
    lines[stop:stop] = [end, *(line + end for line in HEAD), *([end] if stop < len(lines) else [""])]
    return stop + 1, stop + 3


def _tables(lines: list[str], start: int, stop: int) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for number in range(start, stop + 1):
        inside = number < stop and lines[number].startswith("|")
        if inside and first is None:
            first = number
        elif not inside and first is not None:
            yield first, number
            first = None


def _close(lines: list[str], stop: int, end: str) -> int:
    """Take away the empty lines that end a section, so that another one can follow; where it ends now."""
    while stop > 0 and not lines[stop - 1].strip():
        stop -= 1
        del lines[stop]
    if stop > 0 and not lines[stop - 1].endswith(end):  # the last line of a page may have none
        lines[stop - 1] += end
    return stop


def _row(about: dict[str, Any], names: list[str], before: str, now: int) -> str:
    """A row with what is known; what other columns say stays."""
    then = millis(about["at"])
    values = {
        "agent": about["agent"],
        "task": about["task"],
        "progress": f"{about['percent']}%",
        "last update": ago(then, now) if then is not None else "—",
        "status": about["status"],
    }
    old = _cells(before)
    said = dict(zip((name.lower() for name in names), old, strict=False))
    cells = [cell(values[key]) if (key := name.lower()) in values else said.get(key, "") for name in names]
    return f"| {' | '.join([*cells, *old[len(names) :]])} |"


def _key(line: str, names: list[str]) -> tuple[str, str]:
    said = dict(zip((name.lower() for name in names), _cells(line), strict=False))
    return said.get("agent", ""), said.get("task", "")


def _cells(line: str) -> list[str]:
    inside = _BAR.split(line.strip())
    return [cell.strip() for cell in inside[1:-1]] if len(inside) > 2 else []
