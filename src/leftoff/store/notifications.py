"""Hearing of what is committed, by any process, without asking again and again.

A server notifies those who listen (``leftoff.store.postgres``). An embedded store has a number that moves with each
commit, and costs no query to look at. If a store says that something happened, but not what, two moments are compared.
"""

from __future__ import annotations

import time

from leftoff.hints import Callable, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.base import Store, View

NEWEST = 100  # runs that are compared; if more of them moved, all may have
NO_FILE = -1
EVERY_S = 0.1


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


class Watch:
    """Whoever made it has looked before, or looks now: it hears of all that is committed from its making on."""

    def wait(self, seconds: float) -> News:
        """What happened since the last call; waits so long for something to happen, and not at all for 0.

        ``StoreUnavailable`` where the store has been out of reach for longer than its patience.
        """
        raise NotImplementedError

    def fileno(self) -> int:
        """What can be read when something happened, for a selector; ``NO_FILE``: there is no such thing."""
        return NO_FILE

    def close(self) -> None:
        raise NotImplementedError


class Moment(NamedTuple):
    """Of a store: the newest runs and their versions; who drives which run, and what lies in the trash; the beats."""

    seqs: dict[str, int]
    rest: tuple[object, ...]
    beats: tuple[object, ...]


EMPTY = Moment({}, (), ())


def moment(store: Store) -> Moment:
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


class PolledWatch(Watch):
    """Watches a number that moves when another connection commits. No connection is kept from others: the number is
    read on one that is free. Another connection than last time says nothing of what happened between."""

    def __init__(self, store: Store, version: Callable[[], tuple[object, int]]) -> None:
        self._store = store
        self._read = version
        self._version = version()
        self._moment = moment(store)

    def wait(self, seconds: float) -> News:
        end = time.monotonic() + seconds
        while not (news := self._news()):
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(EVERY_S, left))
        return news

    def _news(self) -> News:
        before, self._version = self._version, self._read()
        if before == self._version:
            return NOTHING
        old, self._moment = self._moment, moment(self._store)
        if before[0] is not self._version[0] and old == self._moment:
            return NOTHING
        return between(old, self._moment)

    def close(self) -> None:
        self._version = None, 0
