"""Repair: what is damaged is set aside, what is whole is kept, and nothing that can be read is lost.

Before anything is changed, the database is copied to the quarantine as it is. Then, as far as needed: a damaged log is
cut behind its sound part; a byte is put right where checksum and hashes leave no other; and where that is not enough, a
new database is built from the rows and versions that still prove themselves. Blobs and the listing's copies come
last. It needs the store for itself: no other process may drive a run or have the file open.
"""

from __future__ import annotations

import os
import shutil
from functools import partial

import apsw

from leftoff.clock import iso
from leftoff.errors import LeaseHeld, LeftoffError, StoreUnavailable
from leftoff.files import sync, sync_folder
from leftoff.host import GONE, this_process
from leftoff.model.card import card_of
from leftoff.model.codec import sha256
from leftoff.model.derived import columns_of, counts_at, step_or_pending
from leftoff.model.words import UNFINISHED
from leftoff.store.fsck.check import inspect
from leftoff.store.repair.carve import Carver
from leftoff.store.repair.quarantine import Quarantine
from leftoff.store.repair.rebuild import Rebuild, lines
from leftoff.store.repair.salvage import Salvage, Source
from leftoff.store.sqlite import connection
from leftoff.store.sqlite import wal_check as walcheck
from leftoff.store.sqlite.pages import USABLE, PageFile, checksum, mends
from leftoff.store.sqlite.queries import Q
from leftoff.store.sqlite.tx import SqliteTx
from leftoff.store.sqlite.wal import Log
from leftoff.store.sqlite.writer import Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from leftoff.store.base import Doubt, View
    from leftoff.store.blobs import Blobs
    from leftoff.store.fsck.check_run import Report
    from leftoff.store.repair.carve import Row
    from leftoff.store.sqlite.store import SqliteStore

    T = TypeVar("T")

DERIVED = {"run"}
OUTSIDE = {"blob"}
PART = "repair.tmp"


def check_and_repair(store: SqliteStore, doubt: Doubt | None = None) -> dict[str, Any]:
    """See ``Store.check``."""
    report = inspect(store)
    if not report.problems:
        return report.to_json()
    done = repair(store, report, doubt)
    again = inspect(store)
    again.quarantined = done.quarantine.paths
    return {**again.to_json(), "repaired": report.problems, "salvaged": done.losses}


def repair(store: SqliteStore, report: Report, doubt: Doubt | None = None) -> _Repair:
    """Set the damage of ``report`` aside. What is wrong afterwards, another look at the store tells."""
    _refuse_while_driven(store)
    turn = Turn(os.path.join(store.folder, "lock"))  # its own descriptor keeps our own threads out, too
    turn.take(store.patience)
    try:
        store.release()
        work = _Repair(store, report, turn, doubt)
        work.run()
        return work
    finally:
        store.release()
        turn.give()
        turn.close()


def _refuse_while_driven(store: SqliteStore) -> None:
    me = this_process()
    store.refuses_damage = False
    try:
        leases = store.read(lambda view: view.leases()) if store.exists() else []
    except LeftoffError:  # too damaged to say; whoever has the file open still stops us
        return
    finally:
        store.refuses_damage = True
    for run_id, lease in leases:
        if lease.process is not None and lease.process != me and lease.process.state() != GONE:
            since = f", since {iso(lease.since)}" if lease.since is not None else ""
            raise LeaseHeld(
                f"Run {run_id} is driven by {lease.who or 'a process'} ({lease.process}){since}.",
                hint="Let it end, or stop it; repair needs the store for itself.",
            )


class _Repair:
    """The stages, each on what the one before has left."""

    def __init__(self, store: SqliteStore, report: Report, turn: Turn, doubt: Doubt | None) -> None:
        self.store = store
        self.report = report
        self._turn = turn
        self._doubt = doubt
        self.quarantine = Quarantine(store)
        self.losses: list[dict[str, Any]] = []  # run by run: what could not be proved
        self.unaccounted = False  # whether commits were lost of which nobody knows whose they were

    def run(self) -> None:
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

    # -- the log

    def _cut_log(self) -> None:
        """Nothing but the log is damaged: its sound part goes into the database, the rest of it away.

        Where one byte explains it, that is put right first, and nothing is lost. Where more can be had from behind the
        damage, a new database is built.
        """
        file = self._open()
        assert file is not None
        with file:
            self.quarantine.keep_database(file)
            log, others = self._mended_log(file)
            copied = bool(log.data) and walcheck.is_copied_back(file, log)
            if not copied and (others or log.salvaged() != log.committed()):
                return
            self.unaccounted = self._is_older() or (not copied and self._lost_frames(log))
            self._note_lost()
            if not copied:
                self._set_log(log.data)  # cut short while copying, the log still says all that is copied
                self._copy_back(file, *log.committed())
            self._set_log(b"")
            if os.path.exists(self.store.path + "-shm"):
                os.unlink(self.store.path + "-shm")  # it tells of the log that was
        self._forget_lost()
        self._look_again()

    def _note_lost(self) -> None:
        """Where commits are lost, the log's absence says so until everything else is done."""
        if self.unaccounted:
            walcheck.note(self.store.path + "-wal", bytes(8), 1)

    def _forget_lost(self) -> None:
        """What was lost is not missed any more. Last of all, so that a repair that is cut short is told again; the runs
        that it may have been of ask by then."""
        if self.unaccounted:
            told = {loss["run_id"] for loss in self.losses}
            doubted = self._write(lambda tx: perhaps(tx, told))
            for loss in doubted:
                self._write(partial(self._ask, loss))
            self.losses += doubted
        walcheck.forget_note(self.store.path)
        self._turn.mark(0)

    def _ask(self, loss: dict[str, Any], tx: SqliteTx) -> None:
        try:
            if self._doubt is not None:
                self._doubt(tx, loss, self.quarantine.paths)
        except LeftoffError:  # it is damaged itself, and whoever reads it is told
            pass

    def _is_older(self) -> bool:
        """Whether commits are missing of which the log does not tell."""
        return any(problem.get("older") for problem in self.report.problems)

    def _lost_frames(self, log: Log) -> bool:
        """Whether the log had frames that cannot be had from it any more."""
        return any(problem.get("frames", 0) > log.valid for problem in self.report.problems)

    def _copy_back(self, file: PageFile, pages: dict[int, bytes], count: int) -> None:
        """What SQLite does with a log: its pages go into the database. By ourselves, so that nobody gets in between."""
        for number, page in pages.items():
            file.write(number, page[:USABLE] + checksum(page))
        if pages:
            file.truncate(count)
        file.sync()

    def _set_log(self, data: bytes) -> None:
        with open(
            self.store.path + "-wal", "r+b" if os.path.exists(self.store.path + "-wal") else "wb"
        ) as wal:
            wal.write(data)
            wal.truncate()
            sync(wal.fileno())

    def _mended_log(self, file: PageFile | None) -> tuple[Log, list[Log]]:
        """The log with what one byte explains put right; where several would, each of what it may have been."""

        def judge(longer: Log) -> Callable[[int, bytes], bool]:
            return Candidates(_over(file, longer.committed()) or _below(file)).fits

        log, found = Log(walcheck.read(self.store.path + "-wal")), []
        while "wal" in self.report.codes() and (log.flipped() or not log.header_sound):
            found = log.mends(judge)
            if not found or any(one.committed() != found[0].committed() for one in found[1:]):
                break
            log, found = found[0], []
        return log, found if len(found) <= TRIED else []

    # -- pages

    def _mend_pages(self) -> None:
        """Put right what one byte explains, if it is certain which one."""
        file = self._open()
        assert file is not None
        with file:
            self.quarantine.keep_database(file)
            source = _below(file)
            candidates = Candidates(source)
            for number in sorted(source.bad):
                fitting = candidates.of(number)
                if len(fitting) == 1:
                    file.write(number, fitting[0])
            file.sync()
        self._look_again()

    # -- a new database

    def _rebuild(self) -> None:
        file = self._open()
        try:
            self.quarantine.keep_database(file)
            log, others = self._mended_log(file)
            sources = _sources(file, log, damaged="wal" in self.report.codes())
            sources += [source for one in others if (source := _over(file, one.committed())) is not None]
            salvage = Salvage([*sources, *Candidates(sources[0]).readings()])
            self.losses = [loss for rest in salvage.runs if (loss := rest.loss()) is not None]
            self.unaccounted = bool(salvage.unaccounted()) or self._is_older() or self._lost_frames(log)
            for rest in salvage.runs:
                left = lines(rest, rest.split()[2])
                first = next(left, None)
                if first is not None:
                    name = rest.run_id or f"run-{rest.run}"
                    all_lines = (line for part in ([first], left) for line in part)
                    path = self.quarantine.write_lines(f"{name}.jsonl", all_lines)
                    for loss in self.losses:
                        loss["aside"] = path if loss["run_id"] == name else loss["aside"]
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
        marks, now = self._marks(), store.clock.now()
        fresh.write(lambda tx: Rebuild(tx.db, store.blobs, salvage, marks, now).write())  # type: ignore[attr-defined]
        fresh.truncate()
        fresh.close()
        self._note_lost()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(store.path + suffix):
                os.unlink(store.path + suffix)
        sync_folder(store.folder)
        os.replace(fresh.path, store.path)
        sync_folder(store.folder)
        self._forget_lost()
        if file is not None:
            # Whoever opened the old file in this very moment must not write to it: it is no database any more.
            file.write(1, bytes(connection.PAGE_SIZE))
        shutil.rmtree(part, ignore_errors=True)

    def _marks(self) -> dict[str, Any]:
        """What is told of each run that went back."""
        more = {"at": iso(self.store.clock.now()), "aside": self.quarantine.paths}
        return {
            loss["run_id"]: {**more, **{key: loss[key] for key in ("kept", "newest", "message")}}
            for loss in self.losses
            if loss["kept"] is not None and loss["newest"] != loss["kept"]
        }

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
                tx.lose_blob(hash, self.store.clock.now())
            for row in back:
                tx.execute(Q.forget_blob, (row.hash,))
                tx.put_blob(row)

        self._write(work)
        self._look_again()

    # -- what is worked out from the records

    def _recount(self) -> None:
        self._write(lambda tx: recount(tx, self.store.blobs))
        self._look_again()

    def _write(self, work: Callable[[SqliteTx], T]) -> T:
        """One transaction on a connection of our own: we have the turn already."""
        db = connection.prepare(connection.open_file(self.store.path), self.store.path)
        try:
            with db:
                done = work(SqliteTx(db, self.store.blobs))
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return done
        finally:
            db.close()


def perhaps(view: View, told: set[str]) -> list[dict[str, Any]]:
    """The unfinished runs that commits may have been of which nobody can account for any more."""
    message = "Commits were lost, and whose they were cannot be told: it may have been further on."
    return [
        {
            "run_id": row.run_id,
            "kept": row.seq,
            "newest": None,
            "unproved": [],
            "aside": None,
            "message": message,
        }
        for row in view.list_runs({"status": UNFINISHED})
        if row.run_id not in told
    ]


def _sources(file: PageFile | None, log: Log, *, damaged: bool) -> list[Source]:
    """The database under its log. Where the log is damaged, also the database alone: all of the log may have been
    copied back already, and then its sound part is older."""
    over = _over(file, log.committed())
    if not damaged:
        return [over or _below(file)]
    further = _over(file, log.salvaged())
    return [source for source in (further, over, _below(file)) if source is not None]


def _below(file: PageFile | None) -> Source:
    if file is None:
        return Source(lambda number: None, 0, set())
    pages = file.count()
    return Source(
        lambda number: file.read(number) if 0 < number <= pages else None, pages, set(file.damaged())
    )


def _over(file: PageFile | None, logged: tuple[dict[int, bytes], int]) -> Source | None:
    newer, count = logged
    if not newer:
        return None
    below = _below(file)
    return Source(lambda number: newer.get(number) or below.get(number), count, below.bad - newer.keys())


TRIED = 12  # readings of the whole file, at most


class Candidates:
    """Judges pages that may stand in the place of damaged ones of one source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._owners: dict[int, set[int]] | None = None

    def of(self, number: int) -> list[bytes]:
        """The pages, a byte away from the one that is there, that are sound and on which every row has its hash."""
        page = self._source.get(number)
        found = mends(page) if page is not None else []
        return found if len(found) < 2 else [page for page in found if self.fits(number, page)]

    def fits(self, number: int, page: bytes) -> bool:
        """Whether every row that has bytes on this page has its hash with it."""
        carver = Carver(self._source.with_page(number, page).get, self._source.count)
        rows = [row for owner in self._owners_of(number) for row in carver.cells(owner)]
        return all(row is not None and _has_its_hash(row) for row in rows)

    def readings(self) -> Iterator[Source]:
        """The source with each page that would explain the damage: which one is right, the versions' digests tell."""
        for number in sorted(self._source.bad):
            pages = self.of(number)
            if 1 < len(pages) <= TRIED:
                yield from (self._source.with_page(number, page) for page in pages)

    def _owners_of(self, number: int) -> set[int]:
        """The pages whose rows go on on this one; those of a row's start are its own."""
        if self._owners is None:
            self._owners = {}
            for row in Carver(self._source.get, self._source.count).rows():
                for behind in row.pages[1:]:
                    self._owners.setdefault(behind, set()).add(row.pages[0])
        return self._owners.get(number, {number})


def _has_its_hash(row: Row) -> bool:
    data = row.values.get("data")
    return data is None or sha256(data).digest() == row.values["hash"]


def recount(tx: SqliteTx, blobs: Blobs) -> None:
    """Every run's row, counters and the columns of its steps, inside one transaction."""
    tx.execute(Q.ensure_run_0)
    for (run_id,) in tx.execute(Q.hidden_but_complete).fetchall():
        tx.execute(Q.unhide_run, (run_id,))
    for (run,) in tx.execute(Q.runs_to_check).fetchall():
        _recount_run(tx, blobs, run)
    tx.execute(Q.catch_up_n)


def _recount_run(tx: SqliteTx, blobs: Blobs, run: int) -> None:
    def load(hash: bytes) -> Any:
        row = tx.blob(hash)
        return blobs.load(row) if row is not None else ()

    steps: list[tuple[str, int, int | None, str]] = []
    live: dict[str, dict[str, Any]] = {}
    own: dict[str, bytes] = {}
    for collection, key, seq, until, _, stored, *_ in tx.execute(Q.every_record, (run,)).fetchall():
        if collection == "step":
            step = step_or_pending(load, stored, key)
            steps.append((key, seq, until, step["status"]))
            if until is None:
                live[key] = step
        elif collection == "run" and until is None:
            own[key] = stored
    for path, columns in columns_of(live).items():
        tx.execute(Q.set_step, (columns["status"], columns["leaf"], columns["ord"], run, path))
    versions = tx.versions(run, sealed=False)
    counted = counts_at(steps, [version.seq for version in versions])
    for seq, counts in counted.items():
        tx.execute(Q.set_counts, (counts, run, seq))
    head = versions[0]
    tx.execute(Q.set_head, (head.n, head.seq, head.digest, counted[head.seq], head.at, head.checkpoint, run))
    tx.set_card(run, *card_of(own.items()))
