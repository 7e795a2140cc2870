"""Rows straight from pages, without SQLite: whatever still lies in a damaged file can be read.

A page that SQLite cannot reach any more, because the page above it is gone, still has its rows; and a row says by its
shape which table it is of: the tables are strict, and the shapes are taken from the schema itself. Rows of pages that
were freed are left alone, as long as anything says which pages those are.
"""

from __future__ import annotations

import apsw

from leftoff.model.fields import Fields
from leftoff.store.sqlite.connection import PAGE_SIZE
from leftoff.store.sqlite.migrate import MIGRATIONS
from leftoff.store.sqlite.pages import USABLE, is_free, is_map
from leftoff.store.sqlite.queries import run_script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    GetPage = Callable[[int], bytes | None]

INDEX_INNER, INDEX_LEAF, TABLE_LEAF = 2, 10, 13

_INDEX_LOCAL = (USABLE - 12) * 64 // 255 - 23
_TABLE_LOCAL = USABLE - 35
_LEAST_LOCAL = (USABLE - 12) * 32 // 255 - 23


class Shape(Fields):
    """What the rows of one table or index look like: names and types of the columns in stored order."""

    name: str
    columns: list[tuple[str, str, bool]]  # name, type, whether it may be NULL
    rowid: str | None  # the column that is the row's number

    def fits(self, values: list[Any], rowid: int | None) -> bool:
        if len(values) != len(self.columns) or (rowid is None) != (self.rowid is None):
            return False
        for value, (name, kind, nullable) in zip(values, self.columns, strict=True):
            if value is None:
                if not nullable and name != self.rowid:
                    return False
            elif _KINDS[kind] is not type(value):
                return False
        return True

    def row(self, values: list[Any], rowid: int | None) -> dict[str, Any]:
        named = {column[0]: value for column, value in zip(self.columns, values, strict=True)}
        return named if self.rowid is None else {**named, self.rowid: rowid}


_KINDS = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
_SCHEMA = [(name, "TEXT", False) for name in ("type", "name", "tbl_name")]
_SCHEMA += [("rootpage", "INTEGER", False), ("sql", "TEXT", True)]


def shapes() -> list[Shape]:
    """The shapes of every table and index of the current schema."""
    db = apsw.Connection(":memory:")
    try:
        for name in MIGRATIONS:
            run_script(db, name)
        out = [Shape("sqlite_schema", _SCHEMA, "rowid")]
        listed = "SELECT name, wr FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
        tables: Any = db.execute(listed).fetchall()
        for table, without_rowid in tables:
            if not table.startswith("sqlite_"):
                out += _table_shapes(db, table, bool(without_rowid))
        return out
    finally:
        db.close()


def _table_shapes(db: apsw.Connection, table: str, without_rowid: bool) -> list[Shape]:
    known = {}
    rowid = None
    for _, name, kind, notnull, _, key in db.execute(f"PRAGMA table_info({table})"):
        known[name] = (name, kind, not notnull and not key)
        if key and not without_rowid:
            rowid = name
    out = [] if without_rowid else [Shape(table, list(known.values()), rowid)]
    indexes: Any = db.execute(f"PRAGMA index_list({table})").fetchall()
    for _, index, _, origin, _ in indexes:
        names = [row[2] for row in db.execute(f"PRAGMA index_xinfo({index})")]
        columns = [
            known[name] if name is not None else (rowid or "rowid", "INTEGER", False) for name in names
        ]
        out.append(Shape(table if origin == "pk" else index, columns, None))
    return out


class Row(Fields):
    """One row as it was found, with the pages that its bytes lie on."""

    table: str
    values: dict[str, Any]
    pages: tuple[int, ...]


class Carver:
    """All rows of all pages; ``get`` gives a page by its number."""

    def __init__(self, get: GetPage, count: int) -> None:
        self.get = get
        self.count = count
        self._shapes = shapes()

    def rows(self) -> Iterator[Row]:
        for number in range(1, self.count + 1):
            if not is_map(number) and not is_free(self.get, number):
                yield from filter(None, self.cells(number))

    def cells(self, number: int) -> Iterator[Row | None]:
        """Every cell of a page: its row, or ``None`` where it has none."""
        page = self.get(number)
        if page is None or page[_start_of(number)] not in (INDEX_INNER, INDEX_LEAF, TABLE_LEAF):
            return
        start = _start_of(number)
        kind = page[start]
        first = start + (12 if kind == INDEX_INNER else 8)
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        for place in range(first, min(first + 2 * cells, USABLE - 1), 2):
            yield self._cell(number, page, int.from_bytes(page[place : place + 2], "big"), kind)

    def _cell(self, number: int, page: bytes, at: int, kind: int) -> Row | None:
        try:
            if kind == INDEX_INNER:
                at += 4
            size, at = _varint(page, at)
            rowid = None
            if kind == TABLE_LEAF:
                rowid, at = _varint(page, at)
            pages = [number]
            payload = self._payload(
                page, at, size, _TABLE_LOCAL if kind == TABLE_LEAF else _INDEX_LOCAL, pages
            )
            values = decode_row(payload)
        except (IndexError, ValueError):
            return None
        for shape in self._shapes:
            if shape.fits(values, rowid):
                return Row(shape.name, shape.row(values, rowid), tuple(pages))
        return None

    def _payload(self, page: bytes, at: int, size: int, most: int, pages: list[int]) -> bytes:
        if size <= most:
            local = size
        else:
            local = _LEAST_LOCAL + (size - _LEAST_LOCAL) % (USABLE - 4)
            local = local if local <= most else _LEAST_LOCAL
        if at + local > USABLE or size > self.count * PAGE_SIZE:
            raise ValueError("a cell that leaves its page")
        parts = [page[at : at + local]]
        left = size - local
        following = int.from_bytes(page[at + local : at + local + 4], "big") if left else 0
        while left > 0:
            more = self.get(following) if following else None
            if more is None or len(pages) > self.count:
                raise ValueError("a chain that ends too early")
            pages.append(following)
            parts.append(more[4 : 4 + min(left, USABLE - 4)])
            left -= USABLE - 4
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts)


def _start_of(number: int) -> int:
    """Where a page's own part begins: the first has the file's header before it."""
    return 100 if number == 1 else 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = data[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1


def decode_row(payload: bytes) -> list[Any]:
    """The values of a row; ``ValueError`` where its bytes are no row."""
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    out: list[Any] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        out.append(value)
    if at != len(payload):
        raise ValueError("a row of another length than it says")
    return out


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind < 7:
        end = at + (0, 1, 2, 3, 4, 6, 8)[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind < 12:
        raise ValueError("a kind of value that leftoff never writes")
    end = at + (kind - 12) // 2
    if end > len(payload):
        raise ValueError("a value that leaves its row")
    return (payload[at:end] if kind % 2 == 0 else payload[at:end].decode()), end
