"""Connections to a PostgreSQL server, and the statements sent on them.

No session is changed: what a transaction needs is set inside of it. So a pooler may stand between, and give each
transaction to another session of the server. Statements that are sent often are prepared, but only if the process of
the server that answers is the one that was connected to: then no pooler is between. Statements that are asked together
travel together, in psycopg's pipeline, and are waited for once.

The pool has no threads of its own (a driver forks before it starts any, and a command lives for a moment).

``translate`` turns an error of the server or its driver into one of leftoff's. A server says what happened by a code of
five characters. Before a connection is made there is only its text, in which the words of a restart are looked for. The
password is removed from every text.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.array import ListBinaryDumper

from leftoff.errors import Corrupt, Invalid, LeftoffError, StoreUnavailable, Unsupported, Usage
from leftoff.host import debug
from leftoff.store.base import Queries
from leftoff.store.server_location import ServerPlace, said_elsewhere

if TYPE_CHECKING:
    from psycopg.adapt import PyFormat

Statement = tuple[str, Sequence[Any]]
Rows = list[tuple[Any, ...]]

Q = Queries("postgres")
OLDEST = 13  # of PostgreSQL
CONNECT_S = 10
IDLE_MS = 60_000  # the server ends a transaction that rests for longer
#: a network that drops everything is noticed after a minute, by a transaction that waits
ALIVE = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
OFTEN = 5  # times that a statement is sent before it is prepared, which takes another round trip
MOST = 10  # connections of one store in one process
_SETTINGS = (
    "SELECT set_config('search_path', $1, true), set_config('lock_timeout', $2, true), "
    "set_config('jit', 'off', true), set_config('idle_in_transaction_session_timeout', $3, true)"
)
_OPTIONS = (
    "-c array_nulls=on -c standard_conforming_strings=on"  # so that texts and arrays mean what they say
)
_NO_OPTIONS = "unsupported startup parameter"  # what some poolers say
_NUL = "␀"
# It warns of a pipeline in which a statement failed; the error itself is raised.
logging.getLogger("psycopg").addFilter(lambda record: "terminating" not in record.getMessage())


class _Arrays(ListBinaryDumper):
    """Lists of values of one type. psycopg itself sends them as quoted text, and looks at each value three times."""

    def _find_list_element(self, L: list[Any], format: PyFormat) -> Any:
        first = next((value for value in L if value is not None), None)
        return super()._find_list_element(L, format) if type(first) is int else first


class Link:
    """One connection to the server."""

    def __init__(self, place: ServerPlace) -> None:
        debug("connects to %s", place.name)
        self.place = place
        self.pid = os.getpid()
        self.conn = _connected(place.conninfo)
        self.conn.adapters.register_dumper(list, _Arrays)
        self._refuse_unfit()
        self._owes = False  # whether the end of a transaction was sent and not yet waited for

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

    def settings(self, patience: float) -> Statement:
        """Return the statement that begins each transaction: where its tables are, how long it may wait."""
        return _SETTINGS, (self.place.quoted, in_ms(patience), str(IDLE_MS))

    def ask(self, statements: Sequence[Statement]) -> list[Rows]:
        """Return the rows of each statement. All are sent at once, and waited for once."""
        try:
            self._settle()
            if len(statements) == 1:
                cursors = [self._execute(*statements[0])]
            else:
                with self.conn.pipeline():
                    cursors = [self._execute(sql, values) for sql, values in statements]
            return [cursor.fetchall() if cursor.description is not None else [] for cursor in cursors]
        except BaseException:  # also when interrupted: the state of the connection is unknown
            self.close()
            raise

    def _execute(self, sql: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        values = [v.replace("\0", _NUL) if type(v) is str and "\0" in v else v for v in values]
        return self.conn.execute(sql.encode(), values or None, binary=True)

    def script(self, text: str) -> None:
        """Run several statements that are sent once in the life of a store."""
        self._settle()
        self.conn.execute(text.encode())

    def end_reading(self) -> None:
        """End a transaction that only read. Nothing depends on that, so its answer is not waited for."""
        self._settle()
        self.conn.pgconn.send_query(b"COMMIT")
        self.conn.pgconn.flush()
        self._owes = True

    def _settle(self) -> None:
        if not self._owes:
            return
        self._owes, pgconn = False, self.conn.pgconn
        while True:
            while pgconn.is_busy():  # libpq itself would wait with Python's lock held
                select.select([pgconn.socket], [], [])
                pgconn.consume_input()
            if pgconn.get_result() is None:
                return

    def met(self, pid: int) -> None:
        """Take in which process of the server answers. Prepare statements if it is the one that was connected to: then
        no pooler is between."""
        self.conn.prepare_threshold = OFTEN if pid == self.conn.info.backend_pid else None

    @property
    def version(self) -> str:
        """The server's version, as people know it."""
        number = self.conn.info.server_version
        return f"{number // 10_000}.{number % 10_000}"

    @property
    def usable(self) -> bool:
        return self.pid == os.getpid() and not self.conn.closed

    def close(self) -> None:
        if self.pid == os.getpid():  # what a fork copied is the parent's
            try:
                self.conn.close()
            except psycopg.Error:
                pass


def in_ms(seconds: float) -> str:
    """Return a time for the server's settings, at least a millisecond."""
    return str(max(1, int(min(seconds, 1e6) * 1000)))


def _connected(conninfo: str) -> psycopg.Connection[Any]:
    given: dict[str, Any] = {**said_elsewhere(), **psycopg.conninfo.conninfo_to_dict(conninfo)}
    wanted = {
        "connect_timeout": given.get("connect_timeout") or CONNECT_S,
        "application_name": given.get("application_name") or "leftoff",
        "client_encoding": "UTF8",
        **{key: value for key, value in ALIVE.items() if key not in given},
    }
    plain = psycopg.conninfo.make_conninfo(conninfo, **wanted)
    ours: dict[str, Any] = {
        "autocommit": True,
        "prepare_threshold": None,
        "cursor_factory": psycopg.RawCursor,
    }
    options = f"{given.get('options') or ''} {_OPTIONS}".strip()  # ours after those that the URL has
    try:
        return psycopg.connect(psycopg.conninfo.make_conninfo(plain, options=options), **ours)
    except psycopg.OperationalError as error:
        if _NO_OPTIONS not in str(error):
            raise
    return psycopg.connect(plain, **ours)


class Pool:
    """The connections of one store in this process."""

    def __init__(self, place: ServerPlace, most: int = MOST) -> None:
        self.place = place
        self.most = most
        self._changed = threading.Condition()
        self._free: list[Link] = []
        self._out = 0

    def take(self, patience: float) -> Link:
        """Return a connection for the length of a transaction."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._free or self._out < self.most, patience):
                raise StoreUnavailable(
                    f"All {self.most} connections to {self.place.name} are in use.",
                    hint="Nothing was changed. Fewer threads at once, or LEFTOFF_LOCK_TIMEOUT to wait longer.",
                )
            self._out += 1
            link = self._free.pop() if self._free else None
        try:
            return link if link is not None and link.usable else Link(self.place)
        except BaseException:
            self._one_less()
            raise

    def give(self, link: Link) -> None:
        """Keep a connection for the next transaction, if it is still good."""
        if link.usable:
            self._free.append(link)
        self._one_less()

    def drop(self, link: Link) -> None:
        """Close a connection, and ignore its errors."""
        link.close()
        self._one_less()

    def _one_less(self) -> None:
        with self._changed:
            self._out -= 1
            self._changed.notify()

    def close(self) -> None:
        """Close those that are free; one in use is closed by its user."""
        with self._changed:
            free, self._free = self._free, []
        for link in free:
            link.close()

    def forget(self) -> None:
        """In a child: the connections are the parent's, and so is the lock that another thread may hold."""
        _leaked.extend(self._free)
        self._changed, self._free, self._out = threading.Condition(), [], 0


_leaked: list[Link] = []


# -- errors

SAFE = "Nothing was changed. Earlier commits are safe."
CONNECTION = "08"  # starts the codes of a connection that failed
#: what passes by itself: serialisation, deadlock; another process took the id or the bytes that were just read
AGAIN = frozenset({"40001", "40P01", "23505", "23503"})
#: the server goes down, comes up, or ended the connection
RESTARTS = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})
FULL = "53300"  # it takes no more connections, for now: also one of ours may be given back

_BY_CODE = {
    "53100": ("The disk of {where} is full.", f"{SAFE} Free some space on the server, then try again."),
    "53200": ("{where} is out of memory.", SAFE),
    FULL: (
        "{where} takes no more connections.",
        "Raise max_connections there, or end what holds them.",
    ),
    "25006": (
        "{where} is read-only: a standby, a server after a failover, or set so (default_transaction_read_only).",
        f"{SAFE} Name the server that takes writes (libpq: target_session_attrs=read-write), or wait until it does.",
    ),
    "55P03": (
        "Another process has been writing to the same run of {where} for too long.",
        f"{SAFE} `leftoff status` says who drives it. LEFTOFF_LOCK_TIMEOUT waits longer.",
    ),
    "57014": ("{where} ended a query that took too long.", f"{SAFE} Its statement_timeout may be too short."),
    "42501": (
        "The user of {where} may not do that: {text}",
        f"{SAFE} docs/how-to/postgres.md lists the grants that each role needs.",
    ),
}
#: words of a text that came before a connection was made, and the code that says the same
_BY_TEXT = {
    "too many clients": FULL,
    "too many connections": FULL,
    "remaining connection slots": FULL,
    "starting up": "57P03",
    "shutting down": "57P03",
    "in recovery mode": "57P03",
    "not yet accepting connections": "57P03",
}
#: start the codes of resources that are short, of the server's system, of its bugs, of statements that a pooler forgot
_TROUBLE = ("53", "58", "XX", "26", "42P05")
_TLS = ("certificate", "SSL", "ssl")
#: begin the errors of libpq about an option, before anything was sent
_WRONG = ("invalid ", "definition of service", "service file")
#: words that a server answers to `options` that it cannot take, before a connection stands
_WRONG_THERE = (
    "unrecognized configuration parameter",
    "invalid value for parameter",
    "invalid command-line argument",
    "requires a value",
    "cannot be changed",
    "permission denied to set parameter",
)


def code_of(error: psycopg.Error) -> str:
    """Return the server's code. If there is none yet, return what the text says."""
    if error.sqlstate:
        return error.sqlstate
    text = str(error).rpartition("FATAL:")[2]
    return next((code for words, code in _BY_TEXT.items() if words in text), "")


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is gone, or will be, or there was none: the same may succeed on another one."""
    code = code_of(error)
    if not code:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return code in RESTARTS or code == FULL or code.startswith(CONNECTION)


def translate_server_error(error: BaseException, place: ServerPlace) -> LeftoffError:
    """The typed error for a failure of the driver or the server."""
    if isinstance(error, LeftoffError):
        return error
    if not isinstance(error, psycopg.Error):
        raise error
    code, text = code_of(error), place.clean(_first_line(error))
    if code in _BY_CODE:
        message, hint = _BY_CODE[code]
        return _unavailable(message.format(where=place.name, text=text), hint, code != "42501")
    if code in ("XX001", "XX002"):
        return Corrupt(f"{place.name} is damaged: {text}", where=place.name)
    if code in ("42P01", "42703", "42883", "3F000"):
        return Unsupported(
            f"{place.name} has another layout than this leftoff knows: {text}",
            hint="`leftoff store migrate` brings an older one up to date, for all who use it.",
        )
    if code == "54000":
        return Invalid(f"A name is too long for {place.name}: {text}")
    if code in AGAIN:
        return _unavailable(
            f"{place.name} is too busy: others always were faster.", f"{SAFE} Try again.", True
        )
    refused = text.startswith(_WRONG) or any(words in text.partition("FATAL:")[2] for words in _WRONG_THERE)
    if not code and (isinstance(error, psycopg.ProgrammingError) or refused):
        return Usage(
            f"The URL of {place.name} is wrong: {text}",
            hint="docs/how-to/postgres.md says what it may contain.",
        )
    if code in RESTARTS:
        return _unavailable(
            f"{place.name} is being restarted: {text}", f"{SAFE} Try again in a moment.", True
        )
    if is_lost(error):
        return _unavailable(
            f"{place.name} is out of reach: {text}",
            f"{SAFE} Check that the server runs, and that the URL, the user, the password (PGPASSWORD, ~/.pgpass) and "
            "the TLS settings are right: docs/how-to/postgres.md.",
            not ("FATAL" in text or any(word in text for word in _TLS)),
        )
    if code.startswith(_TROUBLE):
        return _unavailable(f"{place.name} has trouble: {text}", f"{SAFE} Its log says more.", True)
    raise error


def unheard(place: ServerPlace, error: LeftoffError) -> StoreUnavailable:
    """Return the error for a commit whose answer was lost and whose outcome is unknown."""
    return StoreUnavailable(
        f"{place.name} did not say whether it made the last change: {error.message}",
        hint="That is not known. Look when it is back (`leftoff status`) before you do it again; a program that drives "
        "the run finds out by itself.",
    )


def _unavailable(message: str, hint: str, retry: bool) -> StoreUnavailable:
    error = StoreUnavailable(message, hint=hint)
    error.retry = retry
    return error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text.removeprefix("connection failed: ").removeprefix("connection is bad: ")
