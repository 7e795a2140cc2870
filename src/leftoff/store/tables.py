"""The tables of a store, row by row: the interface that copying a run or a whole store uses.

Every store has these tables with these columns. See ``leftoff.store.transfer``.
"""

from __future__ import annotations

from typing import Any

from leftoff.store.base import INLINE
from leftoff.store.rows import COPYING, FACT

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
#: the tables that are copied by themselves; values and blobs come with the records that refer to them
COPIED = ("record", "past", "version", "alias", "attempt", "lease", "meta")
#: how many rows there are in all of them
COUNT = f"SELECT {' + '.join(f'(SELECT count(*) FROM {table})' for table in COPIED)}"
#: names in `meta` that describe the store itself
OWN_FACTS = ("store_id", "created_at", "created_by", "written_by", "schema")
#: names in `meta` that are not copied
OURS = (*OWN_FACTS, FACT + COPYING)


def selected(table: str) -> list[str]:
    """Return what to select for the columns of a table: a record's bytes also if they are in `value`."""
    columns = list(TABLES[table][0])
    if table in ("record", "past"):
        value = f"(SELECT v.data FROM value v WHERE v.hash = {table}.hash)"
        columns[columns.index("data")] = f"coalesce(data, {value})"
    return columns


def split_values(table: str, rows: list[Row]) -> tuple[list[Row], dict[bytes, bytes]]:
    """Return the rows without the bytes that belong in `value`, and those bytes by their hash."""
    values: dict[bytes, bytes] = {}
    if table not in ("record", "past"):
        return rows, values
    columns = TABLES[table][0]
    hash, data = columns.index("hash"), columns.index("data")
    out = []
    for row in rows:
        if row[data] is not None and len(row[data]) > INLINE:
            values[row[hash]] = row[data]
            row = (*row[:data], None, *row[data + 1 :])
        out.append(row)
    return out, values


class Tables:
    """What a transaction can read of them."""

    def rows(self, table: str, after: Row | None, limit: int, run: int | None = None) -> list[Row]:
        """Return the next rows of a table after a key, in the order of the keys. ``run``: only rows of this run."""
        raise NotImplementedError

    def runs(self) -> list[Row]:
        """Return the rows of all runs, also hidden ones. In a write transaction no run is added until it ends."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the number of rows to copy, or a few more."""
        raise NotImplementedError


class WritableTables(Tables):
    """What a write transaction can do with them."""

    def add(self, table: str, rows: list[Row]) -> None:
        """Add rows of another store's table. Their blobs must be known here."""
        raise NotImplementedError

    def add_runs(self, rows: list[Row]) -> None:
        """Add the runs of another store to one that has none, with their numbers and that of the newest commit."""
        raise NotImplementedError

    def clear(self) -> None:
        """Delete all rows that were added. What the store says of itself stays."""
        raise NotImplementedError
