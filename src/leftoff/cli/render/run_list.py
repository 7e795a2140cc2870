"""A list of runs, as `ls` and `status` show it: a table on a terminal, bare columns in a pipe."""

from __future__ import annotations

from leftoff.cli.render.text import clean, columns, size, step_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.cli.render.screen import Screen
    from leftoff.cli.render.text import Line, Span
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
    from leftoff.cli.render.layout import Column, table

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
