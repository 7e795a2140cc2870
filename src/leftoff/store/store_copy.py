"""Copy rows and blobs from one store to another of any kind: those of one run (`RowCopy`) or all (`copy_store`).

A copy of a whole store keeps ids, numbers and history. Its files are copied first. Then its rows are copied in one
transaction of the target, while no process can commit to the source. At the end the target is checked as fsck checks
it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from leftoff.errors import Conflict, Corrupt, Invalid, NotFound
from leftoff.files import sync_folder, write_private
from leftoff.model.codec import sha256
from leftoff.store.base import ALL, INLINE, SqlStore, Tx, View
from leftoff.store.rows import (
    ATTEMPTS,
    MOST_OUTPUT,
    PYTHON_LOGS,
    BlobRow,
    end_of,
    is_of_attempt,
    misplaced,
    missing_bytes,
    wrong_bytes,
)

Row = tuple[Any, ...]


# Called with the table, the rows copied so far and their total.
Tell = Callable[[str, int, int], None]

ROWS, BATCH_BYTES = 200, 1 << 20  # read at a time
ASKED_S = 10.0  # a server ends a snapshot that is idle for a minute: query it this often during long writes
LOG, PIECE = "log", 1 << 18  # the file in an attempt's folder, and how much of it is read at a time


# -- the tables of a store, row by row: every store has them, with these columns

RECORD = "run collection key seq hash data blob status ord leaf"
PAST = "run collection key until seq hash data blob"
VERSION = "run seq n token digest epoch at counts checkpoint trigger step note"
RUN = (
    "run run_id n seq digest counts updated_at created_at workflow branch status title issue session card hidden "
    "checkpoint"
)
ATTEMPT = "token run step number scope pid started log started_at ended_at exit_code"
#: by table: its columns, and how many of them, from the first on, are its key
TABLES = {
    "value": (("hash", "data"), 1),
    "blob": (("hash", "size", "stored", "encoding"), 1),
    "record": (tuple(RECORD.split()), 3),
    "past": (tuple(PAST.split()), 4),
    "version": (tuple(VERSION.split()), 2),
    "token": (("run", "token", "seq", "digest", "at"), 2),
    "alias": (("name", "run", "seq"), 3),
    "attempt": (tuple(ATTEMPT.split()), 1),
    "lease": (("run", "epoch", "since", "beat"), 1),
    "meta": (("name", "value"), 1),
    "run": (tuple(RUN.split()), 1),
}
#: the tables that are copied by themselves; values and blobs come with the records that refer to them
COPIED = ("record", "past", "version", "token", "alias", "attempt", "lease", "meta", "run")
#: how many rows there are in all of them
COUNT = f"SELECT {' + '.join(f'(SELECT count(*) FROM {table})' for table in COPIED)}"
#: names in `meta` that describe the store itself
OWN_FACTS = ("store_id", "created_at", "created_by", "written_by", "schema")


def table_rows(view: View, table: str, after: Row | None, limit: int, run: int | None = None) -> list[Row]:
    """Return the next rows of a table after a key, in the order of the keys. ``run``: only rows of this run."""
    columns, width = TABLES[table]
    values: list[Any] = []
    conditions = ["run > 0"] if table == "run" else []
    if run is not None:
        conditions.append("run = $1")
        values.append(run)
    if after is not None:
        # If all rows are of one run, compare only the rest of the key: else SQLite does not use the index for it.
        first = 1 if run is not None and columns[0] == "run" else 0
        marks = ", ".join(f"${len(values) + i + 1}" for i in range(width - first))
        conditions.append(f"({', '.join(columns[first:width])}) > ({marks})")
        values += after[first:]
    selected = list(columns)
    if table in ("record", "past"):  # a record's bytes are in its row or in `value`
        value = f"(SELECT v.data FROM value v WHERE v.hash = {table}.hash)"
        selected[columns.index("data")] = f"coalesce(data, {value})"
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    order = ", ".join(columns[:width])
    sql = f"SELECT {', '.join(selected)} FROM {table} {where}ORDER BY {order} LIMIT ${len(values) + 1}"
    if table != "meta":
        return view.shared(sql, (*values, limit))
    rows = view.shared(sql, (*values, ALL))  # never many, and some describe this store
    return [row for row in rows if row[0] not in OWN_FACTS][:limit]


def add_rows(tx: Tx, table: str, rows: Iterable[Row]) -> None:
    """Add rows of another store's table. Their blobs must be known here."""
    columns = TABLES[table][0]
    marks = ", ".join(f"${i + 1}" for i in range(len(columns)))
    sql = tx.in_words(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING")
    data = columns.index("data") if table in ("record", "past") else None
    for row in rows:
        if data is not None and row[data] is not None and len(row[data]) > INLINE:
            tx.note(tx.q.put_value, (row[columns.index("hash")], row[data]))
            row = (*row[:data], None, *row[data + 1 :])
        tx.note(sql, row)


# -- copying


class RowBatch(NamedTuple):
    """Rows to add in one transaction, and the blobs that they refer to."""

    rows: list[Row]
    blobs: list[BlobRow]

    def add(self, tx: Tx, table: str) -> None:
        for blob in self.blobs:
            tx.put_blob(blob)
        add_rows(tx, table, self.rows)


class RowCopy:
    """Reads rows in a snapshot of ``source``, checks their hashes, and saves their blobs in ``target``.

    ``run``: only rows of this run.
    """

    def __init__(self, source: SqlStore, view: View, target: SqlStore, run: int | None = None) -> None:
        self.source = source
        self.view = view
        self.target = target
        self.run = run
        self.blobs: dict[bytes, BlobRow] = {}

    def batches(self, table: str) -> Iterator[RowBatch]:
        """Yield the rows of a table, in the order of their keys."""
        width, after = TABLES[table][1], None
        while rows := table_rows(self.view, table, after, ROWS, self.run):
            after = rows[-1][:width]
            some: list[Row] = []
            blobs: list[BlobRow] = []
            size = 0
            for row in rows:
                if table in ("record", "past"):
                    size += self._check(table, row, blobs)
                some.append(row)
                if size > BATCH_BYTES:
                    yield RowBatch(some, blobs)
                    some, blobs, size = [], [], 0
            if some:
                yield RowBatch(some, blobs)

    def _check(self, table: str, row: Row, blobs: list[BlobRow]) -> int:
        """Check a record's bytes and save the blob that it refers to; return the number of its bytes."""
        columns = dict(zip(TABLES[table][0], row, strict=True))
        run, collection, key, data = (columns[name] for name in ("run", "collection", "key", "data"))
        if data is None:
            raise missing_bytes(run, collection, key)
        if sha256(data).digest() != columns["hash"]:
            raise wrong_bytes(run, collection, key)
        if columns["blob"] is not None:
            blobs.append(self.save_blob(columns["blob"]))
        return len(data)

    def save_blobs(self) -> None:
        """Copy the blobs that the rows refer to, before the transaction that adds the rows."""
        of_run = "blob IS NOT NULL" + (" AND run = $1" if self.run is not None else "")
        sql = f"SELECT blob FROM record WHERE {of_run} UNION SELECT blob FROM past WHERE {of_run}"
        for (hash,) in self.view.shared(sql, (self.run,) if self.run is not None else ()):
            self.save_blob(hash)

    def save_blob(self, hash: bytes) -> BlobRow:
        if hash not in self.blobs:
            known = self.view.blob(hash)
            if known is None:
                raise Corrupt(
                    f"The blob {hash.hex()} that a record refers to is not known.", where=hash.hex()
                )
            content = keep_alive(self.view, self.source.load_blob(hash, known))
            self.blobs[hash] = self.target.save_blob(content)
        return self.blobs[hash]


def keep_alive(view: View, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same chunks, and query the snapshot from time to time so that the server does not end it."""
    asked = -ASKED_S
    for chunk in chunks:
        if time.monotonic() - asked >= ASKED_S:
            view.newest()
            asked = time.monotonic()
        yield chunk


# -- whole stores


def copy_store(
    source: SqlStore, target: SqlStore, tell: Tell | None = None, *, others_write: bool = False
) -> dict[str, Any]:
    """Copy everything into ``target``, which has no runs. Return what was ``copied`` and ``checked``, as counts.

    No process can commit to the source while its rows are copied, so the copy has everything. ``others_write``: copy
    one snapshot instead, for a backup. A process that may not write to the source also copies a snapshot.
    """
    if not source.exists():
        raise NotFound(f"There is no store at {source.name}.", hint="There is nothing to copy.")
    copy = _StoreCopy(source, target, tell, driven=others_write)
    if target.exists():
        target.read(copy.refuse_target)
    source.read(copy.refuse_driven)
    above = os.path.join(source.folder, ATTEMPTS)
    for run_id in os.listdir(above) if os.path.isdir(above) else ():
        copy_python_logs(source, target, run_id)
    if others_write or not source.writable():
        source.read(copy.everything)
    else:
        source.read(copy.files)  # most of the time goes into these, and writers need not wait for them
        source.write(copy.everything)
    found = target.check()
    if found["problems"]:
        problem = found["problems"][0]
        raise Corrupt(f"The copy in {target.name} is not sound: {problem['message']}", where=problem["where"])
    return {"copied": copy.counts, "checked": dict(found["checked"])}


class _StoreCopy:
    """One copy of a store. ``driven``: also if a process drives a run."""

    def __init__(self, source: SqlStore, target: SqlStore, tell: Tell | None, *, driven: bool) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._driven = driven
        self._blobs: dict[bytes, BlobRow] = {}
        self._logs = LogCopy(source, target)
        self.counts: dict[str, int] = {}

    def refuse_target(self, view: View) -> None:
        """Raise ``Invalid`` if the target has runs."""
        if table_rows(view, "run", None, 1):
            raise Invalid(
                f"{self._target.name} has runs already; a copy goes into a store that is empty.",
                hint="Choose another place (`?project=NAME` makes one on the same server).",
            )

    def refuse_driven(self, view: View) -> None:
        """Raise ``Conflict`` if a process drives a run: its next commits would be in the old store only."""
        for run_id, lease in view.leases() if not self._driven else ():
            if lease.is_at_work(self._source.clock.now()):
                raise Conflict(
                    f"Run {run_id} is driven by {lease}.",
                    hint="Nothing was copied. Let it end, or stop it; then copy again.",
                )

    def files(self, view: View) -> None:
        """Copy the blobs and logs that are not copied yet. Nothing in the target refers to them."""
        rows = RowCopy(self._source, view, self._target)
        rows.blobs = self._blobs
        rows.save_blobs()
        for batch in RowCopy(self._source, view, self._target).batches("attempt"):
            for row in batch.rows:
                self._logs.save(view, row[0], row[7])

    def everything(self, view: View) -> None:
        """Copy what is still missing. A server may call this again if it did not confirm the end of the transaction."""
        if self.counts:
            return
        if isinstance(view, Tx):
            view.hold_all_runs()
        self.refuse_driven(view)
        self.files(view)
        self.counts = self._target.write(lambda tx: self._fill(view, tx))

    def _fill(self, view: View, tx: Tx) -> dict[str, int]:
        tx.hold_all_runs()
        self.refuse_target(tx)
        rows, counts = RowCopy(self._source, view, self._target), dict[str, int]()
        rows.blobs, total = self._blobs, view.shared(COUNT)[0][0]
        for table in COPIED:
            for batch in rows.batches(table):
                batch.add(tx, table)
                tx.newest()  # so that a server is sent what it was not sent yet
                counts[table] = counts.get(table, 0) + len(batch.rows)
                if self._tell is not None:
                    self._tell(table, sum(counts.values()), int(total))
        self._logs.add(view, tx)
        tx.catch_up()
        return {"run": counts.pop("run", 0), **counts}


class LogCopy:
    """Copies what attempts printed: in a folder store these are files, in a store on a server rows."""

    def __init__(self, source: SqlStore, target: SqlStore) -> None:
        self._source = source
        self._target = target
        self._found: dict[str, tuple[str, BlobRow | None]] = {}  # the file, and the blob of a long one

    def save(self, view: View, token: str, folder: str | None) -> None:
        """Copy the log of an attempt, before the transaction that adds the attempt's row."""
        if not folder or token in self._found:
            return
        if not is_of_attempt(folder):
            raise misplaced(f"attempt {token}")
        here, there = (os.path.join(store.folder, folder, LOG) for store in (self._source, self._target))
        last, whole = view.kept_log(token)
        size = MOST_OUTPUT + 1 if whole is not None else len(last or b"")
        content: Iterable[bytes] = self._source.load_blob(whole) if whole is not None else [last or b""]
        if os.path.isfile(here):
            size, content = os.path.getsize(here), _pieces(here)
        blob = None
        if self._target.shared and size > MOST_OUTPUT:
            blob = self._target.save_blob(keep_alive(view, content))
        elif size and not self._target.shared:
            write_private(there, keep_alive(view, content), durable=False)
        self._found[token] = here, blob

    def add(self, view: View, tx: Tx) -> None:
        """Add the rows of the logs, after those of the attempts."""
        for token, (path, whole) in self._found.items() if self._target.shared else ():
            last = end_of(path) if os.path.isfile(path) else view.kept_log(token)[0]
            if last:
                tx.keep_log(token, last, whole)


def copy_python_logs(source: SqlStore, target: SqlStore, run_id: str) -> None:
    """Copy what Python code of a run logged on this machine: files next to either store, which no row mentions."""
    for inside, _, names in os.walk(os.path.join(source.folder, ATTEMPTS, run_id, PYTHON_LOGS)):
        for path in [os.path.join(inside, name) for name in names]:
            try:
                if os.path.isfile(path):
                    there = os.path.join(target.folder, os.path.relpath(path, source.folder))
                    write_private(there, _pieces(path), durable=False)
            except FileNotFoundError:  # the run was removed meanwhile
                pass


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


# -- backups


@contextmanager
def backup_folder(store: SqlStore, folder: str) -> Iterator[str]:
    """Yield a new folder next to ``folder``, and give it that name at the end; on a failure, nothing is left of it."""
    if not store.exists():
        raise NotFound(f"There is no store at {store.name}.", hint="There is nothing to back up yet.")
    if os.path.isdir(folder) and os.listdir(folder):
        raise Invalid(f"{folder} is not empty; a backup goes into a new folder.")
    full = os.path.abspath(folder)
    part = f"{full}.{os.urandom(6).hex()}"
    try:
        yield part
        if os.path.isdir(full):
            os.rmdir(full)
        os.rename(part, full)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_folder(os.path.dirname(full))
