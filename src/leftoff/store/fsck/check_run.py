"""fsck of one run: records against their hashes, every kept version against its digest and counters, the listing's row
and the columns of steps against the records."""

from __future__ import annotations

from leftoff.errors import Corrupt, LeftoffError
from leftoff.model.card import card_of
from leftoff.model.derived import Leaves, step_of, up_to
from leftoff.model.digest import MASK, is_checkpoint_id, term, to_bytes
from leftoff.model.hashing import long_sha256 as sha256
from leftoff.model.values import blob_of
from leftoff.store.lost import lost_blobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    from leftoff.model.versions import Version
    from leftoff.store.rows import BlobRow

    class Blobs(Protocol):
        """Where the content of blobs comes from."""

        def load(self, row: BlobRow) -> Iterator[bytes]: ...


class Report:
    """Counts of what was looked at, and problems, each with a code, its place and a sentence."""

    def __init__(self, counted: Callable[[dict[str, int]], None] | None = None) -> None:
        self._counted = counted
        self.checked: dict[str, int] = {}
        self.problems: list[dict[str, Any]] = []
        self.quarantined: list[str] = []

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number
        if self._counted is not None:
            self._counted(self.checked)

    def problem(self, code: str, where: str, message: str, **facts: Any) -> None:
        self.problems.append({"code": code, "where": where, "message": message, **facts})

    def codes(self) -> set[str]:
        return {problem["code"] for problem in self.problems}

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": not self.problems,
            "checked": self.checked,
            "problems": self.problems,
            "quarantined": self.quarantined,
        }


def check_value(report: Report, hash: bytes, data: bytes) -> None:
    """A value has the hash that it is found by."""
    report.count("values")
    if sha256(data).digest() != hash:
        report.problem("value", f"value {hash.hex()}", "Its bytes have another hash.")


def check_strays(
    report: Report, strays: Iterable[tuple[str, int, int]], hidden: Iterable[tuple[str]]
) -> None:
    """Rows of no run, by table and run; and runs that are hidden though complete, by their ids."""
    for table, run, rows in strays:
        message = f"{rows} row(s) belong to run number {run}, which is not there."
        report.problem("stray", f"table {table}", message)
    for (run_id,) in hidden:
        report.problem("run", f"run {run_id}", "It is hidden, though it is complete.", run_id=run_id)


def check_blob(report: Report, blobs: Blobs, row: BlobRow) -> None:
    """A blob can be read, and is what was saved."""
    report.count("blobs")
    try:
        for _ in blobs.load(row):
            pass
    except Corrupt as error:
        report.problem("blob", error.where, error.message, blob=row.hash.hex())


_CARD = ("workflow", "branch", "status", "title", "issue", "session")


def _shown(columns: dict[str, Any]) -> dict[str, Any]:
    """As every store can show it: some know no NUL in a text."""
    return {name: value and str(value).replace("\0", "␀") for name, value in columns.items()}


class RunCheck:
    """One run, inside one snapshot."""

    def __init__(self, view: Any, blobs: Blobs, run: int, report: Report) -> None:
        self.view = view
        view.refuses = False
        self.blobs = blobs
        self.run = run
        self.report = report
        self.row = view.run_row(run)
        self.lost = lost_blobs(view)
        # What begins (1) or ends (-1): at which seq, which of the two, its term; of a step also path and status.
        self.events: list[tuple[int, int, int, str | None, str]] = []
        self.own: dict[str, bytes] = {}  # the live `run` records
        self.columns: dict[str, tuple[str | None, int | None]] = {}  # status and leaf of live steps

    def check(self) -> None:
        if self.row is None:  # removed meanwhile
            return
        for columns in self.view.every_record(self.run):
            self._record((self.row.run_id, *columns))
        self.events.sort(key=lambda event: event[:2])
        leaves = self._versions()
        self._steps(leaves)
        self._card()
        self.view.attempts(self.run)  # whether they can be read

    def _problem(self, code: str, what: str, message: str) -> None:
        self.report.problem(code, what, message, run_id=self.row.run_id)

    # -- records

    def _record(self, columns: Any) -> None:
        run_id, collection, key, seq, until, hash, stored, blob, status, leaf = columns
        self.report.count("records")
        where = f"{collection}/{key} of {run_id}@{seq}"
        wrong = self._wrong(hash, stored, blob)
        if wrong:
            self._problem("record", where, wrong)
        elif blob is not None:
            self._blob(blob, where)
        path, found = None, ""
        if collection == "step" and stored is not None and not wrong:
            path, found = key, self._status(stored, where)
        if until is None:
            if collection == "step":
                self.columns[key] = (status, leaf)
            elif collection == "run" and stored is not None and not wrong:
                self.own[key] = stored
        if until != seq:  # else nothing ever saw it
            value = term(collection, key, hash)
            self.events.append((seq, 1, value, path, found))
            if until is not None:
                self.events.append((until, -1, -value, path, found))

    def _wrong(self, hash: bytes, stored: bytes | None, blob: bytes | None) -> str:
        if stored is None:
            return "Its bytes are gone."
        if sha256(stored).digest() != hash:
            return "Its bytes have another hash."
        if blob_of(stored) != blob:
            return "It names another blob than its bytes do."
        return ""

    def _blob(self, blob: bytes, where: str) -> None:
        """A record's blob is known, or known to be lost; its file is looked at with the others."""
        if self.view.blob(blob) is None:
            if blob in self.lost:
                self.report.count("records_without_blob")
            else:
                message = f"The blob {blob.hex()} is not known."
                self.report.problem("blob", where, message, run_id=self.row.run_id, blob=blob.hex())

    def _status(self, stored: bytes, where: str) -> str:
        """What a step's own bytes say; nothing where they are in a blob that is lost."""
        try:
            return str(step_of(self._load, stored, where)["status"])
        except LeftoffError as error:
            if stored[:1] != b"B":
                self._problem("record", where, error.message)
            return ""

    def _load(self, hash: bytes) -> Iterator[bytes]:
        row = self.view.blob(hash)
        if row is None:
            raise Corrupt(f"The blob {hash.hex()} is gone.", where=hash.hex())
        return self.blobs.load(row)

    # -- versions

    def _versions(self) -> Leaves:
        """The digest and the counters at every kept version, in one pass over what began and what ended."""
        total, leaves = 0, Leaves()
        versions = self.view.versions(self.run, sealed=False)[::-1]
        news_of = up_to([version.seq for version in versions], self.events)
        for version, news in zip(versions, news_of, strict=True):
            for _, kind, value, path, status in news:
                total += value
                if path is not None:
                    leaves.add(path, status) if kind > 0 else leaves.remove(path)
            self.report.count("versions")
            self._version(version, to_bytes(total & MASK), leaves)
        self._head(versions[-1] if versions else None)
        if self.events and (not versions or self.events[-1][0] > versions[-1].seq):
            self._problem(
                "digest", f"run {self.row.run_id}", "It has records of a version behind its newest one."
            )
        return leaves

    def _version(self, version: Version, digest: bytes, leaves: Leaves) -> None:
        where = f"{version.run_id}@{version.seq}"
        if digest != version.digest:
            self._problem("digest", where, "The records are not those that were committed.")
        elif "" not in leaves.statuses.values() and leaves.packed() != version.counts:
            self._problem("run", where, "Its counters are wrong.")
        known = version.checkpoint
        if known is not None and not is_checkpoint_id(known, version.run_id, version.seq, version.digest):
            self._problem("checkpoint", where, "Its id does not follow from it.")

    # -- what is kept for listing

    def _head(self, newest: Version | None) -> None:
        row = self.row
        if newest is None:
            self._problem("digest", f"run {row.run_id}", "It has no version at all.")
            return
        shown = (row.seq, row.digest, row.counts, row.checkpoint, row.n, row.updated_at)
        there = (newest.seq, newest.digest, newest.counts, newest.checkpoint, newest.n, newest.at)
        if row.seq > newest.seq and row.digest != newest.digest:
            self._problem("digest", f"run {row.run_id}", f"Its newest version @{row.seq} is not there.")
        elif shown != there:
            self._problem("run", f"run {row.run_id}", "The listing's copy of its head does not match.")

    def _steps(self, leaves: Leaves) -> None:
        for path, (status, leaf) in self.columns.items():
            where = f"step/{path} of {self.row.run_id}"
            if leaf != int(leaves.is_leaf(path)):
                self._problem("run", where, "Its place in the tree is wrong.")
            if leaves.statuses.get(path, "") not in ("", status):
                self._problem("run", where, f"The listing calls it {status}.")

    def _card(self) -> None:
        try:
            columns, card = card_of(self.own.items())
            shown = {name: getattr(self.row, name) for name in _CARD}
            same = card == self.row.card and _shown(columns) == _shown(shown)
        except (Corrupt, ValueError):
            same = False
        if not same:
            self._problem(
                "run", f"run {self.row.run_id}", "The listing's copy of its own records does not match."
            )
