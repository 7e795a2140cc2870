"""fsck: check the rows and blobs of a store against their hashes, and change nothing.

A record is checked against its hash, every kept version against its digest and counters, and the columns that exist for
listings against the records that they are derived from. Of an embedded store, SQLite checks the page checksums and the
structure of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from leftoff.errors import Corrupt, LeftoffError, StoreUnavailable
from leftoff.model.changes import Leaves, blob_of, card_of, step_of, up_to
from leftoff.model.codec import BLOB, MASK, checkpoint_id, term, to_bytes
from leftoff.model.codec import long_sha256 as sha256
from leftoff.store.rows import BlobRow

if TYPE_CHECKING:
    from leftoff.store.sqlite import SqliteStore

Check = Callable[[Any, "Report"], None]

#: what taking a damaged row apart raises
NONSENSE = (TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError)
_CARD = ("workflow", "branch", "status", "title", "issue", "session")


class Report:
    """The result of a check: how many rows were checked, and each problem with a code, a place and a sentence."""

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.problems: list[dict[str, Any]] = []
        self.quarantined: list[str] = []
        self.runs: set[int] = set()  # the numbers of damaged runs

    def count(self, what: str) -> None:
        self.checked[what] = self.checked.get(what, 0) + 1

    def problem(self, code: str, where: str, message: str, **facts: Any) -> None:
        self.problems.append({"code": code, "where": where, "message": message, **facts})

    def read(self, store: Any, check: Callable[[Any], None]) -> None:
        """Check in one snapshot. If the store has to begin again, what was found before is forgotten."""
        checked, problems, runs = dict(self.checked), len(self.problems), set(self.runs)

        def work(view: Any) -> None:
            self.checked, self.runs = dict(checked), set(runs)
            del self.problems[problems:]
            check(view)

        store.read(work)

    def codes(self) -> set[str]:
        return {problem["code"] for problem in self.problems}

    def damaged_blobs(self) -> list[bytes]:
        """Return the hashes of the blobs whose content cannot be read."""
        return sorted({bytes.fromhex(p["blob"]) for p in self.problems if p["code"] == "blob"})

    def to_json(self) -> dict[str, Any]:
        found = {"ok": not self.problems, "checked": self.checked, "problems": self.problems}
        return {**found, "quarantined": self.quarantined}


def inspect(store: Any, more: Iterable[Check] = ()) -> Report:
    """Check everything. ``more``: checks that only this kind of store has, done first."""
    report = Report()
    try:
        if not store.exists():
            return report
    except Corrupt:
        report.problem("missing", store.name, "The database is gone, but its log or its blobs are there.")
        return report
    try:
        for part in (*more, _check_values, _check_runs, _check_strays, _check_blobs):
            _guarded(part, store, report)
            store.refuses_damage = False
    finally:
        store.refuses_damage = True
    return report


def _guarded(part: Check, store: Any, report: Report) -> None:
    """Run one part of the check. If damage stops it, report that, so that the next part gets its chance."""
    try:
        part(store, report)
    except NONSENSE as error:
        if not report.problems:  # a mistake in this code: do not rebuild a sound store for it
            raise
        message = f"What was read makes no sense: {type(error).__name__}: {error}"
        report.problem("unreadable", store.where, message)
    except Exception as error:
        known = store.damage(error)
        if not isinstance(known, Corrupt):
            raise known from error
        where = known.where or store.where
        if known.older:
            report.problem("wal", where, f"It{known.message.removeprefix(where)}", older=True)
        elif not any(problem["where"] == where for problem in report.problems):
            code = "page" if known.message.endswith("its checksum does not match.") else "unreadable"
            report.problem(code, where, known.message)


def _check_values(store: Any, report: Report) -> None:
    def check(view: Any) -> None:
        for hash, data in view.by_hash(view.q.all_values):
            report.count("values")
            if sha256(data).digest() != hash:
                report.problem("value", f"value {hash.hex()}", "Its bytes have another hash.")

    report.read(store, check)


def _check_runs(store: Any, report: Report) -> None:
    def check(run: int, store: Any, report: Report) -> None:
        report.read(store, lambda view: RunCheck(view, store.blobs, run, report).check())

    for (run,) in store.read(lambda view: view.rows(view.q.runs_to_check)):
        before = len(report.problems)
        _guarded(partial(check, run), store, report)
        if len(report.problems) > before:
            report.runs.add(run)


def _check_strays(store: Any, report: Report) -> None:
    """Report rows of unknown runs, complete runs that are hidden, and a store that counts too few commits."""

    def check(view: Any) -> None:
        for table, run, rows in view.rows(view.q.rows_of_no_run):
            message = f"{rows} row(s) belong to run number {run}, which is not there."
            report.problem("stray", f"table {table}", message)
        for run, run_id in view.rows(view.q.hidden_but_complete):
            report.problem("run", f"run {run_id}", "It is hidden, though it is complete.", run_id=run_id)
            report.runs.add(run)
        newest, counted = view.one(view.q.newest_commit)[0], view.one(view.q.newest_n)
        if counted is None or counted[0] < newest:
            message = (
                f"The store counts {counted[0] if counted else 0} commits, but there is number {newest}."
            )
            report.problem("run", "run 0", message)

    report.read(store, check)


def _check_blobs(store: Any, report: Report) -> None:
    for columns in store.read(lambda view: list(view.by_hash(view.q.blobs))):
        row = BlobRow(*columns)
        report.count("blobs")
        try:
            for _ in store.load_blob(row.hash, row):
                pass
        except Corrupt as error:
            report.problem("blob", error.where, error.message, blob=row.hash.hex())
        except StoreUnavailable:
            if (
                store.read(lambda view, hash=row.hash: view.blob(hash)) is not None
            ):  # else it was pruned meanwhile
                raise


def check_age(store: SqliteStore, report: Report) -> None:
    """Compare the newest commit with the number in the lock file: a log that is cut or damaged loses commits."""
    store.give(store.take())


def check_structure(store: SqliteStore, report: Report) -> None:
    """Let SQLite check the pages and the structure of its file."""

    def check(view: Any) -> None:
        report.checked["pages"] = int(view.one("PRAGMA page_count")[0])
        for (line,) in view.execute("PRAGMA integrity_check(50)"):
            if line != "ok":
                report.problem("structure", store.path, str(line))

    report.read(store, check)


class RunCheck:
    """Checks one run inside one snapshot."""

    def __init__(self, view: Any, blobs: Any, run: int, report: Report) -> None:
        self.view = view
        self.blobs = blobs
        self.report = report
        self.row = view.run_row(run)
        # One event for each version at which a record begins (1) or ends (-1): seq, kind, digest term, step, status.
        self.events: list[tuple[int, int, int, str | None, str]] = []
        self.card_records: dict[str, bytes] = {}
        self.step_columns: dict[str, tuple[str | None, int | None]] = {}

    def check(self) -> None:
        """Check the run, unless it was removed in the meantime."""
        if self.row is None:
            return
        for columns in self.view.every_record(self.row.run):
            self._check_record(columns)
        self.events.sort(key=lambda event: event[:2])
        self._check_versions()
        self._check_card()
        self.view.attempts(self.row.run)  # raises if a row cannot be read
        self.report.count("runs")

    def _problem(self, code: str, where: str, message: str) -> None:
        self.report.problem(code, where, message, run_id=self.row.run_id)

    def _check_record(self, columns: tuple[Any, ...]) -> None:
        collection, key, seq, until, hash, stored, blob, status, leaf = columns
        self.report.count("records")
        where = f"{collection}/{key} of {self.row.run_id}@{seq}"
        wrong = ""
        if stored is None:
            wrong = "Its bytes are gone."
        elif sha256(stored).digest() != hash:
            wrong = "Its bytes have another hash."
        elif blob_of(stored) != blob:
            wrong = "It names another blob than its bytes do."
        if wrong:
            self._problem("record", where, wrong)
        elif blob is not None and self.view.blob(blob) is None:
            message = f"The blob {blob.hex()} is not known."
            self.report.problem("blob", where, message, run_id=self.row.run_id, blob=blob.hex())
        is_step = collection == "step"
        step, found = None, ""
        if is_step and stored is not None and not wrong:
            step, found = key, self._status_of(stored, where)
        if until is None and is_step:
            self.step_columns[key] = (status, leaf)
        elif until is None and collection == "run" and stored is not None and not wrong:
            self.card_records[key] = stored
        if until != seq:  # else no version has this record
            value = term(collection, key, hash)
            self.events.append((seq, 1, value, step, found))
            if until is not None:
                self.events.append((until, -1, -value, step, found))

    def _status_of(self, stored: bytes, where: str) -> str:
        """Return a step's status from its own bytes; nothing if they are in a blob that cannot be read."""
        try:
            return str(step_of(self._load, stored, where)["status"])
        except LeftoffError as error:
            if stored[:1] != BLOB:
                self._problem("record", where, error.message)
            return ""

    def _load(self, hash: bytes) -> Any:
        row = self.view.blob(hash)
        if row is None:
            raise Corrupt(f"The blob {hash.hex()} is gone.", where=hash.hex())
        return self.blobs.load(row)

    def _check_versions(self) -> None:
        """Check digest and counters of every kept version in one pass over the events, then the head and the steps."""
        total, leaves, name = 0, Leaves(), f"run {self.row.run_id}"
        versions = self.view.versions(self.row.run, sealed=False)[::-1]
        for version, news in zip(versions, up_to([v.seq for v in versions], self.events), strict=True):
            for _, kind, value, step, status in news:
                total += value
                if step is not None:
                    leaves.add(step, status) if kind > 0 else leaves.remove(step)
            self.report.count("versions")
            where = f"{version.run_id}@{version.seq}"
            if to_bytes(total & MASK) != version.digest:
                self._problem("digest", where, "The records are not those that were committed.")
            elif "" not in leaves.statuses.values() and leaves.packed() != version.counts:
                self._problem("run", where, "Its counters are wrong.")
            known = version.checkpoint
            if known is not None and known != checkpoint_id(version.run_id, version.seq, version.digest):
                self._problem("checkpoint", where, "Its id does not follow from it.")
        if self.events and (not versions or self.events[-1][0] > versions[-1].seq):
            self._problem("digest", name, "It has records of a version behind its newest one.")
        if not versions:
            self._problem("digest", name, "It has no version at all.")
            return
        self._check_head(versions[-1], name)
        for path, (status_column, leaf) in self.step_columns.items():
            where = f"step/{path} of {self.row.run_id}"
            if leaf != int(leaves.is_leaf(path)):
                self._problem("run", where, "Its place in the tree is wrong.")
            if leaves.statuses.get(path, "") not in ("", status_column):
                self._problem("run", where, f"The listing calls it {status_column}.")

    def _check_head(self, newest: Any, name: str) -> None:
        row = self.row
        shown = (row.seq, row.digest, row.counts, row.checkpoint, row.n, row.updated_at)
        there = (newest.seq, newest.digest, newest.counts, newest.checkpoint, newest.n, newest.at)
        if row.seq > newest.seq and row.digest != newest.digest:
            self._problem("digest", name, f"Its newest version @{row.seq} is not there.")
        elif shown != there:
            self._problem("run", name, "The listing's copy of its head does not match.")

    def _check_card(self) -> None:
        try:
            columns, card = card_of(self.card_records.items())
            shown = {name: getattr(self.row, name) for name in _CARD}
            same = card == self.row.card and _printable(columns) == _printable(shown)
        except (Corrupt, ValueError):
            same = False
        if not same:
            message = "The listing's copy of its own records does not match."
            self._problem("run", f"run {self.row.run_id}", message)


def _printable(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns as every store can hold them: PostgreSQL allows no NUL in a text."""
    return {name: value and str(value).replace("\0", "␀") for name, value in columns.items()}
