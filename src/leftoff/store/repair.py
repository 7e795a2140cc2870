"""fsck --repair: keep what can be proved of a damaged store, and put everything aside as it was.

A record is believed only if its bytes have their hash, and a version only if the terms of the records that it sees add
up to its digest. So a row that is damaged, lost, outdated or in the wrong place is never taken for what was committed.
A run goes back to the newest version that is proved, with a record that makes resume ask.

Of an embedded store, the database is copied aside, what SQL can read is read from the copy, and a new database is
built. Neither pages nor the write-ahead log are read. On a server, each damaged run is settled in a transaction of its
own: its rows are copied to the table `quarantine`, and it is written again.
"""

from __future__ import annotations

import os
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from leftoff.clock import compact, iso
from leftoff.errors import Corrupt, LeaseHeld, LeftoffError, StoreUnavailable
from leftoff.files import sync_file, sync_folder
from leftoff.host import this_process
from leftoff.model.changes import blob_of, card_of, columns_of, counts_at, step_or_pending, up_to
from leftoff.model.codec import JSON, MASK, checkpoint_id, encode, sha256, term, text, to_bytes
from leftoff.model.ids import is_run_id
from leftoff.model.words import REPAIRED, TRIGGERS, UNFINISHED
from leftoff.store import sqlite_connection as connection
from leftoff.store.base import ALL, INLINE
from leftoff.store.integrity import Report, check_age, check_structure, inspect
from leftoff.store.rows import ARCHIVED, PARTIAL, TRASHED, Lease, is_name, is_of_attempt
from leftoff.store.sqlite_connection import Presence, Turn, apsw
from leftoff.store.store_copy import RUN, TABLES, add_rows, table_rows

if TYPE_CHECKING:
    from leftoff.store.sqlite import SqliteStore, SqliteTx

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
WRITTEN = (
    "record",
    "past",
    "version",
    "alias",
)  # the tables whose rows of a run are written again on a server
OF_RUN = ("run", *WRITTEN, "token", "lease", "attempt")

Row = dict[str, Any]
LoadBlob = Callable[[bytes], Iterable[bytes]]


# -- what is left of a run


class StoredRecord:
    """A record, live or superseded, whose bytes have their hash."""

    __slots__ = ("collection", "hash", "key", "seq", "stored", "term", "until")

    def __init__(self, row: Row) -> None:
        self.collection: str = row["collection"]
        self.key: str = row["key"]
        self.seq: int = row["seq"]
        self.until: int | None = row.get("until")
        self.hash: bytes = row["hash"]
        self.stored: bytes = row["data"]
        self.term = term(self.collection, self.key, self.hash)

    def seen_at(self, seq: int) -> bool:
        return self.seq <= seq and (self.until is None or seq < self.until)


class RunRemains:
    """The readable rows of one run, and which of its versions they prove.

    ``records``: rows of `record` and `past`, each with its stored bytes as `data` (None: they cannot be read).
    ``sure``: whether the version rows come from sound pages. If not, their texts are not kept: no hash covers them.
    """

    def __init__(
        self, run: int, row: Row | None, records: Iterable[Row], versions: Iterable[Row], *, sure: bool = True
    ) -> None:
        self.run = run
        self.row = row
        known = str(row["run_id"]) if row is not None else ""
        partial = row is not None and row.get("hidden") == PARTIAL and is_name(known)
        self.run_id = known if partial or is_run_id(known) else ""
        self.records = list({(r.collection, r.key, r.until): r for r in _believed(records)}.values())
        self.versions = {version["seq"]: _kept_version(version, sure) for version in versions}
        self._add_head()
        self.proved = sorted(self._proved())
        #: the newest version that is proved; 0: there is none
        self.head = self.proved[-1] if self.proved and self.run_id else 0
        #: the newest version that any row tells of
        self.newest = max([*self.versions, *(max(r.seq, r.until or 0) for r in self.records)], default=0)

    @property
    def is_being_removed(self) -> bool:
        """Whether the run is being removed."""
        return self.row is not None and self.row.get("hidden") == PARTIAL and " " in self.run_id

    @property
    def is_unfinished(self) -> bool:
        """Whether the run may be resumed, by its status at the version that is kept."""
        status = next((r for r in self._live() if (r.collection, r.key) == ("run", "status")), None)
        return status is not None and card_of([(status.key, status.stored)])[0]["status"] in UNFINISHED

    def loss(self, aside: str) -> dict[str, Any] | None:
        """Return what of the run could not be proved, and where all its rows were put; None if all of it was proved."""
        gone = sorted(set(self.versions) - set(self.proved) if self.head else self.versions)
        if self.head >= self.newest and not gone:
            return None
        if not self.head:
            message = "No version of it could be proved: it is left out."
        elif self.head < self.newest:
            message = (
                f"It went back to @{self.head}: what came later, up to @{self.newest}, could not be proved."
            )
        else:
            message = f"Older versions could not be proved: {', '.join(f'@{seq}' for seq in gone[:10])}."
        return {
            "run_id": self.run_id or f"run-{self.run}",
            "kept": self.head or None,
            "newest": self.newest,
            "unproved": gone,
            "aside": aside,
            "message": message,
        }

    def _add_head(self) -> None:
        """Take the newest version from the listing's row if its own row is lost."""
        row = self.row
        if row is None or (row.get("seq") or 0) < 1 or row["seq"] in self.versions:
            return
        if row["n"] in {version["n"] for version in self.versions.values()}:  # the row is what is wrong
            return
        same = ("run", "seq", "n", "digest", "counts", "checkpoint")
        trigger = "external" if row["checkpoint"] is not None else None
        more = {"token": bytes(16), "epoch": 0, "at": row["updated_at"], "trigger": trigger}
        self.versions[row["seq"]] = {**{name: row[name] for name in same}, **more, "step": None, "note": None}

    def _proved(self) -> Iterator[int]:
        """Yield the versions whose digest and id follow from the records."""
        events = [(r.seq, r.term) for r in self.records if r.seq != r.until]
        events += [(r.until, -r.term) for r in self.records if r.until is not None and r.seq != r.until]
        events.sort()
        total, seqs = 0, sorted(self.versions)
        for seq, news in zip(seqs, up_to(seqs, events), strict=True):
            total += sum(value for _, value in news)
            version = self.versions[seq]
            digest, known = version["digest"], version["checkpoint"]
            named = known is None or known == checkpoint_id(self.run_id, seq, digest)
            if to_bytes(total & MASK) == digest and named:
                yield seq

    def _live(self) -> list[StoredRecord]:
        return [record for record in self.records if self.head and record.seen_at(self.head)]

    def _past(self) -> list[StoredRecord]:
        """Return the superseded records that a proved version sees."""
        return [r for r in self.records if r.until is not None and r.until <= self.head and self._is_seen(r)]

    def _is_seen(self, record: StoredRecord) -> bool:
        at = bisect_left(self.proved, record.seq)
        return at < len(self.proved) and record.seen_at(self.proved[at])

    def rebuilt(
        self, load: LoadBlob, mark: Row | None = None, at: int = 0, n: int = 0
    ) -> dict[str, list[Row]]:
        """Return the rows of the run at the version that is kept, by table; what listings need is derived again.

        ``mark``: the content of a record `context/repaired`, which is written as a version of its own, with the commit
        number ``n``, after every version that ever was: the number of a lost version is not given again.
        """
        live, past, head = self._live(), self._past(), self.head
        versions = {seq: self.versions[seq] for seq in self.proved}
        ends: dict[StoredRecord, int | None] = {**dict.fromkeys(live), **{r: r.until for r in past}}
        if mark is not None:
            stored, seq = JSON + encode(mark), self.newest + 1
            place = {"collection": "context", "key": REPAIRED, "seq": seq}
            marked = StoredRecord({**place, "hash": sha256(stored).digest(), "data": stored})
            digest = int.from_bytes(versions[head]["digest"], "big") + marked.term
            for old in [r for r in live if (r.collection, r.key) == (marked.collection, marked.key)]:
                digest -= old.term
                ends[old] = seq
            ends[marked] = None
            fresh = {"seq": seq, "n": n, "at": at, "token": os.urandom(16), "epoch": 0}
            texts = dict.fromkeys(("checkpoint", "trigger", "step", "note"))
            versions[seq] = {**versions[head], **texts, **fresh, "digest": to_bytes(digest & MASK)}
            head = seq
        steps = {r: step_or_pending(load, r.stored, r.key) for r in ends if r.collection == "step"}
        columns = columns_of({r.key: step for r, step in steps.items() if ends[r] is None})
        out: dict[str, list[Row]] = {"value": [], "record": [], "past": []}
        for record, until in ends.items():
            if len(record.stored) > INLINE:
                out["value"].append({"hash": record.hash, "data": record.stored})
            row = {"run": self.run, "collection": record.collection, "key": record.key, "seq": record.seq}
            row |= {"hash": record.hash, "data": record.stored if len(record.stored) <= INLINE else None}
            row["blob"] = blob_of(record.stored)
            if until is not None:
                out["past"].append({**row, "until": until})
            else:
                none = dict.fromkeys(("status", "ord", "leaf"))
                out["record"].append({**row, **(columns[record.key] if record in steps else none)})
        lives = [(r.key, r.seq, ends[r], step["status"]) for r, step in steps.items()]
        counts = counts_at(lives, list(versions))
        out["version"] = [{**version, "counts": counts[seq]} for seq, version in versions.items()]
        out["run"] = [self._run_row(versions[head], counts[head], (r for r in ends if ends[r] is None))]
        return out

    def _run_row(self, head: Row, counts: str, live: Iterable[StoredRecord]) -> Row:
        known = self.row or {}
        columns, card = card_of((r.key, r.stored) for r in live if r.collection == "run")
        first = min(version["at"] for version in self.versions.values())
        hidden = known.get("hidden")
        return {
            "run": self.run,
            "run_id": self.run_id,
            **{name: head[name] for name in ("n", "seq", "digest", "checkpoint")},
            "counts": counts,
            "updated_at": head["at"],
            "created_at": known.get("created_at", first),
            **columns,
            "card": text(card),
            "hidden": hidden if hidden in (TRASHED, ARCHIVED) else 0,
        }


def _believed(rows: Iterable[Row]) -> Iterator[StoredRecord]:
    """Yield the records whose bytes have their hash."""
    for row in rows:
        if row["data"] is not None and sha256(row["data"]).digest() == row["hash"]:
            yield StoredRecord(row)


def _kept_version(version: Row, sure: bool) -> Row:
    if sure and version["trigger"] in (None, *TRIGGERS):
        return version
    trigger = "external" if version["checkpoint"] is not None else None
    return {**version, "trigger": trigger, "step": None, "note": None}


def mark_of(loss: dict[str, Any], at: int, aside: list[str]) -> Row:
    """Return the content of the record `context/repaired`: resuming the run asks until it is gone."""
    return {"at": iso(at), **{key: loss[key] for key in ("kept", "newest", "message")}, "aside": aside}


# -- an embedded store


def _inspect(store: SqliteStore) -> Report:
    return inspect(store, (check_age, check_structure))


def repair_sqlite(store: SqliteStore) -> dict[str, Any]:
    """Check the store, set what is damaged aside, and check again. No other process may have the store open."""
    report = _inspect(store)
    if not report.problems:
        return report.to_json()
    if "missing" in report.codes():
        raise Corrupt(f"{store.path} is gone: there is nothing to repair.", where=store.path, hint=BACKUP)
    _refuse_while_driven(store)
    repair = _SqliteRepair(store, report)
    repair.run()
    again = _inspect(store)
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
    for run_id, lease in leases:
        if lease.process is not None:
            _refuse_driven(run_id, lease, store.clock.now())


class _SqliteRepair:
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
        folder = os.path.join(root, f"{compact(self._store.clock.now())}-{os.urandom(3).hex()}")
        os.mkdir(folder, 0o700)
        sync_folder(self._store.folder)
        sync_folder(root)
        return folder

    def _rebuild(self) -> int:
        """Replace the database by a new one with all that could be proved; return the number of its newest commit."""
        store, folder, part = self._store, self._new_folder(), os.path.join(self._store.folder, "repair.tmp")
        shutil.rmtree(part, ignore_errors=True)
        fresh = type(store)(part, store.clock)
        try:
            rebuild = self._write_again(folder, fresh)
        except BaseException:  # nothing is replaced yet
            shutil.rmtree(folder)
            shutil.rmtree(part, ignore_errors=True)
            raise
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

    def _write_again(self, folder: str, fresh: SqliteStore) -> _Rebuild:
        """Copy the database into a folder, and write what the copy proves into a new store."""
        store = self._store
        copy = os.path.join(folder, os.path.basename(store.path))
        for suffix in ("", "-wal"):
            if os.path.exists(store.path + suffix):
                shutil.copyfile(store.path + suffix, copy + suffix)
                os.chmod(copy + suffix, 0o600)
                sync_file(copy + suffix)
                self.quarantined.append(copy + suffix)
        sync_folder(folder)
        damaged = _DamagedDatabase(copy)
        try:
            rebuild = _Rebuild(store, damaged)
            rebuild.account(copy, any(problem.get("older") for problem in self._report.problems))
            fresh.write(rebuild.write)  # type: ignore[arg-type]
            fresh.truncate()
        finally:
            damaged.close()
            fresh.close()
        return rebuild


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
        self._runs = [remains for remains in damaged.runs() if not remains.is_being_removed]
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
        for row in damaged.sound("token"):
            if row["run"] in kept:
                _insert(tx, "token", row)
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
                known[hash] = found._asdict()
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


# -- a store on a server


def repair_postgres(store: Any) -> dict[str, Any]:
    """Check the store, set what is damaged aside, and check again."""
    report = inspect(store)
    if not report.problems:
        return report.to_json()
    repair = _ServerRepair(store)
    repair.run(report)
    again = inspect(store)
    if report.codes() != {"blob"} or report.runs:
        again.quarantined = [f"{store.place.schema}.quarantine, where repair = '{repair.name}'"]
    repaired = [problem for problem in report.problems if problem not in again.problems]
    return {**again.to_json(), "repaired": repaired, "salvaged": repair.losses}


class _ServerRepair:
    """One repair of a store on a server, named by its time."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._at = store.clock.now()
        self.name = compact(self._at)
        self.losses: list[dict[str, Any]] = []

    def run(self, report: Report) -> None:
        store = self._store

        def refuse(view: Any) -> None:
            for run in report.runs:
                for (run_id,) in view.rows("SELECT run_id FROM run WHERE run = $1", (run,)):
                    _refuse_driven(run_id, view.lease(run))

        store.read(refuse)
        store.write(lambda tx: tx.note(tx.q.make_quarantine))
        if "stray" in report.codes():
            store.write(self._take_strays)
        for run in sorted(report.runs):
            loss = store.write(lambda tx, run=run: self._settle_run(tx, run))
            self.losses += [loss] if loss is not None else []
        store.write(self._take_values)
        store.write(lambda tx: tx.catch_up())

    def _aside(self, tx: Any, table: str, where: str, values: tuple[Any, ...] = ()) -> None:
        """Copy rows into the quarantine."""
        tx.note(
            f"INSERT INTO quarantine (repair, source, kept) SELECT ${len(values) + 1}, '{table}', to_jsonb(t) "
            f"FROM {table} t WHERE {where}",
            (*values, self.name),
        )

    def _take_strays(self, tx: Any) -> None:
        for table in (*WRITTEN, "token", "lease", "attempt"):
            where = "t.run NOT IN (SELECT run FROM run)"
            self._aside(tx, table, where)
            tx.note(f"DELETE FROM {table} t WHERE {where}")

    def _take_values(self, tx: Any) -> None:
        """Take out the damaged values; no run refers to them once those that did are written again."""
        where = (
            "sha256(t.data) <> t.hash AND NOT EXISTS (SELECT 1 FROM record WHERE outside = t.hash) "
            "AND NOT EXISTS (SELECT 1 FROM past WHERE outside = t.hash)"
        )
        self._aside(tx, "value", where)
        tx.note(f"DELETE FROM value t WHERE {where}")

    def _settle_run(self, tx: Any, run: int) -> dict[str, Any] | None:
        """Write a run again at its newest version that is proved; return what could not be."""
        tx.hold(run)
        found = tx.rows(f"SELECT {', '.join(RUN.split())} FROM run WHERE run = $1", (run,))
        if not found:
            return None
        lease = tx.lease(run)
        row = dict(zip(RUN.split(), found[0], strict=True))
        records = [record for table in ("record", "past") for record in _named_rows(tx, table, run)]
        remains = RunRemains(run, row, records, _named_rows(tx, "version", run))
        _refuse_driven(remains.run_id, lease)
        for table in OF_RUN:
            self._aside(tx, table, "t.run = $1", (run,))
        aliases = list(_named_rows(tx, "alias", run)) if remains.head else []
        known = tx.rows("SELECT token, log FROM attempt WHERE run = $1 AND log IS NOT NULL", (run,))
        for token in [token for token, log in known if not is_of_attempt(log)]:
            tx.drop_attempt(token)
        for table in WRITTEN if remains.head else OF_RUN:
            tx.note(f"DELETE FROM {table} WHERE run = $1", (run,))
        loss = remains.loss(f"table quarantine, repair {self.name}")
        if remains.head:
            self._write_again(tx, remains, loss, aliases)
            tx.put_lease(
                run, (lease.epoch if lease is not None else 0) + 1
            )  # a driver that goes by what was lost is fenced off
        return loss

    def _write_again(
        self, tx: Any, remains: RunRemains, loss: dict[str, Any] | None, aliases: Iterable[Any]
    ) -> None:
        mark, n = None, 0
        if loss is not None and loss["newest"] != loss["kept"]:
            mark = mark_of(loss, self._at, [f"quarantine {self.name}"])
            n = tx.one("SELECT nextval('commit_number')")[0]

        def load(hash: bytes) -> Iterator[bytes]:
            found = tx.blob(hash)
            return self._store.blobs.load(found) if found is not None else iter(())

        rebuilt = remains.rebuilt(load, mark, self._at, n)
        rebuilt["alias"] = [row for row in aliases if row["seq"] in remains.proved]
        for hash in {row["blob"] for table in ("record", "past") for row in rebuilt[table]} - {None}:
            tx.note(tx.q.refer_to_blob, (hash,))
            tx.note(tx.q.know_blob, (hash,))  # reading it says whether it is whole
        for table in ("value", "record", "past", "version", "alias"):
            names = TABLES[table][0]
            add_rows(tx, table, [tuple(row.get(name) for name in names) for row in rebuilt[table]])
        (run,) = rebuilt["run"]
        listed = [name for name in RUN.split() if name not in ("run", "created_at")]
        marks = ", ".join(f"{name} = ${i + 2}" for i, name in enumerate(listed))
        tx.note(f"UPDATE run SET {marks} WHERE run = $1", [run["run"], *(run[name] for name in listed)])


def _named_rows(tx: Any, table: str, run: int) -> Iterator[Row]:
    """Yield the rows of a run in a table by the names of their columns, with their stored bytes."""
    for row in table_rows(tx, table, None, ALL, run):
        yield dict(zip(TABLES[table][0], row, strict=True))


def _refuse_driven(run_id: str, lease: Lease | None, now: int = 0) -> None:
    """Raise if a process drives the run: it would continue from what is lost. ``now``: of a store without a clock."""
    if lease is None or lease.process == this_process() or not lease.is_at_work(now):
        return
    raise LeaseHeld(
        f"Run {run_id} is driven by {lease}.",
        hint="Let it end, or stop it; a damaged run is repaired while no process drives it.",
    )
