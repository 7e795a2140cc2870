"""What a store keeps besides the records, worked out from them: counters, leaves, the places of steps."""

from __future__ import annotations

from leftoff.errors import Corrupt, LeftoffError
from leftoff.model.changes import order_of
from leftoff.model.codec import BLOB, payload
from leftoff.model.ids import parent_of
from leftoff.model.versions import pack_counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    Event = TypeVar("Event", bound=tuple[int, *tuple[Any, ...]])


class Leaves:
    """Steps that come and go, and how many leaves there are of each status."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self._below: dict[str, int] = {}  # how many steps are below a path
        self._counts: dict[str, int] = {}

    def add(self, path: str, status: str) -> None:
        self.remove(path)
        for above in _above(path):
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
        for above in _above(path):
            self._below[above] -= 1
            if self._below[above] == 0 and above in self.statuses:
                self._count(self.statuses[above], 1)

    def is_leaf(self, path: str) -> bool:
        return not self._below.get(path)

    def packed(self) -> str:
        return pack_counts(self._counts)

    def _count(self, status: str, by: int) -> None:
        self._counts[status] = self._counts.get(status, 0) + by


def _above(path: str) -> list[str]:
    return [path[:at] for at, character in enumerate(path) if character == "/"]


def step_of(load: Callable[[bytes], Iterable[bytes]], stored: bytes, where: str) -> dict[str, Any]:
    """A step's record from its stored bytes; one that is a blob is read by ``load``."""
    if stored[:1] == BLOB and len(stored) == 33:
        stored = b"".join(load(stored[1:]))
    value = payload(stored, where)
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        raise Corrupt(f"{where} is no step.", where=where)
    return value


def step_or_pending(load: Callable[[bytes], Iterable[bytes]], stored: bytes, path: str) -> dict[str, Any]:
    """A step's record; a pending one where its blob is lost."""
    try:
        return step_of(load, stored, f"step/{path}")
    except LeftoffError:
        return {"status": "pending"}


def columns_of(steps: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By path what the tables keep beside each step: its status, whether it is a leaf, where it stands."""
    leaves, places = Leaves(), places_of({path: order_of(step) for path, step in steps.items()})
    for path, step in steps.items():
        leaves.add(path, step["status"])
    return {
        path: {"status": step["status"], "leaf": int(leaves.is_leaf(path)), "ord": places[path]}
        for path, step in steps.items()
    }


def places_of(orders: dict[str, int]) -> dict[str, str]:
    """Where each step stands among all: its order below the place of the nearest step above it."""
    out: dict[str, str] = {}
    for path in sorted(orders, key=lambda path: path.count("/")):
        above = parent_of(path)
        while above and above not in out:
            above = parent_of(above)
        out[path] = f"{out[above]}/{orders[path]:08d}" if above else f"{orders[path]:08d}"
    return out


def counts_at(steps: Iterable[tuple[str, int, int | None, str]], seqs: Iterable[int]) -> dict[int, str]:
    """The counters at these versions, from every step's path, first version, last version and status."""
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
    """For each version, oldest first, what happened since the one before; events are sorted and begin with theirs."""
    at = 0
    for seq in seqs:
        start = at
        while at < len(events) and events[at][0] <= seq:
            at += 1
        yield events[start:at]
