"""Copy rows and blobs from one store to another of any kind: those of one run (`RowCopy`) or all (`copy_store`).

A copy of a whole store keeps ids, numbers and history. It adds the rows of `run` last, in one transaction, so no run is
visible in the target before that, and none can be started there. The target notes which copy is made into it; the next
one removes what an interrupted copy left. While the runs become visible, no process can commit to the source. At the
end the target is checked as fsck checks it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.errors import Conflict, Corrupt, Invalid, NotFound
from leftoff.files import sync_folder, write_private
from leftoff.model.codec import sha256
from leftoff.store.base import ALL, INLINE, Tx
from leftoff.store.rows import (
    ATTEMPTS,
    COPYING,
    FACT,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leftoff.store.base import Store, View

# Called with the table, the rows copied so far and their total.
Tell = Callable[[str, int, int], None]

ROWS, BATCH_BYTES = 200, 1 << 20  # read at a time, and written in one transaction
TRIES = 3  # how often a copy starts again because its source has changed
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
}
#: the tables that are copied by themselves; values and blobs come with the records that refer to them
COPIED = ("record", "past", "version", "token", "alias", "attempt", "lease", "meta")
#: how many rows there are in all of them
COUNT = f"SELECT {' + '.join(f'(SELECT count(*) FROM {table})' for table in COPIED)}"
#: names in `meta` that describe the store itself
OWN_FACTS = ("store_id", "created_at", "created_by", "written_by", "schema")
#: names in `meta` that are not copied
OURS = (*OWN_FACTS, FACT + COPYING)


def _selected(table: str) -> list[str]:
    """Return what to select for the columns of a table: a record's bytes also if they are in `value`."""
    columns = list(TABLES[table][0])
    if table in ("record", "past"):
        value = f"(SELECT v.data FROM value v WHERE v.hash = {table}.hash)"
        columns[columns.index("data")] = f"coalesce(data, {value})"
    return columns


def _split_values(table: str, rows: list[Row]) -> tuple[list[Row], dict[bytes, bytes]]:
    """Return the rows without the bytes that belong in `value`, and those bytes by their hash."""
    values: dict[bytes, bytes] = {}
    if table not in ("record", "past"):
        return rows, values
    columns = TABLES[table][0]
    hash, data = columns.index("hash"), columns.index("data")
    out = []
    for row in rows:
        if row[data] is not None and len(row[data]) > INLINE:
            values[row[hash]] = row[data]
            row = (*row[:data], None, *row[data + 1 :])
        out.append(row)
    return out, values


class Tables:
    """The tables inside a transaction, row by row."""

    def __init__(self, view: View) -> None:
        self._view = view

    def rows(self, table: str, after: Row | None, limit: int, run: int | None = None) -> list[Row]:
        """Return the next rows of a table after a key, in the order of the keys. ``run``: only rows of this run."""
        columns, width = TABLES[table]
        values: list[Any] = []
        conditions = []
        if run is not None:
            conditions.append("run = $1")
            values.append(run)
        if after is not None:
            # If all rows are of one run, compare only the rest of the key: else SQLite does not use the index for it.
            first = 1 if run is not None and columns[0] == "run" else 0
            marks = ", ".join(f"${len(values) + i + 1}" for i in range(width - first))
            conditions.append(f"({', '.join(columns[first:width])}) > ({marks})")
            values += after[first:]
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        order = ", ".join(columns[:width])
        sql = f"SELECT {', '.join(_selected(table))} FROM {table} {where}ORDER BY {order} LIMIT ${len(values) + 1}"
        if table != "meta":
            return self._view.shared(sql, (*values, limit))
        rows = self._view.shared(sql, (*values, ALL))  # never many, and some describe this store
        return [row for row in rows if row[0] not in OURS][:limit]

    def runs(self) -> list[Row]:
        """Return the rows of all runs, also hidden ones."""
        return self._view.shared(f"SELECT {', '.join(RUN.split())} FROM run WHERE run > 0 ORDER BY run")

    def size(self) -> int:
        """Return the number of rows to copy, or a few more."""
        return int(self._view.shared(COUNT)[0][0])


class WritableTables(Tables):
    """What a write transaction can do with them."""

    def __init__(self, tx: Tx) -> None:
        super().__init__(tx)
        self._tx = tx

    def runs(self) -> list[Row]:
        """Return the rows of all runs; none is added until this transaction ends."""
        self._tx.hold_all_runs()
        return super().runs()

    def add(self, table: str, rows: list[Row]) -> None:
        """Add rows of another store's table. Their blobs must be known here."""
        rows, data = _split_values(table, rows)
        for value in data.items():
            self._tx.note(self._tx.q.put_value, value)
        self._insert(table, TABLES[table][0], rows)

    def _insert(self, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        marks = ", ".join(f"${i + 1}" for i in range(len(columns)))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        for row in rows:
            self._tx.note(self._tx.in_words(sql), row)

    def add_runs(self, rows: list[Row]) -> None:
        """Add the runs of another store to one that has none, with their numbers and that of the newest commit."""
        self._insert("run", RUN.split(), rows)
        self._tx.catch_up()

    def clear(self) -> None:
        """Delete all rows that were added. What the store says of itself stays."""
        for table in (*COPIED[:-1], "value", "piece", *self._tx.own_tables, "blob"):
            self._tx.note(f"DELETE FROM {table}")
        names = ", ".join(f"'{name}'" for name in OWN_FACTS)
        self._tx.note(f"DELETE FROM meta WHERE name NOT IN ({names})")


# -- copying


class RowBatch(NamedTuple):
    """Rows to add in one transaction, and the blobs that they refer to."""

    rows: list[Row]
    blobs: list[BlobRow]

    def add(self, tx: Tx, table: str) -> None:
        for blob in self.blobs:
            tx.put_blob(blob)
        WritableTables(tx).add(table, self.rows)


class RowCopy:
    """Reads rows in a snapshot of ``source``, checks their hashes, and saves their blobs in ``target``.

    ``run``: only rows of this run.
    """

    def __init__(self, source: Store, view: View, target: Store, run: int | None = None) -> None:
        self.source = source
        self.view = view
        self.target = target
        self.run = run
        self.blobs: dict[bytes, BlobRow] = {}

    def batches(self, table: str) -> Iterator[RowBatch]:
        """Yield the rows of a table, in the order of their keys."""
        width, after = TABLES[table][1], None
        while rows := Tables(self.view).rows(table, after, ROWS, self.run):
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
            blobs.append(self._save_blob(columns["blob"]))
        return len(data)

    def _save_blob(self, hash: bytes) -> BlobRow:
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
            view.fact(COPYING)
            asked = time.monotonic()
        yield chunk


# -- whole stores


def copy_store(
    source: Store, target: Store, tell: Tell | None = None, *, others_write: bool = False
) -> dict[str, Any]:
    """Copy everything into ``target``, which is empty or holds an interrupted copy.

    Commits that others make to the source meanwhile are copied, too. ``others_write``: copy one snapshot instead, for a
    backup. Return what was ``copied`` and ``checked``, as counts.
    """
    if not source.exists():
        raise NotFound(f"There is no store at {source.name}.", hint="There is nothing to copy.")
    if not others_write:
        refuse_driven_runs(source, source.clock.now())
    ours = os.urandom(8).hex()
    for _ in range(TRIES):
        state, runs, counts = source.read(lambda view: _copy_tables(source, view, target, ours, tell))
        if _reveal(target, ours, runs) if others_write else _reveal_held(source, target, ours, runs, state):
            break
    else:
        _give_up(target, ours)
        raise Conflict(
            f"{source.name} went on while it was copied.",
            hint="Somebody works in it right now. Nothing was kept of the copy; try again when they have finished.",
        )
    found = target.check()
    if found["problems"]:
        problem = found["problems"][0]
        raise Corrupt(f"The copy in {target.name} is not sound: {problem['message']}", where=problem["where"])
    return {"copied": {"run": len(runs), **counts}, "checked": dict(found["checked"])}


def refuse_driven_runs(source: Store, now: int) -> None:
    """Raise ``Conflict`` if a process drives a run: its next commits would be in the old store only."""
    source.read(lambda view: _refuse_driven(view, now))


def _refuse_driven(view: View, now: int) -> None:
    for run_id, lease in view.leases():
        if lease.is_at_work(now):
            raise Conflict(
                f"Run {run_id} is driven by {lease.who or lease.process or lease.session}.",
                hint="Nothing was copied. Let it end, or stop it; then copy again.",
            )


def _state(view: View, runs: list[Row]) -> str:
    """Return a hash that every commit to the source changes."""
    return sha256(f"{dict(view.notes('store_id'))['store_id']} {runs!r}".encode()).hexdigest()


def _copy_tables(
    source: Store, view: View, target: Store, ours: str, tell: Tell | None
) -> tuple[str, list[Row], dict[str, int]]:
    """Copy all but the rows of `run`. Return the source's state, those rows, and the number of rows by table."""
    runs, total = Tables(view).runs(), Tables(view).size()
    _begin(target, ours)
    rows, counts = RowCopy(source, view, target), dict[str, int]()
    for table in COPIED:
        for batch in rows.batches(table):
            _load(target, ours, table, batch)
            counts[table] = counts.get(table, 0) + len(batch.rows)
            if tell is not None:
                tell(table, sum(counts.values()), total)
    _copy_logs(source, view, target)
    _copy_python_logs(source, view, target)
    return _state(view, runs), runs, counts


def _begin(target: Store, ours: str) -> None:
    """Claim the target, and remove what an interrupted copy left."""

    def work(tx: Tx) -> None:
        if WritableTables(tx).runs():
            raise Invalid(
                f"{target.name} has runs already; a copy goes into a store that is empty.",
                hint="Choose another place (`?project=NAME` makes one on the same server).",
            )
        if tx.fact(COPYING) is not None:
            WritableTables(tx).clear()
        tx.put_fact(COPYING, ours)

    target.write(work)


def _load(target: Store, ours: str, table: str, batch: RowBatch) -> None:
    def work(tx: Tx) -> None:
        _need_ours(tx, target, ours)
        batch.add(tx, table)

    target.write(work)


def _reveal_held(source: Store, target: Store, ours: str, runs: list[Row], state: str) -> bool:
    """Make the runs visible while no process can commit to the source; return False if the source has changed.

    If this process may not write to the source (a read-only disk, a standby, a read-only role), it only reads it.
    """
    revealed = False

    def work(view: View) -> bool:
        nonlocal revealed
        # The source may call this again if the server did not confirm the end of the transaction.
        if not revealed:
            try:
                _refuse_driven(view, source.clock.now())
            except Conflict:
                _give_up(target, ours)
                raise
            tables = WritableTables(view) if isinstance(view, Tx) else Tables(view)
            revealed = _state(view, tables.runs()) == state and _reveal(target, ours, runs)
        return revealed

    return source.write(work) if source.writable() else source.read(work)


def _reveal(target: Store, ours: str, runs: list[Row]) -> bool:
    def work(tx: Tx) -> bool:
        _need_ours(tx, target, ours)
        WritableTables(tx).add_runs(runs)
        tx.put_fact(COPYING, None)
        return True

    return target.write(work)


def _give_up(target: Store, ours: str) -> None:
    """Delete what this copy has added, unless another copy has taken over."""

    def work(tx: Tx) -> None:
        _need_ours(tx, target, ours)
        WritableTables(tx).clear()

    target.write(work)


def _need_ours(tx: Tx, target: Store, ours: str) -> None:
    """Raise ``Conflict`` if another copy into the target has begun or ended since."""
    if tx.fact(COPYING) != ours or WritableTables(tx).runs():
        raise Conflict(
            f"Meanwhile, another copy was made into {target.name}.",
            hint="Nothing more was copied. `leftoff ls --all` shows what is there; or choose another place.",
        )


# -- logs


def _copy_logs(source: Store, view: View, target: Store) -> None:
    """Copy what attempts printed: a store on a server has it in rows, a folder store in files."""
    for batch in RowCopy(source, view, target).batches("attempt"):
        for row in batch.rows:
            token, folder = row[0], row[7]
            if folder and not is_of_attempt(folder):
                raise misplaced(f"attempt {token}")
            if folder:
                _copy_log(source, view, target, token, folder)


def _copy_log(source: Store, view: View, target: Store, token: str, folder: str) -> None:
    here, there = (os.path.join(store.folder, folder, LOG) for store in (source, target))
    last, whole = view.kept_log(token)
    is_long = whole is not None
    content: Iterable[bytes] = source.load_blob(whole) if whole is not None else [last or b""]
    if os.path.isfile(here):
        last, is_long, content = end_of(here), os.path.getsize(here) > MOST_OUTPUT, _pieces(here)
    if target.shared and last:
        blob = target.save_blob(keep_alive(view, content)) if is_long else None
        target.write(lambda tx: tx.keep_log(token, last, blob))
    elif last:
        write_private(there, keep_alive(view, content), durable=False)


def _copy_python_logs(source: Store, view: View, target: Store) -> None:
    """Copy what Python code logged on this machine: files next to either store, which no row mentions."""
    above = os.path.join(source.folder, ATTEMPTS)
    for run in os.listdir(above) if os.path.isdir(above) else ():
        for inside, _, names in os.walk(os.path.join(above, run, PYTHON_LOGS)):
            for path in [os.path.join(inside, name) for name in names]:
                try:
                    if os.path.isfile(path):
                        there = os.path.join(target.folder, os.path.relpath(path, source.folder))
                        write_private(there, keep_alive(view, _pieces(path)), durable=False)
                except FileNotFoundError:  # the run was removed meanwhile
                    pass


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


# -- backups


@contextmanager
def backup_folder(store: Store, folder: str) -> Iterator[str]:
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
