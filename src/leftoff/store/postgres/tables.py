"""The tables of a PostgreSQL store: see ``leftoff.store.tables``."""

from __future__ import annotations

from leftoff.store.postgres.names import cut, whole
from leftoff.store.postgres.queries import Q
from leftoff.store.tables import (
    COUNT,
    OURS,
    OWN_FACTS,
    RUN,
    TABLES,
    Row,
    Tables,
    WritableTables,
    selected,
    split_values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.store.postgres.tx import PostgresTx
    from leftoff.store.postgres.view import PostgresView

_BYTES = frozenset("hash data blob token digest outside".split())
_NUMBERS = frozenset(
    "run seq n epoch at until leaf number pid started_at ended_at exit_code since beat size stored updated_at "
    "created_at hidden".split()
)
_NAMES = frozenset(("record", "past"))  # the tables whose keys may be cut
_CLEARED = "record past version alias attempt lease value piece upload blob".split()


class PostgresTables(Tables):
    """Of a transaction that reads."""

    def __init__(self, view: PostgresView) -> None:
        self._ask = view.ask

    def rows(self, table: str, after: Row | None, limit: int, run: int | None = None) -> list[Row]:
        columns, width = TABLES[table]
        key = ", ".join(columns[:width])
        shown = ", ".join("coalesce(whole, key)" if name == "key" else name for name in selected(table))
        conditions = ["known"] if table == "blob" else []
        values: list[Any] = []
        if after is not None:
            values = [cut(part) if table in _NAMES and i == 2 else part for i, part in enumerate(after)]
            marks = [f"${i + 1}{_collated(columns[i])}" for i in range(width)]
            conditions.append(f"({key}) > ({', '.join(marks)})")
        if run is not None:
            values.append(run)
            conditions.append(f"run = ${len(values)}")
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        sql = f"SELECT {shown} FROM {table} {where}ORDER BY {key}"
        if table != "meta":
            return self._ask(f"{sql} LIMIT ${len(values) + 1}", [*values, limit])
        return [row for row in self._ask(sql, values) if row[0] not in OURS][:limit]

    def runs(self) -> list[Row]:
        return self._ask(f"SELECT {', '.join(RUN.split())} FROM run ORDER BY run")

    def size(self) -> int:
        return int(self._ask(COUNT)[0][0])


class TablesOfTx(PostgresTables, WritableTables):
    """Of one that writes."""

    def __init__(self, tx: PostgresTx) -> None:
        super().__init__(tx)
        self._note = tx.note

    def runs(self) -> list[Row]:
        self._ask("LOCK TABLE run IN SHARE ROW EXCLUSIVE MODE")
        return super().runs()

    def add(self, table: str, rows: list[Row]) -> None:
        if not rows:
            return
        if table == "blob":
            for row in rows:
                self._note(Q.know_blob, (row[0],))
            return
        columns = list(TABLES[table][0])
        rows, data = split_values(table, rows)
        if data:
            self._note(Q.put_values, (list(data), list(data.values())))
        self._refer(columns, rows)
        added = _ADDED.get(table)
        if added is not None:
            columns += added[0]
            rows = [(*row, *added[1](dict(zip(columns, row, strict=False)))) for row in rows]
        if table in _NAMES:
            at = columns.index("key")
            rows = [(*row[:at], cut(row[at]), *row[at + 1 :]) for row in rows]
        self._note(_insert(table, columns), [[row[i] for row in rows] for i in range(len(columns))])

    def _refer(self, columns: list[str], rows: list[Row]) -> None:
        """Blobs that these rows name have a row of their own, those that were lost before, too."""
        at = columns.index("blob") if "blob" in columns else -1
        for hash in {row[at] for row in rows if at >= 0 and row[at] is not None}:
            self._note(Q.refer_to_blob, (hash,))

    def add_runs(self, rows: list[Row]) -> None:
        names = RUN.split()
        if rows:
            self._note(_insert("run", names), [[row[i] for row in rows] for i in range(len(names))])
        self._note("UPDATE run SET epoch = l.epoch FROM lease l WHERE l.run = run.run")
        newest = "(SELECT max(n) FROM version)"
        self._note(f"SELECT setval('commit_number', {newest}) WHERE {newest} IS NOT NULL")
        last = "(SELECT max(run) FROM run)"
        own = "pg_get_serial_sequence('run', 'run')"
        self._note(f"SELECT setval({own}, {last}) WHERE {last} IS NOT NULL")

    def clear(self) -> None:
        for table in _CLEARED:
            self._note(f"DELETE FROM {table}")
        self._note("DELETE FROM meta WHERE name <> ALL($1::text[])", (list(OWN_FACTS),))


def _collated(column: str) -> str:
    if column in _BYTES and column != "token":
        return "::bytea"
    return "::bigint" if column in _NUMBERS else '::text COLLATE "C"'


def _outside(row: dict[str, Any]) -> Row:
    return whole(row["key"]), row["hash"] if row["data"] is None else None


#: by table: columns that only this store has, and what is in them
_ADDED: dict[str, tuple[list[str], Callable[[dict[str, Any]], Row]]] = {
    "record": (["whole", "outside"], _outside),
    "past": (["whole", "outside"], _outside),
    "attempt": (["place"], lambda row: (cut(row["step"]),)),
}


def _insert(table: str, columns: list[str]) -> str:
    kinds = [_kind(table, column) for column in columns]
    arrays = ", ".join(f"${i + 1}::{kind}[]" for i, kind in enumerate(kinds))
    names = ", ".join(columns)
    return f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"


def _kind(table: str, column: str) -> str:
    if table == "attempt" and column == "token":
        return "text"
    return "bytea" if column in _BYTES else "bigint" if column in _NUMBERS else "text"
