"""The store on a server: transactions that survive what a network does to them.

A transaction is tried again where that is safe: what was looked at moved, a deadlock, a connection that went before the
end was asked for. Where the answer to COMMIT is lost, what became of it is found out first (``Outcome``): it is never
made twice, and never reported as lost when it is there.
"""

from __future__ import annotations

import os
import random
import time
from _weakref import ref

import psycopg

from leftoff import log
from leftoff.errors import LeftoffError, NotFound, StoreUnavailable, Unsupported
from leftoff.store.base import Store
from leftoff.store.postgres import migrate
from leftoff.store.postgres.blobs import FOLDER, PostgresBlobs
from leftoff.store.postgres.connection import Pool
from leftoff.store.postgres.failures import AGAIN, RESTARTS, code_of, is_lost, translate, unheard
from leftoff.store.postgres.held import END, Again, Awaited, Left
from leftoff.store.postgres.location import (
    SCHEMA,
    Place,
    local_folder,
    of_project,
    settle_folder,
    without_secrets,
)
from leftoff.store.postgres.names import told
from leftoff.store.postgres.queries import Q
from leftoff.store.postgres.tx import PostgresTx
from leftoff.store.postgres.view import PostgresView
from leftoff.store.rows import token_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from leftoff.clock import Clock
    from leftoff.store.base import Save, Tx, View
    from leftoff.store.postgres.connection import Link
    from leftoff.store.postgres.wire import Statement
    from leftoff.store.rows import BlobRow
    from leftoff.store.watch import Watch

    T = TypeVar("T")

TRIES = 100  # of a transaction that others are always faster than
AT_ONCE = 3  # of those, also for who waits for nobody: of what is so, the first one may only have learnt
FIRST_WAIT_S, LONGEST_WAIT_S = 0.002, 0.5
_MISSING = ("42P01", "3F000")


class PostgresStore(Store):
    """A project on a server. ``folders``: where facts of this machine lie, in a folder for each store. ``blobs``: a
    folder that all machines share, if blobs are files in there."""

    shared = True
    far = True
    late = 64

    def __init__(self, url: str, folders: str, clock: Clock | None = None, blobs: str | None = None) -> None:
        from leftoff.clock import SYSTEM

        self.place = Place(url)
        self._folders = folders
        self._folder = ""
        self._id = ""  # the store's, once it is known
        self.name = self.place.name
        self._url = url
        self.clock = clock or SYSTEM
        self.pool = Pool(self.place)
        self.blobs = PostgresBlobs(self, blobs)
        self._there = False  # whether there is a store, of a schema that this code may write to
        self._readable = False
        self._reached = False  # whether the server ever answered
        self._proved: set[int] = set()
        self._left = Left()
        key = id(self)
        _stores[key] = ref(self, lambda _: _stores.pop(key, None))

    @property
    def location(self) -> str:  # type: ignore[override]
        """What opens it again. A password is in a file of the folder then, for other processes of the same user."""
        if not self.place.secrets:
            return self._url
        return without_secrets(self._url, self._folders)

    @property
    def folder(self) -> str:  # type: ignore[override]
        """The folder of this machine, by the store's id: each URL of the store leads to the same one.

        If the server is away, or has no store yet, it is the one that the URL led to before.
        """
        if not self._folder:
            self._folder = local_folder(self._url, self._folders)
            try:
                if self.exists():
                    self.on_link(self._learn)
            except LeftoffError as error:
                log.debug("does not know the id of %s: %s", self.name, error)
        return self._folder

    def _learn(self, link: Link) -> None:
        for (store_id,) in link.ask([(Q.fact, ("store_id",))])[0]:
            self.know(store_id)

    def know(self, store_id: str | None) -> None:
        """Remember the store's id, which a transaction has read."""
        if store_id and store_id != self._id:
            self._id, self._folder = store_id, os.path.join(self._folders, store_id)

    def _settle(self) -> None:
        """The store was written to, and its id is known."""
        self._folder = settle_folder(self._url, self._folders, self._id or self.place.key)
        self._there = True

    def siblings(self) -> dict[str, str]:
        if self.place.project:
            return {}
        rows = self.on_link(lambda link: link.ask([(Q.projects, ())]))[0]
        names = [str(schema).removeprefix(SCHEMA).removeprefix("_") for (schema,) in rows]
        return {name: of_project(self._url, name) for name in names}

    # -- connections

    def exists(self) -> bool:
        if not (self._there or self._readable):
            self._readable = self.on_link(migrate.is_there)
        return self._there or self._readable

    def on_link(self, work: Callable[[Link], T]) -> T:
        """Work with a connection, outside of any transaction; again, if it was lost."""
        return self._persist(lambda: self._with_link(work))

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
        """A connection. A server that was there a moment ago is waited for; one that never answered is told at once."""
        try:
            link = self.pool.take(self.patience)
        except psycopg.Error as error:
            if not self._reached and code_of(error) not in RESTARTS:
                raise self._typed(error) from None  # the chain might show the password
            raise
        self._reached = True
        try:
            link.wait_at_most(self.patience)
        except BaseException:
            self.pool.drop(link)
            raise
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
            log.debug("tries again (%d): %s", tried + 1, error)
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(wait * 2, LONGEST_WAIT_S)
        raise self._typed(error) from None

    def _typed(self, error: BaseException) -> LeftoffError:
        return translate(error, self.place)

    # -- transactions

    def write(self, fn: Callable[[Tx], T], *, durable: bool = True) -> T:
        lost: list[tuple[PostgresTx, T]] = []
        try:
            done = self._persist(lambda: self._in_turn(lambda tx: _once(tx, fn, lost), durable, lost))
        except BaseException as error:
            self._left.await_late(tx.guessed for tx, _ in lost)
            if lost and isinstance(error, StoreUnavailable):
                raise unheard(self.place, error) from None
            raise
        self.wrote = True
        return done

    def _in_turn(self, fn: Callable[[PostgresTx], T], durable: bool, tried: list[tuple[PostgresTx, T]]) -> T:
        """A transaction; where it comes to a run that a commit is still on its way to, that is passed by before."""
        try:
            return self._transact(fn, durable, tried)
        except Awaited as found:
            self._pass_by(found.guesses)
        return self._transact(fn, durable, tried)

    def _pass_by(self, guesses: Iterable[Statement]) -> None:
        """What was given up and is not there by now shall not come later: its run moves on from where it finds it."""
        try:
            for guess in guesses:
                values = (*guess[1], os.urandom(16))
                self.on_link(lambda link, values=values: link.ask([(Q.pass_by, values)]))  # type: ignore[misc]
                self._left.settle(guess)
        except StoreUnavailable as error:
            raise unheard(self.place, error) from None

    def _transact(self, fn: Callable[[PostgresTx], T], durable: bool, tried: list[tuple[PostgresTx, T]]) -> T:
        """``tried``: where it goes, with its result, if it was sent at once, by a guess, and not heard of."""
        link = self._take()
        tx = self._begun(link)
        sent = False
        try:
            result = fn(tx)
            rest = self._rest(tx, durable)
            sent = True
            link.ask(rest, self._telling(tx))
        except BaseException as error:
            unheard_of = sent and _is_unheard_of(error)
            if unheard_of and _may_be_late(tx):
                tried.append((tx, result))
                unheard_of = False  # the next try looks for it
            self._give_up(link, tx)
            if unheard_of and isinstance(error, psycopg.Error) and self._happened(tx):
                self._tell_again(tx)
                return result
            if self._begins_again(error, tx):
                raise Again from None
            raise
        self._ended(link, tx)
        return result

    def _begun(self, link: Link) -> PostgresTx:
        tx = PostgresTx(link, self._proved, [(Q.begin_write, ()), (Q.opened, ())], self._left)
        tx.store, tx.blobs = self, self.blobs
        return tx

    def _begins_again(self, error: BaseException, tx: PostgresTx) -> bool:
        """Whether it failed by what it took to be so. Of what it remembers that is not proved before it is sent."""
        if not isinstance(error, psycopg.Error):
            return isinstance(error, Exception) and tx.guessed is not None and not tx.began
        if code_of(error) in _MISSING and not self._there:
            self._create()
            return True
        return _stands_elsewhere(error)

    def _ended(self, link: Link, tx: PostgresTx) -> None:
        """It is durable."""
        self.pool.give(link)
        tx.leave()
        if not self._there:
            self._settle()

    def _rest(self, tx: PostgresTx, durable: bool) -> list[Statement]:
        """What is sent with the end of a transaction. Whoever made no version is known by the transaction's number,
        which must be known before its end is asked for."""
        if tx.guessed is not None and not tx.began and (tx.made or not tx.writes):
            return tx.ending()
        if not tx.began:
            tx.several(tx.flushed())
        if tx.schema != str(migrate.SCHEMA):
            self._check_schema(tx)
        # A server that crashes forgets what it did not wait for while we live on, and know of it: no version.
        relaxed = [] if durable or tx.made else [(Q.relax, ())]
        return [*tx.flushed(), *relaxed, END]

    def _telling(self, tx: PostgresTx) -> list[Statement]:
        """What those hear who watch; asked for behind the last ``flushed``."""
        runs = tx.changed()
        return [(Q.tell, (self.place.schema, told(tx.xid, runs)))] if runs else []

    def _tell_again(self, tx: PostgresTx) -> None:
        """Of a commit whose answer was lost; what is told behind it may be, too."""
        try:
            self._with_link(lambda link: link.ask(self._telling(tx)))
        except psycopg.Error as error:
            log.debug("could not tell who watches: %s", error)

    def _check_schema(self, tx: PostgresTx) -> None:
        schema = migrate.check(dict(tx.ask(Q.meta)), self.place)
        if schema < migrate.SCHEMA:
            raise Unsupported(
                f"{self.name} has schema {schema}; this leftoff needs {migrate.SCHEMA}.",
                hint="`leftoff store migrate` brings it up to date, for all who use it.",
            )

    def _give_up(self, link: Link, tx: PostgresView) -> None:
        """Nothing of it is to be there. A connection that may be half way through something is not used again."""
        try:
            if tx.began:
                link.ask([("ROLLBACK", ())])
        except BaseException as error:
            self.pool.drop(link)
            if not isinstance(error, psycopg.Error):
                raise
        else:
            self.pool.give(link)

    def _happened(self, tx: PostgresTx) -> bool:
        """Whether a transaction is durable whose end nobody heard of. Its versions prove it, where it has any: after a
        failover the number of a transaction may be another's."""

        end = time.monotonic() + self.patience

        def look(link: Link) -> bool:
            while (status := _status(link, tx.xid)) == "in progress":
                if time.monotonic() >= end:
                    raise StoreUnavailable("its end has not arrived there.")
                time.sleep(LONGEST_WAIT_S / 10)
            if tx.made:
                return bool(link.ask([_looking_for(tx.made[-1])])[0])
            return bool(status == "committed")

        log.debug("looks for transaction %s, of which no answer came", tx.xid)
        try:
            return self.on_link(look)
        except StoreUnavailable as error:
            raise unheard(self.place, error) from None

    def _create(self) -> None:
        from leftoff.store.facts import first_facts

        def work(link: Link) -> None:
            if not migrate.is_current(link):
                log.debug("makes the store %s", self.name)
                migrate.migrate(link, first_facts(self.clock), self.patience)
            self._learn(link)

        self.on_link(work)
        self._settle()

    def read(self, fn: Callable[[View], T]) -> T:
        return self._persist(lambda: self._look(fn))

    def _look(self, fn: Callable[[View], T]) -> T:
        link = self._take()
        before: list[Any] = [(Q.begin_read, ())]
        if not self._id:
            before.append((Q.meta, ()))
        view = _Snapshot(self, link, before)
        try:
            result = fn(view)
            if view.began:
                link.tell("COMMIT")  # nothing depends on it, so nobody waits for it
            del view.link  # what was fetched may be read on; who asks for more makes a mistake
        except psycopg.Error as error:
            self._give_up(link, view)
            if code_of(error) in _MISSING and not self._there:
                raise self._absent() from None
            raise
        except BaseException:
            self._give_up(link, view)
            raise
        self.pool.give(link)
        return result

    def _absent(self) -> LeftoffError:
        self.on_link(migrate.is_there)  # fails where the role is kept out
        error = StoreUnavailable(f"There is no store at {self.name}.", hint="The first write makes one.")
        error.retry = False
        return error

    # -- blobs

    def save_blob(self, chunks: Iterable[bytes]) -> BlobRow:
        return self.save_together(lambda save: save(chunks))

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

    def prune(self, run: int, drop: Iterable[int]) -> int:
        from leftoff.store.postgres.upkeep import prune

        return prune(self, run, drop)

    def remove(self, run: int, allowed: Callable[[View], None] | None = None) -> int:
        from leftoff.store.postgres.upkeep import remove

        return remove(self, run, allowed)

    def sweep(self, *, thorough: bool = True, at_once: bool = False) -> int:
        from leftoff.store.postgres.upkeep import sweep

        return sweep(self, thorough=thorough)

    def watch(self) -> Watch:
        from leftoff.store.postgres.watch import PostgresWatch

        return PostgresWatch(self)

    def backup(self, folder: str) -> None:
        from leftoff.store.postgres.backup import backup_postgres

        backup_postgres(self, folder)

    def writable(self) -> bool:
        return bool(self.on_link(lambda link: link.ask([(Q.writable, ())]))[0][0][0])

    def about(self) -> dict[str, Any]:
        from leftoff.store.facts import about

        def look(view: Any) -> dict[str, Any]:
            meta, runs, size = view.several([(Q.meta, ()), (Q.count_runs, ()), (Q.bytes, ())])
            found = about("postgresql", dict(meta), runs[0][0], size[0][0])
            more = {"project": self.place.project or None, "server": view.link.version}
            return {**found, **more, "blobs": view.fact(FOLDER)}

        return self.read(look) if self.exists() else {"kind": "postgresql"}

    def migrate(self) -> None:
        self._create()

    def check(self, *, repair: bool = False) -> dict[str, Any]:
        from leftoff.store.postgres.fsck_postgres import check_and_repair, inspect

        return check_and_repair(self) if repair else inspect(self)[0].to_json()

    def close(self, *, soon: bool = False) -> None:
        self.pool.close()


class _Snapshot(PostgresView):
    """A view that looks at the schema first, where that was not done yet."""

    def __init__(self, store: PostgresStore, link: Link, before: list[Any]) -> None:
        super().__init__(link, store._proved, before)
        self._store = store

    def opened(self, found: list[Any]) -> None:
        if len(found) > 1:
            facts = dict(found[1])
            migrate.check(facts, self._store.place)
            self._store.know(facts.get("store_id"))
            self._store._readable = True


def _once(tx: PostgresTx, fn: Callable[[Tx], T], lost: list[tuple[PostgresTx, T]]) -> T:
    """Work that is tried again: an earlier try may be there, or arrive as long as its run is not held."""
    for earlier, result in lost:
        made = earlier.made[-1]
        if tx.hold(made[0]) is not None and tx.ask(*_looking_for(made), made[0]):
            tx.wrote = True  # whoever watches is told of it
            return result
    return fn(tx)


def _looking_for(made: tuple[int, int, bytes]) -> Statement:
    """The question whether a version was made: by run, seq and token."""
    return Q.committed, (*made, token_name(made[0], made[2]))


def _is_unheard_of(error: BaseException) -> bool:
    """Whether no answer to the end of a transaction came: the connection is lost, or somebody did not wait for it."""
    return is_lost(error) if isinstance(error, psycopg.Error) else True


def _may_be_late(tx: PostgresTx) -> bool:
    """Whether a commit that was not heard of was sent at once, by a guess: it may still be on its way."""
    return tx.xid is None and tx.guessed is not None and bool(tx.made)


def _stands_elsewhere(error: psycopg.Error) -> bool:
    """Whether a run is not where it was taken to be: a division by zero (``Q.as_left``), or a version without a number
    (``Q.add_version``)."""
    code = code_of(error)
    return code == "22012" or (code == "23502" and error.diag.table_name == "version")


def _status(link: Link, xid: str | None) -> Any:
    """What became of a transaction. One that the server lost all trace of, as it crashed, did not happen."""
    try:
        return link.ask([(Q.outcome, (xid,))])[0][0][0]
    except psycopg.errors.InvalidParameterValue:  # its number is "in the future": it will be given once more
        return "aborted"


_stores: dict[int, ref[PostgresStore]] = {}


def _forget_all() -> None:
    """In a child: connections are the parent's."""
    for entry in list(_stores.values()):
        store = entry()
        if store is not None:
            store.pool.forget()
            store._left.forget()


os.register_at_fork(after_in_child=_forget_all)
