"""Site builders' table "Active Checkpoints": made from the runs of a store, and kept current in `STATUS.md`.

People write `STATUS.md`. Only the rows of that table that are about known tasks change. Their own columns, rows of
tasks that nobody has begun, and the line ends stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from leftoff.clock import DAY_MS, ago, millis
from leftoff.dialects.draft import cell
from leftoff.engine.read.info import LIMITS, RunInfo, list_info
from leftoff.model.words import STEP_STATUS, UNFINISHED
from leftoff.store.base import Store

TITLE = "## Active Checkpoints"
HEAD = [
    "| Agent | Task | Progress | Last Update | Status |",
    "|-------|------|----------|-------------|--------|",
]
_BAR = re.compile(r"(?<!\\)\|")
_WORDS = {"running": "in_progress", "completed": "complete"}


def table(store: Store, now: int, limits: tuple[int, int] = LIMITS) -> str:
    """Return the table as Markdown: unfinished runs, and those completed within a day."""
    rows = [
        f"| {' | '.join(cell(value) or '—' for value in _run_row(run, now))} |"
        for run in active(store, now, limits)
    ]
    return "\n".join([*HEAD, *rows])


def _run_row(run: RunInfo, now: int) -> tuple[str, str, str, str, str]:
    """Return agent, task, progress, last update and status, in the protocol's words."""
    card = run.row.card
    task = card.get("task")
    issue = f"#{run.row.issue}" if run.row.issue else None
    begun = _begun(run)
    return (
        str(run.workflow if task else card.get("agent") or run.workflow),
        str(task or issue or run.title or run.run_id),
        f"{run.percent}%",
        ago(run.row.updated_at, now) if begun else "—",
        _WORDS.get(run.status, run.status) if begun else "not started",
    )


def _begun(run: RunInfo) -> bool:
    """Return whether anything was done: a step is not pending or, without steps, there was a report."""
    if run.status != "running":
        return True
    if sum(run.steps[word] for word in STEP_STATUS) == 0:
        return bool(run.row.seq > 1)
    return any(run.steps[word] for word in STEP_STATUS if word != "pending")


def active(store: Store, now: int, limits: tuple[int, int]) -> list[RunInfo]:
    """Return the unfinished runs, and those completed within a day."""
    unfinished = list_info(store, now, limits, status=UNFINISHED)
    done = list_info(store, now, limits, status=("completed",), limit=50)
    return [*unfinished, *(run for run in done if now - run.row.updated_at < DAY_MS)]


# -- the page


def updated(page: str, known: list[dict[str, Any]], now: int) -> str:
    """Return the page with a row for each of these. A missing table or title is added."""
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
    """Find our table: the first one below the title that has agents and tasks. Add it if there is none."""
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
    """Remove the empty lines at the end of a section. Return where it ends now."""
    while stop > 0 and not lines[stop - 1].strip():
        stop -= 1
        del lines[stop]
    if stop > 0 and not lines[stop - 1].endswith(end):  # the last line of a page may have none
        lines[stop - 1] += end
    return stop


def _row(about: dict[str, Any], names: list[str], before: str, now: int) -> str:
    """Return a row with what is known. Other columns keep their text."""
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
