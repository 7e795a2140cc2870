"""The tables of a SQLite store as they are: see ``leftoff.store.tables``."""

from __future__ import annotations

from leftoff.store.tables import COUNT, OURS, OWN_FACTS, RUN, TABLES, WritableTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.sqlite.view import SqliteView
    from leftoff.store.tables import Row


class SqliteTables(WritableTables):
    """Of a transaction; written where that is a write."""

    def __init__(self, view: SqliteView) -> None:
        self.execute = view.execute

    def rows(self, table: str, after: Row | None, limit: int) -> list[Row]:
        columns, width = TABLES[table]
        key = ", ".join(columns[:width])
        behind = f"WHERE ({key}) > ({', '.join('?' * width)}) " if after is not None else ""
        sql = f"SELECT {', '.join(columns)} FROM {table} {behind}ORDER BY {key} LIMIT ?"
        if table != "meta":
            return self.execute(sql, (*(after or ()), limit)).fetchall()  # type: ignore[no-any-return]
        rows = self.execute(sql, (*(after or ()), -1)).fetchall()  # never many, and some are not for others
        return [row for row in rows if row[0] not in OURS][:limit]

    def runs(self) -> list[Row]:
        names = ", ".join(RUN.split())
        return self.execute(f"SELECT {names} FROM run WHERE run > 0 ORDER BY run").fetchall()  # type: ignore[no-any-return]

    def size(self) -> int:
        return int(self.execute(COUNT).fetchone()[0])

    def add(self, table: str, rows: list[Row]) -> None:
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
