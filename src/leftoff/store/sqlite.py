"""The embedded store: one SQLite file and a folder of blobs.

Connections are pooled: a thread takes one for the length of an operation. All writes go through one queue
(``leftoff.store.writer``), so a process has at most one writing connection at a time. The WAL is checkpointed by
whoever finds it long, after giving up its turn, and truncated when the store is closed or idle.
"""

from __future__ import annotations

import os

import apsw

from leftoff._version import __version__
from leftoff.errors import StoreUnavailable
from leftoff.store import connection, migrate
from leftoff.store.base import Store
from leftoff.store.blobs import Blobs
from leftoff.store.failures import translate
from leftoff.store.location import make_folder, refuse_network, sync_folder
from leftoff.store.sqlite_tx import SqliteTx
from leftoff.store.sqlite_view import SqliteView
from leftoff.store.writer import Ticket, Turn, WriteQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from leftoff.clock import Clock
    from leftoff.store.base import Tx, View
    from leftoff.store.rows import BlobRow

    T = TypeVar("T")

FILE = "store.db"
CHECKPOINT_PAGES = 1000

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class SqliteStore(Store):
    """A store in a folder."""

    def __init__(self, folder: str, clock: Clock | None = None) -> None:
        from leftoff.clock import SYSTEM

        self.folder = os.path.abspath(folder)
        self.name = self.folder
        self.path = os.path.join(self.folder, FILE)
        self.clock = clock or SYSTEM
        self.blobs = Blobs(self.folder)
        self.turn = Turn(os.path.join(self.folder, "lock"))
        self.queue = WriteQueue(self._lead)
        self._free: list[apsw.Connection] = []
        self._writer: SqliteTx | None = None
        self._wal_pages = 0
        self._ready = False
        self._born = _forks

    # -- connections

    def exists(self) -> bool:
        try:
            return os.stat(self.path).st_size > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            raise translate(error, self.name) from error

    def _after_fork(self) -> None:
        """A forked child must not touch its parent's connections, nor its lock; they are left, not closed."""
        self._born = _forks
        _leaked.extend(self._free)
        if self._writer is not None:
            _leaked.append(self._writer.db)
        self._free, self._writer = [], None
        self.turn.forget()
        self.queue = WriteQueue(self._lead)

    def _open(self) -> apsw.Connection:
        db = connection.open_file(self.path)
        try:
            migrate.check(db, self.path, writing=False)
            return connection.prepare(db, self.path)
        except BaseException:
            db.close()
            raise

    def take(self) -> apsw.Connection:
        """A connection for the length of one operation."""
        if self._born != _forks:
            self._after_fork()
        try:
            return self._free.pop()
        except IndexError:
            return self._open()

    def give(self, db: apsw.Connection) -> None:
        self._free.append(db)

    def _create(self) -> None:
        """Make the store where there is none, or bring its schema up to date. One process at a time."""
        if os.path.exists(self.folder) and not os.path.isdir(self.folder):
            raise StoreUnavailable(f"{self.folder} is a file, not a folder.", hint="Move it away, or use another store.")
        make_folder(self.folder)
        refuse_network(self.folder)
        self.turn.take()
        try:
            new = not self.exists()
            if new:
                self._create_file()
            db = connection.open_file(self.path)
            try:
                if new or (migrate.version(db) == 0 and migrate.is_empty(db)):
                    connection.initialise(db)
                connection.prepare(db, self.path)
                if migrate.check(db, self.path, writing=True) < migrate.SCHEMA:
                    self._migrate(db)
            finally:
                db.close()
            if new:
                sync_folder(self.folder)
        finally:
            self.turn.give()
        self._ready = True

    def _create_file(self) -> None:
        """Private from its first byte: SQLite gives the WAL the mode of the database."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if os.path.isdir(self.path):
                raise StoreUnavailable(f"{self.path} is a folder, not a database.", hint="Move it away.") from None

    def _migrate(self, db: apsw.Connection) -> None:
        facts = {
            "store_id": os.urandom(16).hex(),
            "created_at": str(self.clock.now()),
            "created_by": __version__,
            "written_by": __version__,
        }
        db.execute("BEGIN IMMEDIATE")
        try:
            migrate.migrate(db, self.path, facts)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    # -- transactions

    def write(self, fn: Callable[[Tx], T]) -> T:
        if self._born != _forks:
            self._after_fork()
        try:
            if not self._ready:
                self._create()
            return self.queue.run(fn)  # type: ignore[no-any-return]
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error

    def _lead(self, batch: list[Ticket]) -> None:
        """Do a batch of work in one transaction, then let the others have their turn."""
        tx = self._writer
        if tx is None:
            db = self.take()
            db.set_wal_hook(self._saw_wal)
            tx = self._writer = SqliteTx(db, self.blobs)
        execute = tx.execute
        self.turn.take()
        try:
            execute("BEGIN IMMEDIATE")
            try:
                schema = execute("PRAGMA user_version").fetchone()[0]
                if schema != migrate.SCHEMA:
                    migrate.check(tx.db, self.path, writing=True, schema=schema)
                if len(batch) == 1:
                    batch[0].result = batch[0].fn(tx)
                else:
                    self._share(tx, batch)
                execute("COMMIT")
            except BaseException:
                if tx.db.in_transaction:
                    execute("ROLLBACK")
                raise
        finally:
            self.turn.give()
        for ticket in batch:
            ticket.done = True
        if self._wal_pages >= CHECKPOINT_PAGES:
            self._checkpoint(tx.db)

    @staticmethod
    def _share(tx: SqliteTx, batch: list[Ticket]) -> None:
        """Several commits in one transaction, each in a savepoint: one that fails takes no other with it."""
        for ticket in batch:
            tx.execute("SAVEPOINT one")
            try:
                ticket.result, ticket.error = ticket.fn(tx), None
            except Exception as error:
                if not tx.db.in_transaction:  # SQLite gave up the whole transaction (disk full, I/O error)
                    raise
                ticket.error = error
                tx.execute("ROLLBACK TO one")
            tx.execute("RELEASE one")

    def _saw_wal(self, db: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return 0

    def _checkpoint(self, db: apsw.Connection) -> None:
        """Move the WAL's pages home; readers and writers go on meanwhile."""
        try:
            log, done = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.BusyError, apsw.LockedError):  # someone else is at it
            return
        if log == done:
            self._wal_pages = 0

    def read(self, fn: Callable[[View], T]) -> T:
        try:
            db = self.take()
            try:
                db.execute("BEGIN")
                try:
                    return fn(SqliteView(db))
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
            finally:
                self.give(db)
        except (apsw.Error, OSError) as error:
            raise translate(error, self.path) from error

    # -- blobs

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        try:
            if not self._ready:
                self._create()
            return self.blobs.save(chunks)
        except OSError as error:
            raise translate(error, self.name) from error

    def load_blob(self, hash: bytes) -> Iterator[bytes]:
        from leftoff.errors import NotFound

        row = self.read(lambda view: view.blob(hash))
        if row is None:
            raise NotFound(f"There is no blob sha256:{hash.hex()}.")
        return self.blobs.load(row)

    # -- upkeep, in modules of their own

    def prune(self, run: int, drop: Iterable[int]) -> int:
        from leftoff.store.upkeep import prune

        return prune(self, run, drop)

    def remove(self, run: int) -> int:
        from leftoff.store.upkeep import remove

        return remove(self, run)

    def sweep(self) -> int:
        from leftoff.store.upkeep import sweep

        return sweep(self)

    def backup(self, folder: str) -> None:
        from leftoff.store.backup import backup

        backup(self, folder)

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        from leftoff.store.check import check

        return check(self, repair=repair)

    def truncate(self) -> None:
        """Give the WAL's space back, if nobody is in the way."""
        db = self.take()
        try:
            db.set_busy_timeout(0)
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._wal_pages = 0
        except (apsw.BusyError, apsw.LockedError):
            pass
        except apsw.Error as error:
            raise translate(error, self.path) from error
        finally:
            db.set_busy_timeout(connection.BUSY_MS)
            self.give(db)

    def close(self) -> None:
        if self._born != _forks:
            self._after_fork()
        if self._wal_pages and self._ready:
            try:
                self.truncate()
            except StoreUnavailable:  # a full disk must not spoil the way out: the WAL is durable as it is
                pass
        if self._writer is not None:
            self._writer.db.close()
            self._writer = None
        while self._free:
            self._free.pop().close()
        self.turn.close()


_leaked: list[apsw.Connection] = []
