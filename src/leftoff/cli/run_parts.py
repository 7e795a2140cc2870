"""Parts of pages that several verbs show: a list of runs, failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leftoff.cli.screen import Column, Screen, crop, table
from leftoff.cli.text import Line, Span, clean, columns, size, step_name, value
from leftoff.engine.read.info import RunInfo

BAR = 10  # columns of a progress bar
ROOMY = 100  # columns of a terminal that has room for the number of steps as well

# status: symbol, style
RUN_LOOK = {
    "running": ("●", "busy"),
    "paused": ("◌", "dim"),
    "blocked": ("■", "warn"),
    "failed": ("✗", "bad"),
    "completed": ("✓", "good"),
    "abandoned": ("–", "dim"),
}
ARCHIVED = "archived"
# health that is worth a word of its own: style
HEALTH_LOOK = {"quiet": "warn", "stalled": "bad", "dead": "bad", ARCHIVED: "dim"}


def run_list(runs: Sequence[RunInfo], screen: Screen, sizes: dict[str, int] | None = None) -> list[Line]:
    """``sizes``: the bytes that each takes, by id, where that is to be shown."""
    return _table(runs, screen, sizes or {}) if screen.fancy else _bare(runs, screen, sizes or {})


def _bare(runs: Sequence[RunInfo], screen: Screen, sizes: dict[str, int]) -> list[Line]:
    rows = [
        ("RUN", "STATUS", "HEALTH", "STEPS", "PERCENT", "STEP", "UPDATED", "BRANCH", *_head(sizes), "TITLE")
    ]
    for run in runs:
        rows.append(
            (
                run.run_id,
                clean(run.status),
                health_of(run),
                done_of(run),
                f"{run.percent}%",
                step_name("-" if run.row.is_archived else run.current_step or run.next_step or "-"),
                _updated(run, screen),
                clean(run.branch),
                *([size(sizes.get(run.run_id, 0))] if sizes else []),
                clean(run.title or run.workflow),
            )
        )
    return [[(line, "")] for line in columns(rows)]


def _updated(run: RunInfo, screen: Screen) -> str:
    return screen.when(run.updated_at) if run.updated_at else "-"


def _head(sizes: dict[str, int]) -> list[str]:
    return ["SIZE"] if sizes else []


def _table(runs: Sequence[RunInfo], screen: Screen, sizes: dict[str, int]) -> list[Line]:
    heads = [
        Column("RUN", least=16, folds=True),
        Column("TITLE", rank=2, least=12),
        Column("BRANCH", rank=3, least=6),
        Column("STATUS"),
        Column("PROGRESS"),
        Column("STEP", rank=4, least=10),
        *(Column(name, right=True) for name in _head(sizes)),
        Column("UPDATED", right=True),
    ]
    on_main = all(run.branch == "main" for run in runs)
    counted = " {}" if screen.columns >= ROOMY else ""
    rows: list[list[Line]] = [
        [
            [(run.run_id, "id")],
            [(clean(run.title or run.workflow), "")],
            [] if on_main else [(clean(run.branch), "")],
            status_line(run.status, health_of(run)),
            [
                *bar(run.percent, run.status),
                (f" {run.percent:3d}%", ""),
                (counted.format(done_of(run)), "dim"),
            ],
            [] if run.row.is_archived else step_line(run),
            *([[(size(sizes.get(run.run_id, 0)), "")]] if sizes else []),
            [(_updated(run, screen), "dim")],
        ]
        for run in runs
    ]
    return table(heads, rows, screen.columns)


def health_of(run: RunInfo) -> str:
    return ARCHIVED if run.row.is_archived else run.health


def done_of(run: RunInfo) -> str:
    return f"{run.steps['completed'] + run.steps['skipped']}/{run.steps['total']}"


def status_line(status: str, health: str) -> Line:
    symbol, style = RUN_LOOK.get(status, ("?", ""))
    line: Line = [(f"{symbol} {clean(status)}", style)]
    if health in HEALTH_LOOK:
        line.append((f" {health}", HEALTH_LOOK[health]))
    return line


def bar(percent: int, status: str, wide: int = BAR) -> list[Span]:
    """How far it is, drawn."""
    style = {"completed": "good", "failed": "bad", "blocked": "warn", "abandoned": "dim"}.get(status, "busy")
    full = percent * wide // 100
    return [("━" * full, style), ("━" * (wide - full), "rest")]


def waits(run: RunInfo) -> bool:
    """Whether its current step is one that waits for a person: nothing runs, and something waits."""
    steps = run.steps
    return steps["waiting"] > 0 and steps["running"] == 0


def step_line(run: RunInfo) -> Line:
    if run.current_step and waits(run):
        return [(f"◔ {step_name(run.current_step)}", "warn")]
    if run.current_step:
        return [(step_name(run.current_step), "busy")]
    return [(f"→ {step_name(run.next_step)}", "dim")] if run.next_step else []


_MOST_FAILURES = 10  # failures that are told with all they have
_MOST_TRACE = 12  # of a traceback: its end says most
_MOST_RESULT = 300  # characters of what a step returned and could not be kept


def error_in_words(error: Any) -> str:
    """An error in a line: its kind, and its message."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        kind = error.get("type")
        return clean(f"{kind}: {error['message']}" if isinstance(kind, str) and kind else error["message"])
    return clean(error) if isinstance(error, str) else value(error)


def failure_lines(errors: dict[str, Any], run_id: str) -> list[Line]:
    """Each by its step, with its traceback below."""
    lines: list[Line] = []
    for step, error in list(errors.items())[:_MOST_FAILURES]:
        lines.append([(step_name(step), "id"), ("  ", ""), (error_in_words(error), "bad")])
        lines += [[("  ", ""), (line, "dim")] for line in _below(error)]
    if len(errors) > _MOST_FAILURES:
        lines.append([(f"and {len(errors) - _MOST_FAILURES} more: leftoff logs {run_id} --failed", "dim")])
    return lines


def _below(error: Any) -> list[str]:
    if not isinstance(error, dict):
        return []
    trace = str(error.get("traceback") or "").rstrip("\n").split("\n")
    told = ["  …", *trace[-_MOST_TRACE:]] if len(trace) > _MOST_TRACE else trace
    if "result" in error:
        told.append(f"it returned {crop(str(error['result']), _MOST_RESULT)}")
    return [clean(line) for line in told if line]
