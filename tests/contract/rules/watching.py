"""Watching: who watches hears of every commit, whoever makes it, and of nothing else."""

from __future__ import annotations

from leftoff.store.base import SqlStore
from leftoff.store.rows import Holder
from tests.contract.rules.base import Rules
from tests.contract.scribe import AT, Scribe

SOON_S = 60.0  # for what will be heard of: only a failure waits so long


class WatchRules(Rules):
    def test_commits_are_heard_of(self, store: SqlStore, other: SqlStore) -> None:
        """Each new version, by its run and number, of this handle and of others; what was before is not."""
        mine, theirs = Scribe(store, "mine"), Scribe(store, "theirs")
        theirs.store = other
        watch = store.watch()
        assert not watch.wait(0)
        theirs.commit()
        assert {"theirs": 2} == watch.wait(SOON_S).runs
        mine.commit()
        assert {"mine": 2} == watch.wait(SOON_S).runs
        assert not watch.wait(0)
        watch.close()

    def test_a_store_that_is_not_there_yet(self, store: SqlStore, other: SqlStore) -> None:
        """Its first run is heard of, too."""
        watch = store.watch()
        assert not watch.wait(0)
        Scribe(other, "first")
        assert watch.wait(SOON_S).concerns("first")
        watch.close()

    def test_what_makes_no_version_is_heard_of(self, store: SqlStore, other: SqlStore) -> None:
        """A driver that comes or goes, and the way into the trash or the archive, and out of it."""
        scribe = Scribe(store)
        watch = store.watch()
        for change in (
            lambda tx: tx.put_lease(scribe.run, 1, Holder("session", None, "s", "agent", AT)),
            lambda tx: tx.put_lease(scribe.run, 1),
            lambda tx: tx.trash(scribe.run, AT),
            lambda tx: tx.activate(scribe.run),
            lambda tx: tx.archive(scribe.run),
            lambda tx: tx.activate(scribe.run),
        ):
            other.write(change)
            assert watch.wait(SOON_S).concerns("run-1")
        watch.close()

    def test_beats_are_no_news(self, store: SqlStore, other: SqlStore) -> None:
        """That a driver is still alive wakes nobody."""
        scribe = Scribe(store)
        store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("session", None, "s", "agent", AT)))
        watch = store.watch()
        assert other.write(lambda tx: tx.beat(scribe.run, 1, AT + 1))
        assert not watch.wait(0)
        watch.close()
