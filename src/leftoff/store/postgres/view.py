"""Reading rows from PostgreSQL."""

from __future__ import annotations

from _operator import attrgetter

from leftoff.model.codec import MASK, sha256, sound, sum_of, term
from leftoff.model.words import FINISHED
from leftoff.store.base import View
from leftoff.store.postgres.names import cut, high_bound, low_bound, plain
from leftoff.store.postgres.queries import Q
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from leftoff.model.versions import Version
    from leftoff.store.postgres.connection import Link
    from leftoff.store.postgres.wire import Rows, Statement
    from leftoff.store.tables import Tables

SOME = 5000  # rows that are fetched at once
SMALL = 128  # records of a run that are added up before anything is read from it or written to it
VERSION = f"{Q.version_columns} WHERE v.run = $1 AND v.seq = $2"
_BELOW, _NOT_BELOW = "/", "0"  # every key under "a" lies between "a/" and "a0"
_AFTER_ORDERS = ":"  # an ord is made of digits and slashes
_LAST_CHARACTER = "\U0010ffff"

_FIRST = frozenset(
    ("pending", "running", "waiting", "failed")
)  # the statuses whose first leaves a listing shows

_by_n = attrgetter("n")


def checked(run: int, collection: str, key: str, seq: int, hash: bytes, stored: bytes | None) -> Record:
    if stored is None:
        raise missing_bytes(run, collection, key)
    if sha256(stored).digest() != hash:
        raise wrong_bytes(run, collection, key)
    return Record(collection, key, seq, hash, stored)


class PostgresView(View):
    """Queries on one connection, in the transaction that begins with the first of them."""

    refuses = True  # what is found to be misplaced; not where damage is judged

    def __init__(self, link: Link, proved: set[int], before: Sequence[Statement] = ()) -> None:
        self.link = link
        self.began = False
        self._proved = proved
        self._before = before  # what is sent ahead of the first question
        # Of runs that were listed: their first leaves by status, where those stand, and their leases.
        self._listed: set[int] = set()
        self._leaves: dict[tuple[int, str], str] = {}
        self._orders: dict[tuple[int, str], str] = {}
        self._leases: dict[int, Lease | None] = {}

    def several(self, statements: Sequence[Statement]) -> list[Rows]:
        """The rows of each statement, for one time of waiting."""
        if self.began:
            return self.link.ask(statements)
        self.began = True
        found = self.link.ask([*self._before, *statements])
        self.opened(found[: len(self._before)])
        return found[len(self._before) :]

    def opened(self, found: list[Rows]) -> None:
        """What the statements said that were sent ahead."""

    def ask(self, sql: str, values: Sequence[Any] = (), run: int | None = None) -> Rows:
        """The rows of a statement. ``run``: the one that it is about, which who writes must hold."""
        return self.gather(run, [(sql, values)])[0]

    def gather(self, run: int | None, questions: Sequence[Statement]) -> list[Rows]:
        """The rows of several statements about one run, or about none."""
        return self.several(questions)

    def one(self, sql: str, values: Sequence[Any] = (), run: int | None = None) -> Any:
        """The first row, or ``None``."""
        rows = self.ask(sql, values, run)
        return rows[0] if rows else None

    # -- runs

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        columns = self.one(
            f"{Q.run_columns} WHERE r.run_id = $1 AND (r.hidden IN (0, {ARCHIVED}) OR $2)",
            (plain(run_id), hidden),
        )
        return run_from(columns) if columns else None

    def run_row(self, run: int) -> RunRow | None:
        columns = self.one(f"{Q.run_columns} WHERE r.run = $1", (run,), run)
        return run_from(columns) if columns else None

    def prove(self, row: RunRow, most: int = SMALL) -> None:
        if row.run in self._proved:
            return
        rows = self.ask(Q.small, (row.run, most + 1), row.run)
        self.add_up(row, rows, most)

    def add_up(self, row: RunRow, rows: Rows, most: int) -> None:
        if len(rows) <= most:
            total = sum([term(c[0], c[1], c[3]) for c in rows]) & MASK
            if total.to_bytes(32, "big") != row.digest:
                raise misplaced(f"run {row.run_id}@{row.seq}")
            self._proved.add(row.run)

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        sql, values = listing(where, limit)
        if not ahead:
            return listed(self.ask(sql, values), where, limit)
        more = [(question.replace("{listing}", sql), values) for question in (Q.first_leaves, Q.their_leases)]
        found, leaves, leases = self.gather(None, [(sql, values), *more])
        rows = listed(found, where, limit)
        self._listed.update([row[0] for row in rows])
        self._leases.update((row[0], None) for row in rows if row.status not in FINISHED)
        for run, status, key, order in leaves:
            self._leaves[run, status] = key
            self._orders[run, key] = order
        for columns in leases:
            self._leases[columns[0]] = Lease(columns[1:10], columns[10])
        return rows

    def leaf(self, run: int, status: str) -> str | None:
        if run in self._listed and status in _FIRST:
            return self._leaves.get((run, status))
        return next(iter(self.leaves(run, status, 1)), None)

    def leaves(self, run: int, status: str, limit: int) -> list[str]:
        return [row[0] for row in self.ask(Q.leaves, (run, status, limit), run)]

    def leaf_page(
        self, run: int, status: str, after: tuple[str, str], words: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        place = (plain(after[0]), plain(after[1]))
        rows = self.ask(Q.leaf_page, (run, status, *place, *map(plain, words), limit), run)
        return [(order, key) for order, key in rows]

    def leaf_counts(self, run: int, step: str) -> dict[str, int]:
        return dict(self.ask(Q.leaf_counts, (run, plain(step + _BELOW)), run))

    def last_order(self, run: int, prefix: str) -> str | None:
        found: str | None = self.one(Q.last_order, (run, prefix, prefix + _AFTER_ORDERS), run)[0]
        return found

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        return self.one(Q.head, (run,), run)  # type: ignore[no-any-return]

    def trashed(self) -> list[Trashed]:
        listed = f"{Q.run_columns} WHERE r.hidden = $1"
        rows, facts = self.several([(listed, (TRASHED,)), (Q.meta_range, (TRASH, TRASH + ";"))])
        known: dict[str, str] = dict(facts)
        out = []
        for columns in rows:
            row = run_from(columns)
            at, _, n = known.get(f"{TRASH}{row.run}", "").partition(" ")
            out.append(Trashed(row, int(at or row.updated_at), int(n or row.n)))
        return sorted(out, key=lambda each: (each.n, each.row.n), reverse=True)

    def stamps(self) -> list[tuple[int, int]]:
        return [(at, n) for at, n in self.ask(Q.stamps)]

    def size(self, *runs: int, alone: bool = False) -> int:
        return int(self.one(Q.size, ([*runs], alone))[0])

    # -- records

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        if (
            collection == "step" and (run, key) in self._orders
        ):  # of a listing: where it stands is all that is asked
            return b"", None, self._orders[run, key], 1
        return self.one(Q.row, (run, collection, cut(key)), run)  # type: ignore[no-any-return]

    def record(self, run: int, collection: str, key: str) -> Record | None:
        row = self.one(Q.record, (run, collection, cut(key)), run)
        return checked(run, collection, key, *row) if row else None

    def records(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Record]:
        for some in self._batches(run, collection, low, high):
            for _, key, seq, hash, stored in some:
                yield checked(run, collection, key, seq, hash, stored)

    def _batches(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Rows]:
        """Live rows in key order, some at a time. Where keys were cut, the rest comes at once and is sorted here."""
        at, until, most = low_bound(low), high_bound(high), SOME
        while True:
            rows = self.ask(Q.live, (run, collection, at, until, most), run)
            done = len(rows) < most
            if any(row[0] is not row[1] and row[0] != row[1] for row in rows) and not done:
                most = 1 << 40
                continue
            if rows:
                at = rows[-1][0] + "\x01"
                rows = sorted(
                    (row for row in rows if low <= row[1] and (high is None or row[1] < high)), key=_key
                )
                yield rows
            if done:
                return

    def bulk(self, run: int, collection: str) -> tuple[list[tuple[str, bytes, bytes]], int]:
        out: list[tuple[str, bytes, bytes]] = []
        for some in self._batches(run, collection):
            out += _sound(run, collection, some)
        return out, sum_of(collection, out)

    def part(self, run: int, collection: str) -> int:
        batches = self._batches(run, collection)
        return sum(sum_of(collection, _sound(run, collection, some)) for some in batches)

    def records_at(self, run: int, seq: int, collection: str) -> Iterator[Record]:
        for key, since, hash, stored in self.ask(Q.records_at, (run, collection, seq), run):
            yield checked(run, collection, key, since, hash, stored)

    def collections(self, run: int, *, past: bool = False) -> list[str]:
        names = {row[0] for row in self.ask(Q.collections, (run,), run)}
        if past:
            names.update(row[0] for row in self.ask(Q.past_collections, (run,), run))
        return sorted(names)

    def hashes(self, run: int, collection: str, low: str = "", high: str | None = None) -> dict[str, bytes]:
        rows = self.ask(Q.hashes, (run, collection, low_bound(low), high_bound(high)), run)
        return dict(sorted(row for row in rows if low <= row[0] and (high is None or row[0] < high)))

    def last_key(self, run: int, collection: str, low: str, high: str) -> str | None:
        if (low_bound(low), high_bound(high)) != (low, high):  # cut: the last one is found among them here
            return max(self.hashes(run, collection, low, high), default=None)
        row = self.one(Q.last_key, (run, collection, low, high), run)
        return row[0] if row else None

    def has_below(self, run: int, step: str) -> bool:
        low, high = step + _BELOW, step + _NOT_BELOW
        if low_bound(low) != low:
            return bool(self.hashes(run, "step", low, high))
        return self.one(Q.has_below, (run, low, high), run) is not None

    # -- versions

    def version(self, run: int, seq: int) -> Version | None:
        row = self.one(VERSION, (run, seq), run)
        return version_from(row) if row else None

    def versions(
        self, run: int, *, sealed: bool, before: int | None = None, limit: int | None = None
    ) -> list[Version]:
        sql = f"{Q.version_columns} WHERE v.run = $1 AND ($2::bigint IS NULL OR v.seq < $2)"
        if sealed:
            sql += " AND v.checkpoint IS NOT NULL"
        rows = self.ask(f"{sql} ORDER BY v.seq DESC LIMIT $3::bigint", (run, before, limit), run)
        return [version_from(columns) for columns in rows]

    def lives(self, run: int) -> list[tuple[int, int, int, int]]:
        return [
            (epoch, began, ended, number) for epoch, began, ended, number in self.ask(Q.lives, (run,), run)
        ]

    def checkpoints(self, prefix: str, run: int | None = None, limit: int = 10) -> list[tuple[int, Version]]:
        sql = (
            f"{Q.version_columns} WHERE v.checkpoint >= $1 AND v.checkpoint < $2 "
            f"AND CASE WHEN $3::bigint IS NULL THEN r.hidden IN (0, {ARCHIVED}) ELSE v.run = $3 END "
            "ORDER BY v.n DESC LIMIT $4"
        )
        rows = self.ask(sql, (plain(prefix), f"{plain(prefix)}g", run, limit))
        return [(columns[11], version_from(columns)) for columns in rows]

    def aliased(
        self, name: str, run: int | None = None, *, but: int | None = None
    ) -> tuple[int, Version] | None:
        sql = (
            f"{Q.version_columns} JOIN alias x ON x.run = v.run AND x.seq = v.seq WHERE x.name = $1 "
            f"AND r.hidden IN (0, {ARCHIVED}) "
            "AND ($2::bigint IS NULL OR v.run = $2) AND ($3::bigint IS NULL OR v.run != $3) ORDER BY v.n DESC LIMIT 1"
        )
        columns = self.one(sql, (plain(name), run, but))
        return (columns[11], version_from(columns)) if columns else None

    def other_names(self, prefix: str, run: int | None = None, limit: int = 20) -> list[str]:
        first = plain(prefix) or ""
        return [row[0] for row in self.ask(Q.other_names, (first, first + _LAST_CHARACTER, run, limit))]

    def bounds(self, run: int) -> tuple[int, int] | None:
        row = self.one(Q.bounds, (run,), run)
        return row if row and row[0] is not None else None

    def around(self, run: int, seq: int) -> tuple[int | None, int | None]:
        return self.one(Q.around, (run, seq), run)  # type: ignore[no-any-return]

    def applied(self, run: int, since: int, token: bytes) -> Version | None:
        row = self.one(Q.token_since, (run, since, token), run)
        return self.version(run, row[0]) if row else self._pruned(run, since, token)

    def _pruned(self, run: int, since: int, token: bytes) -> Version | None:
        """What a prune left of a version: that it was there."""
        row = self.one(Q.fact, (token_name(run, token),), run)
        known = self.run_row(run) if row else None
        if known is None:
            return None
        from leftoff.model.versions import Version

        seq, at, digest = row[0].split()
        return Version(known.run_id, int(seq), bytes.fromhex(digest), int(at)) if int(seq) > since else None

    # -- drivers, attempts, facts, blobs

    def lease(self, run: int) -> Lease | None:
        if run in self._leases:
            return self._leases[run]
        columns = self.one(Q.lease, (run,), run)
        return Lease(columns[:9], columns[9]) if columns else None

    def leases(self) -> list[tuple[str, Lease]]:
        return [(c[0], Lease(c[1:10], c[10])) for c in self.ask(Q.leases)]

    def attempt(self, token: str) -> Attempt | None:
        columns = self.one(Q.attempt, (plain(token),))
        return Attempt(columns) if columns else None

    def attempts(self, run: int) -> list[Attempt]:
        return [Attempt(columns) for columns in self.ask(Q.attempts, (run,), run)]

    def latest_attempts(self, run: int, since: int, until: int, limit: int) -> list[Attempt]:
        rows = self.ask(Q.latest_attempts, (run, since, until, limit), run)
        return [Attempt(columns) for columns in reversed(rows)]

    def kept_log(self, token: str) -> tuple[bytes | None, bytes | None]:
        row = self.one(Q.kept_log, (token,))
        return row or (None, None)

    def fact(self, name: str) -> str | None:
        row = self.one(Q.fact, (FACT + name,))
        return row[0] if row is not None else None

    def blob(self, hash: bytes) -> BlobRow | None:
        row = self.one(Q.blob, (hash,))
        return BlobRow(hash, *row) if row else None

    # -- for who checks it

    def notes(self, start: str = "") -> Rows:
        """What the store says of itself."""
        return self.ask(Q.meta_range, (start, start + _LAST_CHARACTER))

    def every_record(self, run: int) -> Iterator[tuple[Any, ...]]:
        """Every record, live and superseded, as it lies there."""
        for sql in (Q.every_record, Q.every_past):
            at: tuple[Any, ...] = ("", "", 0)
            while rows := self.ask(sql, (run, *at, SOME)):
                for collection, _, *rest in rows:
                    yield (collection, *rest)
                at = (rows[-1][0], rows[-1][1], rows[-1][4] or 0)

    def tables(self) -> Tables:
        from leftoff.store.postgres.tables import PostgresTables

        return PostgresTables(self)


def _key(row: Any) -> str:
    return row[1]  # type: ignore[no-any-return]


def _sound(run: int, collection: str, rows: Rows) -> list[tuple[str, bytes, bytes]]:
    """Key, hash and bytes, the bytes checked."""
    some = [(key, hash, stored) for _, key, _, hash, stored in rows]
    if not sound(some):
        for key, hash, stored in some:  # says which
            checked(run, collection, key, 0, hash, stored)
    return some


def listing(where: dict[str, Any], limit: int | None) -> tuple[str, list[Any]]:
    """The query of a listing, and its values."""
    tests = [f"r.hidden = {ARCHIVED if where.get('archived') else 0}"]
    values: list[Any] = []
    for column in ("workflow", "branch", "title", "issue", "session"):
        if where.get(column) is not None:
            values.append(plain(where[column]))
            tests.append(f"r.{column} = ${len(values)}")
    if where.get("status") is not None:
        values.append(list(where["status"]))
        tests.append(f"r.status = ANY(${len(values)}::text[])")
    if where.get("before") is not None:
        values.append(where["before"])
        tests.append(f"r.n < ${len(values)}")
    if where.get("prefix") is not None:
        first = plain(where["prefix"]) or ""
        values += (first, first + _LAST_CHARACTER)
        tests.append(f"r.run_id >= ${len(values) - 1} AND r.run_id < ${len(values)}")
    if where.get("forked_from") is not None:
        values.append(parent_in_card(where["forked_from"]))
        tests.append(f"strpos(r.card, ${len(values)}) > 0")
    sql = f"{Q.run_columns} WHERE {' AND '.join(tests)}"
    if limit is not None and where.get("name") is None:
        values.append(limit)
        sql += f" ORDER BY r.era DESC, r.n DESC LIMIT ${len(values)}"
    return sql, values


def listed(found: Rows, where: dict[str, Any], limit: int | None) -> list[RunRow]:
    """The rows of a listing, latest commit first; names without regard to case, as Python has it."""
    rows = list(map(run_from, found))
    name = where.get("name")
    if name is not None:
        rows = [
            row for row in rows if name.casefold() in (row.workflow.casefold(), (row.title or "").casefold())
        ]
    rows.sort(key=_by_n, reverse=True)
    return rows[:limit]
