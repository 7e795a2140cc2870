"""A pooler of transactions, as PgBouncer is one: each transaction of a client goes to whichever session is free.

It ignores or refuses the options that a client asks for, tells each a process that is none of the server's, and leaves
sessions as the last one left them.
"""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

from tests.postgres.proxy import exactly, message

_ASKED, _READY = b"SQ", b"Z"  # what ends a pipeline, or a query; and an answer
_KEY = b"K" + struct.pack("!i", 12)  # begins what tells the process
_REFUSAL = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
_ROLLBACK = b"Q" + struct.pack("!i", 13) + b"ROLLBACK\0"
_TLS = struct.pack("!i", 80877103)
_START = struct.pack("!i", 196608)


class Pooler:
    """Listens on a port of its own; clients share the sessions that they needed at once."""

    def __init__(self, server: Path, *, refuses: bool = False) -> None:
        self._target = str(server / ".s.PGSQL.5432")
        self._refuses = refuses
        self._free: list[socket.socket] = []
        self._all: list[socket.socket] = []
        self._greeting = b""
        self._returned = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, project: str = "") -> str:
        port, more = self._listener.getsockname()[1], f"&project={project}" if project else ""
        return f"postgresql://leftoff@127.0.0.1:{port}/postgres?sslmode=disable{more}"

    def ask(self, query: str) -> list[bytes]:
        """What each session answers, the oldest first, once no client is at work."""
        words = query.encode() + b"\0"
        with self._returned:
            assert self._returned.wait_for(lambda: len(self._free) == len(self._all), 60)
            for server in self._all:
                server.sendall(b"Q" + struct.pack("!i", len(words) + 4) + words)
            return [_up_to(server, _READY) for server in self._all]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for a connection
        self._listener.close()
        for end in self._all:
            end.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                while (wanted := _first(client)) == _TLS:
                    client.sendall(b"N")
                if self._refuses and b"\0options\0" in wanted:
                    client.sendall(b"E" + struct.pack("!i", len(_REFUSAL) + 4) + _REFUSAL)
                    return
                self._give(self._take())  # the greeting is known then
                client.sendall(self._greeting)
                while True:
                    self._transaction(client)
            except (OSError, EOFError):
                pass

    def _transaction(self, client: socket.socket) -> None:
        asked = _up_to(client, _ASKED)
        server = self._take()
        while True:
            server.sendall(asked)
            answer = _up_to(server, _READY)
            idle = answer.endswith(b"I")
            if idle:
                self._give(server)
            try:
                client.sendall(answer)
                if idle:
                    return
                asked = _up_to(client, _ASKED)
            except (OSError, EOFError):
                if not idle:  # a client that left in the middle: its transaction is rolled back
                    server.sendall(_ROLLBACK)
                    _up_to(server, _READY)
                    self._give(server)
                raise

    def _take(self) -> socket.socket:
        with self._returned:
            if self._free:
                return self._free.pop()
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        words = _START + b"user\0leftoff\0database\0postgres\0client_encoding\0UTF8\0\0"
        server.sendall(struct.pack("!i", len(words) + 4) + words)
        before, _, behind = _up_to(server, _READY).partition(_KEY)
        with self._returned:
            self._all.append(server)
            self._greeting = before + _KEY + struct.pack("!ii", 7, 7) + behind[8:]
        return server

    def _give(self, server: socket.socket) -> None:
        with self._returned:
            self._free.append(server)
            self._returned.notify_all()


def _first(client: socket.socket) -> bytes:
    (size,) = struct.unpack("!i", exactly(client, 4))
    return exactly(client, size - 4)


def _up_to(end: socket.socket, last: bytes) -> bytes:
    found = b""
    while True:
        kind, body = message(end)
        found += kind + struct.pack("!i", len(body) + 4) + body
        if kind in last:
            return found
