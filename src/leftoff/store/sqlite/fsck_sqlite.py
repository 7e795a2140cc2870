"""fsck and repair of a SQLite store.

fsck works by SQL and hashes: SQLite checks the page checksums and the structure of the file, and every row and blob is
checked as in any store. Repair copies the database aside, reads from the copy what SQL can read, and builds a new
database from the runs and versions that still prove themselves. It reads neither pages nor the write-ahead log itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import apsw

from leftoff.clock import compact, iso
from leftoff.errors import Corrupt, LeaseHeld, LeftoffError, StoreUnavailable
from leftoff.files import sync_file, sync_folder
from leftoff.host import GONE, this_process
from leftoff.store.integrity import Report, RunCheck, check_blob, check_strays, check_value
from leftoff.store.remains import Row, RunRemains, mark_of
from leftoff.store.rows import BlobRow, is_of_attempt
from leftoff.store.sqlite import connection
from leftoff.store.sqlite.failures import IOERR_CHECKSUM, NONSENSE, translate
from leftoff.store.sqlite.queries import Q
from leftoff.store.sqlite.writer import Presence, Turn

if TYPE_CHECKING:
    from leftoff.store.sqlite.store import SqliteStore
    from leftoff.store.sqlite.tx import SqliteTx

BACKUP = "Restore a backup (`leftoff store backup` makes one). Nothing was changed."
LAST_MS = 253_402_300_799_999  # the end of the year 9999
# The key of each table within a run, and the type of each column that is never NULL.
_ORDER = {"record": "collection, key", "past": "collection, key, until", "version": "seq", "run": "run"}
_TYPES = {
    **dict.fromkeys(("run", "seq", "until", "n", "epoch", "at", "created_at", "updated_at", "hidden"), int),
    **dict.fromkeys(("hash", "digest", "token"), bytes),
    **dict.fromkeys(("collection", "key", "run_id", "counts"), str),
}
_UNREADABLE = (apsw.Error, UnicodeDecodeError)


# -- fsck


def inspect(store: SqliteStore) -> Report:
    """Check everything and change nothing."""
    report = Report(store.counted)
    try:
        if not store.exists():
            return report
    except Corrupt:
        report.problem("missing", store.path, "The database is gone, but its log or its blobs are there.")
        return report
    parts = (_check_age, _check_structure, _check_values, _check_runs, _check_strays, _check_blobs)
    try:
        for part in parts:
            _guarded(part, store, report)
            store.refuses_damage = False
    finally:
        store.refuses_damage = True
    return report


def _guarded(part: Callable[..., None], store: SqliteStore, report: Report, *more: Any) -> None:
    """Run one part of the check. If damage stops it, report that, so that the next part gets its chance."""
    try:
        part(store, report, *more)
    except NONSENSE as error:
        if not report.problems:  # a mistake in this code: do not rebuild a sound store for it
            raise
        message = f"What was read makes no sense: {type(error).__name__}: {error}"
        report.problem("unreadable", store.path, message)
    except (apsw.Error, OSError, LeftoffError) as error:
        try:
            known = translate(error, store.path)
        except apsw.Error as other:  # damage makes SQLite fail in many ways
            known = Corrupt(f"{store.path} cannot be read: {other}", where=store.path)
        if not isinstance(known, Corrupt):
            raise known from error
        where = known.where or store.path
        if known.older:
            report.problem("wal", where, f"It{known.message.removeprefix(where)}", older=True)
        elif not any(problem["where"] == where for problem in report.problems):
            summed = getattr(error.__cause__ or error, "extendedresult", 0) == IOERR_CHECKSUM
            report.problem("page" if summed else "unreadable", where, known.message)


def _check_age(store: SqliteStore, report: Report) -> None:
    """Compare the newest commit with the number in the lock file: a log that is cut or damaged loses commits."""
    store.give(store.take())


def _check_structure(store: SqliteStore, report: Report) -> None:
    db = store.take()
    try:
        report.checked["pages"] = int(str(connection.pragma(db, "page_count")))
        for (line,) in db.execute("PRAGMA integrity_check(50)"):
            if line != "ok":
                report.problem("structure", store.path, str(line))
    finally:
        store.give(db)


def _check_values(store: SqliteStore, report: Report) -> None:
    def check(view: Any) -> None:
        for hash, data in view.execute(Q.all_values):
            check_value(report, hash, data)

    store.read(check)


def _check_runs(store: SqliteStore, report: Report) -> None:
    runs = store.read(lambda view: view.execute(Q.runs_to_check).fetchall())  # type: ignore[attr-defined]
    for (run,) in runs:
        _guarded(_check_run, store, report, run)


def _check_run(store: SqliteStore, report: Report, run: int) -> None:
    store.read(lambda view: RunCheck(view, store.blobs, run, report).check())


def _check_strays(store: SqliteStore, report: Report) -> None:
    def check(view: Any) -> None:
        check_strays(report, view.execute(Q.rows_of_no_run), view.execute(Q.hidden_but_complete))
        newest, counted = view.execute(Q.newest_commit).fetchone()
        if counted is None or counted < newest:
            message = f"The store counts {counted or 0} commits, but there is number {newest}."
            report.problem("run", "run 0", message)

    store.read(check)


def _check_blobs(store: SqliteStore, report: Report) -> None:
    for columns in store.read(lambda view: view.execute(Q.blobs).fetchall()):  # type: ignore[attr-defined]
        check_blob(report, store.blobs, BlobRow(*columns))


# -- repair


def check_and_repair(store: SqliteStore) -> dict[str, Any]:
    """Check the store, set what is damaged aside, and check again. No other process may have the store open."""
    report = inspect(store)
    if not report.problems:
        return report.to_json()
    if "missing" in report.codes():
        raise Corrupt(f"{store.path} is gone: there is nothing to repair.", where=store.path, hint=BACKUP)
    _refuse_while_driven(store)
    repair = _Repair(store, report)
    repair.run()
    again = inspect(store)
    again.quarantined = repair.quarantined
    repaired = [problem for problem in report.problems if problem not in again.problems]
    return {**again.to_json(), "repaired": repaired, "salvaged": repair.losses}


def _refuse_while_driven(store: SqliteStore) -> None:
    store.refuses_damage = False
    try:
        leases = store.read(lambda view: view.leases())
    except LeftoffError:  # too damaged to say; a process that has the store open is noticed all the same
        return
    finally:
        store.refuses_damage = True
    me = this_process()
    for run_id, lease in leases:
        if lease.process is not None and lease.process != me and lease.process.state() != GONE:
            since = f", since {iso(lease.since)}" if lease.since is not None else ""
            raise LeaseHeld(
                f"Run {run_id} is driven by {lease.who or 'a process'} ({lease.process}){since}.",
                hint="Let it end, or stop it; repair needs the store for itself.",
            )


class _Repair:
    """One repair of a SQLite store. Nothing that it puts into the quarantine is ever deleted."""

    def __init__(self, store: SqliteStore, report: Report) -> None:
        self._store = store
        self._report = report
        self._quarantine = os.path.join(store.folder, "quarantine")
        self.quarantined: list[str] = []
        self.losses: list[dict[str, Any]] = []

    def run(self) -> None:
        store, report = self._store, self._report
        turn, alone = Turn(os.path.join(store.folder, "lock")), Presence(store.folder)
        turn.take(store.patience)
        try:
            store.release()
            alone.show()
            if not alone.alone():
                raise StoreUnavailable(
                    f"{store.path} is open elsewhere; repair needs it for itself.",
                    hint="Close what uses the store (other processes, other leftoff.Store objects), then try again.",
                )
            if report.codes() != {"blob"} or any("run_id" in problem for problem in report.problems):
                turn.mark(self._rebuild())
            for hash in report.damaged_blobs():
                self._settle_blob(hash)
        finally:
            alone.close()
            turn.give()
            turn.close()

    def _settle_blob(self, hash: bytes) -> None:
        """Move the damaged file of a blob to the quarantine, so that saving the content again makes it whole."""
        blobs = self._store.blobs
        path = blobs.path(hash)
        if blobs.identify(hash) is None and os.path.lexists(path):
            target = os.path.join(self._new_folder("blobs"), hash.hex())
            os.rename(path, target)
            sync_folder(os.path.dirname(target))
            sync_folder(os.path.dirname(path))
            self.quarantined.append(target)
        blobs.present(hash)  # there may be a whole copy in the trash

    def _new_folder(self, above: str = "") -> str:
        """Make a folder in the quarantine, named by the time of this repair."""
        root = os.path.join(self._quarantine, above)
        os.makedirs(root, mode=0o700, exist_ok=True)
        name, number = compact(self._store.clock.now()), 1
        folder = os.path.join(root, name)
        while os.path.exists(folder):
            number += 1
            folder = os.path.join(root, f"{name}-{number}")
        os.mkdir(folder, 0o700)
        sync_folder(self._store.folder)
        sync_folder(root)
        return folder

    def _rebuild(self) -> int:
        """Replace the database by a new one with all that could be proved; return the number of its newest commit."""
        store, folder = self._store, self._new_folder()
        copy, part = (
            os.path.join(folder, os.path.basename(store.path)),
            os.path.join(store.folder, "repair.tmp"),
        )
        shutil.rmtree(part, ignore_errors=True)
        try:
            for suffix in ("", "-wal"):
                if os.path.exists(store.path + suffix):
                    shutil.copyfile(store.path + suffix, copy + suffix)
                    os.chmod(copy + suffix, 0o600)
                    sync_file(copy + suffix)
                    self.quarantined.append(copy + suffix)
            sync_folder(folder)
            damaged = _DamagedDatabase(copy)
        except BaseException:
            shutil.rmtree(folder)
            raise
        fresh = type(store)(part, store.clock)
        try:
            rebuild = _Rebuild(store, damaged)
            rebuild.account(copy, any(problem.get("older") for problem in self._report.problems))
            fresh.write(rebuild.write)  # type: ignore[arg-type]
            fresh.truncate()
        finally:
            damaged.close()
            fresh.close()
        # SQLite would apply a log that is left over to the new database, so it goes first.
        for suffix in ("-wal", "-shm"):
            if os.path.exists(store.path + suffix):
                os.unlink(store.path + suffix)
        sync_folder(store.folder)
        os.replace(fresh.path, store.path)
        sync_folder(store.folder)
        shutil.rmtree(part)
        self.losses = rebuild.losses
        return rebuild.newest


class _DamagedDatabase:
    """Reads a copy of a damaged database: with page checksums if possible, else without, as far as SQL gets."""

    def __init__(self, path: str) -> None:
        self._path = path
        uri = f"file:{quote(os.fsencode(path))}?mode=ro"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        self._checked = connection.open_file(uri, read_only=True)
        self._raw = apsw.Connection(uri, flags=flags, vfs="unix")
        self._raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        try:
            self._raw.execute("PRAGMA writable_schema = ON")  # else SQLite refuses a file that lost its end
            self._raw.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        except apsw.Error as error:
            self.close()
            message = f"SQLite cannot read any table of the damaged database: {error}"
            raise Corrupt(message, where=path, hint=BACKUP) from error

    def close(self) -> None:
        self._checked.close()
        self._raw.close()
        if os.path.exists(self._path + "-shm"):
            os.unlink(self._path + "-shm")

    def sound(self, table: str) -> list[Row]:
        """Return all rows of a table if its pages are sound, else none: no hash covers them."""
        try:
            return list(_rows(self._checked, f"SELECT * FROM {table}"))
        except _UNREADABLE:
            return []

    def newest(self) -> int:
        """Return the number of the newest commit that the store counted; 0 if that cannot be read."""
        return max((row["n"] for row in self.sound("run") if row["run"] == 0), default=0)

    def runs(self) -> list[RunRemains]:
        """Return what is left of each run."""
        rows, sure = self._of_table("run")
        listed = {row["run"]: row["run_id"] for row in rows}
        ids = listed if sure else self._indexed_ids(listed)
        known = {row["run"]: row for row in rows if row["run_id"] == ids.get(row["run"])}
        numbers = {*ids, *(row["run"] for row in self._of_table("version")[0])}
        return [self._run(run, ids.get(run), known.get(run), sure) for run in sorted(numbers) if run > 0]

    def _indexed_ids(self, listed: dict[int, str]) -> dict[int, str]:
        """Read the ids of runs from their index. If its pages are not sound either, believe what both have alike."""
        sql, found = "SELECT run, run_id FROM run INDEXED BY sqlite_autoindex_run_1", dict[int, str]()
        try:
            return {row["run"]: row["run_id"] for row in _rows(self._checked, sql)}
        except _UNREADABLE:
            pass
        try:
            for row in _rows(self._raw, sql):
                found[row["run"]] = row["run_id"]
        except _UNREADABLE:
            pass
        return {run: run_id for run, run_id in found.items() if listed.get(run) == run_id}

    def _run(self, run: int, run_id: str | None, row: Row | None, sure: bool) -> RunRemains:
        if row is not None and not sure:  # its times and its head may be damaged
            row = {"run_id": run_id, "hidden": row["hidden"]}
        elif row is None and run_id is not None:
            row = {"run_id": run_id}
        records = [*self._of_table("record", run)[0], *self._of_table("past", run)[0]]
        for record in records:
            if record["data"] is None:
                record["data"] = self._value(record["hash"])
        versions, sound = self._of_table("version", run)
        return RunRemains(run, row, records, versions, sure=sound)

    def _value(self, hash: bytes) -> bytes | None:
        try:
            found: Any = self._raw.execute("SELECT data FROM value WHERE hash = ?", (hash,)).fetchone()
            return found[0] if found is not None and isinstance(found[0], bytes) else None
        except _UNREADABLE:
            return None

    def _of_table(self, table: str, run: int | None = None) -> tuple[list[Row], bool]:
        """Return the rows of a table, or of a run in it, and whether they come from sound pages.

        If one page stops SQLite, the rows before and after it are read: once from each end.
        """
        key = _ORDER[table] if run is not None or table == "run" else "run, " + _ORDER[table]
        sql = f"SELECT * FROM {table} {'WHERE run = ?' if run is not None else ''} ORDER BY "
        values = (run,) if run is not None else ()
        try:
            rows = list(_rows(self._checked, sql + key, values))
            kept = [row for row in rows if _is_plausible(row)]  # a sound page may be in the place of another
            return kept, len(kept) == len(rows)
        except _UNREADABLE:
            pass
        out: dict[Any, Row] = {}
        names = [name.strip() for name in key.split(",")]
        for order in (key, ", ".join(f"{name} DESC" for name in names)):
            try:
                for row in _rows(self._raw, sql + order, values):
                    out[tuple(row[name] for name in names)] = row
            except _UNREADABLE:
                pass
        return [row for row in out.values() if _is_plausible(row)], False


def _rows(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Iterator[Row]:
    cursor = db.cursor()
    for row in cursor.execute(sql, values):
        yield dict(zip((column[0] for column in cursor.get_description()), row, strict=True))


def _is_plausible(row: Row) -> bool:
    """Return whether the columns of a row have the types and ranges that they must have."""
    typed = all(type(value) is _TYPES.get(name, type(value)) for name, value in row.items())
    return typed and all(0 <= row[name] <= LAST_MS for name in ("at", "n") if name in row)


class _Rebuild:
    """Writes what is kept of all runs into an empty store, inside one transaction."""

    def __init__(self, store: SqliteStore, damaged: _DamagedDatabase) -> None:
        self._blobs = store.blobs
        self._at = store.clock.now()
        self._damaged = damaged
        self._runs = [remains for remains in damaged.runs() if not remains.is_unfinished_copy]
        self._marks: dict[int, Row] = {}
        self.losses: list[dict[str, Any]] = []
        self.newest = max((v["n"] for remains in self._runs for v in remains.versions.values()), default=0)

    def account(self, aside: str, older: bool) -> None:
        """Work out which runs lost versions. ``older``: commits are lost, and of which runs they were is not known."""
        counted = self._damaged.newest()
        for remains in self._runs:
            loss = remains.loss(aside)
            went_back = loss is not None and loss["kept"] != loss["newest"]
            if (older or counted > self.newest) and not went_back and remains.is_unfinished:
                message = (
                    "Commits were lost, and whose they were cannot be told: it may have been further on."
                )
                known = {"run_id": remains.run_id, "kept": remains.head, "newest": None, "unproved": []}
                loss, went_back = {**known, "aside": aside, "message": message}, True
            if loss is not None:
                self.losses.append(loss)
                if went_back and remains.head:
                    self._marks[remains.run] = mark_of(loss, self._at, [aside])
        self.newest = max(self.newest, counted)

    def write(self, tx: SqliteTx) -> None:
        damaged, kept = self._damaged, {remains.run: remains for remains in self._runs if remains.head}
        used: set[bytes] = set()
        for row in damaged.sound("meta"):
            if row["name"] != "schema":
                _insert(tx, "meta", row)
        for run, remains in kept.items():
            mark = self._marks.get(run)
            self.newest += mark is not None
            for table, rows in remains.rebuilt(self._load, mark, self._at, self.newest).items():
                for row in rows:
                    _insert(tx, table, row)
                    used.update([row["blob"]] if row.get("blob") is not None else [])
        self._write_blobs(tx, used)
        self._write_leases(tx, kept)
        for row in damaged.sound("attempt"):
            if row["run"] in kept and (row["log"] is None or is_of_attempt(row["log"])):
                _insert(tx, "attempt", row)
        for row in damaged.sound("alias"):
            if row["run"] in kept and row["seq"] in kept[row["run"]].proved:
                _insert(tx, "alias", row)
        tx.execute("UPDATE run SET n = ? WHERE run = 0", (self.newest,))

    def _load(self, hash: bytes) -> Iterator[bytes]:
        row = self._blobs.identify(hash)
        return self._blobs.load(row) if row is not None else iter(())

    def _write_blobs(self, tx: SqliteTx, used: set[bytes]) -> None:
        """Write the rows of the blobs that are used; if a row is lost, the blob's file tells it."""
        known = {row["hash"]: row for row in self._damaged.sound("blob")}
        for hash in used:
            found = self._blobs.identify(hash) if hash not in known else None
            if found is not None:
                columns = ("hash", "size", "stored", "encoding")
                known[hash] = {name: getattr(found, name) for name in columns}
            if hash in known:
                _insert(tx, "blob", known[hash])

    def _write_leases(self, tx: SqliteTx, kept: dict[int, RunRemains]) -> None:
        """Give a run that lost versions a new epoch, so that a driver that goes by them is fenced off."""
        leases = {row["run"]: row for row in self._damaged.sound("lease")}
        for run, remains in kept.items():
            lease = leases.get(run)
            if run in self._marks or not leases:
                epochs = [version["epoch"] for version in remains.versions.values()]
                lease = {"run": run, "epoch": max([lease["epoch"] if lease else 0, *epochs]) + 1}
            if lease is not None:
                _insert(tx, "lease", lease)


def _insert(tx: SqliteTx, table: str, row: Row) -> None:
    marks = ", ".join("?" * len(row))
    try:
        tx.execute(f"REPLACE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    except apsw.ConstraintError:  # a row of another table, on a page in the wrong place
        pass
