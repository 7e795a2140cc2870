"""Hearing of commits on a server: LISTEN, on a connection of its own.

A commit is followed by a notification with the run's id and version, in a transaction of its own: inside the commit it
would make all commits of the server wait for each other. If no process watches, none is sent: a watch holds an advisory
lock (``Q.is_heard``). What was told while the connection was lost is found by comparing.
"""

from __future__ import annotations

import time

import psycopg

from leftoff import log
from leftoff.store.notifications import NO_FILE, NOTHING, News, Watch, between, moment
from leftoff.store.server_connection import Link, Q
from leftoff.store.server_errors import code_of, is_lost, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.postgres import PostgresStore

DEAF_S = 2.0  # seconds between looks where nobody can listen: at a standby, behind a pooler
FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 5.0
LOOK_AGAIN_S = 1.0  # a commit that ends while a watch begins may notify nobody: so a watch looks once more
_READ_ONLY = "25006"


def heard(texts: list[str]) -> News:
    """Return what was told: of each run its newest version."""
    runs: dict[str, int] = {}
    others = False
    for text in texts:
        seq, _, run_id = text.partition(" ")
        if seq.isdigit() and run_id:
            runs[run_id] = max(int(seq), runs.get(run_id, 0))
        else:
            others = True
    return News(runs, others)


class PostgresWatch(Watch):
    """A connection that listens; made again when it is lost."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._link: Link | None = None
        self._deaf = False
        self._lost_at: float | None = None
        self._tried, self._pause = 0.0, FIRST_WAIT_S
        try:
            self._listen()
        except psycopg.Error as error:
            raise translate(error, store.place) from None
        self._moment = moment(store)
        self._looked = time.monotonic()

    def _listen(self) -> None:
        place = self._store.place
        link = Link(place)
        try:
            self._deaf = link.is_shared()
            if not self._deaf:
                link.script(f"LISTEN {place.quoted}")
                link.ask([(Q.watch, (place.schema,))])
        except psycopg.Error as error:
            if code_of(error) != _READ_ONLY:
                link.close()
                raise
            self._deaf = True
        if self._deaf:
            log.debug("nobody can listen at %s: looks every %g s", place.name, DEAF_S)
        self._link, self._lost_at, self._pause = link, None, FIRST_WAIT_S
        self._looked_again = False

    def fileno(self) -> int:
        return self._link.fileno() if self._link is not None and not self._deaf else NO_FILE

    def wait(self, seconds: float) -> News:
        end = time.monotonic() + seconds
        while not (news := self._news(max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                break
        return news

    def _news(self, seconds: float) -> News:
        if self._link is None:
            return self._again(seconds)
        if self._deaf:
            return self._compared(seconds)
        try:
            texts = self._link.heard(seconds if self._looked_again else min(seconds, LOOK_AGAIN_S))
        except psycopg.Error as error:
            self._lose(error)
            return NOTHING
        if not texts and not self._looked_again and time.monotonic() - self._looked > LOOK_AGAIN_S:
            self._looked_again = True
            return self._difference()
        return heard(texts)

    def _lose(self, error: psycopg.Error) -> None:
        """From now on it is tried to listen again."""
        if not is_lost(error):
            raise translate(error, self._store.place) from None
        log.debug("does not hear of %s any more: %s", self._store.name, error)
        if self._link is not None:
            self._link.close()
        self._link, self._deaf = None, False
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        self._tried = now
        if now - self._lost_at > self._store.patience:
            raise translate(error, self._store.place) from None

    def _again(self, seconds: float) -> News:
        """Listen again, when it is time to try; then find what happened meanwhile."""
        due = self._tried + self._pause - time.monotonic()
        if due > 0:
            time.sleep(min(due, seconds))
            return NOTHING
        self._pause = min(self._pause * 2, LONGEST_WAIT_S)
        try:
            self._listen()
        except psycopg.Error as error:
            self._lose(error)
            return NOTHING
        return self._difference()

    def _compared(self, seconds: float) -> News:
        due = self._looked + DEAF_S - time.monotonic()
        if due > 0:
            time.sleep(min(due, seconds))
            return NOTHING
        return self._difference()

    def _difference(self) -> News:
        before, self._moment, self._looked = self._moment, moment(self._store), time.monotonic()
        return between(before, self._moment) if before != self._moment else NOTHING

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
