"""fsck: every byte that can be checked is checked, and every problem is told with its place.

In this order: the WAL before SQLite looks at it, every page's checksum, the structure of the file, every value against
its hash, every run (``leftoff.store.fsck.check_run``), rows that belong to no run, every blob.
"""

from __future__ import annotations

import re

import apsw

from leftoff.errors import Corrupt, LeftoffError
from leftoff.store.fsck.check_run import Report, RunCheck, check_blob, check_strays, check_value
from leftoff.store.rows import BlobRow
from leftoff.store.sqlite import wal_check as walcheck
from leftoff.store.sqlite.connection import PAGE_SIZE
from leftoff.store.sqlite.failures import NONSENSE, translate
from leftoff.store.sqlite.pages import PageFile, is_free
from leftoff.store.sqlite.queries import Q
from leftoff.store.sqlite.wal import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.store.sqlite.store import SqliteStore

_PAGE = re.compile(r"\bpage (\d+)", re.IGNORECASE)


def inspect(store: SqliteStore) -> Report:
    """Look at everything; nothing is changed. See ``Store.check``."""
    report = Report(store.counted)
    if _is_missing(store):
        report.problem("missing", store.path, "The database is gone, but its log or its blobs are there.")
        return report
    if not store.exists():
        return report
    _check_wal(store, report)
    store.refuses_damage = not report.problems
    try:
        for part in (_check_pages, _check_structure, _check_values, _check_runs, _check_strays, _check_blobs):
            _guard(store, report, part)
    finally:
        store.refuses_damage = True
    return report


def _guard(store: SqliteStore, report: Report, part: Callable[[SqliteStore, Report], None]) -> None:
    """A part that cannot go on reports why; the next one still gets its chance."""
    try:
        part(store, report)
    except (apsw.Error, OSError, LeftoffError) as error:
        known = _known(error, store.path)
        if not isinstance(known, Corrupt):
            raise known from error
        if not any(p["where"] == known.where or p["code"] == "page" for p in report.problems):
            report.problem("unreadable", known.where or store.path, known.message)
    except NONSENSE as error:
        if not report.problems:  # a mistake of our own: nobody's store is to be built anew for that
            raise
        message = f"What was read makes no sense: {type(error).__name__}: {error}"
        report.problem("unreadable", store.path, message)


def _known(error: Exception, path: str) -> LeftoffError:
    try:
        return translate(error, path)
    except apsw.Error as other:  # SQLite stumbles over damage in many ways
        return Corrupt(f"{path} cannot be read: {other}", where=path)


def _is_missing(store: SqliteStore) -> bool:
    """A store without its database is no new store, if the rest of it is there."""
    try:
        store.exists()
    except Corrupt:
        return True
    return False


def _check_wal(store: SqliteStore, report: Report) -> None:
    path = store.path + "-wal"
    found = walcheck.inspect(path)
    report.count("wal_frames", found.frames)
    if found.damaged:
        report.problem("wal", f"{path} at byte {found.offset}", found.message(), frames=found.frames)
    else:
        _check_age(store, report)


def _check_age(store: SqliteStore, report: Report) -> None:
    """Whether it is an older store than it was; what else keeps it from being opened is told by who looks at that."""
    try:
        store.give(store.take())
    except Corrupt as error:
        if error.older:
            said = error.message.removeprefix(error.where)
            report.problem("wal", error.where, f"It{said}", older=True)
    except (apsw.Error, LeftoffError):
        pass


def _check_pages(store: SqliteStore, report: Report) -> None:
    """Each page of the file as it lies on disk, free ones too."""
    with PageFile(store.path) as file:
        for number in file.damaged():
            report.problem("page", _page(store, number), "Its checksum does not match.", page=number)
        for number in _lost(file, store.path + "-wal"):
            report.problem("page", _page(store, number), "There is nothing but zeros.", page=number)
        report.count("pages", file.count())
        if file.size() % PAGE_SIZE:
            report.problem(
                "page",
                f"{store.path} byte {file.size()}",
                "The file ends within a page.",
                page=file.count() + 1,
            )


def _page(store: SqliteStore, number: int) -> str:
    return f"{store.path} page {number} (byte {(number - 1) * PAGE_SIZE})"


def _lost(file: PageFile, wal: str) -> list[int]:
    """Pages of zeros that should not be: a page that is free may never have been written, one in the log not yet."""
    found = list(file.zeros())
    if found:
        newer, _ = Log(walcheck.read(wal)).committed()
        found = [
            number
            for number in found
            if number not in newer and not is_free(lambda other: newer.get(other) or file.read(other), number)
        ]
    return found


def _check_structure(store: SqliteStore, report: Report) -> None:
    db = store.take()
    try:
        for (line,) in db.execute("PRAGMA integrity_check(50)"):
            if line != "ok":
                page = _PAGE.search(line)
                report.problem("structure", f"{store.path} page {page[1]}" if page else store.path, line)
    finally:
        store.give(db)


def _check_values(store: SqliteStore, report: Report) -> None:
    def values(view: Any) -> None:
        for hash, data in view.execute(Q.all_values):
            check_value(report, hash, data)

    store.read(values)


def _check_runs(store: SqliteStore, report: Report) -> None:
    runs = store.read(lambda view: view.execute(Q.runs_to_check).fetchall())  # type: ignore[attr-defined]
    for (run,) in runs:
        _guard(store, report, lambda store, report, run=run: _check_run(store, report, run))  # type: ignore[misc]


def _check_run(store: SqliteStore, report: Report, run: int) -> None:
    store.read(lambda view: RunCheck(view, store.blobs, run, report).check())
    report.count("runs")


def _check_strays(store: SqliteStore, report: Report) -> None:
    """Rows of no run, a run that is hidden though complete, and the number of the newest commit."""

    def strays(view: Any) -> None:
        check_strays(report, view.execute(Q.rows_of_no_run), view.execute(Q.hidden_but_complete))
        newest, counted = view.execute(Q.newest_commit).fetchone()
        if counted is None or counted < newest:
            report.problem(
                "run", "run 0", f"The store counts {counted or 0} commits, but there is number {newest}."
            )

    store.read(strays)


def _check_blobs(store: SqliteStore, report: Report) -> None:
    rows = store.read(lambda view: view.execute(Q.blobs).fetchall())  # type: ignore[attr-defined]
    for columns in rows:
        check_blob(report, store.blobs, BlobRow(*columns))
