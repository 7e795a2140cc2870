"""A PostgreSQL server for the cases: started as the tests start theirs, but durable. And a slow line to it."""

from __future__ import annotations

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
    """Passes on what it gets, and holds back the first bytes of each answer: each round trip takes so much longer."""

    def __init__(self, server: Server, delay_s: float) -> None:
        self._target = str(server.folder / ".s.PGSQL.5432")
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, project: str) -> str:
        return f"postgresql://leftoff@127.0.0.1:{self.port}/postgres?sslmode=disable&project={project}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            asked = threading.Event()
            for source, target, back in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, target, asked, back), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, asked: threading.Event, back: bool) -> None:
        try:
            while some := source.recv(1 << 16):
                if not back:
                    asked.set()
                elif asked.is_set():
                    asked.clear()
                    time.sleep(self._delay_s)
                target.sendall(some)
        except OSError:
            pass
        finally:
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
