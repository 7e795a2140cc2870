"""A small TCP proxy before a server: it counts round trips, and does what networks do.

It knows enough of the protocol to tell where a message ends, what a statement says, and when the server has answered
all that it was asked: each such answer is one round trip. What a client sends and does not wait for is none.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path

_SYNC, _QUERY, _PARSE, _BIND = b"S", b"Q", b"P", b"B"
_READY, _ROW = b"Z", b"D"
PATIENCE_S = 60.0  # for what will come: only a failure waits so long
_TLS = struct.pack("!i", 80877103)


class Proxy:
    """Listens on a port of its own; every connection gets one to the server."""

    def __init__(self, server: Path) -> None:
        self.target = str(server / ".s.PGSQL.5432")
        self.rounds = 0
        self.rows = 0  # that the server answered with
        self.delay_s = 0.0
        self.server_version = ""  # what the server says it is; empty: what it is
        self.statements: list[str] = []
        self._faults: list[tuple[str, str]] = []
        self.late = threading.Event()
        self._silent = threading.Event()  # nothing gets through, and nobody is told
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def url(self, project: str, user: str = "leftoff", **more: str) -> str:
        query = "&".join(f"{k}={v}" for k, v in {"project": project, "sslmode": "disable", **more}.items())
        return f"postgresql://{user}@127.0.0.1:{self.port}/postgres?{query}"

    def fail(self, when: str, statement: str = "COMMIT") -> None:
        """Cut the connection on which the next such statement is sent: before it, or after it was answered; what was
        sent behind it never arrives. `late`: nobody hears of that connection until ``let_go``, then all that was
        sent on it arrives."""
        assert when in ("before", "after", "late")
        self._faults.append((when, statement))

    def fault(self, when: str, statement: str, link: _Link) -> bool:
        with self._lock:
            wanted = "commit_run_1(" if "commit_run_1(" in statement else statement  # whatever it is given
            if (when, wanted) in self._faults:
                self._faults.remove((when, wanted))
                link.late = link.late or when == "late"
                return True
        return False

    def cut(self) -> None:
        """Every connection, now."""
        for link in list(self._links):
            link.close()

    def go_silent(self, silent: bool = True) -> None:
        """Let nothing through from now on, or everything that waits."""
        (self._silent.set if silent else self._silent.clear)()

    def let_go(self) -> None:
        """What is late arrives, and is over when this returns. It may be on its way to us still."""
        end = time.monotonic() + PATIENCE_S
        while any(when == "late" for when, _ in tuple(self._faults)) and time.monotonic() < end:
            time.sleep(0.001)
        self.late.set()
        for link in [link for link in self._links if link.late]:
            link.join()

    def wait(self) -> None:
        if self.delay_s:
            time.sleep(self.delay_s)
        while self._silent.is_set():
            time.sleep(0.01)

    def count(self) -> None:
        with self._lock:
            self.rounds += 1

    def close(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._silent.clear()
        self.late.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection
        self._accepting.join()
        self._listener.close()
        self.cut()
        for link in self._links:
            link.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._links.append(_Link(self, client))


class _Link:
    """One connection: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(proxy.target)
        self._asked, self._answered = 0, 0
        self._names: dict[bytes, str] = {}
        self._lost = 0  # which answer is not passed on; 0: none
        self.late = False
        self._over = threading.Event()  # the server has ended the connection
        self._told = False  # what nobody waits for: that those who watch are told, and the end of a read
        self._unawaited: set[int] = set()  # by number: such answers
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._up, self._down)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
        self.client.close()
        self.server.close()

    def _up(self) -> None:
        try:
            size, first = self._first()
            while first == _TLS:  # which this one has not
                self.client.sendall(b"N")
                size, first = self._first()
            self.server.sendall(size + first)
            self._asked += 1  # who it is is asked for, too
            while True:
                kind, body = message(self.client)
                if self._is_cut(kind, body):
                    return
                self.proxy.wait()
                if kind in (_SYNC, _QUERY):  # a Flush alone is answered by no "ready"
                    self._asked += 1
                    if self._told:
                        self._unawaited.add(self._asked)
                    self._told = False
                    self.proxy.statements.append("--")
                self.server.sendall(kind + struct.pack("!i", len(body) + 4) + body)
                if self._lost and self._asked >= self._lost:
                    self._over.wait(30)  # for the answer that is lost: whoever answers ends the connection
                    return
        except (OSError, EOFError):
            pass
        finally:
            if self.late:
                self.server.shutdown(socket.SHUT_WR)
                self._over.wait(30)
            self.close()

    def _first(self) -> tuple[bytes, bytes]:
        size = exactly(self.client, 4)
        return size, exactly(self.client, struct.unpack("!i", size)[0] - 4)

    def _is_cut(self, kind: bytes, body: bytes) -> bool:
        if kind == _PARSE:
            name, sql, *_ = body.split(b"\0", 2)
            self._names[name] = sql.decode()
        if kind == _QUERY:  # a script, or the end of a transaction that only read
            statement = body.rstrip(b"\0").decode()
            self.proxy.statements.append(statement)
            self._told = statement == "COMMIT"
            return False
        if kind != _BIND:
            return False
        statement = self._names.get(body.split(b"\0", 2)[1], "")
        self.proxy.statements.append(statement)
        self._told = "pg_notify(" in statement
        if not self._lost and self.proxy.fault("after", statement, self):
            self._lost = self._asked + 1
        if self.proxy.fault("late", statement, self):
            self.proxy.late.wait()
        return self.proxy.fault("before", statement, self)

    def _down(self) -> None:
        held = b""
        try:
            while True:
                kind, body = message(self.server)
                if kind == b"S" and self.proxy.server_version and body.startswith(b"server_version\0"):
                    body = b"server_version\0" + self.proxy.server_version.encode() + b"\0"
                self.proxy.rows += kind == _ROW
                held += kind + struct.pack("!i", len(body) + 4) + body
                if kind in (b"R", b"A"):  # a password may be asked for; who listens is told something
                    self.client.sendall(held)
                    held = b""
                if kind == _READY:
                    self._answered += 1
                    if self._lost and self._answered >= self._lost:
                        return
                    if self.late:
                        held = b""  # nobody is there to hear it
                        continue
                    self.proxy.wait()
                    if self._answered > 1 and self._answered not in self._unawaited:
                        self.proxy.count()  # before whoever waits for it can ask how many there were
                    self.client.sendall(held)
                    held = b""
        except (OSError, EOFError):
            try:
                self.client.sendall(held)  # what the server said last: why it ends the connection
            except OSError:
                pass
        finally:
            self._over.set()
            self.close()


def exactly(end: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = end.recv(size - len(found))
        if not some:
            raise EOFError
        found += some
    return found


def message(end: socket.socket) -> tuple[bytes, bytes]:
    kind = exactly(end, 1)
    (size,) = struct.unpack("!i", exactly(end, 4))
    return kind, exactly(end, size - 4)
