"""Reading rows from SQLite."""

from __future__ import annotations

from _operator import attrgetter
from itertools import islice

from leftoff.model.codec import MASK, sha256, sound, sum_of, term
from leftoff.model.versions import counts_of
from leftoff.store.base import View
from leftoff.store.rows import (
    ARCHIVED,
    FACT,
    TRASH,
    TRASHED,
    Attempt,
    BlobRow,
    Lease,
    Record,
    RunRow,
    Trashed,
    misplaced,
    missing_bytes,
    parent_in_card,
    run_from,
    token_name,
    version_from,
    wrong_bytes,
)
from leftoff.store.sqlite.queries import Q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import apsw

    from leftoff.model.versions import Version
    from leftoff.store.sqlite.tables import SqliteTables

_FIRST = ""
_LAST: Any = b""  # SQLite sorts bytes behind all text
_AFTER_ORDERS = ":"  # an ord is made of digits and slashes
_BELOW, _NOT_BELOW = "/", "0"  # every key under "a" lies between "a/" and "a0"

_LAST_CHARACTER = "\U0010ffff"

_SOME = 5000  # rows that are held at once where none is kept
SMALL = (
    1000  # records of a run that are added up before anything is read from it or written to it: a millisecond
)
_COUNTED = 128  # steps of a status

_by_n = attrgetter("n")


def _folded(*given: Any) -> str | None:
    """A name without regard to case."""
    text = given[0]
    return text.casefold() if isinstance(text, str) else None


def _checked(run: int, collection: str, key: str, seq: int, hash: bytes, stored: bytes | None) -> Record:
    if stored is None:
        raise missing_bytes(run, collection, key)
    try:
        if sha256(stored).digest() != hash:
            raise wrong_bytes(run, collection, key)
    except TypeError:  # not even bytes: a sound page in another's place
        raise wrong_bytes(run, collection, key) from None
    return Record(collection, key, seq, hash, stored)


class SqliteView(View):
    """Queries on one connection, inside the transaction that the store opened on it."""

    refuses = True  # what is found to be misplaced; not where damage is judged

    def __init__(self, db: apsw.Connection, proved: set[int]) -> None:
        self.db = db
        self.execute: Any = db.execute  # rows of our own queries: their columns are known there
        self._proved = proved  # runs whose records were added up by this process

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        sql = f"{Q.run_columns} WHERE r.run_id = ? AND (r.hidden IN (0, {ARCHIVED}) OR ?) AND r.run > 0"
        columns = self.execute(sql, (run_id, hidden)).fetchone()
        if columns is None:
            self._refuse_unlisted(run_id, hidden)
        return self._current(columns)

    def _refuse_unlisted(self, run_id: str, hidden: bool) -> None:
        """A run that the index of ids does not know, and the table does: a page lies in another's place."""
        if self.execute(Q.unlisted, (run_id, hidden)).fetchone() is not None:
            raise misplaced(f"run {run_id}")

    def run_row(self, run: int) -> RunRow | None:
        return self._current(self.execute(f"{Q.run_columns} WHERE r.run = ?", (run,)).fetchone())

    def _current(self, columns: tuple[Any, ...] | None) -> RunRow | None:
        """A run's row, if it is not an older one of itself."""
        if columns is None:
            return None
        row = run_from(columns)
        self._refuse_headless(row.run)
        return row

    def prove(self, row: RunRow, most: int = SMALL) -> None:
        if row.run in self._proved or not self._is_settled():
            return
        rows = self.execute(Q.terms, (row.run, most + 1)).fetchall()
        if len(rows) <= most:
            try:
                total = sum([term(*columns) for columns in rows]) & MASK
            except TypeError:  # not even what a record is made of
                total = -1
            if total < 0 or total.to_bytes(32, "big") != row.digest:
                raise misplaced(f"run {row.run_id}@{row.seq}")
            self._proved.add(row.run)

    def _is_settled(self) -> bool:
        """Whether nothing was changed in this transaction yet."""
        return True

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        tests, values = self._tests(where)
        sql = f"{Q.run_columns} WHERE {' AND '.join(tests)}"
        if limit is not None:
            rows = list(map(run_from, self.execute(f"{sql} ORDER BY r.n DESC LIMIT ?", (*values, limit))))
        else:
            rows = list(map(run_from, self.execute(sql, values)))
            rows.sort(key=_by_n, reverse=True)  # sooner than SQLite, which would carry every column along
        if not (rows and values) and not where.get("archived"):
            self._refuse_lost_runs(rows[-1].n if rows else 0)
        return rows

    def _tests(self, where: dict[str, Any]) -> tuple[list[str], list[Any]]:
        """What runs that are looked for must fulfil, as SQL, and the values in it."""
        tests: list[str] = [f"r.hidden = {ARCHIVED if where.get('archived') else 0}"]
        values: list[Any] = []
        for column in ("workflow", "branch", "title", "issue", "session"):
            if where.get(column) is not None:
                tests.append(f"r.{column} = ?")
                values.append(where[column])
        if where.get("status") is not None:
            words = list(where["status"])
            tests.append(f"r.status IN ({', '.join('?' * len(words))})")
            values += words
        if where.get("before") is not None:
            tests.append("r.n < ?")
            values.append(where["before"])
        if where.get("prefix") is not None:
            tests.append("substr(r.run_id, 1, ?) = ?")
            values += [len(where["prefix"]), where["prefix"]]
        if where.get("forked_from") is not None:
            tests.append("instr(r.card, ?)")
            values.append(parent_in_card(where["forked_from"]))
        if where.get("name") is not None:
            import apsw

            try:
                self.db.create_scalar_function("folded", _folded, 1, deterministic=True)
            except apsw.BusyError:  # it is there, and in use
                pass
            tests.append("? IN (folded(r.workflow), folded(r.title))")
            values.append(_folded(where["name"]))
        return tests, values

    def _refuse_lost_runs(self, since: int) -> None:
        """Fewer runs in their table than in the index of their ids, or older ones than their versions are: a page lies
        in another's place, or was never written."""
        listed, indexed = self.execute(Q.count_runs).fetchone()
        if listed != indexed:
            raise misplaced(f"{abs(indexed - listed)} run(s)")
        if found := self.execute(Q.any_headless, (since,)).fetchone():
            raise misplaced(f"run {found[0]}")

    def leaf(self, run: int, status: str) -> str | None:
        return next(iter(self.leaves(run, status, 1)), None)

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        return self.execute(Q.head, (run,)).fetchone()  # type: ignore[no-any-return]

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        return self.execute(Q.row, (run, collection, key)).fetchone()  # type: ignore[no-any-return]

    def record(self, run: int, collection: str, key: str) -> Record | None:
        row = self.execute(Q.record, (run, collection, key)).fetchone()
        return _checked(run, collection, key, *row) if row else None

    def records(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Record]:
        if not low and high is None:
            rows = self.execute(Q.live, (run, collection))
        else:
            rows = self.execute(Q.live_range, (run, collection, low, _LAST if high is None else high))
        for columns in rows:
            yield _checked(run, *columns)

    def trashed(self) -> list[Trashed]:
        known = dict(self.execute(Q.meta_range, (TRASH, TRASH + ";")))
        out = []
        for columns in self.execute(f"{Q.run_columns} WHERE r.hidden = ?", (TRASHED,)):
            row = run_from(columns)
            at, _, n = known.get(f"{TRASH}{row.run}", "").partition(" ")
            out.append(Trashed(row, int(at or row.updated_at), int(n or self.newest())))
        return sorted(out, key=lambda each: (each.n, each.row.n), reverse=True)

    def newest(self) -> int:
        """The store-wide number of the newest commit."""
        return int(self.execute(Q.newest_n).fetchone()[0])

    def stamps(self) -> list[tuple[int, int]]:
        return self.execute(Q.stamps).fetchall()  # type: ignore[no-any-return]

    def size(self, *runs: int, alone: bool = False) -> int:
        return int(self.execute(Q.size, (str([*runs]), alone)).fetchone()[0])

    def bulk(self, run: int, collection: str) -> tuple[list[tuple[str, bytes, bytes]], int]:
        rows = self.execute(Q.bulk, (run, collection)).fetchall()
        if not sound(rows):
            for key, hash, stored in rows:  # says which
                _checked(run, collection, key, 0, hash, stored)
        return rows, sum_of(collection, rows)

    def part(self, run: int, collection: str) -> int:
        rows, total = self.execute(Q.bulk, (run, collection)), 0
        while some := list(islice(rows, _SOME)):
            if not sound(some):
                for key, hash, stored in some:  # says which
                    _checked(run, collection, key, 0, hash, stored)
            total += sum_of(collection, some)
        return total

    def records_at(self, run: int, seq: int, collection: str) -> Iterator[Record]:
        for columns in self.execute(Q.live_at, (run, collection, seq)):
            yield _checked(run, *columns)
        key = _FIRST
        while row := self.execute(Q.past_next_key, (run, collection, key)).fetchone():
            key, until, since, hash, stored = row
            if until <= seq:
                row = self.execute(Q.past_at, (run, collection, key, seq)).fetchone()
                if row is None:
                    continue
                until, since, hash, stored = row
            if since <= seq:
                yield _checked(run, collection, key, since, hash, stored)

    def collections(self, run: int, *, past: bool = False) -> list[str]:
        names = {row[0] for row in self.execute(Q.collections, (run,))}
        if past:
            names.update(row[0] for row in self.execute(Q.past_collections, (run,)))
        return sorted(names)

    def hashes(self, run: int, collection: str, low: str = "", high: str | None = None) -> dict[str, bytes]:
        until = _LAST if high is None else high
        return dict(self.execute(Q.hashes, (run, collection, low, until)).fetchall())

    def last_key(self, run: int, collection: str, low: str, high: str) -> str | None:
        row = self.execute(Q.last_key, (run, collection, low, high)).fetchone()
        return row[0] if row else None

    def has_below(self, run: int, step: str) -> bool:
        return self.execute(Q.has_below, (run, step + _BELOW, step + _NOT_BELOW)).fetchone() is not None

    def leaves(self, run: int, status: str, limit: int) -> list[str]:
        rows = self.execute(Q.leaves, (run, status, limit)).fetchall()
        self._refuse_lost_leaves(run, status)
        if any(own != status for _, own in rows):
            raise misplaced(f"run number {run}")
        return [key for key, _ in rows]

    def _refuse_lost_leaves(self, run: int, status: str) -> None:
        """Another number of steps in their index than the run's head says; of many, the first are counted."""
        if not (self.refuses and self._is_settled()):
            return
        found = self.execute(Q.leaves_counted, (run, status, _COUNTED)).fetchone()
        if found is not None and min(counts_of(found[0])[status], _COUNTED) != found[1]:
            raise misplaced(f"run number {run}")

    def leaf_page(
        self, run: int, status: str, after: tuple[str, str], words: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        self._refuse_lost_leaves(run, status)
        return self.execute(Q.leaf_page, (run, status, *after, *words, limit)).fetchall()  # type: ignore[no-any-return]

    def leaf_counts(self, run: int, step: str) -> dict[str, int]:
        return dict(self.execute(Q.leaf_counts, (run, step + _BELOW, step + _NOT_BELOW)))

    def last_order(self, run: int, prefix: str) -> str | None:
        row = self.execute(Q.last_order, (run, prefix, prefix + _AFTER_ORDERS)).fetchone()
        return row[0] if row else None

    def version(self, run: int, seq: int) -> Version | None:
        row = self.execute(f"{Q.version_columns} WHERE v.run = ? AND v.seq = ?", (run, seq)).fetchone()
        if row is None:
            self._refuse_headless(run)
        return version_from(row) if row else None

    def _refuse_headless(self, run: int) -> None:
        """A run whose head is not its newest version: a page lies in another's place, or was never written."""
        found = self.execute(Q.headless, (run,)).fetchone() if self.refuses and self._is_settled() else None
        if found is not None:
            raise misplaced(f"run {found[0]}")

    def need_all_checkpoints(self, run: int) -> None:
        found = self.execute(Q.uncounted, (run,)).fetchone() if self.refuses and self._is_settled() else None
        if found is not None:
            raise misplaced(f"run {found[0]}")

    def versions(
        self, run: int, *, sealed: bool, before: int | None = None, limit: int | None = None
    ) -> list[Version]:
        sql = f"{Q.version_columns} WHERE v.run = ?"
        values: list[Any] = [run]
        if sealed:
            sql += " AND v.checkpoint IS NOT NULL"
        if before is not None:
            sql += " AND v.seq < ?"
            values.append(before)
        else:
            self._refuse_headless(run)
        values.append(-1 if limit is None else limit)
        return [version_from(c) for c in self.execute(f"{sql} ORDER BY v.seq DESC LIMIT ?", values)]

    def lives(self, run: int) -> list[tuple[int, int, int, int]]:
        return self.execute(Q.lives, (run,)).fetchall()  # type: ignore[no-any-return]

    def checkpoints(self, prefix: str, run: int | None = None, limit: int = 10) -> list[tuple[int, Version]]:
        sql = (
            f"{Q.version_columns} WHERE v.checkpoint >= ? AND v.checkpoint < ?"
            + (" AND v.run = ?" if run is not None else f" AND r.hidden IN (0, {ARCHIVED})")
            + " ORDER BY v.n DESC LIMIT ?"
        )
        values = [prefix, prefix + "g", *([run] if run is not None else []), limit]
        return [(c[11], version_from(c)) for c in self.execute(sql, values)]

    def aliased(
        self, name: str, run: int | None = None, *, but: int | None = None
    ) -> tuple[int, Version] | None:
        sql = (
            f"{Q.version_columns} JOIN alias x ON x.run = v.run AND x.seq = v.seq WHERE x.name = ? "
            f"AND r.hidden IN (0, {ARCHIVED})"
            + (" AND v.run = ?" if run is not None else "")
            + (" AND v.run != ?" if but is not None else "")
            + " ORDER BY v.n DESC LIMIT 1"
        )
        columns = self.execute(sql, [name, *(each for each in (run, but) if each is not None)]).fetchone()
        return (columns[11], version_from(columns)) if columns else None

    def other_names(self, prefix: str, run: int | None = None, limit: int = 20) -> list[str]:
        sql = Q.other_names if run is None else Q.other_names_of_run
        values = (prefix, prefix + _LAST_CHARACTER, *([run] if run is not None else []), limit)
        return [row[0] for row in self.execute(sql, values)]

    def bounds(self, run: int) -> tuple[int, int] | None:
        row = self.execute(Q.bounds, (run,)).fetchone()
        return row if row and row[0] is not None else None

    def around(self, run: int, seq: int) -> tuple[int | None, int | None]:
        return self.execute(Q.around, (run, seq, run, seq)).fetchone()  # type: ignore[no-any-return]

    def applied(self, run: int, since: int, token: bytes) -> Version | None:
        row = self.execute(Q.token_since, (run, since, token)).fetchone()
        return self.version(run, row[0]) if row else self._pruned(run, since, token)

    def _pruned(self, run: int, since: int, token: bytes) -> Version | None:
        """What a prune left of a version: that it was there."""
        row = self.execute(Q.forgotten, (token_name(run, token),)).fetchone()
        known = self.run_row(run) if row else None
        if known is None:
            return None
        from leftoff.model.versions import Version

        seq, at, digest = row[0].split()
        return Version(known.run_id, int(seq), bytes.fromhex(digest), int(at)) if int(seq) > since else None

    def lease(self, run: int) -> Lease | None:
        columns = self.execute(Q.lease, (run,)).fetchone()
        return Lease(columns) if columns else None

    def leases(self) -> list[tuple[str, Lease]]:
        return [(c[0], Lease(c[1:])) for c in self.execute(Q.leases)]

    def attempt(self, token: str) -> Attempt | None:
        columns = self.execute(Q.attempt, (token,)).fetchone()
        return Attempt(columns) if columns else None

    def attempts(self, run: int) -> list[Attempt]:
        return [Attempt(columns) for columns in self.execute(Q.attempts, (run,))]

    def latest_attempts(self, run: int, since: int, until: int, limit: int) -> list[Attempt]:
        rows = self.execute(Q.latest_attempts, (run, since, until, limit)).fetchall()
        return [Attempt(columns) for columns in reversed(rows)]

    def fact(self, name: str) -> str | None:
        row = self.execute(Q.fact, (FACT + name,)).fetchone()
        return row[0] if row is not None else None

    def blob(self, hash: bytes) -> BlobRow | None:
        row = self.execute(Q.blob, (hash,)).fetchone()
        return BlobRow(hash, *row) if row else None

    def notes(self, start: str = "") -> Iterator[tuple[str, str]]:
        """What the store says of itself: for who checks it."""
        return self.execute(Q.meta_range, (start, start + _LAST_CHARACTER))  # type: ignore[no-any-return]

    def every_record(self, run: int) -> Iterator[tuple[Any, ...]]:
        """Every record, live and superseded, as it lies there: for who checks it."""
        return self.execute(Q.every_record, (run,))  # type: ignore[no-any-return]

    def tables(self) -> SqliteTables:
        from leftoff.store.sqlite.tables import SqliteTables

        return SqliteTables(self)
