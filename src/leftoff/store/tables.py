"""The tables of a store as they are, row by row: what is read and written where a whole store is copied.

Every store has these tables with these columns, whatever else it has. See ``leftoff.store.transfer``.
"""

from __future__ import annotations

from leftoff.store.rows import COPYING, FACT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = tuple[Any, ...]

RECORD = "run collection key seq hash data blob status ord leaf"
PAST = "run collection key until seq hash data blob"
VERSION = "run seq n token digest epoch at counts checkpoint trigger step note"
RUN = (
    "run run_id n seq digest counts updated_at created_at workflow branch status title issue session card hidden "
    "checkpoint"
)
ATTEMPT = "token run step number scope pid started log started_at ended_at exit_code"
#: by table: its columns, and how many of them, from the first on, are its key
TABLES = {
    "value": (("hash", "data"), 1),
    "blob": (("hash", "size", "stored", "encoding"), 1),
    "record": (tuple(RECORD.split()), 3),
    "past": (tuple(PAST.split()), 4),
    "version": (tuple(VERSION.split()), 2),
    "alias": (("name", "run", "seq"), 3),
    "attempt": (tuple(ATTEMPT.split()), 1),
    "lease": (("run", "epoch", "since", "beat"), 1),
    "meta": (("name", "value"), 1),
}
#: how many rows there are in all of them
COUNT = f"SELECT {' + '.join(f'(SELECT count(*) FROM {table})' for table in TABLES)}"
#: what `meta` says of the store that it is in
OWN_FACTS = ("store_id", "created_at", "created_by", "written_by", "schema")
#: names in `meta` that are not copied
OURS = (*OWN_FACTS, FACT + COPYING)


class Tables:
    """What can be read of them inside a transaction."""

    def rows(self, table: str, after: Row | None, limit: int) -> list[Row]:
        """The next rows of a table (one of ``TABLES``) behind a key, in an order of its own."""
        raise NotImplementedError

    def runs(self) -> list[Row]:
        """The rows of all runs, hidden ones too. Inside a write nobody adds one before its end."""
        raise NotImplementedError

    def size(self) -> int:
        """How many rows there are of all tables, or a few more."""
        raise NotImplementedError


class WritableTables(Tables):
    """What can also be written."""

    def add(self, table: str, rows: list[Row]) -> None:
        """Rows of another store's table, as they are."""
        raise NotImplementedError

    def add_runs(self, rows: list[Row]) -> None:
        """The runs of another store, into one that has none: with their numbers, and that of the newest commit."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all rows that were added; what the store says of itself stays."""
        raise NotImplementedError
