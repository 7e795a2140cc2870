"""Connections that are lost at a moment of the test's own choosing."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from leftoff.store.postgres.connection import Link
from leftoff.store.postgres.held import END
from tests.seams import SEAMS


def lose_the_end(patch: pytest.MonkeyPatch) -> None:
    """The next end of a transaction is sent, and its connection is lost before anybody hears of it. What else was
    patched is undone then, too."""
    ask = Link.ask

    def lose(link: Link, statements: Any, then: Any = ()) -> Any:
        if END not in statements:
            return ask(link, statements, then)
        patch.undo()
        link.wire.send(statements, ends=True)
        link.close()
        raise psycopg.OperationalError("the connection is lost")

    patch.setattr(SEAMS["Link.ask"], lose)
