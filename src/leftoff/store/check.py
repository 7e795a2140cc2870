"""fsck: every byte that can be checked is checked, and every problem is told with its place.

In this order: the WAL before SQLite looks at it, every page's checksum, the structure of the file, every record and
value against its hash, every kept version against its digest, the listing's caches against the records, every blob.
"""

from __future__ import annotations

import os

import apsw

from leftoff.errors import Corrupt, LeftoffError
from leftoff.model.codec import sha256
from leftoff.model.digest import MASK, checkpoint_id, term, to_bytes
from leftoff.model.values import blob_of
from leftoff.model.versions import pack_counts
from leftoff.store import walcheck
from leftoff.store.failures import translate
from leftoff.store.queries import Q
from leftoff.store.rows import BlobRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.store.sqlite import SqliteStore


class Report:
    """What was looked at and what was found."""

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.problems: list[dict[str, Any]] = []
        self.quarantined: list[str] = []

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number

    def problem(self, code: str, where: str, message: str, **facts: Any) -> None:
        self.problems.append({"code": code, "where": where, "message": message, **facts})

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": not self.problems,
            "checked": self.checked,
            "problems": self.problems,
            "quarantined": self.quarantined,
        }


def check(store: SqliteStore, *, repair: bool = False) -> dict[str, Any]:
    """See ``Store.check``."""
    report = Report()
    if store.exists():
        _inspect(store, report)
        if repair and report.problems:
            from leftoff.store.repair import repair as mend

            mended = mend(store, report)
            again = Report()
            _inspect(store, again)
            again.quarantined = mended
            return {**again.to_json(), "repaired": report.problems}
    return report.to_json()


def _inspect(store: SqliteStore, report: Report) -> None:
    _check_wal(store, report)
    for part in (_check_pages, _check_structure, _check_values, _check_runs, _check_blobs):
        _guard(store, report, part)


def _guard(store: SqliteStore, report: Report, part: Callable[[SqliteStore, Report], None]) -> None:
    """A part that cannot go on reports why; the next one still gets its chance."""
    try:
        part(store, report)
    except (apsw.Error, OSError, LeftoffError) as error:
        known = translate(error, store.path)
        if not isinstance(known, Corrupt):
            raise known from error
        if not any(p["where"] == known.where or p["code"] == "page" for p in report.problems):
            report.problem("unreadable", known.where or store.path, known.message)


def _check_wal(store: SqliteStore, report: Report) -> None:
    path = store.path + "-wal"
    found = walcheck.inspect(path)
    report.count("wal_frames", found.frames)
    if found.damaged:
        lost = found.frames - found.valid
        report.problem(
            "wal",
            f"{path} at byte {found.offset}",
            f"Frame {found.bad_frame} of the write-ahead log is damaged; {lost} committed frame(s) from there on are lost.",
        )


def _check_pages(store: SqliteStore, report: Report) -> None:
    """Each page of the file as it lies on disk, free ones too."""
    db = store.take()
    try:
        size = int(db.execute("PRAGMA page_size").fetchone()[0])
        pages = os.stat(store.path).st_size // size
        for number in range(pages):
            if not _page_is_sound(db, number * size, size):
                report.problem("page", f"{store.path} page {number + 1} (byte {number * size})", "Its checksum is off.")
        report.count("pages", pages)
    finally:
        store.give(db)


def _page_is_sound(db: apsw.Connection, offset: int, size: int) -> bool:
    """Read past the cache. A page that is being written by a checkpoint may look torn once, not three times."""
    for _ in range(3):
        try:
            db.read("main", 0, offset, size)
            return True
        except apsw.IOError:
            continue
    return False


def _check_structure(store: SqliteStore, report: Report) -> None:
    db = store.take()
    try:
        for (line,) in db.execute("PRAGMA integrity_check(50)"):
            if line != "ok":
                report.problem("structure", store.path, line)
    finally:
        store.give(db)


def _check_values(store: SqliteStore, report: Report) -> None:
    def values(view: Any) -> None:
        for hash, data in view.execute(Q.all_values):
            report.count("values")
            if sha256(data).digest() != hash:
                report.problem("value", f"value {hash.hex()}", "Its bytes have another hash.")

    store.read(values)


def _check_runs(store: SqliteStore, report: Report) -> None:
    runs = store.read(lambda view: view.execute("SELECT run FROM run WHERE hidden = 0").fetchall())  # type: ignore[attr-defined]
    for (run,) in runs:
        store.read(lambda view, run=run: RunCheck(view, run, report).check())  # type: ignore[misc]
        report.count("runs")


class RunCheck:
    """One run: records against hashes, versions against digests, caches against records."""

    def __init__(self, view: Any, run: int, report: Report) -> None:
        self.view = view
        self.run = run
        self.report = report
        self.row = view.run_row(run)
        self.events: list[tuple[int, int]] = []
        self.steps: dict[str, tuple[str, int]] = {}

    def check(self) -> None:
        if self.row is None:  # removed meanwhile
            return
        for columns in self.view.execute(Q.all_records, (self.run,)):
            self._record(*columns)
        self._versions()
        self._counts()

    def _record(
        self,
        run_id: str,
        collection: str,
        key: str,
        seq: int,
        until: int | None,
        hash: bytes,
        stored: bytes | None,
        blob: bytes | None,
        status: str | None,
        leaf: int | None,
    ) -> None:
        report = self.report
        report.count("records")
        where = f"{collection}/{key} of {run_id}@{seq}"
        if stored is None:
            report.problem("record", where, "Its bytes are gone.", run_id=run_id)
        elif sha256(stored).digest() != hash:
            report.problem("record", where, "Its bytes have another hash.", run_id=run_id)
        elif blob_of(stored) != blob:
            report.problem("record", where, "It names another blob than its bytes do.", run_id=run_id)
        elif blob is not None and self.view.blob(blob) is None:
            report.problem("record", where, f"The blob {blob.hex()} is not known.", run_id=run_id)
        value = term(collection, key, hash)
        self.events.append((seq, value))
        if until is not None:
            self.events.append((until, -value))
        elif collection == "step":
            self.steps[key] = (status or "", leaf or 0)

    def _versions(self) -> None:
        """The digest at every kept version, in one pass over what began and what ended."""
        self.events.sort(key=lambda event: event[0])
        total, at = 0, 0
        newest = None
        for version in reversed(self.view.versions(self.run, sealed=False)):
            while at < len(self.events) and self.events[at][0] <= version.seq:
                total += self.events[at][1]
                at += 1
            self.report.count("versions")
            where = f"{version.run_id}@{version.seq}"
            if to_bytes(total & MASK) != version.digest:
                self.report.problem(
                    "digest", where, "The records are not those that were committed.", run_id=version.run_id
                )
            expected = checkpoint_id(version.run_id, version.seq, version.digest)
            if version.checkpoint is not None and version.checkpoint != expected:
                self.report.problem("checkpoint", where, "Its id does not follow from it.", run_id=version.run_id)
            newest = version
        head = (self.row.seq, self.row.digest, self.row.counts, self.row.checkpoint)
        if newest is None or head != (newest.seq, newest.digest, newest.counts, newest.checkpoint):
            self.report.problem(
                "run", f"run {self.row.run_id}", "The listing's copy of its head is off.", run_id=self.row.run_id
            )

    def _counts(self) -> None:
        counts: dict[str, int] = {}
        inner = {key[:at] for key in self.steps for at in _slashes(key)}
        for key, (status, leaf) in self.steps.items():
            if leaf != (key not in inner):
                where = f"step/{key} of {self.row.run_id}"
                self.report.problem("run", where, "Its place in the tree is off.", run_id=self.row.run_id)
            if key not in inner:
                counts[status] = counts.get(status, 0) + 1
        if pack_counts(counts) != self.row.counts:
            self.report.problem(
                "run", f"run {self.row.run_id}", "The listing's counters are off.", run_id=self.row.run_id
            )


def _slashes(key: str) -> list[int]:
    return [i for i, c in enumerate(key) if c == "/"]


def _check_blobs(store: SqliteStore, report: Report) -> None:
    rows = store.read(lambda view: view.execute(Q.blobs).fetchall())  # type: ignore[attr-defined]
    for columns in rows:
        row = BlobRow(*columns)
        report.count("blobs")
        try:
            for _ in store.blobs.load(row):
                pass
        except Corrupt as error:
            report.problem("blob", error.where, error.message, blob=row.hash.hex())

