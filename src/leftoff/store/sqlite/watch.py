"""Hearing of commits to an embedded store: SQLite's data version, which moves when another connection commits."""

from __future__ import annotations

import time

import apsw

from leftoff.store.sqlite.failures import translate
from leftoff.store.watch import NOTHING, Watch, between, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.sqlite.store import SqliteStore
    from leftoff.store.watch import News

EVERY_S = 0.1


class SqliteWatch(Watch):
    """No connection is kept from others: the number is asked of one that is free. Another one than last time says
    nothing of what happened between, so that is looked at."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._version = self._now()
        self._moment = moment(store)

    def _now(self) -> tuple[object, int]:
        """A connection, and its data version."""
        store = self._store
        if not store.exists():
            return None, 0
        try:
            db = store.take()
            try:
                return db, int(db.pragma("data_version"))
            finally:
                store.give(db)
        except (apsw.Error, OSError) as error:
            raise translate(error, store.path) from error

    def wait(self, seconds: float) -> News:
        end = time.monotonic() + seconds
        while not (news := self._news()):
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(EVERY_S, left))
        return news

    def _news(self) -> News:
        before, self._version = self._version, self._now()
        if before == self._version:
            return NOTHING
        old, self._moment = self._moment, moment(self._store)
        if before[0] is not self._version[0] and old == self._moment:
            return NOTHING
        return between(old, self._moment)

    def close(self) -> None:
        self._version = None, 0
