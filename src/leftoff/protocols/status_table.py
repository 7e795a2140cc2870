"""The table "Active Checkpoints" as Markdown: for `status --markdown`, and in the site builders' page `STATUS.md`.

People write the page. Only the rows of known tasks in that table are leftoff's. Everything else in the page stays as it
is.
"""

from __future__ import annotations

import re
from typing import Any

from leftoff.clock import DAY_MS, ago, millis
from leftoff.engine.run_info import LIMITS, RunInfo, list_info
from leftoff.model.words import STEP_STATUS, UNFINISHED
from leftoff.protocols.document_draft import cell
from leftoff.store.base import Store

TITLE = "## Active Checkpoints"
HEAD = [
    "| Agent | Task | Progress | Last Update | Status |",
    "|-------|------|----------|-------------|--------|",
]
_COLUMNS = {"agent", "task"}
_BAR = re.compile(r"(?<!\\)\|")
_FENCES = ("```", "~~~")
_WORDS = {"running": "in_progress", "completed": "complete"}


def table(store: Store, now: int, limits: tuple[int, int] = LIMITS) -> str:
    """Return the table as Markdown: unfinished runs, and those completed within a day."""
    runs = list_info(store, now, limits, status=UNFINISHED)
    done = list_info(store, now, limits, status=("completed",), limit=50)
    runs += [run for run in done if now - run.row.updated_at < DAY_MS]
    rows = [f"| {' | '.join(cell(value) or '—' for value in _run_row(run, now))} |" for run in runs]
    return "\n".join([*HEAD, *rows])


def _run_row(run: RunInfo, now: int) -> tuple[str, str, str, str, str]:
    """Return agent, task, progress, last update and status, in the protocol's words."""
    card, task = run.row.card, run.row.card.get("task")
    if run.status != "running":
        begun = True
    elif any(run.steps[word] for word in STEP_STATUS):
        begun = any(run.steps[word] for word in STEP_STATUS if word != "pending")
    else:  # without steps: if there was a report
        begun = run.row.seq > 1
    return (
        str(run.workflow if task else card.get("agent") or run.workflow),
        str(task or (f"#{run.row.issue}" if run.row.issue else None) or run.title or run.run_id),
        f"{run.percent}%",
        ago(run.row.updated_at, now) if begun else "—",
        _WORDS.get(run.status, run.status) if begun else "not started",
    )


# -- the table in a page


def with_tasks(page: bytes, known: list[dict[str, Any]], now: int) -> bytes:
    """Return the page with a row for each of these tasks. Rows of other tasks, and further columns, stay."""
    lines, first, last, end = _find(page.decode("utf-8", "surrogateescape"))
    head = lines[first:last][:2] or [row + end for row in HEAD]
    names = [name.lower() for name in _cells(head[0])]
    there: dict[str, tuple[str, str]] = {}
    for line in lines[first + 2 : last]:
        said = dict(zip(names, _cells(line), strict=False))
        there[line] = said.get("agent", ""), said.get("task", "")
    ours = {(cell(about["agent"]), cell(about["task"])): about for about in known}
    for key, about in sorted(ours.items()):
        old = next((_cells(line) for line, other in there.items() if other == key), [])
        then = millis(about["at"])
        values = {
            **dict(zip(names, old, strict=False)),
            "agent": key[0],
            "task": key[1],
            "progress": f"{about['percent']}%",
            "last update": ago(then, now) if then is not None else "—",
            "status": cell(about["status"]),
        }
        cells = [*(values.get(name, "") for name in names), *old[len(names) :]]
        head.append(f"| {' | '.join(cells)} |{end}")
    others = [line for line, key in there.items() if key not in ours]
    return "\n".join([*lines[:first], *head, *others, *lines[last:]]).encode("utf-8", "surrogateescape")


def _find(page: str) -> tuple[list[str], int, int, str]:
    """Return the page's lines, where the section's first table of tasks is, and how lines end.

    If there is none, an empty place for it is made at the end of the section.
    """
    lines = page.split("\n")
    seen, fence = [], ""
    for line in lines:  # code is not looked at
        mark = line.lstrip()[:3]
        seen.append("" if fence or mark in _FENCES else line.strip())
        if mark in _FENCES and fence in ("", mark):
            fence = "" if fence else mark
    title = next((n for n, line in enumerate(seen) if line.rstrip("# ").lower() == TITLE.lower()), None)
    if title is None:
        end = "\r" if lines[0].endswith("\r") else ""
        stop = _trimmed(lines, len(lines), end)
        lines[stop:] = [*([end] if stop else []), TITLE + end, end, ""]
        return lines, len(lines) - 1, len(lines) - 1, end
    end = "\r" if lines[title].endswith("\r") else ""
    stop = next((n for n in range(title + 1, len(lines)) if seen[n].startswith("#")), len(lines))
    first = title + 1
    while first < stop:
        last = first
        while last < stop and seen[last].startswith("|"):
            last += 1
        if last > first and _COLUMNS <= {name.lower() for name in _cells(seen[first])}:
            return lines, first, last, end
        first = max(last, first + 1)
    rest = stop < len(lines)
    stop = _trimmed(lines, stop, end)
    lines[stop:stop] = [end, *([end] if rest else [""])]
    return lines, stop + 1, stop + 1, end


def _trimmed(lines: list[str], stop: int, end: str) -> int:
    """Remove the empty lines at the end of a section. Return where it ends now."""
    while stop > 0 and not lines[stop - 1].strip():
        stop -= 1
        del lines[stop]
    if stop > 0 and not lines[stop - 1].endswith(end):  # the last line of a page may have none
        lines[stop - 1] += end
    return stop


def _cells(line: str) -> list[str]:
    inside = _BAR.split(line.strip())
    return [text.strip() for text in inside[1:-1]] if len(inside) > 2 else []
