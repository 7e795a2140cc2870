"""fsck of a store on a server: values, runs, rows of no run, blobs. The server's own files are its own affair.

Each run is read in one snapshot, some rows at a time, and nobody waits for it.
"""

from __future__ import annotations

from leftoff.errors import Corrupt
from leftoff.model.hashing import long_sha256 as sha256
from leftoff.store.fsck.check_run import Report, RunCheck
from leftoff.store.postgres.queries import Q
from leftoff.store.rows import BlobRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from leftoff.store.postgres.store import PostgresStore

SOME = 200


def inspect(store: PostgresStore) -> dict[str, Any]:
    """Look at everything; nothing is changed. See ``Store.check``."""
    report = Report()
    if store.exists():
        store.read(lambda view: _values(view, report))
        for (run,) in store.read(lambda view: view.ask(Q.runs_to_check)):  # type: ignore[attr-defined]
            _run(store, report, run)
        store.read(lambda view: _strays(view, report))
        for row in _blobs(store):
            _blob(store, report, row)
    return report.to_json()


def _values(view: Any, report: Report) -> None:
    last = b""
    while rows := view.ask(Q.all_values, (last, SOME)):
        for hash, data in rows:
            report.count("values")
            if sha256(data).digest() != hash:
                report.problem("value", f"value {hash.hex()}", "Its bytes have another hash.")
        last = rows[-1][0]


def _run(store: PostgresStore, report: Report, run: int) -> None:
    try:
        store.read(lambda view: RunCheck(view, store.blobs, run, report).check())
    except Corrupt as error:
        report.problem("unreadable", error.where or store.name, error.message)
    report.count("runs")


def _strays(view: Any, report: Report) -> None:
    questions = (Q.rows_of_no_run, Q.hidden_but_complete, Q.newest_commit, Q.wrong_epochs)
    strays, hidden, ((newest, counted),), epochs = view.several([(sql, ()) for sql in questions])
    for table, run, rows in strays:
        report.problem(
            "stray", f"table {table}", f"{rows} row(s) belong to run number {run}, which is not there."
        )
    for (run_id,) in hidden:
        report.problem("run", f"run {run_id}", "It is hidden, though it is complete.", run_id=run_id)
    for (run_id,) in epochs:
        report.problem("run", f"run {run_id}", "Its epoch is not that of its lease.", run_id=run_id)
    if counted < newest:
        report.problem("run", "commit_number", f"It counts {counted} commits, but there is number {newest}.")


def _blobs(store: PostgresStore) -> Iterator[BlobRow]:
    last = b""
    while rows := store.read(lambda view: view.ask(Q.all_blobs, (last, SOME))):  # type: ignore[attr-defined] # noqa: B023
        for columns in rows:
            yield BlobRow(*columns)
        last = rows[-1][0]


def _blob(store: PostgresStore, report: Report, row: BlobRow) -> None:
    report.count("blobs")
    try:
        for _ in store.blobs.load(row):
            pass
    except Corrupt as error:
        report.problem("blob", error.where, error.message, blob=row.hash.hex())
