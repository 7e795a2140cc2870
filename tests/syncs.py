"""Tests do not wait for the disk, neither in their process nor in forks of it: what is kept through a power cut is
tested where it is cut (``tests.crash``), on processes that were really started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from leftoff.store import sqlite as store
from leftoff.store import sqlite_connection as connection

_REAL = os.fsync, connection.SYNCHRONOUS, store._NO_SYNC, store._SYNC
_NONE = (lambda fd: None), 0, "PRAGMA synchronous=0", "PRAGMA synchronous=0"


@contextmanager
def syncs(wanted: bool) -> Iterator[None]:
    """Whether SQLite and the rest of leftoff bring to the disk what they write."""
    fsync, synchronous, lazy, eager = _REAL if wanted else _NONE
    with (
        patch.object(os, "fsync", fsync),
        patch.object(connection, "SYNCHRONOUS", synchronous),
        patch.multiple(store, _NO_SYNC=lazy, _SYNC=eager),
    ):
        yield
