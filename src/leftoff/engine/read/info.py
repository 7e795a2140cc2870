"""A run as it is shown: in listings, in JSON, in the Python API."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.read.find import list_runs
from leftoff.engine.write.lease import ELSEWHERE, idle
from leftoff.engine.write.lease import state as lease_state
from leftoff.host import ALIVE, GONE
from leftoff.model.versions import counts_of
from leftoff.model.words import EXPECTED, FINISHED, STANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.base import Store, View
    from leftoff.store.rows import Lease, RunRow

QUIET_MS, STALLED_MS = 600_000, 1_800_000
LIMITS = (QUIET_MS, STALLED_MS)  # without a sign of life for so long: quiet, stalled


def next_leaf(view: View, row: RunRow) -> str | None:
    """The step that comes next: the first that is pending; where the run goes on from a standstill, what failed before
    it is done again first."""
    counts = counts_of(row.counts)
    pending = view.leaf(row.run, "pending") if counts["pending"] else None
    if row.status not in STANDS or not counts["failed"]:
        return pending
    failed = view.leaf(row.run, "failed")
    known = {path: view.row(row.run, "step", path) for path in (failed, pending) if path is not None}
    return min(known, key=lambda path: (known[path] or (b"", "", "", 0))[2] or "", default=None)


def step_counts(row: RunRow) -> dict[str, int]:
    """Leaf steps by status, and their ``total``.

    Those that were announced, for the run or below a step, and that nobody reported yet, are pending. ``beyond``: how
    many more there are of a status than are listed, where a foreign document said so.
    """
    counts, card = counts_of(row.counts), row.card
    declared, beyond, expected = card.get("total"), card.get("beyond"), card.get(EXPECTED)
    if isinstance(expected, dict):
        counts["pending"] += sum(expected.values())
    if isinstance(beyond, dict):
        for word, more in beyond.items():
            if word in counts and isinstance(more, int):
                counts[word] += more
    if isinstance(declared, int) and not isinstance(declared, bool):
        counts["pending"] += max(0, declared - sum(counts.values()))
    return {"total": sum(counts.values()), **counts}


class Listing:
    """Runs that were listed together: what needs a look-up of its own is looked up for all at once, if anyone asks."""

    def __init__(
        self,
        store: Store | None,
        rows: list[RunRow],
        now: int,
        limits: tuple[int, int] = LIMITS,
        ahead: View | None = None,
    ) -> None:
        """``ahead``: a view that has fetched all that is asked here, and needs its transaction no more."""
        self._store = store
        self._rows = rows
        self._now = now
        self._limits = limits
        self._ahead = ahead
        self._found: dict[int, tuple[str | None, str | None, str]] | None = None

    def of(self, row: RunRow) -> tuple[str | None, str | None, str]:
        """Current step, next step and health."""
        if self._ahead is not None:
            return self._look_at(self._ahead, row)
        if self._found is None:
            assert self._store is not None
            self._store.read(self.look)
        assert self._found is not None
        return self._found[row.run]

    def look(self, view: View) -> None:
        self._found = {row.run: self._look_at(view, row) for row in self._rows}

    def _look_at(self, view: View, row: RunRow) -> tuple[str | None, str | None, str]:
        counts = counts_of(row.counts)
        words = (word for word in ("running", "waiting") if counts[word])
        current = next((view.leaf(row.run, word) for word in words), None)
        lease = view.lease(row.run) if row.status not in FINISHED else None
        return current, next_leaf(view, row), health(row, lease, self._now, *self._limits)


class RunInfo:
    """What a listing knows of a run; its steps are never scanned for it."""

    __slots__ = ("_listing", "row")

    def __init__(self, row: RunRow, listing: Listing) -> None:
        self.row = row
        self._listing = listing

    @property
    def current_step(self) -> str | None:
        return self._listing.of(self.row)[0]

    @property
    def next_step(self) -> str | None:
        return self._listing.of(self.row)[1]

    @property
    def health(self) -> str:
        """``alive``, ``quiet``, ``stalled``, ``dead``, ``idle`` or ``finished``."""
        return self._listing.of(self.row)[2]

    @property
    def steps(self) -> dict[str, int]:
        """Leaf steps by status, and their ``total``."""
        return step_counts(self.row)

    @property
    def run_id(self) -> str:
        return str(self.row.run_id)

    id = run_id

    @property
    def workflow(self) -> str:
        return str(self.row.workflow)

    @property
    def title(self) -> str | None:
        found: str | None = self.row.title
        return found

    @property
    def branch(self) -> str:
        return str(self.row.branch)

    @property
    def status(self) -> str:
        return str(self.row.status)

    @property
    def updated_at(self) -> int:
        return int(self.row.updated_at)

    @property
    def percent(self) -> int:
        """Of the leaf steps, rounded down; a completed run is complete."""
        steps = self.steps
        if steps["total"] == 0:
            return 100 if self.status == "completed" else 0
        return min(100, (steps["completed"] + steps["skipped"]) * 100 // steps["total"])

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
            **({"archived": True} if row.is_archived else {}),
        }

    def __repr__(self) -> str:
        steps = self.steps
        done = f"{steps['completed'] + steps['skipped']}/{steps['total']}"
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
    last = max(row.updated_at, lease.beat or 0) if lease is not None else row.updated_at
    if lease is not None and lease.who == ELSEWHERE and not lease.held and last <= (lease.since or 0):
        return "dead"
    age = idle(row, lease, now)
    if seen == ALIVE or age < quiet:
        return "alive" if age < quiet else "quiet" if age < stalled else "stalled"
    return "quiet" if age < stalled else "stalled"


def info(view: View, row: RunRow, now: int, limits: tuple[int, int] = LIMITS) -> RunInfo:
    listing = Listing(None, [row], now, limits)
    listing.look(view)
    return RunInfo(row, listing)


def run_info(store: Store, run: int, now: int, limits: tuple[int, int] = LIMITS) -> RunInfo | None:
    """Return a run as a listing shows it; ``None`` if it is gone or in the trash."""

    def look(view: View) -> RunInfo | None:
        row = view.run_row(run)
        return None if row is None or row.is_gone else info(view, row, now, limits)

    return store.read(look)


def list_info(store: Store, now: int, limits: tuple[int, int] = LIMITS, **where: Any) -> list[RunInfo]:
    """``list_runs`` with what a listing shows of each."""
    if store.far and store.exists():
        return store.read(lambda view: _list_ahead(view, now, limits, where))
    rows = list_runs(store, **where)
    listing = Listing(store, rows, now, limits)
    return [RunInfo(row, listing) for row in rows]


def _list_ahead(view: View, now: int, limits: tuple[int, int], where: dict[str, Any]) -> list[RunInfo]:
    """Nothing is left to be looked up when somebody asks."""
    rows = view.list_runs(where, where.pop("limit", None), ahead=True)
    listing = Listing(None, rows, now, limits, view)
    return [RunInfo(row, listing) for row in rows]
