"""Whether a page may be so: where several bytes would explain a wrong checksum, what is on the page decides.

A page that is right has only rows that fit a table, that have their hash where they have one, and that say nothing
which is never written; its pointers lead to pages that are there. What is wrong by one byte seldom passes.
"""

from __future__ import annotations

from leftoff.model.codec import sha256
from leftoff.model.words import COLLECTIONS, RUN_STATUS, STEP_STATUS, TRIGGERS
from leftoff.store.repair.carve import INDEX_INNER, INDEX_LEAF, TABLE_INNER, TABLE_LEAF, Carver, start_of
from leftoff.store.repair.pages import MAGIC, MAP_ENTRY, MAPPED, USABLE, is_free, is_map
from leftoff.store.sqlite.connection import PAGE_SIZE, RESERVE
from leftoff.store.sqlite.migrate import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.store.repair.carve import GetPage, Row

_HEX = frozenset("0123456789abcdef")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _words(*known: str) -> Callable[[Any], bool]:
    return frozenset(known).__contains__


def _digits(value: str) -> bool:
    return all(part.isdigit() and len(part) == 8 for part in value.split("/"))


def _time(value: int) -> bool:
    return value == 0 or 10**12 <= value < 5 * 10**12  # between 2001 and 2128


def _number(value: int) -> bool:
    return 0 <= value < 1 << 40


# What a column's value may be, where it is not NULL.
_MAY_BE: dict[str, Callable[[Any], bool]] = {
    "collection": _words(*COLLECTIONS),
    "hash": lambda value: len(value) == 32,
    "blob": lambda value: len(value) == 32,
    "digest": lambda value: len(value) in (0, 32),
    "token": lambda value: len(value) == 16,
    "status": _words("", *RUN_STATUS, *STEP_STATUS),
    "trigger": _words(*TRIGGERS),
    "checkpoint": lambda value: len(value) == 64 and _HEX.issuperset(value),
    "counts": lambda value: not value or (value[0] == "[" and value[-1] == "]" and value.count(",") == 6),
    "ord": _digits,
    "leaf": (0, 1).__contains__,
    "hidden": (0, 1).__contains__,
    "encoding": _words("raw", "zstd"),
    "kind": _words("process", "session"),
    **dict.fromkeys(("run", "seq", "until", "n", "epoch", "size", "stored", "pid", "rootpage"), _number),
    **dict.fromkeys(("at", "created_at", "updated_at", "since", "beat", "started_at", "ended_at"), _time),
}


class Proof:
    """Judges pages of one file; ``get`` gives the others."""

    def __init__(self, get: GetPage, count: int) -> None:
        self._get = get
        self._count = count
        self._instead: tuple[int, bytes] = (0, b"")
        self._carver = Carver(self._page, count)
        self._chains: dict[int, set[int]] | None = None

    def _page(self, number: int) -> bytes | None:
        return self._instead[1] if number == self._instead[0] else self._get(number)

    def proves(self, number: int, page: bytes) -> bool:
        """Whether nothing speaks against this page in that place."""
        if is_map(number):
            return self._is_map(number, page)
        if number == 1 and not self._is_first(page):
            return False
        if number > 1 and is_free(self._get, number):
            return self._is_trunk(page)
        chained = bool(self._owners(number))
        rows = self._rows(number, page)
        whole = all(row is not None and _is_whole(row) for row in rows)
        return whole and (bool(rows) if chained else self._below(number, page) is not None)

    def reads_as(self, number: int, page: bytes) -> object:
        """What can be read from a page: two that differ only where nothing is ever read are as good as each other."""
        if is_map(number) or is_free(self._get, number):
            return page
        return [row and (row.table, row.values) for row in self._rows(number, page)], self._below(
            number, page
        )

    def _rows(self, number: int, page: bytes) -> list[Row | None]:
        """The rows that have bytes on a page; ``None`` for a cell that is no row."""
        owners = self._owners(number)
        self._instead = (number, page)
        try:
            if not owners:
                return list(self._carver.cells(number))
            return [row for owner in owners for row in self._carver.page_rows(owner) if number in row.pages]
        finally:
            self._instead = (0, b"")

    def matters(self, number: int) -> bool:
        """Whether anything on a page is ever looked at: on a free one that names no others, nothing is."""
        trunk, seen = _u32(self._get(1) or bytes(PAGE_SIZE), 32), set()
        while trunk and trunk not in seen:
            seen.add(trunk)
            trunk = _u32(self._get(trunk) or bytes(4), 0)
        return number in seen or not is_free(self._get, number)

    def _owners(self, number: int) -> set[int]:
        """The pages whose rows go on on this one."""
        if self._chains is None:
            self._chains = {}
            for row in self._carver.rows():
                for behind in row.pages[1:]:
                    self._chains.setdefault(behind, set()).add(row.pages[0])
        return self._chains.get(number, set())

    def _is_first(self, page: bytes) -> bool:
        """The file's header, as every store has it."""
        start = MAGIC + PAGE_SIZE.to_bytes(2, "big") + bytes((2, 2, RESERVE, 64, 32, 32))
        fixed = {44: 4, 48: 0, 56: 1, 60: SCHEMA, 64: 1, 68: 0, **dict.fromkeys(range(72, 92, 4), 0)}
        if page[:24] != start or any(_u32(page, at) != value for at, value in fixed.items()):
            return False
        sized = _u32(page, 24) != _u32(page, 92) or _u32(page, 28) == self._count
        return sized and all(_u32(page, at) <= self._count for at in (32, 36, 52))

    def _is_map(self, number: int, page: bytes) -> bool:
        """A pointer map: what each page is for, and which page leads to it."""
        for entry in range(MAPPED):
            kind, above = page[entry * MAP_ENTRY], _u32(page, entry * MAP_ENTRY + 1)
            if number + 1 + entry > self._count:
                if kind or above:
                    return False
            elif not 1 <= kind <= 5 or above > self._count or (kind < 3) != (above == 0):
                return False
        return True

    def _is_trunk(self, page: bytes) -> bool:
        """A page of the list of free ones; what is on the pages that it names is of no interest, so they pass too."""
        leaves = _u32(page, 4)
        named = [_u32(page, 0), *(_u32(page, 8 + 4 * n) for n in range(min(leaves, USABLE // 4 - 2)))]
        return page[0] != 0 or all(number <= self._count for number in named)

    def _below(self, number: int, page: bytes) -> list[int] | None:
        """The pages below one of a tree; ``None`` where it is none, or they are not there, each once."""
        start = start_of(number)
        if page[start] in (INDEX_LEAF, TABLE_LEAF):
            return []
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        end = start + 12 + 2 * cells
        if page[start] not in (INDEX_INNER, TABLE_INNER) or end > USABLE:
            return None
        places = (int.from_bytes(page[at : at + 2], "big") for at in range(start + 12, end, 2))
        below = [_u32(page, start + 8), *(_u32(page, place) for place in places)]
        there = len(set(below)) == len(below) and all(2 < other <= self._count for other in below)
        return below if there else None


def _is_whole(row: Row) -> bool:
    """Whether a row has its hash, where it has one, and says nothing that is never written."""
    values = row.values
    if values.get("data") is not None and sha256(values["data"]).digest() != values["hash"]:
        return False
    return all(value is None or name not in _MAY_BE or _MAY_BE[name](value) for name, value in values.items())
