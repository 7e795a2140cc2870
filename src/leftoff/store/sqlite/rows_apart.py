"""Rows as they are, out of one store and into another: see ``leftoff.store.transfer``."""

from __future__ import annotations

from leftoff.store.rows import COPYING, FACT
from leftoff.store.transfer import OWN_FACTS, RUN, TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.sqlite.tx import SqliteTx
    from leftoff.store.sqlite.view import SqliteView

    Row = tuple[Any, ...]

OURS = (*OWN_FACTS, FACT + COPYING)  # names in `meta` that are not copied


def dump(view: SqliteView, table: str, after: Row | None, limit: int) -> list[Row]:
    columns, width = TABLES[table]
    key = ", ".join(columns[:width])
    behind = f"WHERE ({key}) > ({', '.join('?' * width)}) " if after is not None else ""
    sql = f"SELECT {', '.join(columns)} FROM {table} {behind}ORDER BY {key} LIMIT ?"
    if table != "meta":
        return view.execute(sql, (*(after or ()), limit)).fetchall()  # type: ignore[no-any-return]
    rows = view.execute(sql, (*(after or ()), -1)).fetchall()  # never many, and some are not for others
    return [row for row in rows if row[0] not in OURS][:limit]


def dump_runs(view: SqliteView) -> list[Row]:
    names = ", ".join(RUN.split())
    return view.execute(f"SELECT {names} FROM run WHERE run > 0 ORDER BY run").fetchall()  # type: ignore[no-any-return]


def load(tx: SqliteTx, table: str, rows: list[Row]) -> None:
    columns = TABLES[table][0]
    marks = ", ".join("?" * len(columns))
    sql = f"REPLACE INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    for row in rows:
        tx.execute(sql, row)


def load_runs(tx: SqliteTx, rows: list[Row]) -> None:
    names = RUN.split()
    for row in rows:
        tx.execute(f"INSERT INTO run ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", row)
    tx.execute("UPDATE run SET n = max(n, (SELECT coalesce(max(n), 0) FROM version)) WHERE run = 0")


def clear(tx: SqliteTx) -> None:
    for table in TABLES:
        if table != "meta":
            tx.execute(f"DELETE FROM {table}")
    for (name,) in tx.execute("SELECT name FROM meta").fetchall():
        if name not in OWN_FACTS:
            tx.execute("DELETE FROM meta WHERE name = ?", (name,))
