"""Many statements, one wait: libpq's pipeline, with statements that the server remembers.

A pooler may stand between, and give each transaction to another session of the server. Whether one does is found with
the first answer: it tells another process than the one that the connection was made with. Until then, and behind a
pooler for good, the session is taken for somebody else's: nothing is prepared in it, and what we set in it holds for
one transaction.

psycopg has a pipeline of its own, which waits once more when it is left, and forgets behind a ROLLBACK which statements
are prepared while the server does not. So its connection is used (addresses, passwords, TLS), and what goes over it is
sent from here.
"""

from __future__ import annotations

import fcntl
import select
import struct
import sys
import termios
from collections import deque

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from psycopg.pq.abc import PGresult

    Statement = tuple[str, Sequence[Any]]
    Rows = list[tuple[Any, ...]]

_BINARY, _TEXT = 1, 0
_BYTEA, _TEXTS, _BIGINT = 17, 25, 20  # the types of what is in our arrays
FINISH_MS = 1000
QUIET_MS = 30_000  # without an answer; then it is asked elsewhere whether one is still to come
_ENDS = ("COMMIT", "ROLLBACK")
_SET = "SELECT pg_backend_pid(), count(set_config(n, v, true)) FROM unnest($1::text[], $2::text[]) AS t(n, v)"
_NULL = struct.pack("!i", -1)
_ENDED = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class Wire:
    """What is said on one connection."""

    #: whether an answer is still to come, of which nothing was heard for a while
    is_awaited: Callable[[], bool] | None = None

    def __init__(self, conn: psycopg.Connection[Any], settings: dict[str, str], *, made_so: bool) -> None:
        """``settings``: what must be set in a session. ``made_so``: the connection was, if it leads to the server."""
        self.conn = conn
        self.settings = settings
        self.own = False  # whether the session is known to be ours alone
        self._pid = conn.pgconn.backend_pid if made_so else None
        self._pg = conn.pgconn
        self._loader = Transformer(conn)
        self._names: dict[str, bytes] = {}
        self._given = 0  # names: one that was given is not given again, whatever became of its statement
        # Per answer that is to come: the statement that it prepares, if it does; _SET; None: the end of a pipeline.
        self._owed: deque[str | None] = deque()
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self._pg.enter_pipeline_mode()

    def send(self, statements: Sequence[Statement], ends: bool = False) -> None:
        """Send, and wait for nothing. ``ends``: what fails of it takes nothing with it that is sent later."""
        self._queue(statements, ends or not self.own)
        self._flush()

    def _queue(self, statements: Sequence[Statement], ends: bool) -> None:
        if self.own:
            for sql, values in statements:
                self._send_prepared(sql, *dumped(values))
        else:
            self._queue_once(statements)
        if ends:
            self._end()

    def _end(self) -> None:
        self._pg.pipeline_sync()
        self._owed.append(None)

    def _queue_once(self, statements: Sequence[Statement]) -> None:
        """With what they need of the session before them, in their transaction."""
        first = statements[0][0] if statements else ""
        begins = int(first.startswith("BEGIN"))
        ours = [] if first in _ENDS else [(_SET, (list(self.settings), list(self.settings.values())))]
        for sql, values in (*statements[:begins], *ours, *statements[begins:]):
            data, formats = dumped(values)
            self._pg.send_query_params(sql.encode(), data, None, formats, _BINARY)
            self._owed.append(sql if sql is _SET else "")

    def _send_prepared(self, sql: str, data: list[bytes | None], formats: list[int]) -> None:
        name = self._names.get(sql)
        if name is None:
            name = b"s%d" % self._given
            self._given += 1
            self._names[sql] = name
            self._pg.send_prepare(name, sql.encode())
            self._owed.append(sql)
        self._pg.send_query_prepared(name, data, formats, _BINARY)
        self._owed.append("")

    def ask(self, statements: Sequence[Statement], then: Sequence[Statement] = ()) -> list[Rows]:
        """The rows of each statement. All are sent at once; this waits once. ``then``: what is sent with them as a
        pipeline of its own, and not waited for."""
        before = len(self._owed)
        self._queue(statements, ends=True)
        if then:
            self._queue(then, ends=True)
        return self._heard_behind(before)

    def script(self, statements: Sequence[str]) -> None:
        """Statements that are sent once in the life of a store."""
        before = len(self._owed)
        self._queue_once([(sql, ()) for sql in statements])
        self._end()
        self._heard_behind(before)

    def _heard_behind(self, before: int) -> list[Rows]:
        self._flush()
        found, error = self._answers(before)
        if error is not None:
            raise error
        return found

    def _answers(self, skip: int) -> tuple[list[Rows], psycopg.Error | None]:
        """Everything up to the end of the pipeline; what is known of the answers that were owed before is dropped."""
        found: list[Rows] = []
        error: psycopg.Error | None = None
        number = 0
        while True:
            prepares = self._owed.popleft()
            result = self._next()
            if prepares is None:
                if number >= skip:
                    return found, error
                error = None
            elif result.status not in _ENDED:
                if prepares:
                    self._names.pop(prepares, None)
                if error is None and result.status == ExecStatus.FATAL_ERROR:
                    error = psycopg.errors.error_from_result(result)
            elif prepares is _SET:
                self.own = self._rows(result)[0][0] == self._pid
            elif not prepares and number >= skip:
                found.append(self._rows(result))
            number += 1

    def _rows(self, result: PGresult) -> Rows:
        if result.status != ExecStatus.TUPLES_OK or not result.ntuples:
            return []
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    def _next(self) -> PGresult:
        """The next result; behind the last one of a statement there is nothing, which is passed over."""
        while True:
            while self._pg.is_busy():
                self._wait(select.POLLIN)
            result = self._pg.get_result()
            if result is not None:
                return result
            if self._pg.status != psycopg.pq.ConnStatus.OK:
                raise psycopg.OperationalError("the connection is lost")

    def heard(self, seconds: float) -> list[str]:
        """What the server told those who listen, waiting so long for it."""
        self._poll.modify(self._pg.socket, select.POLLIN)
        if self._poll.poll(seconds * 1000):
            self._pg.consume_input()
            self._pg.is_busy()  # takes in what has arrived
        found: list[str] = []
        while (told := self._pg.notifies()) is not None:
            found.append(told.extra.decode())
        if self._pg.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
        return found

    def finish(self) -> None:
        """Wait a little for the end of what was sent and not waited for, so that closing does not take it back."""
        while None in self._owed:
            while self._pg.is_busy():
                self._poll.modify(self._pg.socket, select.POLLIN)
                if not self._poll.poll(FINISH_MS):
                    return
                self._pg.consume_input()
            if self._pg.get_result() is not None:
                self._owed.popleft()
            elif self._pg.status != psycopg.pq.ConnStatus.OK:
                return

    def _wait(self, events: int) -> None:
        self._poll.modify(self._pg.socket, events)
        while not self._poll.poll(QUIET_MS):
            if not self._is_awaited() and not self._poll.poll(FINISH_MS):
                self.conn.close()  # nobody shall wait on it once more
                raise psycopg.OperationalError("no answer comes any more")
        self._pg.consume_input()

    def _is_awaited(self) -> bool:
        """Whether to wait on. What was not yet sent is the system's, which notices a network that is gone."""
        if _unsent(self._pg.socket):
            return True
        return self.is_awaited is not None and self.is_awaited()

    def _flush(self) -> None:
        while self._pg.flush():
            self._wait(select.POLLIN | select.POLLOUT)


def _unsent(fd: int) -> int:
    """How many bytes the other side has not yet got, where the system tells."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def dumped(values: Sequence[Any]) -> tuple[list[bytes | None], list[int]]:
    """Values as they travel, and in which of both formats. Their types are for the server to tell."""
    data: list[bytes | None] = []
    formats: list[int] = []
    for value in values:
        if value is None or type(value) is bytes:
            data.append(value)
            formats.append(_BINARY)
        elif type(value) is list:
            array = _array(value)
            data.append(array)
            formats.append(_TEXT if array[:1] == b"{" else _BINARY)
        else:
            data.append(str(value).encode())
            formats.append(_TEXT)
    return data, formats


def _array(values: list[Any]) -> bytes:
    """A list; of what, its first value tells."""
    first = next((value for value in values if value is not None), None)
    if first is None:
        return b"{%s}" % b",".join([b"NULL"] * len(values))
    if type(first) is bytes:
        kind, items = _BYTEA, values
    elif type(first) is str:
        kind, items = _TEXTS, [None if value is None else value.encode() for value in values]
    else:
        kind, items = _BIGINT, [None if value is None else struct.pack("!q", value) for value in values]
    out = [struct.pack("!iiiii", 1, int(None in items), kind, len(items), 1)]
    for item in items:
        out += (_NULL,) if item is None else (struct.pack("!i", len(item)), item)
    return b"".join(out)
