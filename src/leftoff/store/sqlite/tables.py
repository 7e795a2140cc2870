"""The tables of a SQLite store: see ``leftoff.store.tables``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.store.sqlite.queries import Q
from leftoff.store.tables import (
    COUNT,
    OURS,
    OWN_FACTS,
    RUN,
    TABLES,
    Row,
    WritableTables,
    selected,
    split_values,
)

if TYPE_CHECKING:
    from leftoff.store.sqlite.view import SqliteView


class SqliteTables(WritableTables):
    """The tables inside a transaction."""

    def __init__(self, view: SqliteView) -> None:
        self.execute = view.execute

    def rows(self, table: str, after: Row | None, limit: int, run: int | None = None) -> list[Row]:
        columns, width = TABLES[table]
        key = ", ".join(columns[:width])
        values: list[Any] = []
        conditions = []
        if run is not None:
            conditions.append("run = ?")
            values.append(run)
        if after is not None:
            # If all rows are of one run, compare only the rest of the key: else SQLite does not use the index for it.
            first = 1 if run is not None and columns[0] == "run" else 0
            conditions.append(f"({', '.join(columns[first:width])}) > ({', '.join('?' * (width - first))})")
            values += after[first:]
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        sql = f"SELECT {', '.join(selected(table))} FROM {table} {where}ORDER BY {key} LIMIT ?"
        if table != "meta":
            return self.execute(sql, (*values, limit)).fetchall()  # type: ignore[no-any-return]
        rows = self.execute(sql, (*values, -1)).fetchall()  # never many, and some describe this store
        return [row for row in rows if row[0] not in OURS][:limit]

    def runs(self) -> list[Row]:
        names = ", ".join(RUN.split())
        return self.execute(f"SELECT {names} FROM run WHERE run > 0 ORDER BY run").fetchall()  # type: ignore[no-any-return]

    def size(self) -> int:
        return int(self.execute(COUNT).fetchone()[0])

    def add(self, table: str, rows: list[Row]) -> None:
        rows, data = split_values(table, rows)
        for value in data.items():
            self.execute(Q.put_value, value)
        columns = TABLES[table][0]
        marks = ", ".join("?" * len(columns))
        sql = f"REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        for row in rows:
            self.execute(sql, row)

    def add_runs(self, rows: list[Row]) -> None:
        names = RUN.split()
        for row in rows:
            self.execute(f"INSERT INTO run ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", row)
        self.execute("UPDATE run SET n = max(n, (SELECT coalesce(max(n), 0) FROM version)) WHERE run = 0")

    def clear(self) -> None:
        for table in TABLES:
            if table != "meta":
                self.execute(f"DELETE FROM {table}")
        for (name,) in self.execute("SELECT name FROM meta").fetchall():
            if name not in OWN_FACTS:
                self.execute("DELETE FROM meta WHERE name = ?", (name,))
