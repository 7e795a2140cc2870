"""A PostgreSQL server for the cases: started as the tests start theirs, but durable. And a slow line to it."""

from __future__ import annotations

import heapq
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres.server import Server

#: what the tests switch off for speed is on: a commit waits for the disk, and tables are tended
SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "100",
    "shared_buffers": "'512MB'",
    "max_wal_size": "'4GB'",
}


@contextmanager
def started(folder: Path, **more: str) -> Iterator[Server]:
    """A server of its own below a folder, which ends with the block. ``more``: settings."""
    folder.chmod(0o755)
    server = Server(folder / "server")
    server.make({**SETTINGS, **more})
    server.start()
    try:
        yield server
    finally:
        server.stop()


class SlowLine:
    """Passes on what it gets, and holds back the first bytes of each answer: each round trip takes so much longer.

    One thread for all connections, which does little: what it needs is taken from those that are measured.
    """

    def __init__(self, server: Server, delay_s: float) -> None:
        self._target = str(server.folder / ".s.PGSQL.5432")
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._others: dict[socket.socket, socket.socket] = {}  # by either end of a connection: the other
        self._clients: set[socket.socket] = set()
        self._asked: set[socket.socket] = set()  # clients that wait for an answer
        self._held: list[
            tuple[float, int, socket.socket, bytes]
        ] = []  # when it goes on, in which order, to whom, what
        self._number = 0
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def url(self, project: str) -> str:
        return f"postgresql://leftoff@127.0.0.1:{self.port}/postgres?sslmode=disable&project={project}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        for end in (self._listener, *self._others):
            end.close()

    def _serve(self) -> None:
        while True:
            wait = max(0.0, self._held[0][0] - time.monotonic()) if self._held else None
            for end in select.select([self._listener, *self._others], [], [], wait)[0]:
                if end is not self._listener:
                    self._hear(end)
                elif not self._accept():
                    return
            while self._held and self._held[0][0] <= time.monotonic():
                _, _, client, some = heapq.heappop(self._held)
                self._send(client, some)

    def _accept(self) -> bool:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return False
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        self._others |= {client: server, server: client}
        self._clients.add(client)
        return True

    def _hear(self, end: socket.socket) -> None:
        other = self._others.get(end)
        if other is None:
            return  # ended meanwhile
        try:
            some = end.recv(1 << 16)
        except OSError:
            some = b""
        if not some:
            self._end(end, other)
        elif end in self._clients:
            self._asked.add(end)
            self._send(other, some)
        else:
            self._answer(other, some)

    def _answer(self, client: socket.socket, some: bytes) -> None:
        """The rest of an answer goes on behind its beginning."""
        due = max((held[0] for held in self._held if held[2] is client), default=0.0)
        if client in self._asked:
            self._asked.discard(client)
            due = time.monotonic() + self._delay_s
        self._number += 1
        heapq.heappush(self._held, (due, self._number, client, some))

    def _send(self, end: socket.socket, some: bytes) -> None:
        other = self._others.get(end)
        if other is not None:
            try:
                end.sendall(some)
            except OSError:
                self._end(end, other)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            self._others.pop(end, None)
            self._clients.discard(end)
            end.close()
