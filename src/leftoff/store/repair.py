"""Repair: what is damaged is set aside, what is whole is kept, and nothing that can be read is lost.

Before anything is changed, the database is copied to the quarantine as it is. Then, as far as needed: a damaged log is
cut behind its sound part; a byte that a page's checksum proves to be wrong is put right; and where that is not enough,
a new database is built from the rows and versions that still prove themselves. Blobs and the listing's copies come
last. It needs the store for itself: no other process may drive a run or have the file open.
"""

from __future__ import annotations

import os
import shutil

import apsw

from leftoff.clock import iso
from leftoff.errors import LeaseHeld, LeftoffError, StoreUnavailable
from leftoff.host import GONE, this_process
from leftoff.store import connection, walcheck
from leftoff.store.carve import Carver, is_map
from leftoff.store.check import inspect
from leftoff.store.location import sync, sync_folder
from leftoff.store.pages import PageFile, is_sound, mends
from leftoff.store.quarantine import Quarantine
from leftoff.store.queries import Q
from leftoff.store.rebuild import Rebuild, lines
from leftoff.store.recount import recount
from leftoff.store.report import LOST_BLOB
from leftoff.store.salvage import Salvage, Source
from leftoff.store.sqlite_tx import SqliteTx
from leftoff.store.wal import Log
from leftoff.store.writer import Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.store.report import Report
    from leftoff.store.sqlite import SqliteStore

DERIVED = {"run"}
OUTSIDE = {"blob"}
PART = "repair.tmp"


def repair(store: SqliteStore, report: Report) -> list[str]:
    """Set the damage of ``report`` aside; where to. What is wrong afterwards, another look at the store tells."""
    _refuse_while_driven(store)
    turn = Turn(os.path.join(store.folder, "lock"))  # a descriptor of its own: it keeps our own threads out, too
    turn.take()
    try:
        store.release()
        return _Repair(store, report).run()
    finally:
        store.release()
        turn.give()
        turn.close()


def _refuse_while_driven(store: SqliteStore) -> None:
    me = this_process()
    try:
        leases = store.read(lambda view: view.leases()) if store.exists() else []
    except LeftoffError:  # too damaged to say; whoever has the file open still stops us
        return
    for run_id, lease in leases:
        if lease.process is not None and lease.process != me and lease.process.state() != GONE:
            since = f", since {iso(lease.since)}" if lease.since is not None else ""
            raise LeaseHeld(
                f"Run {run_id} is driven by {lease.who or 'a process'} ({lease.process}){since}.",
                hint="Let it end, or stop it; repair needs the store for itself.",
            )


class _Repair:
    """The stages, each on what the one before has left."""

    def __init__(self, store: SqliteStore, report: Report) -> None:
        self.store = store
        self.report = report
        self.quarantine = Quarantine(store)

    def run(self) -> list[str]:
        if "page" in self.report.codes():
            self._mend_pages()
        if self.report.codes() - DERIVED - OUTSIDE == {"wal"}:
            self._cut_log()
        if self.report.codes() - DERIVED - OUTSIDE:
            self._rebuild()
        if "blob" in self.report.codes():
            self._settle_blobs()
        if "run" in self.report.codes():
            self._recount()
        return self.quarantine.paths

    def _look_again(self) -> None:
        self.report = inspect(self.store)
        self.store.release()

    def _open(self) -> PageFile | None:
        """The database's pages, for ourselves alone."""
        if not os.path.exists(self.store.path):
            return None
        file = PageFile(self.store.path)
        try:
            file.lock()
        except apsw.BusyError as error:
            file.close()
            raise StoreUnavailable(
                f"{self.store.path} is open elsewhere; repair needs it for itself.",
                hint="Close what uses the store (other processes, other leftoff.Store objects), then try again.",
            ) from error
        return file

    def _keep_database(self) -> None:
        file = self._open()
        try:
            self.quarantine.keep_database(file)
        finally:
            if file is not None:
                file.close()

    # -- the log

    def _cut_log(self) -> None:
        """Nothing but the log is damaged: its sound part goes into the database, the rest of it away.

        Where one byte explains it, that is put right first, and nothing is lost.
        """
        self._keep_database()
        wal = self.store.path + "-wal"
        log = Log(walcheck.read(wal))
        while (mended := log.mended()) is not None:
            log = mended
        with open(wal, "r+b") as file:
            file.write(log.data)
            file.flush()
            sync(file.fileno())
        db = connection.prepare(connection.open_file(self.store.path), self.store.path)
        try:
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()
        self._look_again()

    # -- pages

    def _mend_pages(self) -> None:
        """Put right what one byte explains. It is proved by the page's own checksum."""
        file = self._open()
        assert file is not None
        with file:
            self.quarantine.keep_database(file)
            bad = list(file.damaged())
            carver = Carver(lambda number: file.read(number) if 0 < number <= file.count() else None, file.count())
            for number in bad:
                page = _mended(carver, number, file.read(number))
                if page is not None:
                    file.write(number, page)
            file.sync()
        self._look_again()

    # -- a new database

    def _rebuild(self) -> None:
        file = self._open()
        try:
            self.quarantine.keep_database(file)
            salvage = Salvage(_sources(file, self.store.path + "-wal"))
            for rest in salvage.runs:
                left = lines(rest, rest.split()[2])
                first = next(left, None)
                if first is not None:
                    name = f"{rest.run_id or f'run-{rest.run}'}.jsonl"
                    self.quarantine.write_lines(name, (line for part in ([first], left) for line in part))
            self._replace(salvage, file)
        finally:
            if file is not None:
                file.close()
        self._look_again()

    def _replace(self, salvage: Salvage, file: PageFile | None) -> None:
        """The new database is whole and durable before it takes the old one's place, and the old log is gone before."""
        store = self.store
        part = os.path.join(store.folder, PART)
        shutil.rmtree(part, ignore_errors=True)
        fresh = type(store)(part, store.clock)
        fresh.write(lambda tx: Rebuild(tx.db, store.blobs, salvage).write())  # type: ignore[attr-defined]
        fresh.truncate()
        fresh.close()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(store.path + suffix):
                os.unlink(store.path + suffix)
        sync_folder(store.folder)
        os.replace(fresh.path, store.path)
        sync_folder(store.folder)
        if file is not None:
            # Whoever opened the old file in this very moment must not write to it: it is no database any more.
            file.write(1, bytes(connection.PAGE_SIZE))
        shutil.rmtree(part, ignore_errors=True)

    # -- blobs

    def _settle_blobs(self) -> None:
        """Damaged files move away. A blob that is gone is known to be: its records stay, reading it says so."""
        lost = {bytes.fromhex(p["blob"]) for p in self.report.problems if p["code"] == "blob"}
        blobs = self.store.blobs
        gone, back = [], []
        for hash in sorted(lost):
            if blobs.identify(hash) is None and os.path.exists(blobs.path(hash)):
                self.quarantine.move_blob(blobs.path(hash), hash)
            row = blobs.identify(hash) if blobs.present(hash) else None
            gone.append(hash) if row is None else back.append(row)

        def work(tx: Any) -> None:
            for hash in gone:
                tx.execute(Q.forget_blob, (hash,))
                tx.execute(Q.put_meta, (LOST_BLOB + hash.hex(), iso(self.store.clock.now())))
            for row in back:
                tx.execute(Q.forget_blob, (row.hash,))
                tx.put_blob(row)

        self._write(work)
        self._look_again()

    # -- what is worked out from the records

    def _recount(self) -> None:
        self._write(lambda tx: recount(tx, self.store.blobs))
        self._look_again()

    def _write(self, work: Any) -> None:
        """One transaction on a connection of our own: we have the turn already."""
        db = connection.prepare(connection.open_file(self.store.path), self.store.path)
        try:
            with db:
                work(SqliteTx(db, self.store.blobs))
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            db.close()


def _mended(carver: Carver, number: int, page: bytes) -> bytes | None:
    """The page as it was, if that is certain: one change explains the checksum, or only one makes all rows prove."""
    candidates = mends(page)
    if len(candidates) > 1 and not is_map(number):
        candidates = [one for one in candidates if carver.proves(number, one)]
    return candidates[0] if len(candidates) == 1 else None


def _sources(file: PageFile | None, wal: str) -> list[Source]:
    """The database under the sound part of its log; and without the log, for it may have been copied back already."""
    newer, count = Log(walcheck.read(wal)).committed()
    pages = file.count() if file is not None else 0
    bad = set(file.damaged()) if file is not None else set()

    def below(number: int) -> bytes | None:
        return file.read(number) if file is not None and 0 < number <= pages else None

    def over(number: int) -> bytes | None:
        return newer[number] if number in newer else below(number)

    plain = Source(below, pages, bad)
    if not newer:
        return [plain]
    return [Source(over, count, {n for n in bad if n not in newer} | {n for n in newer if not is_sound(newer[n])}), plain]
