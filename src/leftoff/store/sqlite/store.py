"""The embedded store: one SQLite file and a folder of blobs.

Connections are pooled: a thread takes one for the length of an operation. All writes go through one queue
(``leftoff.store.sqlite.writer``), so a process has at most one writing connection at a time. The WAL is checkpointed by
whoever finds it long, after giving up its turn, and truncated when the store is closed or idle.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from _weakref import ref

import apsw

from leftoff import files, log
from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable
from leftoff.store.base import Store
from leftoff.store.blobs import Blobs
from leftoff.store.sqlite import connection, migrate
from leftoff.store.sqlite.failures import NONSENSE, explained, translate
from leftoff.store.sqlite.queries import Q
from leftoff.store.sqlite.tx import SqliteTx
from leftoff.store.sqlite.view import SqliteView
from leftoff.store.sqlite.writer import Presence, Ticket, Turn, WriteQueue, all_done, share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from leftoff.clock import Clock
    from leftoff.store.base import Save, Tx, View
    from leftoff.store.rows import BlobRow
    from leftoff.store.watch import Watch

    T = TypeVar("T")

FILE = "store.db"
CHECKPOINT_PAGES = 1000
SHORT_PAGES = 100  # a log that whoever comes next reads faster than it is emptied and synced

_NO_SYNC, _SYNC = "PRAGMA synchronous=NORMAL", f"PRAGMA synchronous={connection.SYNCHRONOUS}"

RELAXED = 8  # transactions in a row that may wait for the next one's sync: what a power cut tears stays small
QUIET_S = 2.0  # how long a fork waits for operations of other threads


class SqliteStore(Store):
    """A store in a folder."""

    #: whether a damaged log is an error; not for who looks at the damage
    refuses_damage = True

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        from leftoff.clock import SYSTEM

        self.folder = os.path.abspath(folder)
        self.name = self.location = self.folder
        self.path = os.path.join(self.folder, FILE)
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
        self._log = connection.Log()
        self._ready = False
        self._proved: set[int] = set()
        self._relaxed = 0  # the writer's last transactions that were not synced
        key = id(self)
        _stores[key] = ref(self, lambda _: _stores.pop(key, None))

    # -- connections

    def exists(self) -> bool:
        size = self._size()
        if size:
            return True
        from leftoff.store.sqlite import location

        remains = self._typed(lambda: location.remains_of(self.path, size, self.blobs))
        if remains and not self._size():
            raise location.cut_off(self.path, remains)
        return bool(remains)  # somebody made it, and wrote to it, between the two looks

    def _size(self) -> int | None:
        """Of the database; None where there is none."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise translate(error, self.name) from error

    def _connect(self) -> apsw.Connection:
        if not self.exists():
            raise StoreUnavailable(f"There is no store at {self.folder}.", hint="The first write makes one.")
        log.debug("opens the store %s", self.path)
        self.presence.show(max(self.patience, 1.0))  # before the database is opened: a repair replaces it
        marked = self.turn.marked() if self.refuses_damage else 0  # before anything is read: others go on
        db = connection.open_file(self.path)
        try:
            migrate.check(db, self.path)
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
                return self._connect_immutable()

    def _connect_immutable(self) -> apsw.Connection:
        marked = self.turn.marked() if self.refuses_damage else 0
        db = connection.open_immutable(self.path)
        try:
            migrate.check(db, self.path)
            connection.prepare(db, self.path)
            self._refuse_older(db, marked)
        except BaseException:
            db.close()
            raise
        self._open.append(db)
        return db

    def give(self, db: apsw.Connection) -> None:
        """Back for the next one, unless a query on it was left half read: that would hold an old snapshot.

        Nor is one kept that was opened in spite of damage."""
        if db.open_flags & apsw.SQLITE_OPEN_URI:
            self._shut(db)
            connection.refuse_written(self.path)
        elif db.txn_state() or not self.refuses_damage:
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
        """Let nobody take a connection, if none is in use or those that are come back in a moment."""
        self._pool.acquire()
        for _ in range(20):
            if len(self._open) == len(self._free) + (self._writer is not None):
                self._pool_held = True
                return True
            time.sleep(0.001)
        self._pool.release()  # an operation may need a second connection to come to its end
        return False

    def after_fork(self) -> None:
        """In the parent: everyone may go on."""
        if self._pool_held:
            self._pool_held = False
            self._pool.release()
        if self._lead_held is not None:
            held, self._lead_held = self._lead_held, None
            self.queue.release(held)

    def after_fork_in_child(self) -> None:
        """What could not be closed in time is left alone, neither used nor closed."""
        _leaked.extend(self._open)
        self._open, self._free, self._writer = [], [], None
        self._pool, self._pool_held, self._lead_held = allocate_lock(), False, None
        self.turn.close()
        self.presence.close()
        self.queue = WriteQueue(self._lead)

    def _create(self) -> None:
        """Make the store where there is none, or bring its schema up to date. One process at a time."""
        if self.exists():
            self._update()
        else:
            from leftoff.store.sqlite.create import make

            make(self)
        self._ready = True

    def _update(self) -> None:
        """On the connection that the writer will use: opening another one costs as much as the commit."""
        db = self.take()
        try:
            if migrate.check(db, self.path) < migrate.SCHEMA:
                from leftoff.store.sqlite.create import bring_up_to_date

                bring_up_to_date(self, db)
        finally:
            self.give(db)

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
            if connection.may_be_network():
                from leftoff.store.sqlite.location import refuse_network

                refuse_network(self.folder)
        try:
            self._take_turn(batch)
            if not self._ready:
                self._create()
            self._transact(self._writer or self._new_writer(), batch)
        finally:
            try:
                self._end_turn()
            except BaseException:
                self._end_turn()
                raise
        if self._log.pages >= CHECKPOINT_PAGES and self._writer is not None:
            self._log.move_home(self._writer.db)

    def _take_turn(self, batch: list[Ticket]) -> None:
        try:
            self.turn.take(self.patience)
        except StoreUnavailable as error:
            all_done(batch, error)  # nobody waits once more for what all of them have waited for
            raise

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
        execute, db = tx.quick, tx.db
        committing = False
        try:
            self._set_sync(execute, batch)
            execute("BEGIN IMMEDIATE")
            tx.began_at = db.total_changes()
            schema: Any = execute("PRAGMA user_version").fetchone()
            if schema[0] != migrate.SCHEMA:
                migrate.check(db, self.path, schema[0])
            if len(batch) == 1:
                batch[0].result, batch[0].error = batch[0].fn(tx), None
            else:
                share(tx, batch)
            changed = not self._relaxed and db.total_changes() != tx.began_at
            newest: Any = execute(Q.newest_n).fetchone() if changed else None
            committing = True
            execute("COMMIT")
            if newest is not None:
                self.turn.mark(newest[0])
            all_done(batch)
        except BaseException as error:
            if db.in_transaction:
                execute("ROLLBACK")
            elif committing and not isinstance(error, apsw.Error):  # interrupted, but durable by then
                all_done(batch)
            if isinstance(error, NONSENSE):
                raise explained(error, db, self.path) from error
            raise

    def _set_sync(self, execute: Callable[[str], Any], batch: list[Ticket]) -> None:
        """Whether this transaction is synced: unless all of it may wait. Interrupted, the next one looks again."""
        if self._relaxed < RELAXED and not any([ticket.durable for ticket in batch]):
            self._relaxed += 1
            if self._relaxed == 1:
                execute(_NO_SYNC)
        elif self._relaxed:
            execute(_SYNC)
            self._relaxed = 0

    def _end_turn(self) -> None:
        """Let others write. A connection on which a query was left half read is given up with it."""
        self.turn.give()
        tx = self._writer
        if tx is not None and tx.db.txn_state():
            self._writer = None
            self._shut(tx.db)

    def read(self, fn: Callable[[View], T]) -> T:
        try:
            db = self.take()
            try:
                try:
                    db.execute("BEGIN")
                    return fn(SqliteView(db, self._proved))
                except NONSENSE as error:
                    raise explained(error, db, self.path) from error
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
            finally:
                self.give(db)
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error

    # -- blobs

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        return self.save_together(lambda save: save(chunks))

    def save_together(self, work: Callable[[Save], T]) -> T:
        batch = self.blobs.batch()

        def save(chunks: Iterable[bytes]) -> BlobRow:
            if not self._ready:
                self.write(lambda tx: None)
            return self._typed(lambda: batch.save(chunks))

        try:
            done = work(save)
        except BaseException:
            batch.drop()
            raise
        self._typed(batch.settle)
        return done

    def load_blob(self, hash: bytes, known: BlobRow | None = None) -> Iterator[bytes]:
        from leftoff.errors import NotFound

        def find() -> BlobRow | None:
            return self.read(lambda view: view.blob(hash))

        row = known or find()
        if row is None:
            raise NotFound(f"There is no blob sha256:{hash.hex()}.")
        return self.blobs.load(row, lambda: find() is None)

    # -- upkeep, in modules of their own

    def prune(self, run: int, drop: Iterable[int]) -> int:
        from leftoff.store.sqlite.upkeep import prune

        return self._typed(lambda: prune(self, run, drop))

    def remove(self, run: int, allowed: Callable[[View], None] | None = None) -> int:
        from leftoff.store.sqlite.upkeep import remove

        return self._typed(lambda: remove(self, run, allowed))

    def sweep(self, *, thorough: bool = True, at_once: bool = False) -> int:
        from leftoff.store.sqlite.upkeep import sweep

        return self._typed(lambda: sweep(self, thorough=thorough, at_once=at_once))

    def watch(self) -> Watch:
        from leftoff.store.sqlite.watch import SqliteWatch

        return SqliteWatch(self)

    def backup(self, folder: str) -> None:
        from leftoff.store.sqlite.backup import backup_sqlite

        self._typed(lambda: backup_sqlite(self, folder))

    def about(self) -> dict[str, Any]:
        from leftoff.store.facts import about

        def look(view: Any) -> dict[str, Any]:
            runs, paths = view.tables().runs(), (self.path, self.path + "-wal")
            size = sum(os.path.getsize(path) for path in paths if os.path.exists(path))
            return about("sqlite", dict(view.execute(Q.meta)), len(runs), size)

        return self.read(look) if self.exists() else {"kind": "sqlite"}

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        from leftoff.store.sqlite.fsck_sqlite import check_and_repair, inspect

        return self._typed(lambda: check_and_repair(self) if repair else inspect(self).to_json())

    def _typed(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error

    def truncate(self) -> None:
        """Give the WAL's space back, if nobody is in the way."""
        db = self.take()
        try:
            self._log.truncate(db)
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            self.give(db)

    def release(self) -> None:
        """Close every connection that nobody uses right now; the log stays as it is."""
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


_leaked: list[apsw.Connection] = []
_stores: dict[int, ref[SqliteStore]] = {}


def _each(call: Callable[[SqliteStore], None]) -> None:
    for entry in list(_stores.values()):
        store = entry()
        if store is not None:
            call(store)


os.register_at_fork(
    before=lambda: _each(SqliteStore.before_fork),
    after_in_parent=lambda: _each(SqliteStore.after_fork),
    after_in_child=lambda: _each(SqliteStore.after_fork_in_child),
)
