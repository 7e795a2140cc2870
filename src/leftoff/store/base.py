"""The store: runs are versioned maps of records, and every change of one is atomic and durable.

``Store`` opens transactions, keeps blobs and cleans up. ``View`` is what can be read inside a transaction and ``Tx``
what can also be written; both are written once here, in SQL that both databases understand. The two backends
(``leftoff.store.sqlite``, ``leftoff.store.postgres``) hold the connections and what really differs. The engine decides
what a commit means.

Obligations of a store, which ``tests/contract`` checks:

1. ``write(fn)`` runs ``fn`` in one transaction. When it returns, everything ``fn`` wrote survives power loss. When
   it raises, nothing of it is there, and the next call can succeed. Several calls may share a transaction, but one
   that fails never takes another with it.
2. ``fn`` sees the newest committed state of the runs that it writes to, and no other writer changes it before ``fn`` is
   durable. If what it has seen moves before it writes, it is called again from its beginning: so it may be called
   several times, and changes nothing but rows, or what is the same when it is done twice (a file that is moved away).
3. ``read(fn)`` gives ``fn`` one consistent snapshot; it never blocks a writer, nor a writer it. If the connection is
   lost, ``fn`` is called again with another one: what it found before must not be part of its result.
4. Bytes that are read are checked against their recorded hash: ``Corrupt``, never a wrong value.
5. Inside ``fn`` nothing waits: no I/O but the store's own, no locks, under 50 ms.
6. Writers are served fairly, across threads and processes.
7. A schema that is newer than this code, also one that became so while the store was open, is refused before anything
   is read or written.
"""

from __future__ import annotations

import os
from _operator import attrgetter
from _weakref import ref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from leftoff.clock import Clock
from leftoff.errors import Corrupt
from leftoff.files import is_writable
from leftoff.host import Process
from leftoff.model.changes import NO_COUNTS, Version
from leftoff.model.changes import VALUE_MAX as VALUE_MAX
from leftoff.model.codec import MASK, sha256, sound, sum_of, term, text
from leftoff.store.rows import (
    ACTIVE,
    ARCHIVED,
    FACT,
    FREE,
    PARTIAL,
    TRASH,
    TRASHED,
    Attempt,
    BlobRow,
    Holder,
    Lease,
    Record,
    RunRow,
    Trashed,
    attempt_from,
    identity,
    misplaced,
    missing_bytes,
    parent_in_card,
    run_from,
    version_from,
    wrong_bytes,
)

if TYPE_CHECKING:
    from leftoff.store.follower import Follower
    from leftoff.store.notifications import Watch

T = TypeVar("T")
Save = Callable[[Iterable[bytes]], BlobRow]
Row = tuple[Any, ...]
Step = tuple[str, str, int] | tuple[None, None, None]

INLINE = 1024  # stored bytes up to this size are in the record's own row
SOME = 5000  # rows that are read at once
ALL = 1 << 40
SMALL = 1000  # records of a run that are added up before anything is read from it: that takes a millisecond

_BELOW, _NOT_BELOW = "/", "0"  # every key under "a" is between "a/" and "a0"
_AFTER_ORDERS = ":"  # an ord is made of digits and slashes
_LAST_CHARACTER = "\U0010ffff"
BLOB_TAG = ord("B")  # the first byte of stored bytes that refer to a blob
NOT_A_STEP = (None, None, None)  # the columns that only a step has: status, ord and leaf
_SEEN = f"r.hidden IN ({ACTIVE}, {ARCHIVED})"
_by_n = attrgetter("n")


# -- the queries


def read_sql(name: str) -> str:
    """Return a file of the ``sql`` folder."""
    with open(os.path.join(os.path.dirname(__file__), "sql", name), encoding="utf-8") as file:
        return file.read()


class Queries:
    """The queries of ``sql/queries.sql`` for one database, as attributes: ``Q.head`` is the SQL of the query head."""

    def __init__(self, database: str) -> None:
        self._database = database
        blocks = read_sql("queries.sql").split("\n-- name: ")[1:]
        self._blocks = {block[: (end := block.index("\n"))]: block[end + 1 :] for block in blocks}

    def __getattr__(self, name: str) -> str:
        block = self._blocks.get(f"{name} [{self._database}]") or self._blocks.get(name)
        if block is None:
            raise AttributeError(f"there is no query {name!r}")
        sql = "\n".join(line for line in block.split("\n") if not line.startswith("--")).strip()
        if self._database == "sqlite":
            sql = in_sqlite(sql)
        setattr(self, name, sql)
        return sql


def in_sqlite(sql: str) -> str:
    """Return shared SQL in the words of SQLite."""
    return sql.replace("$", "?").replace("strpos(", "instr(")


def checked(run: int, collection: str, key: str, seq: int, hash: bytes, stored: bytes | None) -> Record:
    """Return a record whose bytes have the recorded hash."""
    if stored is None:
        raise missing_bytes(run, collection, key)
    if type(stored) is not bytes or sha256(stored).digest() != hash:
        raise wrong_bytes(run, collection, key)
    return Record(collection, key, seq, hash, stored)


class View:
    """What can be read inside a transaction. Runs are named by their number in this store (``RunRow.run``)."""

    #: the queries, in the words of the database
    q: Queries
    #: the order of a listing
    newest_first = "r.n DESC"
    #: what is after a key and before all longer ones
    next_character = "\x00"
    #: how many records of a run ``prove`` adds up
    small = SMALL

    def __init__(self, proved: set[int]) -> None:
        self._proved = proved  # runs whose records were added up by this process
        self.changed = False  # whether this transaction has changed any record

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query in the words of the database."""
        raise NotImplementedError

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first row of a query, or ``None``."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def shared(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query that is written for both databases."""
        return self.rows(self.in_words(sql), values)

    def in_words(self, sql: str) -> str:
        """Return SQL for both databases in the words of this one."""
        return sql

    # -- runs

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        """Return the run of that id, active or archived. ``hidden``: also one in the trash."""
        seen = "r.run > 0" if hidden else _SEEN
        rows = self.shared(f"{self.q.run_columns} WHERE r.run_id = $1 AND {seen}", (run_id,))
        return run_from(rows[0]) if rows else None

    def run_row(self, run: int) -> RunRow | None:
        """Return a run by its number."""
        rows = self.shared(f"{self.q.run_columns} WHERE r.run = $1", (run,))
        return run_from(rows[0]) if rows else None

    def prove(self, row: RunRow, most: int = 0) -> None:
        """Raise ``Corrupt`` if the live records of a run do not add up to its digest. Checks a run once in a process,
        and only if it has no more records than ``most``.

        A record that a damaged store does not find reads as if it were not there, and no hash of its own tells.
        """
        if row.run in self._proved or self.changed:
            return
        most = most or self.small
        rows = self.rows(self.q.terms, (row.run, most + 1))
        if len(rows) <= most:
            try:
                total = sum([term(*columns) for columns in rows]) & MASK
            except TypeError:  # not even what a record is made of
                total = -1
            if total < 0 or total.to_bytes(32, "big") != row.digest:
                raise misplaced(f"run {row.run_id}@{row.seq}")
            self._proved.add(row.run)

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        """Return runs, latest commit first. ``where``: status (a list), workflow, branch, title, issue, session,
        prefix; name (the workflow or the title, without regard to case); before (a commit's number: only older ones);
        forked_from (a run's id); archived (true: only archived runs, otherwise only active ones).

        ``ahead``: the first leaves and the lease of each will be asked for, so they may be fetched with them.
        """
        sql, values = self.listing(where, limit)
        return listed(self.shared(sql, values), where, limit)

    def listing(self, where: dict[str, Any], limit: int | None) -> tuple[str, list[Any]]:
        """Return the query of a listing, and its values."""
        tests = [f"r.hidden = {ARCHIVED if where.get('archived') else ACTIVE}"]
        values: list[Any] = []

        def test(condition: str, *given: Any) -> None:
            first = len(values) + 1
            values.extend(given)
            tests.append(condition.format(*(f"${first + i}" for i in range(len(given)))))

        for column in ("workflow", "branch", "title", "issue", "session"):
            if where.get(column) is not None:
                test(f"r.{column} = {{}}", where[column])
        if where.get("status") is not None:
            words = list(where["status"])
            test(f"r.status IN ({', '.join(['{}'] * len(words)) or 'NULL'})", *words)
        if where.get("before") is not None:
            test("r.n < {}", where["before"])
        if where.get("prefix") is not None:
            test(
                "r.run_id >= {} AND r.run_id < {} AND r.run > 0",
                where["prefix"],
                where["prefix"] + _LAST_CHARACTER,
            )
        if where.get("forked_from") is not None:
            test("strpos(r.card, {}) > 0", parent_in_card(where["forked_from"]))
        sql = f"{self.q.run_columns} WHERE {' AND '.join(tests)}"
        if limit is not None and where.get("name") is None:
            values.append(limit)
            sql += f" ORDER BY {self.newest_first} LIMIT ${len(values)}"
        return sql, values

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        """Return seq, digest, counts, epoch and run id: what a commit must know first."""
        return self.one(self.q.head, (run,))  # type: ignore[no-any-return]

    def trashed(self) -> list[Trashed]:
        """Return the runs in the trash, the one that came last first."""
        known: dict[str, str] = dict(self.notes(TRASH))
        out = []
        for columns in self.shared(f"{self.q.run_columns} WHERE r.hidden = $1", (TRASHED,)):
            row = run_from(columns)
            at, _, n = known.get(f"{TRASH}{row.run}", "").partition(" ")
            out.append(Trashed(row, int(at or row.updated_at), int(n or row.n)))
        return sorted(out, key=lambda each: (each.n, each.row.n), reverse=True)

    def archived(self) -> list[RunRow]:
        """Return the archived runs, latest commit first."""
        return self.list_runs({"archived": True}, ahead=True)

    def size(self, *runs: int, alone: bool = False) -> int:
        """Return about how many bytes some runs take together. What they share with others counts in full, or not at
        all if they are counted ``alone``: so much their removal gives back."""
        numbers = ", ".join(map(str, runs)) or "NULL"
        return int(self.one(self.q.size.replace("{runs}", numbers), (int(alone),))[0])

    def newest(self) -> int:
        """Return the number of the newest commit."""
        return int(self.one(self.q.newest_n)[0])

    # -- records

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        """Return hash, status, ord and leaf of a live record; its bytes are not read."""
        return self.one(self.q.row, (run, collection, key))  # type: ignore[no-any-return]

    def record(self, run: int, collection: str, key: str) -> Record | None:
        """Return one live record."""
        row = self.one(self.q.record, (run, collection, key))
        return checked(run, collection, key, *row) if row else None

    def records(self, run: int, collection: str, low: str = "", high: str | None = None) -> Iterator[Record]:
        """Yield the live records of a collection with ``low <= key < high``, in key order."""
        for some in self._batches(run, collection, low, high):
            for key, hash, stored, seq in some:
                yield checked(run, collection, key, seq, hash, stored)

    def _batches(
        self, run: int, collection: str, low: str = "", high: str | None = None
    ) -> Iterator[list[Row]]:
        """Yield key, hash, bytes and seq of live records, some at a time."""
        while True:
            rows = self._range(self.q.live, run, collection, low, high, f"ORDER BY key LIMIT {SOME}")
            if rows:
                yield rows
            if len(rows) < SOME:
                return
            low = rows[-1][0] + self.next_character

    def _range(
        self, sql: str, run: int, collection: str, low: str, high: str | None, rest: str = ""
    ) -> list[Row]:
        if high is None:
            return self.rows(f"{sql} {rest}", (run, collection, low))
        return self.shared(f"{sql} AND key < $4 {rest}", (run, collection, low, high))

    def bulk(self, run: int, collection: str) -> tuple[list[tuple[str, bytes, bytes]], int]:
        """Return all live records of a collection at once: key, hash and bytes in key order; and their part of the
        digest. The bytes are checked against their hashes, as ``records`` does it."""
        out: list[tuple[str, bytes, bytes]] = []
        for some in self._batches(run, collection):
            out += _sound(run, collection, some)
        return out, sum_of(collection, out)

    def part(self, run: int, collection: str) -> int:
        """Return what the live records of a collection add to the digest, checked; few are held at once."""
        return sum(
            sum_of(collection, _sound(run, collection, some)) for some in self._batches(run, collection)
        )

    def records_at(self, run: int, seq: int, collection: str) -> Iterator[Record]:
        """Yield the records of a collection that version ``seq`` saw, in no particular order."""
        for key, since, hash, stored in self.rows(self.q.records_at, (run, collection, seq)):
            yield checked(run, collection, key, since, hash, stored)

    def collections(self, run: int, *, past: bool = False) -> list[str]:
        """Return the collections that have records (with ``past``: or had)."""
        names = {row[0] for row in self.rows(self.q.collections, (run,))}
        if past:
            names.update(row[0] for row in self.rows(self.q.past_collections, (run,)))
        return sorted(names)

    def hashes(self, run: int, collection: str, low: str = "", high: str | None = None) -> dict[str, bytes]:
        """Return the hashes of the live records with ``low <= key < high``."""
        return dict(self._range(self.q.hashes, run, collection, low, high, "ORDER BY key"))

    def last_key(self, run: int, collection: str, low: str, high: str) -> str | None:
        """Return the last key of a collection between two keys."""
        row = self.one(self.q.last_key, (run, collection, low, high))
        return row[0] if row else None

    # -- steps

    def has_below(self, run: int, step: str) -> bool:
        """Return whether any step is below this one."""
        return self.one(self.q.has_below, (run, step + _BELOW, step + _NOT_BELOW)) is not None

    def open_steps(self, run: int) -> list[str]:
        """Return the steps that are running or have failed."""
        return [row[0] for row in self.rows(self.q.open_steps, (run,))]

    def leaf(self, run: int, status: str) -> str | None:
        """Return the first leaf step of that status in declared order."""
        return next(iter(self.leaves(run, status, 1)), None)

    def leaves(self, run: int, status: str, limit: int) -> list[str]:
        """Return the first leaf steps of that status in declared order."""
        return [row[0] for row in self.rows(self.q.leaves, (run, status, limit))]

    def leaf_page(
        self, run: int, status: str, after: tuple[str, str], words: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        """Return order and path of the first leaf steps of that status after a place (order and path), in declared
        order; only those whose path has one of two words in it (empty: all), without regard to the case of ASCII."""
        wanted = [word.encode().lower().decode() for word in words]
        return self.rows(self.q.leaf_page, (run, status, *after, *wanted, limit))

    def leaf_counts(self, run: int, step: str) -> dict[str, int]:
        """Return how many leaf steps below a step there are of each status."""
        return dict(self.rows(self.q.leaf_counts, (run, step + _BELOW, step + _NOT_BELOW)))

    def last_order(self, run: int, prefix: str) -> str | None:
        """Return the greatest ``ord`` of the leaf steps whose ``ord`` starts so."""
        return self.one(self.q.last_order, (run, prefix, prefix + _AFTER_ORDERS))[0]  # type: ignore[no-any-return]

    # -- versions

    def version(self, run: int, seq: int) -> Version | None:
        """Return a version, unless it was pruned."""
        rows = self.shared(f"{self.q.version_columns} WHERE v.run = $1 AND v.seq = $2", (run, seq))
        return version_from(rows[0]) if rows else None

    def versions(
        self, run: int, *, sealed: bool, before: int | None = None, limit: int | None = None
    ) -> list[Version]:
        """Return versions, newest first."""
        seal = "AND v.checkpoint IS NOT NULL" if sealed else ""
        values = (run, ALL if before is None else before, ALL if limit is None else limit)
        sql = f"{self.q.version_columns} WHERE v.run = $1 AND v.seq < $2 {seal} ORDER BY v.seq DESC LIMIT $3"
        return [version_from(columns) for columns in self.shared(sql, values)]

    def lives(self, run: int) -> list[tuple[int, int, int, int]]:
        """Return of each epoch, oldest first: its number, when its first and its last commit was made, and how many."""
        return self.rows(self.q.lives, (run,))

    def checkpoints(self, prefix: str, run: int | None = None, limit: int = 10) -> list[tuple[int, Version]]:
        """Return run number and version of the checkpoints whose id starts so; of one run, also if that is hidden."""
        where = f"v.checkpoint >= $1 AND v.checkpoint < $2 AND {_SEEN if run is None else 'v.run = $4'}"
        values = [prefix, prefix + "g", limit, *([run] if run is not None else [])]
        sql = f"{self.q.version_columns} WHERE {where} ORDER BY v.n DESC LIMIT $3"
        return [(columns[11], version_from(columns)) for columns in self.shared(sql, values)]

    def aliased(
        self, name: str, run: int | None = None, *, but: int | None = None
    ) -> tuple[int, Version] | None:
        """Return the newest checkpoint that carries this other name: of a run, or of any ``but`` one."""
        which = "" if run is None and but is None else "AND v.run = $2" if but is None else "AND v.run <> $2"
        sql = (
            f"{self.q.version_columns} JOIN alias x ON x.run = v.run AND x.seq = v.seq "
            f"WHERE x.name = $1 AND {_SEEN} {which} ORDER BY v.n DESC LIMIT 1"
        )
        other = run if but is None else but
        rows = self.shared(sql, (name,) if other is None else (name, other))
        return (rows[0][11], version_from(rows[0])) if rows else None

    def other_names(self, prefix: str, run: int | None = None, limit: int = 20) -> list[str]:
        """Return the other names of checkpoints that start so, each once, in order."""
        values = (prefix, prefix + _LAST_CHARACTER, run, limit)
        return [row[0] for row in self.rows(self.q.other_names, values)]

    def bounds(self, run: int) -> tuple[int, int] | None:
        """Return the oldest and the newest version that can be read."""
        row = self.one(self.q.bounds, (run,))
        return row if row and row[0] is not None else None

    def around(self, run: int, seq: int) -> tuple[int | None, int | None]:
        """Return the nearest versions before and after ``seq`` that can be read."""
        return self.one(self.q.around, (run, seq))  # type: ignore[no-any-return]

    def applied(self, run: int, since: int, token: bytes) -> Version | None:
        """Return the commit with this token after ``since``, pruned or not: a retry must not apply it again."""
        row = self.one(self.q.token_since, (run, since, token))
        if row:
            return self.version(run, row[0])
        kept = self.one(self.q.kept_token, (run, since, token))
        if kept is None:
            return None
        from leftoff.model.changes import Version

        seq, digest, at, run_id = kept
        return Version(run_id, seq, digest, at)

    # -- drivers, attempts, facts, blobs

    def lease(self, run: int) -> Lease | None:
        """Return who drives a run, or last did."""
        columns = self.one(self.q.lease, (run,))
        return Lease(columns[:9], columns[9]) if columns else None

    def leases(self) -> list[tuple[str, Lease]]:
        """Return every held lease, with its run's id."""
        return [(c[0], Lease(c[1:10], c[10])) for c in self.rows(self.q.leases)]

    def attempt(self, token: str) -> Attempt | None:
        """Return one try at a step."""
        rows = self.shared(f"{self.q.attempt_columns} WHERE a.token = $1", (token,))
        return attempt_from(rows[0]) if rows else None

    def attempts(self, run: int) -> list[Attempt]:
        """Return every try at the steps of a run."""
        sql = f"{self.q.attempt_columns} WHERE a.run = $1 ORDER BY a.step, a.number"
        return [attempt_from(columns) for columns in self.shared(sql, (run,))]

    def latest_attempts(self, run: int, since: int, until: int, limit: int) -> list[Attempt]:
        """Return the last attempts that began between two moments (the second one excluded), oldest first."""
        sql = (
            f"{self.q.attempt_columns} WHERE a.run = $1 AND a.started_at >= $2 AND a.started_at < $3 "
            "ORDER BY a.started_at DESC, a.step DESC, a.number DESC LIMIT $4"
        )
        return [attempt_from(columns) for columns in reversed(self.shared(sql, (run, since, until, limit)))]

    def kept_log(self, token: str) -> tuple[bytes | None, bytes | None]:
        """Return the last of what an attempt printed and, if that was more, the hash of the blob with all of it: only a
        store that several machines share keeps that itself."""
        return None, None

    def old_logs(self, before: int) -> list[tuple[str, str]]:
        """Return token and folder of some attempts of finished runs that ended before a moment and have a log."""
        return self.rows(self.q.old_logs, (before, SOME))

    def blob(self, hash: bytes) -> BlobRow | None:
        """Return the row of a blob, if a commit has referred to it."""
        row = self.one(self.q.blob, (hash,))
        return BlobRow(hash, *row) if row else None

    def fact(self, name: str) -> str | None:
        """Return what was noted of the store, or of a run in it, under this name: part of no run, and of no bundle."""
        row = self.one(self.q.fact, (FACT + name,))
        return row[0] if row is not None else None

    def notes(self, start: str = "") -> list[tuple[str, str]]:
        """Return what the store says of itself (its id, its schema, what was noted), by names that start so."""
        return self.rows(self.q.meta_range, (start, start + _LAST_CHARACTER))

    def every_record(self, run: int) -> Iterator[Row]:
        """Yield every record of a run, live and superseded, as it is stored: for fsck and repair."""
        at: tuple[Any, ...] = ("", "")
        while rows := self.rows(self.q.every_record, (run, *at, SOME)):
            yield from rows
            at = rows[-1][:2]
        at = ("", "", -1)
        while rows := self.rows(self.q.every_past, (run, *at, SOME)):
            yield from rows
            at = (*rows[-1][:2], rows[-1][3])

    def by_hash(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a table whose key is a hash, some at a time."""
        last = b""
        while rows := self.rows(sql, (last, 200)):
            yield from rows
            last = rows[-1][0]


class Tx(View):
    """What can also be written. Nothing is seen by others before the transaction is durable."""

    #: see ``Store.follower``
    follower: Follower | None = None

    def note(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Run a statement whose answer is not needed. It may be sent later, with the next question."""
        self.rows(sql, values)

    def hold(self, run: int) -> None:
        """Make sure that no other transaction changes this run before this one has ended."""

    def hold_all_runs(self) -> None:
        """Make sure that no other transaction adds or changes a run before this one has ended."""

    def catch_up(self) -> None:
        """Make sure that no new run or commit gets a number that was copied into this store."""
        raise NotImplementedError

    # -- runs

    def add_run(self, run_id: str, at: int, *, workflow: str, branch: str, status: str) -> int:
        """Add a run without versions; return its number, which no other run ever gets. The id must be free."""
        values = (run_id, bytes(32), NO_COUNTS, at, workflow, branch, status)
        return int(self.one(self.q.add_run, values)[0])

    def set_card(self, run: int, columns: dict[str, Any], card: dict[str, Any]) -> None:
        """Set the listing's copy of the run's own records."""
        shown = [columns.get(name) for name in ("workflow", "branch", "status", "title", "issue", "session")]
        self.note(self.q.set_card, (*shown, text(card), run))

    def hide(self, run: int, name: str) -> None:
        """Take a run that is about to be removed out of sight."""
        self.note(self.q.rename_run, (PARTIAL, name, run))

    def trash(self, run: int, at: int) -> None:
        """Move a run to the trash. It takes no commit and is not listed until ``activate``. Its id stays taken."""
        self.hold(run)
        self.note(self.q.put_meta, (f"{TRASH}{run}", f"{at} {self.newest()}"))
        self.note(self.q.set_hidden, (TRASHED, run))

    def archive(self, run: int) -> None:
        """Mark a run as archived: not listed, but found by its names. A commit or a driver makes it active again."""
        self.hold(run)
        self.note(self.q.set_hidden, (ARCHIVED, run))

    def activate(self, run: int) -> None:
        """Bring a run back from the trash or the archive."""
        self.hold(run)
        self.note(self.q.drop_meta, (f"{TRASH}{run}",))
        self.note(self.q.set_hidden, (ACTIVE, run))

    # -- records and versions

    def put(self, run: int, record: Record, step: Step = NOT_A_STEP) -> None:
        """Make this the live record; what was there stays readable at versions before ``record.seq``. ``step``: status,
        ord and leaf of a step. A blob that the record refers to must be known and present."""
        raise NotImplementedError

    def blob_in(self, stored: bytes) -> bytes:
        """Return the blob that stored bytes refer to, after a look that it is known and present."""
        blob = stored[1:33]
        if not self.need_blob(blob):
            message = f"The blob {blob.hex()} that a record refers to is not in the store."
            raise Corrupt(message, where=blob.hex())
        return blob

    def need_blob(self, hash: bytes) -> bool:
        """Return whether a blob is known and present; it stays so until this transaction has ended."""
        raise NotImplementedError

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        """End a live record; it stays readable at older versions."""
        raise NotImplementedError

    def set_leaf(self, run: int, step: str, leaf: bool) -> None:
        """Say whether a step is a leaf."""
        self.note(self.q.set_leaf, (int(leaf), run, step))

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        """Add the run's next version: the head moves to it. Its number in the store (``n``) is given here."""
        raise NotImplementedError

    def add_alias(self, run: int, seq: int, name: str) -> None:
        """Give a checkpoint another name."""
        self.note(self.q.add_alias, (name, run, seq))

    # -- drivers and attempts

    def put_lease(self, run: int, epoch: int, holder: Holder = FREE) -> None:
        """Take or free a lease. The epoch is kept when it is freed."""
        self.hold(run)
        facts = (holder.session, holder.who, holder.since)
        self.note(self.q.put_lease, (run, epoch, holder.kind, *identity(holder.process), *facts))
        if holder.kind is not None:
            self.note(self.q.activate, (run,))

    def beat(self, run: int, epoch: int, at: int) -> bool:
        """Return whether the lease is still held under this epoch; if so, it is alive at ``at``."""
        return self.one(self.q.beat, (at, run, epoch)) is not None

    def add_attempt(
        self,
        token: str,
        run: int,
        step: str,
        at: int,
        *,
        process: Process | None = None,
        log: str | None = None,
    ) -> int:
        """Add the next try at a step, which is the current one from now on; return its number."""
        self.hold(run)
        return int(self.one(self.q.add_attempt, (token, run, step, *identity(process), log, at))[0])

    def set_attempt_process(self, token: str, process: Process) -> None:
        """Set which process a try turned out to be."""
        self.note(self.q.set_attempt_process, (*identity(process), token))

    def drop_attempt(self, token: str) -> None:
        """Forget a try that never began, as if it had not been made; its number is free again."""
        self.note(self.q.drop_attempt, (token,))

    def end_attempt(self, token: str, at: int, exit_code: int | None) -> None:
        """End a try. A store that several machines share takes its log in, if that is on this one."""
        self.note(self.q.end_attempt, (at, exit_code, token))

    def keep_log(self, token: str, last: bytes | None, whole: BlobRow | None) -> None:
        """Keep what an attempt printed, for ``kept_log``. A store whose logs are files has them already."""

    def drop_logs(self, tokens: Iterable[str]) -> None:
        """Note that the logs of these attempts were removed."""
        for token in tokens:
            self.note(self.q.drop_log, (token,))

    # -- facts and blobs

    def put_fact(self, name: str, value: str | None) -> None:
        """Note something; ``None``: forget it."""
        if value is None:
            self.note(self.q.drop_meta, (FACT + name,))
        else:
            self.note(self.q.put_meta, (FACT + name, value))

    def put_blob(self, row: BlobRow) -> None:
        """Add a blob whose file is durable (or is in this store's trash, from where it comes back)."""
        raise NotImplementedError


def listed(found: list[Row], where: dict[str, Any], limit: int | None) -> list[RunRow]:
    """Return the rows of a listing, latest commit first; names are compared without regard to case."""
    rows = list(map(run_from, found))
    name = where.get("name")
    if name is not None:
        name = name.casefold()
        rows = [row for row in rows if name in (row.workflow.casefold(), (row.title or "").casefold())]
    rows.sort(key=_by_n, reverse=True)
    return rows[:limit]


def _sound(run: int, collection: str, rows: list[Row]) -> list[tuple[str, bytes, bytes]]:
    """Return key, hash and bytes of rows whose bytes have their hashes."""
    some = [row[:3] for row in rows]
    if not sound(some):
        for key, hash, stored in some:  # says which
            checked(run, collection, key, 0, hash, stored)
    return some


class SqlStore:
    """Transactions, blobs and upkeep."""

    def __init__(self) -> None:
        key = id(self)
        _stores[key] = ref(self, lambda _: _stores.pop(key, None))

    #: called with the id of a store that is created in a folder, before anyone can see it
    created: Callable[[str], None] | None = None

    #: where it is, for people; never with a password in it
    name: str
    #: what opens it again, for processes that we start: no password is in it
    location: str
    #: the folder of this machine for it (attempts and their logs, journals, locks): private, and made by the first
    #: write. An embedded store is in there itself
    folder: str
    #: the time, as this process sees it
    clock: Clock
    #: whether it is on a server that several machines may use: nothing of a run may be kept in ``folder`` alone, and
    #: asking twice costs more than asking at once for more than is needed
    shared = False
    #: whether anything was written through this object
    wrote = False
    #: seconds that a write may wait for other processes, before it is ``StoreUnavailable``
    patience = 30.0
    #: who keeps a protocol's files in step with it; ``None``: nobody
    follower: Follower | None = None
    #: what to do if no run is there, if the project knows better than the errors
    advice = ""

    def exists(self) -> bool:
        """Return whether there is anything to read. Reading never creates a store; the first write does."""
        raise NotImplementedError

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        """See obligations 1, 2 and 5.

        ``durable=False``: seen by everyone when it returns, and safe from the death of any process; power loss may
        take it until the next durable write has returned. For marks that say only that something began.
        """
        raise NotImplementedError

    def commit(self, fn: Callable[[Tx], T], stood: Stood | None, *, durable: bool = True) -> T:
        """Like ``write``, for a commit of a driver that knows where its run stands. ``fn`` may be called twice: first
        with a transaction that takes the run to be as the driver knows it, and then with one that looks."""
        return self.write(fn, durable=durable)

    def read(self, fn: Callable[[View], T]) -> T:
        """See obligation 3."""
        raise NotImplementedError

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        """Write a blob durably, once. Refer to it with ``Tx.put_blob`` in the commit that uses it."""
        return self.save_together(lambda save: save(chunks))

    def save_together(self, work: Callable[[Save], T]) -> T:
        """Call ``work`` with a way to save blobs. They are durable, together, when this returns."""
        raise NotImplementedError

    def load_blob(self, hash: bytes, known: BlobRow | None = None) -> Iterator[bytes]:
        """Yield the content of a blob in pieces; ``Corrupt`` before the last one if it is not what was saved.

        ``known``: its row, as the caller's snapshot has it. What was pruned since can still be had for a while;
        afterwards it is ``StoreUnavailable``, for a newer snapshot will not ask for it.
        """
        raise NotImplementedError

    def prune(self, run: int, drop: Iterable[int]) -> int:
        """Forget every unsealed version below the head, oldest first, then these checkpoints, then all that no kept
        version sees: so one that is missing after an unsealed one was not pruned.

        Works in batches, each under 50 ms; returns the bytes given back. Cut short, it leaves nothing wrong.
        """
        from leftoff.store.upkeep import prune

        return prune(self, run, drop) + self.vacuum()

    def remove(self, run: int, allowed: Callable[[View], None] | None = None) -> int:
        """Forget a whole run; return the bytes given back. ``allowed`` is called first, in the very transaction that
        takes the run out of sight: if it raises, nothing is changed."""
        from leftoff.store.upkeep import remove

        return remove(self, run, allowed) + self.vacuum()

    def vacuum(self) -> int:
        """Give free pages back to the file system, if this process can; return their bytes."""
        return 0

    def sweep(self, *, thorough: bool = True, at_once: bool = False) -> int:
        """Drop what a crash left behind: values, blobs, temporary files, hidden runs, removed blobs past their grace.

        ``thorough=False``: without looking at every value and blob. ``at_once``: the caller, who has only one thread,
        reads nothing that was removed; so if no other process has the store open, no grace is needed.
        """
        raise NotImplementedError

    def watch(self) -> Watch:
        """Return a watch that hears of what is committed from now on, by any process."""
        raise NotImplementedError

    def backup(self, folder: str) -> None:
        """Write a consistent copy into an empty folder while others write."""
        raise NotImplementedError

    def writable(self) -> bool:
        """Return whether we may change one that is there, as far as that is known without doing so."""
        return is_writable(self.folder)

    def about(self) -> dict[str, Any]:
        """Return what it is: ``kind``, and if it is there ``schema`` (its number), ``store_id``, ``created_at``,
        ``created_by``, ``written_by``, ``runs`` and ``bytes``; and what only its kind has."""
        raise NotImplementedError

    def migrate(self) -> None:
        """Make the store, or bring its schema up to date; not while a process drives a run with older code."""
        self.write(lambda tx: None)

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        """Check bytes and rows: return ``checked`` (counts), ``problems`` and ``quarantined``. With ``repair`` also
        ``repaired``, and ``salvaged``: by run what could not be proved. Such a run asks before it resumes."""
        raise NotImplementedError

    def close(self, *, soon: bool = False) -> None:
        """Release everything; the store may be used again afterwards. ``soon``: another process will use it at once,
        so what only tidies up may wait."""
        raise NotImplementedError

    # -- forks of this process

    def before_fork(self) -> None:
        """Prepare for a fork."""

    def after_fork(self) -> None:
        """Continue in the parent."""

    def after_fork_in_child(self) -> None:
        """Let go of what is the parent's."""


_stores: dict[int, ref[SqlStore]] = {}


def _each(call: str) -> None:
    for entry in list(_stores.values()):
        store = entry()
        if store is not None:
            getattr(store, call)()


os.register_at_fork(
    before=lambda: _each("before_fork"),
    after_in_parent=lambda: _each("after_fork"),
    after_in_child=lambda: _each("after_fork_in_child"),
)


class Stood(NamedTuple):
    """Where a driver knows its run to stand, and by which epoch and token it commits."""

    run: int
    run_id: str
    seq: int
    digest: bytes
    counts: str
    epoch: int | None
    token: bytes
