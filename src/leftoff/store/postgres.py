"""The store on a server: transactions that survive what a network does to them.

A transaction locks the row of a run before it writes to it, so writers of one run queue up, and those of different runs
never wait for each other. It is tried again if that is safe: what was looked at moved, a deadlock, a connection that
was lost before the end was asked for. If the answer to COMMIT is lost, what became of it is found out first: it is
never made twice, and never reported as lost when it is there.

A driver that knows where its run stands commits by one call of the server's function ``commit_run_1``, which checks all
that the driver takes to be so.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.errors import InsufficientPrivilege, LockNotAvailable

from leftoff.clock import Clock
from leftoff.errors import Corrupt, LeftoffError, NotFound, StoreUnavailable, Unsupported
from leftoff.host import debug
from leftoff.model.changes import Version
from leftoff.model.words import FINISHED
from leftoff.store.base import BLOB_TAG, INLINE, NOT_A_STEP, SqlStore, Tx, View, listed, read_sql
from leftoff.store.rows import ATTEMPTS, BlobRow, Holder, Lease, Record, RunRow, about, end_of, first_facts
from leftoff.store.server_blobs import PostgresBlobs
from leftoff.store.server_connection import (
    AGAIN,
    RESTARTS,
    Pool,
    Q,
    code_of,
    in_ms,
    is_lost,
    translate_server_error,
    unheard,
)
from leftoff.store.server_location import (
    ServerPlace,
    server_folder,
    settle_folder,
    without_secrets,
)

if TYPE_CHECKING:
    from leftoff.store.base import Row, Save, Step, Stood
    from leftoff.store.notifications import Watch
    from leftoff.store.server_connection import Link, Rows, Statement

    T = TypeVar("T")

#: the first script makes schema 1, and each later one a schema from the one before it
SCRIPTS: list[str] = ["schema_postgres.sql"]
SCHEMA = len(SCRIPTS)
PATIENCE_S = 30.0  # that another process which makes the store is waited for at least
TRIES = 100  # of a transaction that others are always faster than
AT_ONCE = 3  # of those, also with no patience: the first one may only have learnt what is so
FIRST_WAIT_S, LONGEST_WAIT_S = 0.002, 0.5
DUE_AT_ONCE = 64  # blobs whose pieces are dropped in one transaction
WATCH_S = 0.25  # seconds between two looks of a watch
_MISSING = ("42P01", "3F000")
_FIRST = frozenset(("pending", "running", "waiting", "failed"))  # statuses whose first leaves a listing shows
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
_FACTS = "(SELECT value FROM meta WHERE name = 'schema'), (SELECT value FROM meta WHERE name = 'store_id')"


class Again(BaseException):
    """What was looked at is not so any more: begin again. Not an ``Exception``: no caller may catch it."""


class NeedsLook(BaseException):
    """A commit needs more than what its driver knows."""


class PostgresView(View):
    """Queries on one connection, in the transaction that begins with the first of them."""

    q = Q
    newest_first = "r.era DESC, r.n DESC"
    next_character = "\x01"  # the server knows no NUL
    begin, own_number = _BEGIN_READ, "NULL"

    def __init__(self, store: PostgresStore, link: Link) -> None:
        super().__init__(store._proved)
        self.store = store
        self.link: Link | None = link
        self.began = False
        self.xid: str | None = None
        self._pending: list[Statement] = []  # statements whose answers nobody needs
        # Of runs that were listed: their first leaves by status, where those are, and their leases.
        self._listed: set[int] = set()
        self._leaves: dict[tuple[int, str], str] = {}
        self._orders: dict[tuple[int, str], str] = {}
        self._leases: dict[int, Lease | None] = {}

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self.several([(sql, values)])[0]

    def several(self, statements: Sequence[Statement]) -> list[Rows]:
        """Return the rows of each statement. What is pending goes before them; all is waited for once."""
        if self.link is None:
            raise RuntimeError("the transaction is over")
        before, self._pending = self._pending, []
        if not self.began:
            self.began = True
            facts = f"SELECT {self.own_number}, {_FACTS}, pg_backend_pid()"
            before = [(self.begin, ()), self.link.settings(self.store.patience), (facts, ()), *before]
            found = self.link.ask([*before, *statements])
            self.xid, schema, store_id, pid = found[2][0]
            self.link.met(pid)
            self.store.know(schema, store_id, writes=self.begin is _BEGIN_WRITE)
        else:
            found = self.link.ask([*before, *statements])
        return found[len(before) :]

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        if not ahead:
            return super().list_runs(where, limit)
        sql, values = self.listing(where, limit)
        more = [(each.replace("{listing}", sql), values) for each in (Q.first_leaves, Q.their_leases)]
        found, leaves, leases = self.several([(sql, values), *more])
        rows = listed(found, where, limit)
        self._listed.update(row.run for row in rows)
        self._leases.update((row.run, None) for row in rows if row.status not in FINISHED)
        for run, status, key, order in leaves:
            self._leaves[run, status] = key
            self._orders[run, key] = order
        for columns in leases:
            self._leases[columns[0]] = Lease(columns[1:10], columns[10])
        return rows

    def leaf(self, run: int, status: str) -> str | None:
        if run in self._listed and status in _FIRST:
            return self._leaves.get((run, status))
        return super().leaf(run, status)

    def row(
        self, run: int, collection: str, key: str
    ) -> tuple[bytes, str | None, str | None, int | None] | None:
        if collection == "step" and (run, key) in self._orders:  # of a listing: only its place is asked for
            return b"", None, self._orders[run, key], 1
        return super().row(run, collection, key)

    def lease(self, run: int) -> Lease | None:
        return self._leases[run] if run in self._leases else super().lease(run)

    def kept_log(self, token: str) -> tuple[bytes | None, bytes | None]:
        return self.one(Q.kept_log, (token,)) or (None, None)


class _Batch:
    """Records of one version of a run that are put, or ended, together."""

    def __init__(self, run: int, seq: int) -> None:
        self.place = (run, seq)
        self.put: list[tuple[Any, ...]] = []
        self.dropped: list[tuple[str, str]] = []
        self.values: dict[bytes, bytes] = {}
        self.touched: set[tuple[str, str]] = set()

    def add(self, record: Record, blob: bytes | None, step: Step) -> None:
        collection, key, _, hash, stored = record
        data: bytes | None = stored
        if len(stored) > INLINE:
            self.values[hash], data = stored, None
        self.touched.add((collection, key))
        self.put.append((collection, key, hash, data, blob, *step))

    def drop(self, collection: str, key: str) -> None:
        self.touched.add((collection, key))
        self.dropped.append((collection, key))

    def arrays(self) -> dict[str, list[Any]]:
        """Return the parameters of ``put_rows_1`` after run and version."""
        return {
            **_columns(_PUT, self.put),
            **_columns(("dropped_c", "dropped_k"), self.dropped),
            "value_hash": list(self.values),
            "value": list(self.values.values()),
        }


_PUT = ("c", "k", "hash", "data", "blob", "status", "ord", "leaf")
_NOTHING: tuple[Any, ...] = (None, [])


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Return rows as arrays by name, but those that are NULL in each row."""
    columns = zip(names, zip(*rows, strict=True), strict=bool(rows))
    return {name: list(values) for name, values in columns if values.count(None) < len(rows)}


def _call_of(function: str, given: dict[str, Any]) -> Statement:
    """Return the call of a function of the schema. What has nothing to say is left out: that is quicker to send."""
    said = {name: value for name, value in given.items() if value not in _NOTHING}
    names = ", ".join([f"p_{name} => ${i}" for i, name in enumerate(said, 1)])
    return f"SELECT {function}({names})", list(said.values())


class PostgresTx(PostgresView, Tx):
    """A write transaction on this connection."""

    begin, own_number = _BEGIN_WRITE, "pg_current_xact_id()::text"

    def __init__(self, store: PostgresStore, link: Link) -> None:
        super().__init__(store, link)
        self.made: list[tuple[int, int, bytes]] = []  # run, seq and token of what is committed
        self._batch: _Batch | None = None
        self._heads: dict[int, list[Any]] = {}  # of runs that are held: id and seq
        # Of runs before they were held: seq, hidden and status; and the epochs of their leases.
        self._seen: dict[int, tuple[int, int, str]] = {}
        self._epochs: dict[int, int] = {}
        self._listings: list[tuple[dict[str, Any], int | None, list[tuple[int, str]]]] = []

    def note(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._end_batch()
        self._pending.append((sql, values))

    def several(self, statements: Sequence[Statement]) -> list[Rows]:
        self._end_batch()
        return super().several(statements)

    def end(self, *, durable: bool) -> None:
        """Make the transaction durable."""
        self._end_batch()
        # A server that crashes forgets what it did not wait for while we live on, and know of it: no version.
        if not durable and not self.made:
            self._pending.append((Q.relax, ()))
        self.several([("COMMIT", ())])

    # -- runs

    def hold(self, run: int) -> None:
        if run not in self._heads:
            self._hold(run)

    def _hold(self, run: int) -> Any:
        held, head = self.several([(Q.hold, (run,)), (Q.head, (run,))])
        seen = self._seen.get(run)
        if seen is not None and (not held or held[0] != seen):
            raise Again
        if head and self._epochs.get(run, head[0][3]) != head[0][3]:
            raise Again
        if held:
            self._heads[run] = [head[0][4] if head else "", held[0][0]]
        return head[0] if head else None

    def prove(self, row: RunRow, most: int = 0) -> None:
        try:
            super().prove(row, most)
        except Corrupt:
            self.hold(
                row.run
            )  # if another commit came between the run's row and its records, all begins again
            super().prove(row, most)

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        return super().head(run) if run in self._heads else self._hold(run)

    def find_run(self, run_id: str, *, hidden: bool = False) -> RunRow | None:
        return self._saw(super().find_run(run_id, hidden=hidden))

    def run_row(self, run: int) -> RunRow | None:
        return self._saw(super().run_row(run))

    def list_runs(
        self, where: dict[str, Any], limit: int | None = None, *, ahead: bool = False
    ) -> list[RunRow]:
        rows = super().list_runs(where, limit)
        self._listings.append((where, limit, _compared(rows)))
        for row in rows:
            self._saw(row)
        return rows

    def _saw(self, row: RunRow | None) -> RunRow | None:
        """Remember a run that is not held yet: if it moves before it is, all begins again."""
        if row is not None and row.run not in self._heads:
            self._seen[row.run] = (row.seq, row.hidden, row.status)
        return row

    def lease(self, run: int) -> Lease | None:
        found = super().lease(run)
        if run not in self._heads:
            self._epochs[run] = found.epoch if found is not None else 0
        return found

    def add_run(self, run_id: str, at: int, *, workflow: str, branch: str, status: str) -> int:
        """Another process that starts a run of the same workflow and branch waits; if one was started since this
        transaction listed runs, all begins again."""
        listings = [self.listing(where, limit) for where, limit, _ in self._listings]
        _, *found = self.several([(Q.start_turn, (workflow, branch)), *listings])
        for (where, limit, before), rows in zip(self._listings, found, strict=True):
            if before != _compared(listed(rows, where, limit)):
                raise Again
        run = super().add_run(run_id, at, workflow=workflow, branch=branch, status=status)
        self._heads[run] = [run_id, 0]
        return run

    def hold_all_runs(self) -> None:
        self.rows("LOCK TABLE run IN SHARE ROW EXCLUSIVE MODE")

    def catch_up(self) -> None:
        self.note(Q.catch_up)
        last = "(SELECT max(run) FROM run)"
        self.note(f"SELECT setval(pg_get_serial_sequence('run', 'run'), {last}) WHERE {last} IS NOT NULL")

    # -- records and versions

    def put(self, run: int, record: Record, step: Step = NOT_A_STEP) -> None:
        self.changed = True
        blob = self.blob_in(record.stored) if record.stored[0] == BLOB_TAG else None
        self._batch_of(run, record.seq, record.collection, record.key).add(record, blob, step)

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        self.changed = True
        self._batch_of(run, seq, collection, key).drop(collection, key)

    def _batch_of(self, run: int, seq: int, collection: str, key: str) -> _Batch:
        """Return the batch for a record: the last one, if it is of the same version and has not touched this key."""
        self.hold(run)
        batch = self._batch
        if batch is None or batch.place != (run, seq) or (collection, key) in batch.touched:
            self._end_batch()
            batch = self._batch = _Batch(run, seq)
        return batch

    def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            run, seq = batch.place
            self._pending.append(_call_of("put_rows_1", {"run": run, "seq": seq, **batch.arrays()}))

    def need_blob(self, hash: bytes) -> bool:
        """Look inside the transaction, and hold it: a prune may have been faster."""
        return bool(self.rows(Q.need_blob, (hash,)))

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        self.hold(run)
        self.changed = True
        facts = (version.digest, version.epoch, version.at, version.counts)
        seal = (version.checkpoint, version.trigger, version.step, version.note)
        self.note(Q.add_version, (run, version.seq, token, *facts, *seal))
        self.made.append((run, version.seq, token))
        self._heads[run] = [version.run_id, version.seq]

    def applied(self, run: int, since: int, token: bytes) -> Version | None:
        """Wait for a commit of the run that is still under way: it may be the one with this token."""
        self.hold(run)
        return super().applied(run, since, token)

    # -- drivers, attempts, blobs

    def put_lease(self, run: int, epoch: int, holder: Holder | None = None) -> None:
        super().put_lease(run, epoch, *([holder] if holder is not None else []))
        self._epochs.pop(run, None)

    def end_attempt(self, token: str, at: int, exit_code: int | None) -> None:
        """Take the log's end in, if it is on this machine: one that ended is in the system's cache."""
        super().end_attempt(token, at, exit_code)
        for (run_id,) in self.rows(Q.run_of_attempt, (token,)):
            try:
                last = end_of(os.path.join(self.store.folder, ATTEMPTS, run_id, token, "log"))
            except OSError:
                continue
            self.note(Q.keep_log, (token, last, None))

    def keep_log(self, token: str, last: bytes | None, whole: BlobRow | None) -> None:
        if whole is not None:
            self.put_blob(whole)
        self.note(Q.keep_log, (token, last, whole.hash if whole is not None else None))

    def put_blob(self, row: BlobRow) -> None:
        self.note(Q.know_blob, (row.hash,))


def _compared(rows: list[RunRow]) -> list[tuple[int, str]]:
    """Return what a listing is compared by when it is made again."""
    return [(row.run, row.status) for row in rows]


class _Draft(Tx):
    """A commit that is worked out from what its driver knows, and sent in one statement."""

    q = Q

    def __init__(self, stood: Stood) -> None:
        super().__init__(set())
        self._stood = stood
        self._batch = _Batch(stood.run, stood.seq + 1)
        self._absent: list[tuple[str, str]] = []
        self._childless: list[str] = []
        self._leaves: list[tuple[str, int]] = []
        self._names: list[str] = []
        self._blobs: list[bytes] = []
        self.made: Version | None = None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        raise NeedsLook

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        stood = self._stood
        return stood.seq, stood.digest, stood.counts, stood.epoch or 0, stood.run_id

    def row(self, run: int, collection: str, key: str) -> None:
        self._absent.append((collection, key))

    def has_below(self, run: int, step: str) -> bool:
        self._childless.append(step)
        return False

    def put(self, run: int, record: Record, step: Step = NOT_A_STEP) -> None:
        if record[:2] in self._batch.touched:
            raise NeedsLook
        blob = self.blob_in(record.stored) if record.stored[0] == BLOB_TAG else None
        self._batch.add(record, blob, step)

    def need_blob(self, hash: bytes) -> bool:
        return True  # the server looks

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        if (collection, key) in self._batch.touched:
            raise NeedsLook
        self._batch.drop(collection, key)

    def set_leaf(self, run: int, step: str, leaf: bool) -> None:
        self._leaves.append((step, int(leaf)))

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        self.made = version

    def add_alias(self, run: int, seq: int, name: str) -> None:
        self._names.append(name)

    def put_blob(self, row: BlobRow) -> None:
        self._blobs.append(row.hash)

    @property
    def place(self) -> tuple[int, int, bytes]:
        """The run, the version that it is to follow, and its token."""
        return self._stood.run, self._stood.seq, self._stood.token

    def call(self, schema: str, patience: float) -> Statement:
        """Return the call of ``commit_run_1``."""
        stood, version = self._stood, self.made
        assert version is not None
        given = {
            **{"run": stood.run, "since": stood.seq, "stood": stood.digest, "guard": stood.epoch},
            **{"patience": in_ms(patience), "token": stood.token, "digest": version.digest, "at": version.at},
            **{"counts": version.counts, "checkpoint": version.checkpoint, "trigger": version.trigger},
            **{"step": version.step, "note": version.note, "aliases": self._names, "blobs": self._blobs},
            **_columns(("absent_c", "absent_k"), self._absent),
            "childless": self._childless,
            **_columns(("leaf_k", "leaf_is"), self._leaves),
            **self._batch.arrays(),
        }
        return _call_of(f"{schema}.commit_run_1", given)


class PostgresStore(SqlStore):
    """A project on a server. ``folders``: where this machine keeps facts about stores, in a folder for each."""

    shared = True
    refuses_damage = True

    def __init__(self, url: str, folders: str, clock: Clock | None = None) -> None:
        from leftoff.clock import SYSTEM

        super().__init__()
        self.place = ServerPlace(url)
        self._folders = folders
        self._folder = ""
        self._id = ""  # the store's, once it is known
        self.name = self.where = self.place.name
        self._url = url
        self.clock = clock or SYSTEM
        self.pool = Pool(self.place)
        self.blobs = PostgresBlobs(self)
        self._there = False  # whether there is a store that this process has written to
        self._readable = False
        self._reached = False  # whether the server ever answered
        self._proved: set[int] = set()

    @property
    def location(self) -> str:  # type: ignore[override]
        """What opens it again. A password is in a file of the folder then, for other processes of the same user."""
        return without_secrets(self._url, self._folders) if self.place.secrets else self._url

    @property
    def folder(self) -> str:  # type: ignore[override]
        """The folder of this machine, by the store's id: each URL of the store leads to the same one.

        If the server is away, or has no store yet, it is the one that the URL led to before.
        """
        if not self._folder:
            self._folder = server_folder(self._url, self._folders)
            try:
                if self.exists():
                    self.read(lambda view: view.newest())
            except LeftoffError as error:
                debug("does not know the id of %s: %s", self.name, error)
        return self._folder

    def know(self, schema: str | None, store_id: str | None, *, writes: bool) -> None:
        """Take in what a transaction has read of the store; refuse a newer schema, for a write also an older one."""
        if schema != str(SCHEMA):
            self._refuse_schema(self._facts(), writes=writes)
        self._readable = True
        if store_id and store_id != self._id:
            self._id, self._folder = store_id, os.path.join(self._folders, store_id)

    def _facts(self) -> dict[str, str]:
        return dict(self.asked(Q.meta)) if self._is_there() else {}

    def _refuse_schema(self, facts: dict[str, str], *, writes: bool) -> None:
        schema = int(facts.get("schema", 0))
        if schema > SCHEMA:
            raise Unsupported(
                f"{self.name} has schema {schema}, made by leftoff {facts.get('written_by', 'of a later version')}; "
                f"this leftoff knows schema {SCHEMA}."
            )
        if schema < SCHEMA and writes:
            raise Unsupported(
                f"{self.name} has schema {schema}; this leftoff needs {SCHEMA}.",
                hint="`leftoff store migrate` brings it up to date, for all who use it.",
            )

    # -- connections

    def exists(self) -> bool:
        if not (self._there or self._readable):
            self._readable = self._is_there()
        return self._there or self._readable

    def _is_there(self) -> bool:
        """Return whether there is a store; raise if the role may not know."""
        there, is_closed = self.asked(Q.there, (self.place.schema,))[0]
        if is_closed:
            raise self._typed(
                InsufficientPrivilege(f"permission denied for schema {self.place.schema}"), "42501"
            )
        return bool(there)

    def on_link(self, work: Callable[[Link], T]) -> T:
        """Work with a connection, outside of any transaction; again, if it was lost."""
        return self._persist(lambda: self._with_link(work))

    def asked(self, sql: str, values: Sequence[Any] = ()) -> Rows:
        """Return the rows of one query, in a transaction of its own."""

        def ask(link: Link) -> Rows:
            return link.ask([("BEGIN", ()), link.settings(self.patience), (sql, values), ("COMMIT", ())])[2]

        return self.on_link(ask)

    def _with_link(self, work: Callable[[Link], T]) -> T:
        link = self._take()
        try:
            done = work(link)
        except BaseException:
            self.pool.drop(link)
            raise
        self.pool.give(link)
        return done

    def _take(self) -> Link:
        """Return a connection. A server that was there a moment ago is waited for; one that never answered is not."""
        try:
            link = self.pool.take(self.patience)
        except psycopg.Error as error:
            if not self._reached and code_of(error) not in RESTARTS:
                raise self._typed(error) from None  # the chain might show the password
            raise
        self._reached = True
        return link

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Try until it succeeds, fails for good, or patience is over."""
        end, wait = time.monotonic() + self.patience, FIRST_WAIT_S
        for tried in range(TRIES):
            try:
                return attempt()
            except Again:
                error: BaseException = StoreUnavailable(
                    f"{self.name} is too busy: others always were faster.",
                    hint="Nothing was changed. Try again.",
                )
            except psycopg.Error as found:
                if code_of(found) not in AGAIN and not is_lost(found):
                    raise self._typed(found) from None
                error = found
            waits = tried >= AT_ONCE or (isinstance(error, psycopg.Error) and is_lost(error))
            if waits and time.monotonic() >= end:
                break
            debug("tries again (%d): %s", tried + 1, error)
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(wait * 2, LONGEST_WAIT_S)
        raise self._typed(error) from None

    def _typed(self, error: BaseException, code: str = "") -> LeftoffError:
        return translate_server_error(error, self.place)

    def damage(self, error: Exception) -> LeftoffError:
        """Return what an error of a check says of the store. Raise it if it says nothing."""
        return translate_server_error(error, self.place)

    # -- transactions

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        done = self._persist(lambda: self._transact(fn, durable))
        self.wrote = True
        return done

    def _transact(self, fn: Callable[[PostgresTx], T], durable: bool) -> T:
        link = self._take()
        tx = PostgresTx(self, link)
        ending = False
        try:
            result = fn(tx)
            if not tx.began:
                tx.several([])
            ending = True
            tx.end(durable=durable)
        except BaseException as error:
            self._give_up(link, tx, error)
            if not isinstance(error, psycopg.Error):
                raise
            if code_of(error) in _MISSING and not self._there:
                self._create()
                raise Again from None
            if ending and is_lost(error) and self._happened(tx):
                return result
            raise
        tx.link = None
        self.pool.give(link)
        if not self._there:
            self._settle()
        return result

    def commit(self, fn: Callable[[Tx], T], stood: Stood | None, *, durable: bool = True) -> T:
        if stood is not None and self._there:
            draft = _Draft(stood)
            try:
                result = fn(draft)
            except (NeedsLook, LeftoffError):
                pass  # the view of the driver may be out of date: let a transaction that reads decide
            else:
                if draft.made is not None and self._call(draft):
                    self.wrote = True
                    return result
        return self.write(fn, durable=durable)

    def _call(self, draft: _Draft) -> bool:
        """Send a commit; return whether it was made. It may be sent again if its answer is lost: its token tells."""
        call = draft.call(self.place.quoted, self.patience)
        lost = False  # whether it was sent, and its answer was lost

        def work(link: Link) -> Rows:
            nonlocal lost
            try:
                return link.ask([call])[0]
            except psycopg.Error as error:
                lost = lost or is_lost(error)
                raise

        try:
            made = self.on_link(work)[0][0]
            if not made and lost:  # the first one may have been made, and pruned since
                run, seq, token = draft.place
                return self.write(lambda tx: tx.applied(run, seq, token)) is not None
        except StoreUnavailable as error:
            if lost:
                raise unheard(self.place, error) from None
            raise
        return bool(made)

    def _give_up(self, link: Link, tx: PostgresView, error: BaseException) -> None:
        """End a transaction of which nothing is to be there."""
        tx.link = None
        try:
            if tx.began and link.usable:
                link.ask([("ROLLBACK", ())])
        except psycopg.Error:
            self.pool.drop(link)
        else:
            self.pool.give(link)

    def _happened(self, tx: PostgresTx) -> bool:
        """Return whether a transaction is durable whose end was not heard of. Its versions prove it, if it has any:
        after a failover the number of a transaction may be another's."""
        end = time.monotonic() + self.patience

        def look(link: Link) -> bool:
            while (status := _status(link, tx.xid)) == "in progress":
                if time.monotonic() >= end:
                    raise StoreUnavailable("its end has not arrived there.")
                time.sleep(LONGEST_WAIT_S / 10)
            return bool(status == "committed")

        debug("looks for transaction %s, of which no answer came", tx.xid)
        try:
            happened = self.on_link(look)
            return bool(self.asked(Q.committed, tx.made[-1])) if tx.made else happened
        except StoreUnavailable as error:
            raise unheard(self.place, error) from None

    def _settle(self) -> None:
        """The store was written to, and its id is known."""
        self._folder = settle_folder(self._url, self._folders, self._id or self.place.key)
        self._there = True

    # -- the schema

    def _create(self) -> None:
        """Make the store, or bring its schema up to date. Another process that wants to waits, and finds it done."""
        try:
            facts = self._facts()
            if int(facts.get("schema", 0)) != SCHEMA or not facts:
                debug("makes the store %s", self.name)
                self._persist(self._migrate)
            self.read(lambda view: view.newest())
        except LockNotAvailable:
            raise self._typed(StoreUnavailable("locked")) from None
        self._settle()

    def _migrate(self) -> None:
        def work(link: Link) -> None:
            before = [("BEGIN", ()), link.settings(max(self.patience, PATIENCE_S))]
            lock = ("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", (self.place.quoted,))
            there = link.ask([*before, lock, (Q.there, (self.place.schema,))])[3][0][0]
            schema = 0
            if there:
                facts: dict[str, str] = dict(link.ask([(Q.meta, ())])[0])
                schema = int(facts.get("schema", 0))
                if schema > SCHEMA:
                    self._refuse_schema(facts, writes=False)
            elif not link.ask([("SELECT 1 FROM pg_namespace WHERE nspname = $1", (self.place.schema,))])[0]:
                link.script(f"CREATE SCHEMA {self.place.quoted}")  # else somebody made it for us
            if schema < SCHEMA:
                self._apply(link, schema)
            link.ask([("COMMIT", ())])

        try:
            self._with_link(work)
        except LockNotAvailable:
            raise StoreUnavailable(
                f"Another process has been making tables of {self.name}, or working in them, for too long.",
                hint="Nothing was changed. Try again when it has finished.",
            ) from None

    def _apply(self, link: Link, schema: int) -> None:
        facts = first_facts(self.clock)
        for name in SCRIPTS[schema:]:
            link.script(read_sql(name))
        known = facts if schema == 0 else {"written_by": facts["written_by"]}
        link.ask([(Q.put_meta, pair) for pair in {**known, "schema": str(SCHEMA)}.items()])

    # -- reading

    def read(self, fn: Callable[[View], T]) -> T:
        return self._persist(lambda: self._look(fn))

    def _look(self, fn: Callable[[View], T]) -> T:
        link = self._take()
        view = PostgresView(self, link)
        try:
            result = fn(view)
            if view.began:
                link.end_reading()
        except BaseException as error:
            self._give_up(link, view, error)
            if isinstance(error, psycopg.Error) and code_of(error) in _MISSING and not self._there:
                raise self._absent() from None
            raise
        view.link = None  # what was fetched may be read on; asking for more is a mistake
        self.pool.give(link)
        return result

    def _absent(self) -> LeftoffError:
        self._is_there()  # fails if the role is kept out
        error = StoreUnavailable(f"There is no store at {self.name}.", hint="The first write makes one.")
        error.retry = False
        return error

    # -- blobs

    def save_together(self, work: Callable[[Save], T]) -> T:
        if not self._there:
            self._create()
        return self.blobs.together(work)

    def load_blob(self, hash: bytes, known: BlobRow | None = None) -> Iterator[bytes]:
        row = known or self.read(lambda view: view.blob(hash))
        if row is None:
            raise NotFound(f"There is no blob sha256:{hash.hex()}.")
        return self.blobs.load(row)

    # -- upkeep, in modules of their own

    def sweep(self, *, thorough: bool = True, at_once: bool = False) -> int:
        from leftoff.store.upkeep import sweep, until_none

        freed = sweep(self, thorough=thorough)
        freed += until_none(self, self._empty)
        return freed

    def _empty(self, tx: PostgresTx) -> int:
        """Drop the pieces of some of what is past its grace; return the bytes given back."""
        due = (self.blobs.grace, DUE_AT_ONCE)
        blobs, strays = tx.several([(Q.due_blobs, due), (Q.due_uploads, due)])
        lost = tx.rows(Q.empty_blobs, ([row[0] for row in blobs],)) if blobs else []
        tx.note(Q.drop_uploads, ([*(row[0] for row in strays), *(row[1] for row in blobs)],))
        return int(sum(row[0] for row in lost))

    def drop_orphans(self, tx: PostgresTx, values: list[bytes], blobs: list[bytes]) -> int:
        """Drop those of these values and blobs that nothing refers to, once a transaction that may be about to refer to
        them has ended; return the bytes given back."""
        tx.several([(Q.lock_values, (values,)), (Q.hold_blobs, (blobs,))])
        drops = [(Q.drop_value_if_unused, (hash,)) for hash in values]
        drops += [(Q.drop_blob_if_unused, (hash,)) for hash in blobs]
        return sum(row[0] for rows in tx.several(drops) for row in rows)

    def freed(self, sizes: Iterable[int]) -> int:
        """Return how many bytes dropping rows of these sizes gives back, to the tables if not to the disk."""
        return sum(sizes)

    def watch(self) -> Watch:
        from leftoff.store.notifications import Watch

        def version() -> tuple[object, object]:
            return None, self.asked(Q.snapshot)[0][0]

        return Watch(self, version, WATCH_S)

    def backup(self, folder: str) -> None:
        """Copy one snapshot into a folder store, which needs no server."""
        from leftoff.store.sqlite import SqliteStore
        from leftoff.store.store_copy import backup_folder, copy_store

        with backup_folder(self, folder) as part:
            target = SqliteStore(part, self.clock)
            try:
                copy_store(self, target, others_write=True)
            finally:
                target.close()

    def writable(self) -> bool:
        return bool(self.asked(Q.writable)[0][0])

    def about(self) -> dict[str, Any]:
        def look(view: Any) -> dict[str, Any]:
            meta, runs, size = view.several([(Q.meta, ()), (Q.count_runs, ()), (Q.bytes, ())])
            found = about("postgresql", dict(meta), runs[0][0], size[0][0])
            more = {"project": self.place.project or None, "server": view.link.version}
            return {**found, **more}

        return self.read(look) if self.exists() else {"kind": "postgresql"}

    def migrate(self) -> None:
        self._create()

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        if repair:
            from leftoff.store.repair import repair_postgres

            return repair_postgres(self)
        from leftoff.store.integrity import inspect

        return inspect(self).to_json()

    def close(self, *, soon: bool = False) -> None:
        self.pool.close()

    def after_fork_in_child(self) -> None:
        self.pool.forget()


def _status(link: Link, xid: str | None) -> Any:
    """Return what became of a transaction. One that the server lost all trace of, as it crashed, did not happen."""
    try:
        return link.ask([(Q.outcome, (xid,))])[0][0][0]
    except psycopg.errors.InvalidParameterValue:  # its number is "in the future": it will be given once more
        return "aborted"
