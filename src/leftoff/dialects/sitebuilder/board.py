"""sitebuilder's table "Active Checkpoints": a row for each run that is unfinished, or was completed within a day."""

from __future__ import annotations

from leftoff.dialects.draft import cell
from leftoff.engine.read.info import LIMITS, list_info
from leftoff.model.times import DAY_MS, ago
from leftoff.model.words import STEP_STATUS, UNFINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.read.info import RunInfo
    from leftoff.store.base import Store

TITLE = "## Active Checkpoints"
HEAD = [
    "| Agent | Task | Progress | Last Update | Status |",
    "|-------|------|----------|-------------|--------|",
]
_WORDS = {"running": "in_progress", "completed": "complete"}


def table(store: Store, now: int, limits: tuple[int, int] = LIMITS) -> str:
    """The table as Markdown, without an end of line at its end."""
    rows = [
        f"| {' | '.join(cell(value) or '—' for value in _row(run, now))} |"
        for run in active(store, now, limits)
    ]
    return "\n".join([*HEAD, *rows])


def _row(run: RunInfo, now: int) -> tuple[str, str, str, str, str]:
    """Agent, task, progress, last update and status, in the protocol's words."""
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
    """Whether anything was done: a step that is not pending, or, where none is known, any report at all."""
    if run.status != "running":
        return True
    if sum(run.steps[word] for word in STEP_STATUS) == 0:
        return bool(run.row.seq > 1)
    return any(run.steps[word] for word in STEP_STATUS if word != "pending")


def active(store: Store, now: int, limits: tuple[int, int]) -> list[RunInfo]:
    """The unfinished runs, and those that were completed within a day."""
    unfinished = list_info(store, now, limits, status=UNFINISHED)
    done = list_info(store, now, limits, status=("completed",), limit=50)
    return [*unfinished, *(run for run in done if now - run.row.updated_at < DAY_MS)]
