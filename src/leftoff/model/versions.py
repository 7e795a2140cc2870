"""One row of a run's history, and the columns that a store derives from records: counters, leaves, the order of steps,
the card of a run."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.errors import Corrupt, LeftoffError
from leftoff.hints import Any, Callable, Iterable, Iterator, NamedTuple, TypeVar
from leftoff.model.changes import order_of
from leftoff.model.codec import BLOB, decode, payload, tagged
from leftoff.model.ids import ancestors, parent_of, with_item
from leftoff.model.words import STEP_STATUS

Event = TypeVar("Event", bound=tuple[Any, ...])
Load = Callable[[bytes], Iterable[bytes]]  # reads a blob

NO_COUNTS = "[0,0,0,0,0,0,0]"


def counts_of(packed: str) -> dict[str, int]:
    """Return the leaf counters of a version, by status."""
    return dict(zip(STEP_STATUS, decode(packed), strict=True))


def pack_counts(counts: dict[str, int]) -> str:
    return "[" + ",".join(str(counts.get(word, 0)) for word in STEP_STATUS) + "]"


class Version(NamedTuple):
    """One commit of a run; sealed, it is a checkpoint and has an id and a trigger."""

    run_id: str
    seq: int
    digest: bytes
    at: int
    n: int = 0
    epoch: int = 0
    counts: str = NO_COUNTS
    checkpoint: str | None = None
    trigger: str | None = None
    step: str | None = None
    note: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def id(self) -> str | None:
        """The checkpoint's id as people use it (12 hex digits), or None if the version is not sealed."""
        return self.checkpoint[:12] if self.checkpoint else None

    def to_json(self) -> dict[str, Any]:
        about = {
            "checkpoint_id": self.id,
            "aliases": list(self.aliases),
            "run_id": self.run_id,
            "seq": self.seq,
            "trigger": self.trigger,
            "step": self.step,
            "created_at": iso(self.at),
            "note": self.note,
            "digest": tagged(self.digest),
            "can_resume": True,
        }
        return with_item(about, self.step)

    def __repr__(self) -> str:
        if self.checkpoint is None:
            return f"<version {self.seq} of {self.run_id}>"
        return f"<checkpoint {self.id} ({self.trigger}) of {self.run_id}@{self.seq}>"


def card_of(records: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str | None], dict[str, Any]]:
    """Return the columns and the card of a run, from the keys and stored bytes of its ``run`` records.

    A value so large that it is a blob is left out.
    """
    own = {key: payload(stored, f"run/{key}") for key, stored in records if stored[:1] != BLOB}

    def taken(key: str) -> str | None:
        value = own.pop(key, None)
        return value if isinstance(value, str) else None

    issue = own.pop("issue", None)
    columns = {
        "workflow": taken("workflow") or "run",
        "branch": taken("branch") or "main",
        "status": taken("status") or "running",
        "title": taken("title"),
        "issue": None if issue is None else str(issue),
        "session": taken("session_id"),
    }
    return columns, own


class Leaves:
    """Steps that are added and removed, and how many leaves there are of each status."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self._below: dict[str, int] = {}  # how many steps are below a path
        self._counts: dict[str, int] = {}

    def add(self, path: str, status: str) -> None:
        self.remove(path)
        for above in ancestors(path):
            self._below[above] = self._below.get(above, 0) + 1
            if self._below[above] == 1 and above in self.statuses:
                self._count(self.statuses[above], -1)
        self.statuses[path] = status
        if self.is_leaf(path):
            self._count(status, 1)

    def remove(self, path: str) -> None:
        if path not in self.statuses:
            return
        if self.is_leaf(path):
            self._count(self.statuses[path], -1)
        del self.statuses[path]
        for above in ancestors(path):
            self._below[above] -= 1
            if self._below[above] == 0 and above in self.statuses:
                self._count(self.statuses[above], 1)

    def is_leaf(self, path: str) -> bool:
        return not self._below.get(path)

    def packed(self) -> str:
        return pack_counts(self._counts)

    def _count(self, status: str, by: int) -> None:
        self._counts[status] = self._counts.get(status, 0) + by


def step_of(load: Load, stored: bytes, where: str) -> dict[str, Any]:
    """Return a step's record from its stored bytes; ``load`` reads one that is a blob."""
    if stored[:1] == BLOB and len(stored) == 33:
        stored = b"".join(load(stored[1:]))
    value = payload(stored, where)
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        raise Corrupt(f"{where} is no step.", where=where)
    return value


def step_or_pending(load: Load, stored: bytes, path: str) -> dict[str, Any]:
    """Return a step's record; a pending one if its blob is lost."""
    try:
        return step_of(load, stored, f"step/{path}")
    except LeftoffError:
        return {"status": "pending"}


def columns_of(steps: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by path the columns that the tables have for each step: status, whether it is a leaf, its place."""
    leaves = Leaves()
    places: dict[str, str] = {}  # its order below the place of the nearest step above it
    for path in sorted(steps, key=lambda path: path.count("/")):
        leaves.add(path, steps[path]["status"])
        above = parent_of(path)
        while above and above not in places:
            above = parent_of(above)
        order = f"{order_of(steps[path]):08d}"
        places[path] = f"{places[above]}/{order}" if above else order
    return {
        path: {"status": step["status"], "leaf": int(leaves.is_leaf(path)), "ord": places[path]}
        for path, step in steps.items()
    }


def counts_at(steps: Iterable[tuple[str, int, int | None, str]], seqs: Iterable[int]) -> dict[int, str]:
    """Return the counters at these versions, from every step's path, first version, last version and status."""
    events = []
    for path, seq, until, status in steps:
        if seq != until:
            events.append((seq, 1, path, status))
            if until is not None:
                events.append((until, -1, path, status))
    events.sort()
    seqs = sorted(seqs)
    leaves, out = Leaves(), {}
    for seq, news in zip(seqs, up_to(seqs, events), strict=True):
        for _, kind, path, status in news:
            leaves.add(path, status) if kind > 0 else leaves.remove(path)
        out[seq] = leaves.packed()
    return out


def up_to(seqs: Iterable[int], events: list[Event]) -> Iterator[list[Event]]:
    """Yield for each version, oldest first, the events since the one before. Events are sorted and start with their
    version."""
    at = 0
    for seq in seqs:
        start = at
        while at < len(events) and events[at][0] <= seq:
            at += 1
        yield events[start:at]
