"""Watch what is committed, by any process.

Each store has a value that moves with every commit and costs next to nothing to look at. When it has moved, two moments
are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from leftoff.store.base import SqlStore, View

NEWEST = 100  # runs that are compared; if more of them moved, all may have


class News(NamedTuple):
    """What happened: the runs that changed, by their ids, with the newest version of each. ``others``: more may have
    changed than these."""

    runs: dict[str, int] = {}
    others: bool = False

    def __bool__(self) -> bool:
        return bool(self.runs) or self.others

    def concerns(self, run_id: str) -> bool:
        """Whether this run may be another one than before."""
        return self.others or run_id in self.runs


NOTHING = News()


class Moment(NamedTuple):
    """Of a store: the newest runs and their versions; who drives which run, and what lies in the trash; the beats."""

    seqs: dict[str, int]
    rest: tuple[object, ...]
    beats: tuple[object, ...]


EMPTY = Moment({}, (), ())


def moment(store: SqlStore) -> Moment:
    """How things are now."""

    def look(view: View) -> Moment:
        leases = view.leases()
        rest = [(run_id, lease.epoch, lease.kind, lease.session) for run_id, lease in leases]
        return Moment(
            {row.run_id: row.seq for row in view.list_runs({}, NEWEST)},
            (*rest, *(each.row.run_id for each in view.trashed())),
            tuple((run_id, lease.beat) for run_id, lease in leases),
        )

    return store.read(look) if store.exists() else EMPTY


def between(before: Moment, after: Moment) -> News:
    """What happened from one moment to the other, where something did. That somebody is still alive is no news."""
    runs = {run_id: seq for run_id, seq in after.seqs.items() if before.seqs.get(run_id) != seq}
    new = runs.keys() - before.seqs.keys()
    gone = before.seqs.keys() - after.seqs.keys()
    if (
        before.rest != after.rest
        or len(runs) >= NEWEST
        or len(gone) > (len(new) if len(after.seqs) >= NEWEST else 0)
    ):
        return News(runs, others=True)
    return News(runs, others=not runs and before.beats == after.beats)


class Watch:
    """Reports what is committed after it was made.

    ``version`` returns a connection and its value that moves when another one commits, or None and the value of the
    store. Values of two connections cannot be compared. ``every``: seconds between two looks at it.
    """

    def __init__(self, store: SqlStore, version: Callable[[], tuple[object, object]], every: float) -> None:
        self._store = store
        self._read = version
        self._every = every
        self._version = version()
        self._moment = moment(store)

    def wait(self, seconds: float) -> News:
        """Return what happened since the last call. Wait at most so long for something to happen.

        Raise ``StoreUnavailable`` if the store is out of reach for longer than its patience.
        """
        end = time.monotonic() + seconds
        while not (news := self._news()):
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(self._every, left))
        return news

    def _news(self) -> News:
        before, self._version = self._version, self._read()
        if before == self._version:
            return NOTHING
        old, self._moment = self._moment, moment(self._store)
        is_known = self._version[0] is not None and before[0] is self._version[0]
        return between(old, self._moment) if is_known or old != self._moment else NOTHING

    def close(self) -> None:
        """Let go of the connection."""
        self._version = None, 0
