"""A connection, always in pipeline mode: what is asked together travels together, and is waited for once.

And the pool of them. It has no threads of its own (a driver forks before it starts any, and a command lives for a
moment): whoever needs a connection takes one that is free, makes one, or waits for one to be given back.
"""

from __future__ import annotations

import os
import threading

import psycopg

from leftoff import log
from leftoff.errors import StoreUnavailable, Unsupported
from leftoff.store.postgres.failures import FULL, code_of
from leftoff.store.postgres.location import said_elsewhere
from leftoff.store.postgres.queries import Q
from leftoff.store.postgres.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from leftoff.store.postgres.location import Place
    from leftoff.store.postgres.wire import Rows, Statement

    T = TypeVar("T")

OLDEST = 13  # of PostgreSQL
CONNECT_S = 10
IDLE_MS = 60_000  # a transaction that nobody goes on with is ended by the server
#: a network that drops everything is noticed after a minute, by who waits for an answer and by who only listens
ALIVE = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
#: of each session; with arrays as everybody else has them
SETTINGS = {"jit": "off", "array_nulls": "on", "idle_in_transaction_session_timeout": str(IDLE_MS)}
MOST = 10  # connections of one store in one process
_NO_OPTIONS = "unsupported startup parameter"


class Link:
    """One connection to the server, with the project's schema as the place where tables are."""

    def __init__(self, place: Place) -> None:
        log.debug("connects to %s", place.name)
        self.place = place
        self.pid = os.getpid()
        settings = {"search_path": place.quoted, **SETTINGS}
        self.conn, made_so = _connected(place.conninfo, settings)
        self._refuse_unfit()
        self.wire = Wire(self.conn, settings, made_so=made_so)
        self.wire.is_awaited = self._is_awaited
        self._patience = -1.0

    def _refuse_unfit(self) -> None:
        version = self.conn.info.server_version // 10_000
        encoding = self.conn.info.parameter_status("server_encoding")
        if version >= OLDEST and encoding == "UTF8":
            return
        self.conn.close()
        if encoding != "UTF8":
            raise Unsupported(
                f"The database of {self.place.name} is encoded as {encoding}; leftoff needs UTF8.",
                hint="Make one for it: createdb --encoding=UTF8 --template=template0 leftoff",
            )
        raise Unsupported(
            f"{self.place.name} is PostgreSQL {version}; leftoff needs {OLDEST} or later.",
            hint="Upgrade the server.",
        )

    def ask(self, statements: Sequence[Statement], then: Sequence[Statement] = ()) -> list[Rows]:
        """The rows of each statement, for one time of waiting; ``then``: what nobody waits for."""
        return self._said(self.wire.ask, statements, then)

    def tell(self, statement: str, *, alone: bool = False) -> None:
        """Send a statement, and wait for nothing: what it says is heard with the next answer. ``alone``: what is sent
        behind it does not take it back if it fails."""
        self._said(self.wire.send, [(statement, ())], alone)

    def wait_at_most(self, seconds: float) -> None:
        """For a lock, from the next statement on."""
        if seconds == self._patience:
            return
        limit = str(max(1, int(min(seconds, 1e6) * 1000)))
        self.wire.settings["lock_timeout"] = limit
        if self.wire.own:
            self.tell(f"SET lock_timeout = {limit}", alone=True)
            self._patience = seconds

    def _is_awaited(self) -> bool:
        """Whether the server still works on what was asked: nothing came for a while, as if one of both had stopped, or
        what is between. Asked on another connection; behind a pooler it must do that there is a server."""
        log.debug("no answer from %s: looks whether it is there", self.place.name)
        try:
            conn, _ = _connected(self.place.conninfo, {})
        except psycopg.Error as error:
            return code_of(error) == FULL
        try:
            found = Wire(conn, {}, made_so=False).ask([(Q.works, (self.conn.info.backend_pid,))])
        except psycopg.Error:
            return False
        finally:
            conn.close()
        return not self.wire.own or found[0][0][0]

    def is_shared(self) -> bool:
        """Whether others use the same session of the server: nobody can listen in it."""
        if not self.wire.own:
            self.ask([])
        return not self.wire.own

    def script(self, statements: Sequence[str]) -> None:
        """Statements that are sent once in the life of a store."""
        self._said(self.wire.script, statements)

    def heard(self, seconds: float) -> list[str]:
        """What the server told, if this connection listens."""
        return self._said(self.wire.heard, seconds)

    def fileno(self) -> int:
        return self.conn.fileno()

    def _said(self, how: Callable[..., T], *what: Any) -> T:
        try:
            return how(*what)
        except psycopg.Error:
            if self.conn.pgconn.status != psycopg.pq.ConnStatus.OK:
                self.close()
            raise
        except BaseException:  # interrupted: who knows what was said
            self.close()
            raise

    @property
    def version(self) -> str:
        """Of the server, as people know it."""
        number = self.conn.info.server_version
        return f"{number // 10_000}.{number % 10_000}"

    @property
    def usable(self) -> bool:
        return self.pid == os.getpid() and not self.conn.closed

    def finish(self) -> None:
        """Wait a little for what nobody waited for."""
        if self.usable:
            try:
                self.wire.finish()
            except psycopg.Error:
                pass

    def close(self) -> None:
        if self.pid == os.getpid():  # what a fork copied is the parent's
            try:
                self.conn.close()
            except psycopg.Error:
                pass


def _connected(conninfo: str, settings: dict[str, str]) -> tuple[psycopg.Connection[Any], bool]:
    """A connection, and whether it was asked for with these settings. Some poolers take none."""
    given: dict[str, Any] = {**said_elsewhere(), **psycopg.conninfo.conninfo_to_dict(conninfo)}
    timeout = given.get("connect_timeout") or CONNECT_S
    name = given.get("application_name") or "leftoff"
    wanted = {"connect_timeout": timeout, "application_name": name, "client_encoding": "UTF8"}
    wanted.update({key: value for key, value in ALIVE.items() if key not in given})
    plain = psycopg.conninfo.make_conninfo(conninfo, **wanted)
    ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
    options = f"{given.get('options') or ''} {ours}".strip()  # ours behind those that the URL has
    try:
        with_ours = psycopg.conninfo.make_conninfo(plain, options=options)
        return psycopg.connect(with_ours, autocommit=True), True
    except psycopg.OperationalError as error:
        if _NO_OPTIONS not in str(error):
            raise
    return psycopg.connect(plain, autocommit=True), False


class Pool:
    """The connections of one store in this process."""

    def __init__(self, place: Place, most: int = MOST) -> None:
        self.place = place
        self.most = most
        self._changed = threading.Condition()
        self._free: list[Link] = []
        self._out = 0

    def take(self, patience: float) -> Link:
        """One for the length of a transaction."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free or self._out < self.most, patience):
                raise StoreUnavailable(
                    f"All {self.most} connections to {self.place.name} are in use.",
                    hint="Nothing was changed. Fewer threads at once, or LEFTOFF_LOCK_TIMEOUT to wait longer.",
                )
            self._out += 1
            link = self._free.pop() if self._free else None
        if link is not None and link.usable:
            return link
        try:
            return Link(self.place)
        except BaseException:
            self._one_less()
            raise

    def give(self, link: Link) -> None:
        """Back for the next one, if it is still good."""
        with self._changed:
            self._out -= 1
            if link.usable:
                self._free.append(link)
            self._changed.notify()

    def drop(self, link: Link) -> None:
        """Whatever is the matter with it, nobody gets it again."""
        link.close()
        self._one_less()

    def _one_less(self) -> None:
        with self._changed:
            self._out -= 1
            self._changed.notify()

    def close(self) -> None:
        """Those that are free; one in use is closed by nobody else."""
        with self._changed:
            free, self._free = self._free, []
        for link in free:
            link.finish()
            link.close()

    def forget(self) -> None:
        """In a child: the connections are the parent's, and so is the lock that somebody may hold."""
        _leaked.extend(self._free)
        self._changed, self._free, self._out = threading.Condition(), [], 0


_leaked: list[Link] = []
