"""The embedded store: one SQLite file and a folder of blobs.

Connections are pooled: a thread takes one for the length of an operation. All writes go through one queue
(``WriteQueue``), so a process has at most one writing connection at a time. The WAL is checkpointed by
the thread that finds it long, after giving up its turn, and truncated when the store is closed or idle.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from leftoff import files
from leftoff.clock import Clock
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable
from leftoff.host import debug
from leftoff.model.changes import Version
from leftoff.store import sqlite_connection as connection
from leftoff.store.base import BLOB_TAG, INLINE, NOT_A_STEP, Row, Save, SqlStore, Step, Tx, View, in_sqlite
from leftoff.store.blobs import Blobs
from leftoff.store.rows import BlobRow, Record
from leftoff.store.sqlite_connection import Presence, Q, Turn, apsw, check_schema, translate

if TYPE_CHECKING:
    from leftoff.store.notifications import Watch

T = TypeVar("T")

FILE = "store.db"
CHECKPOINT_PAGES = 1000
SHORT_PAGES = 100  # a log that the next process reads faster than it is emptied and synced

_NO_SYNC, _SYNC = "PRAGMA synchronous=NORMAL", f"PRAGMA synchronous={connection.SYNCHRONOUS}"

MOST = 64  # tickets in one transaction
RELAXED = 8  # transactions in a row that may wait for the next one's sync: what a power cut tears stays small
QUIET_S = 2.0  # how long a fork waits for operations of other threads


class SqliteView(View):
    """Queries on one connection, inside the transaction that the store opened on it."""

    q = Q

    def __init__(self, db: apsw.Connection, proved: set[int]) -> None:
        super().__init__(proved)
        self.db = db
        # One cursor for all: making one costs a third of what a statement does. All rows are fetched at once.
        self.execute: Any = db.cursor().execute

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self.execute(sql, values).fetchall()  # type: ignore[no-any-return]

    def in_words(self, sql: str) -> str:
        return in_sqlite(sql)


class SqliteTx(SqliteView, Tx):
    """A write transaction that the store opened on this connection."""

    def __init__(self, db: apsw.Connection, blobs: Blobs, proved: set[int]) -> None:
        super().__init__(db, proved)
        self._blobs = blobs
        self.n = 0  # the number of the newest commit, if this transaction has seen it

    def head(self, run: int) -> tuple[int, bytes, str, int, str] | None:
        found = self.execute(Q.head_and_n, (run,)).fetchone()
        if found is None:
            return None
        self.n = found[5]
        return found[:5]  # type: ignore[no-any-return]

    def put(self, run: int, record: Record, step: Step = NOT_A_STEP) -> None:
        self.changed = True
        collection, key, seq, hash, stored = record
        data: bytes | None = stored
        if len(stored) > INLINE:
            self.execute(Q.put_value, (hash, stored))
            data = None
        blob = self.blob_in(stored) if stored[0] == BLOB_TAG else None
        self.execute(Q.put_record, (run, collection, key, seq, hash, data, blob, *step))

    def need_blob(self, hash: bytes) -> bool:
        """Look again inside the transaction: a prune may have been faster."""
        return self.blob(hash) is not None and self._blobs.present(hash)

    def drop(self, run: int, seq: int, collection: str, key: str) -> None:
        self.changed = True
        self.execute(Q.supersede, (run, seq, collection, key))
        self.execute(Q.drop_record, (run, collection, key))

    def add_version(self, run: int, version: Version, token: bytes) -> None:
        self.changed = True
        seq, digest, at, counts = version.seq, version.digest, version.at, version.counts
        n = self.n = (self.n or self.newest()) + 1
        self.execute(Q.move_head, (run, seq, n, digest, counts, at, version.checkpoint))
        seal = (version.checkpoint, version.trigger, version.step, version.note)
        self.execute(Q.add_version, (run, seq, n, token, digest, version.epoch, at, counts, *seal))

    def catch_up(self) -> None:
        self.n = 0
        self.execute("UPDATE run SET n = max(n, (SELECT coalesce(max(n), 0) FROM version)) WHERE run = 0")

    def put_blob(self, row: BlobRow) -> None:
        self._blobs.present(row.hash)
        self.execute(Q.put_blob, row)


# -- one writer at a time
#
# The first thread to come leads: it waits its turn among the processes, opens the transaction, does its own work and
# that of every thread that has queued up meanwhile, and syncs once. A thread that queues while it syncs is led by the
# next.


class Ticket:
    """A piece of work and, afterwards, its outcome."""

    result: Any = None
    error: BaseException | None = None
    done = False  # durable, or refused for good
    gate: Any = None  # held until the work is done or this thread must lead

    def __init__(self, fn: Any, durable: bool) -> None:
        self.fn = fn  # of the transaction; None: only to lead
        self.durable = durable


class WriteQueue:
    """Threads of one process, led one batch at a time.

    A ticket is in the queue until its own thread takes it out. Ctrl-C may strike the main thread after any call. So the
    lead is one variable, passed on by one assignment, and what follows from it can be done twice.
    """

    def __init__(self, lead: Callable[[list[Ticket]], None]) -> None:
        self._lead = lead
        self._mutex = allocate_lock()
        self._queue: list[Ticket] = []
        self._leader: Ticket | None = None

    @property
    def busy(self) -> bool:
        return self._leader is not None

    def run(self, fn: Callable[[Any], Any], durable: bool = True) -> Any:
        ticket = Ticket(fn, durable)
        try:
            self._join(ticket)
            if ticket.gate is not None:
                ticket.gate.acquire()
            if self._leader is ticket:
                self._lead(self._take(ticket))
        finally:
            try:
                self._settle(ticket)
            except BaseException:
                self._settle(ticket)
                raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def hold(self, timeout: float) -> Ticket | None:
        """Lead and do nothing, so that no process writes until ``release``. ``None`` if that takes too long."""
        ticket = Ticket(None, False)
        self._join(ticket)
        if ticket.gate is not None:
            ticket.gate.acquire(timeout=timeout)
        if self._leader is ticket:
            return ticket
        self._settle(ticket)
        return None

    def release(self, ticket: Ticket) -> None:
        self._settle(ticket)

    def _join(self, ticket: Ticket) -> None:
        """Queue up, and lead if no other thread does."""
        with self._mutex:
            self._queue.append(ticket)
            if self._leader is None:
                self._leader = ticket
            else:
                ticket.gate = allocate_lock()
                ticket.gate.acquire()

    def _take(self, leader: Ticket) -> list[Ticket]:
        """Return what the leader does in one transaction: its own work, and that of others in their order."""
        with self._mutex:
            others = (t for t in self._queue if t is not leader and t.fn is not None and not t.done)
            return [leader, *islice(others, MOST - 1)]

    def _settle(self, ticket: Ticket) -> None:
        """Leave the queue. Pass the lead on, and wake those whose work is done. May be interrupted and called again."""
        with self._mutex:
            if ticket in self._queue:
                self._queue.remove(ticket)
            if self._leader is ticket:
                self._leader = next((other for other in self._queue if not other.done), None)
            for other in self._queue:
                if other.gate is not None and (other.done or other is self._leader):
                    _open(other.gate)


def _open(gate: Any) -> None:
    if gate.locked():
        gate.release()


def all_done(batch: list[Ticket], error: BaseException | None = None) -> None:
    """Tell the members of a batch that it is durable, or why none of it is."""
    for ticket in batch:
        ticket.error, ticket.done = error or ticket.error, True


# -- the store


class Log:
    """How long the write-ahead log is, as a writer sees it, and making it short."""

    pages = 0

    def saw(self, db: apsw.Connection, name: str, pages: int) -> int:
        self.pages = pages
        return 0

    def move_home(self, db: apsw.Connection) -> None:
        """Move its pages into the database; readers and writers continue."""
        try:
            log, done = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:  # someone else is at it, or the disk is full: the log is durable as it is
            return
        if log == done:
            self.pages = 0

    def truncate(self, db: apsw.Connection) -> None:
        """Also give its space back, if no process is in the way."""
        try:
            db.set_busy_timeout(0)
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self.pages = 0
        except (apsw.BusyError, apsw.LockedError):
            pass
        finally:
            db.set_busy_timeout(connection.BUSY_MS)


class SqliteStore(SqlStore):
    """A store in a folder."""

    #: whether a damaged log is an error; false for fsck
    refuses_damage = True

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        from leftoff.clock import SYSTEM

        super().__init__()
        self.folder = os.path.abspath(folder)
        self.name = self.location = self.folder
        self.path = self.where = os.path.join(self.folder, FILE)
        self.clock = clock or SYSTEM
        self.blobs = Blobs(self.folder)
        self.turn = Turn(os.path.join(self.folder, "lock"))
        self.presence = Presence(self.folder)
        self.queue = WriteQueue(self._lead)
        self._pool = allocate_lock()
        self._pool_held = False  # during a fork
        self._lead_held: Ticket | None = None
        self._open: list[apsw.Connection] = []
        self._free: list[apsw.Connection] = []
        self._writer: SqliteTx | None = None
        self._log = Log()
        self._ready = False
        self._proved: set[int] = set()
        self._relaxed = 0  # the writer's last transactions that were not synced

    # -- connections

    def exists(self) -> bool:
        size = self._size()
        if size:
            return True
        from leftoff.store import sqlite_files

        remains = self._typed(lambda: sqlite_files.remains_of(self.path, size, self.blobs))
        if remains and not self._size():
            raise sqlite_files.cut_off(self.path, remains)
        return bool(remains)  # another process made it, and wrote to it, between the two looks

    def _size(self) -> int | None:
        """Of the database; None if it does not exist."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate(error, self.name) from error

    def _connect(self) -> apsw.Connection:
        if not self.exists():
            raise StoreUnavailable(f"There is no store at {self.folder}.", hint="The first write makes one.")
        debug("opens the store %s", self.path)
        self.presence.show(max(self.patience, 1.0))  # before the database is opened: a repair replaces it
        return self._opened(connection.open_file)

    def _opened(self, opener: Callable[[str], apsw.Connection]) -> apsw.Connection:
        marked = self.turn.marked() if self.refuses_damage else 0  # before anything is read: others continue
        db = opener(self.path)
        try:
            check_schema(db, self.path)
            connection.prepare(db, self.path)
            self._refuse_older(db, marked)
        except BaseException:
            db.close()
            raise
        self._open.append(db)
        return db

    def _refuse_older(self, db: apsw.Connection, marked: int) -> None:
        """Raise if the newest commit is older than one that is known to have been durable (``marked``; 0: unknown).

        SQLite reads a log up to the first damaged frame and ignores the rest without a word.
        """
        row: Any = db.execute(Q.newest_n).fetchone() if marked else None
        # The mark is read again, because a repair may have set it back just now.
        if row is not None and row[0] < min(marked, self.turn.marked()):
            error = Corrupt(
                f"{self.path} is at commit {row[0]}, and was at {marked}: its log is damaged, gone or cut, an older "
                "copy was put back, or this is a copy that was made file by file while others wrote.",
                where=self.path,
                hint="Nothing was changed. Copy the folder; then `leftoff fsck --repair` keeps what is there.",
            )
            error.older = True
            raise error

    def take(self) -> apsw.Connection:
        """A connection for the length of one operation."""
        with self._pool:
            try:
                return self._free.pop() if self._free else self._connect()
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                return self._opened(connection.open_immutable)

    def give(self, db: apsw.Connection) -> None:
        """Keep a connection for the next operation, unless it was opened in spite of damage."""
        if db.open_flags & apsw.SQLITE_OPEN_URI:
            self._shut(db)
            connection.refuse_written(self.path)
        elif not self.refuses_damage:
            self._shut(db)
        else:
            self._free.append(db)

    def _shut(self, db: apsw.Connection) -> None:
        self._open.remove(db)
        db.close()

    def _shut_idle(self) -> None:
        if self._writer is not None:
            db, self._writer = self._writer.db, None
            self._shut(db)
        while self._free:
            self._shut(self._free.pop())
        self.turn.close()
        if not self._open:
            self.presence.close()

    def before_fork(self) -> None:
        """No connection may cross a fork: its locks and its shared memory are the parent's, and a child that shares
        them crashes once the parent lets go. Nor may the lock file's descriptor: the child would keep it locked.
        So the operations of other threads are waited for, and new ones wait until the fork is done."""
        end = time.monotonic() + QUIET_S
        self._lead_held = self.queue.hold(QUIET_S)
        while not self._hush() and time.monotonic() < end:
            time.sleep(0.001)
        if self._lead_held is not None and self._pool.locked():
            self._shut_idle()

    def _hush(self) -> bool:
        """Hand out no connection any more, if none is in use or all come back in a moment."""
        self._pool.acquire()
        for _ in range(20):
            if len(self._open) == len(self._free) + (self._writer is not None):
                self._pool_held = True
                return True
            time.sleep(0.001)
        self._pool.release()  # an operation may need a second connection to come to its end
        return False

    def after_fork(self) -> None:
        """In the parent: all threads may continue."""
        if self._pool_held:
            self._pool_held = False
            self._pool.release()
        if self._lead_held is not None:
            held, self._lead_held = self._lead_held, None
            self.queue.release(held)

    def after_fork_in_child(self) -> None:
        """Neither use nor close the connections that could not be closed in time."""
        _leaked.extend(self._open)
        self._open, self._free, self._writer = [], [], None
        self._pool, self._pool_held, self._lead_held = allocate_lock(), False, None
        self.turn.close()
        self.presence.close()
        self.queue = WriteQueue(self._lead)

    def _create(self) -> None:
        """Create the store, or bring its schema up to date. One process at a time."""
        if not self.exists():
            from leftoff.store.sqlite_files import make

            make(self)
        else:
            db = self.take()  # the writer will use it: opening another one costs as much as the commit
            try:
                if check_schema(db, self.path) < connection.SCHEMA:
                    from leftoff.store.sqlite_files import bring_up_to_date

                    bring_up_to_date(self, db)
            finally:
                self.give(db)
        self._ready = True

    # -- transactions

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        try:
            done: T = self.queue.run(fn, durable)
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error
        self.wrote = True
        return done

    def _lead(self, batch: list[Ticket]) -> None:
        """Do a batch of work in one transaction, then let the others have their turn.

        Ctrl-C may strike after any call: what was taken is given back, what was begun is ended.
        """
        if not self._ready:
            files.make_folder(self.folder)
        try:
            try:
                self.turn.take(self.patience)
            except StoreUnavailable as error:
                all_done(batch, error)  # the others have waited as long already
                raise
            if not self._ready:
                self._create()
            self._transact(self._writer or self._new_writer(), batch)
        finally:
            try:
                self.turn.give()
            except BaseException:
                self.turn.give()
                raise
        if self._log.pages >= CHECKPOINT_PAGES and self._writer is not None:
            self._log.move_home(self._writer.db)

    def _new_writer(self) -> SqliteTx:
        db = self.take()
        if db.readonly("main"):  # it could not be opened otherwise: good for reading, and only for now
            self._shut(db)
            raise files.read_only(self.path)
        db.set_wal_hook(self._log.saw)
        self._relaxed = 0
        self._writer = SqliteTx(db, self.blobs, self._proved)
        return self._writer

    def _transact(self, tx: SqliteTx, batch: list[Ticket]) -> None:
        execute, db = tx.execute, tx.db
        committing = False
        try:
            if self._relaxed or not batch[0].durable:
                self._set_sync(execute, batch)
            execute("BEGIN IMMEDIATE")
            tx.changed, tx.n = False, 0
            schema: Any = execute("PRAGMA user_version").fetchall()
            if schema[0][0] != connection.SCHEMA:
                check_schema(db, self.path, schema[0][0])
            if len(batch) == 1:
                batch[0].result, batch[0].error = batch[0].fn(tx), None
            else:
                share(tx, batch)
            # A transaction that changed nothing syncs nothing, so it says nothing of those before it.
            newest = (tx.n or tx.newest()) if tx.changed and not self._relaxed else 0
            committing = True
            execute("COMMIT")
            if newest:
                self.turn.mark(newest)
            all_done(batch)
        except BaseException as error:
            if db.in_transaction:
                execute("ROLLBACK")
            elif committing and not isinstance(error, apsw.Error):  # interrupted, but durable by then
                all_done(batch)
            raise

    def _set_sync(self, execute: Callable[[str], Any], batch: list[Ticket]) -> None:
        """Set whether this transaction is synced: unless all of it may wait. If interrupted, the next one sets it."""
        if self._relaxed < RELAXED and not any([ticket.durable for ticket in batch]):
            self._relaxed += 1
            if self._relaxed == 1:
                execute(_NO_SYNC)
        elif self._relaxed:
            execute(_SYNC)
            self._relaxed = 0

    def read(self, fn: Callable[[View], T]) -> T:
        try:
            db = self.take()
            try:
                db.execute("BEGIN")
                return fn(SqliteView(db, self._proved))
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                self.give(db)
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error

    # -- blobs

    def save_together(self, work: Callable[[Save], T]) -> T:
        made: dict[str, BlobRow] = {}

        def save(chunks: Iterable[bytes]) -> BlobRow:
            if not self._ready:
                self.write(lambda tx: None)
            temp, row = self._typed(lambda: self.blobs.write(chunks))
            made[temp] = row
            return row

        try:
            done = work(save)
            self._typed(lambda: self.blobs.place(made))
            return done
        finally:
            self.blobs.drop(made)

    def load_blob(self, hash: bytes, known: BlobRow | None = None) -> Iterator[bytes]:
        from leftoff.errors import NotFound

        def find() -> BlobRow | None:
            return self.read(lambda view: view.blob(hash))

        row = known or find()
        if row is None:
            raise NotFound(f"There is no blob sha256:{hash.hex()}.")
        return self.blobs.load(row, lambda: find() is None)

    # -- upkeep, in modules of their own

    def sweep(self, *, thorough: bool = True, at_once: bool = False) -> int:
        from leftoff.store.upkeep import sweep, sweep_folder

        def work() -> int:
            freed = sweep(self, thorough=thorough)
            if thorough:
                sweep_folder(self)
            freed += self._empty(at_once=at_once)
            return freed + (self.vacuum() if thorough else 0)

        return self._typed(work)

    def _empty(self, *, at_once: bool) -> int:
        """Delete the files of removed blobs past their grace; at once if no other process has the store open."""
        if at_once and self.presence.alone():
            try:
                return self.blobs.empty(self.clock.now() / 1000, 0)
            finally:
                self.presence.show()
        return self.blobs.empty(self.clock.now() / 1000, self.blobs.grace)

    def drop_orphans(self, tx: Any, values: list[bytes], blobs: list[bytes]) -> int:
        """Drop those of these values and blobs that nothing refers to; return the bytes of files given back."""
        for hash in values:
            tx.rows(Q.drop_value_if_unused, (hash,))
        freed = 0
        for hash in blobs:
            for (stored,) in tx.rows(Q.drop_blob_if_unused, (hash,)):
                self.blobs.discard(hash)
                freed += stored
        return freed

    def freed(self, sizes: Iterable[int]) -> int:
        """Return how many bytes dropping rows of these sizes gives back: ``vacuum`` counts them as pages."""
        return 0

    def vacuum(self) -> int:
        """Give free pages back to the file system; return their bytes."""
        from leftoff.store.upkeep import BATCH, until_none

        def work(tx: Any) -> int:
            before = int(tx.one("PRAGMA freelist_count")[0])
            if before:
                tx.rows(f"PRAGMA incremental_vacuum({BATCH})")
            return before - int(tx.one("PRAGMA freelist_count")[0])

        freed = until_none(self, work) * connection.PAGE_SIZE
        self.truncate()
        return freed

    def watch(self) -> Watch:
        from leftoff.store.notifications import Watch

        return Watch(self, self._data_version, 0.1)

    def _data_version(self) -> tuple[object, int]:
        """Return a connection, and the number that moves on it when another one commits."""
        if not self.exists():
            return None, 0

        def look() -> tuple[object, int]:
            db = self.take()
            try:
                return db, int(db.pragma("data_version"))
            finally:
                self.give(db)

        return self._typed(look)

    def backup(self, folder: str) -> None:
        from leftoff.store.sqlite_files import backup_sqlite

        self._typed(lambda: backup_sqlite(self, folder))

    def about(self) -> dict[str, Any]:
        from leftoff.store.rows import about

        def look(view: Any) -> dict[str, Any]:
            paths = (self.path, self.path + "-wal")
            size = sum(os.path.getsize(path) for path in paths if os.path.exists(path))
            return about("sqlite", dict(view.rows(Q.meta)), view.one(Q.count_runs)[0], size)

        return self.read(look) if self.exists() else {"kind": "sqlite"}

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        if repair:
            from leftoff.store.repair import repair_sqlite

            return self._typed(lambda: repair_sqlite(self))
        from leftoff.store.integrity import check_age, check_structure, inspect

        return self._typed(lambda: inspect(self, (check_age, check_structure)).to_json())

    def damage(self, error: Exception) -> LeftoffError:
        """Return what an error of a check says of the database. Raise it if it says nothing."""
        try:
            return translate(error, self.path)
        except apsw.Error as other:  # damage makes SQLite fail in many ways
            return Corrupt(f"{self.path} cannot be read: {other}", where=self.path)

    def _typed(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error

    def truncate(self) -> None:
        """Give the WAL's space back, if no process is in the way."""
        db = self.take()
        try:
            self._log.truncate(db)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            self.give(db)

    def release(self) -> None:
        """Close every connection that is not in use; the log stays as it is."""
        self._shut_idle()
        self._ready = False
        self._proved.clear()

    def close(self, *, soon: bool = False) -> None:
        if self._ready and self._log.pages > (SHORT_PAGES if soon else 0):
            try:
                self.truncate()
            except LeftoffError:  # a full disk must not spoil the way out: the WAL is durable as it is
                pass
        self.release()


def share(tx: SqliteTx, batch: list[Ticket]) -> None:
    """Do several commits in one transaction, each in a savepoint: one that fails takes no other with it."""
    for ticket in batch:
        changed = tx.changed
        tx.execute("SAVEPOINT one")
        try:
            ticket.result, ticket.error = ticket.fn(tx), None
        except Exception as error:
            if not tx.db.in_transaction:  # SQLite gave up the whole transaction (disk full, I/O error)
                raise
            ticket.error, tx.n, tx.changed = error, 0, changed
            tx.execute("ROLLBACK TO one")
        tx.execute("RELEASE one")


_leaked: list[apsw.Connection] = []
