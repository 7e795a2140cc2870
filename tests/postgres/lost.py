"""Connections that are lost at a moment of the test's own choosing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

import psycopg
import pytest

from leftoff.store.server_connection import Link
from tests.seams import SEAMS


def is_an_end(statements: Any) -> bool:
    """Whether these end a transaction that writes: a COMMIT, or the one statement of a driver."""
    return any(sql == "COMMIT" or "commit_run_1" in sql for sql, _ in statements)


def lose_the_end(patch: pytest.MonkeyPatch, error: BaseException | None = None) -> None:
    """The next end of a transaction is sent, and its connection is lost before its answer. What else was patched is
    undone then, too."""
    ask = Link.ask

    def lose(link: Link, statements: Any) -> Any:
        if not is_an_end(statements):
            return ask(link, statements)
        patch.undo()

        def send() -> None:
            with contextlib.suppress(psycopg.Error):
                ask(link, statements)

        sending = threading.Thread(target=send)
        sending.start()
        time.sleep(0.3)
        with contextlib.suppress(OSError), socket.socket(fileno=link.conn.fileno()) as wire:
            wire.shutdown(socket.SHUT_RDWR)
            wire.detach()
        sending.join()
        link.close()
        raise error or psycopg.OperationalError("the connection is lost")

    patch.setattr(SEAMS["Link.ask"], lose)
