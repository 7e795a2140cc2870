"""A run as listings, JSON and the Python API show it: its row, its current and next step, and its health."""

from __future__ import annotations

from typing import Any

from leftoff.clock import iso
from leftoff.engine.lease import ELSEWHERE, idle
from leftoff.engine.lease import state as lease_state
from leftoff.host import GONE
from leftoff.model.changes import counts_of
from leftoff.model.words import EXPECTED, FINISHED, QUESTION, STANDS, WAITS, WHY_AGAIN
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import Lease, RunRow

Known = tuple[str | None, str | None, str]  # current step, next step, health

QUIET_MS, STALLED_MS = 600_000, 1_800_000
_FAILED = 100  # failed steps that are looked at, for one whose failure is not allowed
LIMITS = (QUIET_MS, STALLED_MS)  # without a sign of life for so long: quiet, stalled


class RunInfo:
    """What a listing knows of a run, without scanning its steps."""

    __slots__ = ("_known", "row")

    def __init__(self, row: RunRow, known: Known | Listing) -> None:
        self.row = row
        self._known = known

    @property
    def _now(self) -> Known:
        return self._known.of(self.row) if isinstance(self._known, Listing) else self._known

    @property
    def current_step(self) -> str | None:
        return self._now[0]

    @property
    def next_step(self) -> str | None:
        return self._now[1]

    @property
    def health(self) -> str:
        """``alive``, ``quiet``, ``stalled``, ``dead``, ``idle`` or ``finished``."""
        return self._now[2]

    @property
    def state(self) -> str:
        """The one word for people: see ``state_of``."""
        return state_of(self.row, self.health)

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
        """Of the leaf steps, rounded down. Failures that are allowed count once the run is completed. A completed run
        without steps is complete."""
        steps, is_completed = self.steps, self.status == "completed"
        if steps["total"] == 0:
            return 100 if is_completed else 0
        allowed = self.row.card.get("allowed", 0) if steps["failed"] and is_completed else 0
        return min(100, (steps["completed"] + steps["skipped"] + allowed) * 100 // steps["total"])

    @property
    def waits(self) -> dict[str, Any] | None:
        """Which agent step waits for its service, why, and until when: ``step``, ``agent``, ``why``, ``until``."""
        found = self.row.card.get(WAITS)
        return found if isinstance(found, dict) and self.state == "running" else None

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
            "state": self.state,
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
            "why": why_of(card),
            **({"archived": True} if row.is_archived else {}),
            **({"waits": self.waits} if self.waits else {}),
        }

    def __repr__(self) -> str:
        steps = self.steps
        done = f"{steps['completed'] + steps['skipped']}/{steps['total']}"
        return f"<run {self.run_id}: {self.state}, {done} steps>"


class Listing:
    """Runs that were listed together. The first question about one looks up all of them in one transaction."""

    def __init__(self, store: SqlStore, rows: list[RunRow], now: int, limits: tuple[int, int]) -> None:
        self._store = store
        self._rows = rows
        self._now = now
        self._limits = limits
        self._found: dict[int, Known] | None = None

    def of(self, row: RunRow) -> Known:
        if self._found is None:
            self._found = self._store.read(
                lambda view: {row.run: _look_at(view, row, self._now, self._limits) for row in self._rows}
            )
        return self._found[row.run]


def _look_at(view: View, row: RunRow, now: int, limits: tuple[int, int]) -> Known:
    counts = counts_of(row.counts)
    words = (word for word in ("running", "waiting") if counts[word])
    current = next((view.leaf(row.run, word) for word in words), None)
    lease = view.lease(row.run) if row.status not in FINISHED else None
    return current, next_leaf(view, row), health(row, lease, now, *limits)


def next_leaf(view: View, row: RunRow) -> str | None:
    """Return the next step: the first pending one, and of a paused or failed run also a failed one before it."""
    counts = counts_of(row.counts)
    pending = view.leaf(row.run, "pending") if counts["pending"] else None
    if row.status not in STANDS or not counts["failed"]:
        return pending
    failed = next(
        (path for path in view.leaves(row.run, "failed", _FAILED) if not _allowed(view, row, path)), None
    )
    known = {path: view.row(row.run, "step", path) for path in (failed, pending) if path is not None}
    return min(known, key=lambda path: (known[path] or (b"", "", "", 0))[2] or "", default=None)


def _allowed(view: View, row: RunRow, path: str) -> bool:
    """Return whether the failure of a step is allowed. Keys are stored in their order, so this one comes first."""
    record = view.record(row.run, "step", path)
    return record is not None and record.stored.startswith(b'J{"allowed":true')


def step_counts(row: RunRow) -> dict[str, int]:
    """Return leaf steps by status, and their ``total``.

    Announced steps that are not reported yet are pending. ``beyond``: how many more there are of a status than are
    listed, if a protocol's document said so.
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


def health(
    row: RunRow, lease: Lease | None, now: int, quiet: int = QUIET_MS, stalled: int = STALLED_MS
) -> str:
    """Return ``alive``, ``quiet``, ``stalled``, ``dead``, ``idle`` or ``finished``."""
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
    if age < quiet:
        return "alive"
    return "quiet" if age < stalled else "stalled"


def state_of(row: RunRow, health: str) -> str:
    """Return the status; or ``interrupted`` if the driver has died, or ``waiting`` if only a person can continue."""
    if row.status == "running" and health == "dead":
        return "interrupted"
    counts = counts_of(row.counts)
    waits = (counts["waiting"] and not counts["running"]) or row.card.get(QUESTION)
    return "waiting" if waits and row.status in ("running", "paused") else str(row.status)


def why_of(card: dict[str, Any]) -> str | None:
    """Return why a run was started, and why it last continued."""
    imported = card.get("imported")
    path = imported.get("path") if isinstance(imported, dict) else None
    known = (card.get("why") or (f"imported from {path}" if path else None), card.get(WHY_AGAIN))
    return "; ".join(str(each) for each in known if each) or None


def wait_words(waits: dict[str, Any]) -> str:
    """Return for what service an agent step waits, and until when."""
    until = str(waits.get("until"))
    return f"waits for {waits.get('agent')} until {until[:10]} {until[11:16]} UTC"


def info(view: View, row: RunRow, now: int, limits: tuple[int, int] = LIMITS) -> RunInfo:
    return RunInfo(row, _look_at(view, row, now, limits))


def run_info(store: SqlStore, run: int, now: int, limits: tuple[int, int] = LIMITS) -> RunInfo | None:
    """Return a run as a listing shows it; ``None`` if it is gone or in the trash."""

    def look(view: View) -> RunInfo | None:
        row = view.run_row(run)
        return None if row is None or row.is_gone else info(view, row, now, limits)

    return store.read(look)


def list_info(store: SqlStore, now: int, limits: tuple[int, int] = LIMITS, **where: Any) -> list[RunInfo]:
    """Return runs by status, workflow, branch, title, issue or session, latest commit first."""
    if not store.exists():
        return []
    limit = where.pop("limit", None)
    if store.shared:  # one round trip fetches all that is looked up
        return store.read(
            lambda view: [info(view, row, now, limits) for row in view.list_runs(where, limit, ahead=True)]
        )
    rows = store.read(lambda view: view.list_runs(where, limit))
    listing = Listing(store, rows, now, limits)
    return [RunInfo(row, listing) for row in rows]
