"""A run as it is shown: in listings, in JSON, in the Python API."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.find import list_runs
from leftoff.engine.lease import state as lease_state
from leftoff.host import ALIVE, GONE
from leftoff.model.versions import counts_of
from leftoff.model.words import FINISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, View
    from leftoff.store.rows import Lease, RunRow

QUIET_MS, STALLED_MS = 600_000, 1_800_000
LIMITS = (QUIET_MS, STALLED_MS)  # without a sign of life for so long: quiet, stalled


class RunInfo:
    """What a listing knows of a run; its steps are never scanned for it."""

    __slots__ = ("current_step", "health", "next_step", "row", "steps")

    def __init__(self, row: RunRow, current: str | None, following: str | None, health: str) -> None:
        self.row = row
        self.current_step = current
        self.next_step = following
        self.health = health
        counts = counts_of(row.counts)
        declared = row.card.get("total")
        total = sum(counts.values())
        if isinstance(declared, int) and not isinstance(declared, bool):
            total = max(total, declared)
        self.steps = {"total": total, **counts}

    @property
    def run_id(self) -> str:
        return self.row.run_id

    id = run_id

    @property
    def workflow(self) -> str:
        return self.row.workflow

    @property
    def title(self) -> str | None:
        return self.row.title

    @property
    def branch(self) -> str:
        return self.row.branch

    @property
    def status(self) -> str:
        return self.row.status

    @property
    def percent(self) -> int:
        """Of the leaf steps, rounded down; a completed run is complete."""
        total = self.steps["total"]
        if total == 0:
            return 100 if self.status == "completed" else 0
        return min(100, (self.steps["completed"] + self.steps["skipped"]) * 100 // total)

    def to_json(self) -> dict[str, Any]:
        row, card = self.row, self.row.card
        return {
            "run_id": row.run_id,
            "workflow": row.workflow,
            "title": row.title,
            "branch": row.branch,
            "git_branch": card.get("git_branch"),
            "issue": row.issue,
            "status": row.status,
            "created_at": card.get("created_at") or iso(row.created_at),
            "updated_at": iso(row.updated_at),
            "completed_at": card.get("completed_at"),
            "steps": self.steps,
            "percent": self.percent,
            "current_step": self.current_step,
            "next_step": self.next_step,
            "head": {"seq": row.seq, "checkpoint_id": row.checkpoint[:12] if row.checkpoint else None},
            "health": self.health,
            "session_id": row.session,
            "parent": card.get("parent"),
        }

    def __repr__(self) -> str:
        done = f"{self.steps['completed'] + self.steps['skipped']}/{self.steps['total']}"
        return f"<run {self.run_id}: {self.status}, {done} steps, {self.health}>"


def health(
    row: RunRow, lease: Lease | None, now: int, quiet: int = QUIET_MS, stalled: int = STALLED_MS
) -> str:
    """``alive``, ``quiet``, ``stalled``, ``dead``, ``idle`` or ``finished``."""
    if row.status in FINISHED:
        return "finished"
    seen = lease_state(lease, now)
    if seen == GONE:
        return "dead" if row.status == "running" else "idle"
    if row.status != "running":
        return "idle"
    last = max(row.updated_at, lease.beat or 0) if lease is not None and lease.held else row.updated_at
    age = now - last
    if seen == ALIVE or age < quiet:
        return "alive" if age < quiet else "quiet" if age < stalled else "stalled"
    return "quiet" if age < stalled else "stalled"


def info(view: View, row: RunRow, now: int, limits: tuple[int, int] = LIMITS) -> RunInfo:
    current = view.leaf(row.run, "running") or view.leaf(row.run, "waiting")
    following = view.leaf(row.run, "pending")
    return RunInfo(row, current, following, health(row, view.lease(row.run), now, *limits))


def run_info(store: Store, run: int, now: int, limits: tuple[int, int] = LIMITS) -> RunInfo | None:
    def look(view: View) -> RunInfo | None:
        row = view.run_row(run)
        return info(view, row, now, limits) if row is not None else None

    return store.read(look)


def list_info(store: Store, now: int, limits: tuple[int, int] = LIMITS, **where: Any) -> list[RunInfo]:
    """``list_runs`` with what a listing shows of each."""
    rows = list_runs(store, **where)
    if not rows:
        return []
    return store.read(lambda view: [info(view, row, now, limits) for row in rows])
