"""What a damaged database still proves: rows whose bytes have their hash, versions whose digest the rows add up to.

A row counts only if its stored bytes have the recorded hash. A version counts only if the terms of the rows that it
sees add up to its digest; so a row that was garbled, lost or put elsewhere is never taken for what was committed. A
run goes back to its newest version that counts.
"""

from __future__ import annotations

from bisect import bisect_left

from leftoff.model.codec import sha256
from leftoff.model.derived import up_to
from leftoff.model.digest import MASK, is_checkpoint_id, term
from leftoff.model.fields import Fields
from leftoff.model.ids import is_run_id
from leftoff.model.words import TRIGGERS
from leftoff.store.repair.carve import Carver
from leftoff.store.rows import PARTIAL, is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Values = dict[str, Any]


class Rec:
    """A record, live or superseded, whose bytes are proved."""

    __slots__ = ("collection", "hash", "key", "seq", "stored", "sure", "term", "until")

    def __init__(self, row: Values, stored: bytes, sure: bool) -> None:
        self.collection: str = row["collection"]
        self.key: str = row["key"]
        self.seq: int = row["seq"]
        self.until: int | None = row.get("until")
        self.hash: bytes = row["hash"]
        self.stored = stored
        self.sure = sure  # whether it comes from pages that are sound
        self.term = term(self.collection, self.key, self.hash)

    def seen_at(self, seq: int) -> bool:
        return self.seq <= seq and (self.until is None or seq < self.until)


class Source(Fields):
    """One way to read the file: a page by its number, how many there are, and which of them are not sound."""

    get: Callable[[int], bytes | None]
    count: int
    bad: set[int]

    def with_page(self, number: int, page: bytes) -> Source:
        """The same with another page in one place; what is on it is not sure."""
        return Source(
            lambda other: page if other == number else self.get(other), self.count, self.bad | {number}
        )


class Found:
    """The rows of one source, by table and run."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self._values = values  # shared by all sources: a value proves itself
        self._rows: dict[int, list[tuple[Values, bool]]] = {}
        self.runs: dict[int, Values] = {}
        self.ids: dict[int, str] = {}
        self.versions: dict[int, dict[int, Values]] = {}
        self.doubtful: dict[tuple[int, int], Values] = {}  # versions as they were found on damaged pages
        self.others: dict[str, list[Values]] = {}

    def add(self, table: str, values: Values, *, sure: bool) -> None:
        """A row. ``sure``: nothing says that it may be garbled."""
        if table in ("record", "past"):
            self._rows.setdefault(values["run"], []).append((values, sure))
        elif table == "value":
            if sha256(values["data"]).digest() == values["hash"]:
                self._values[values["hash"]] = values["data"]
        elif table == "version":
            self._add_version(values, sure)
        elif table == "run":
            if sure or values["run"] not in self.runs:
                self.runs[values["run"]] = values
        elif set(values) == {"run_id", "run"}:  # the index by id
            self.ids.setdefault(values["run"], values["run_id"])
        elif sure:
            self.others.setdefault(table, []).append(values)

    def _add_version(self, values: Values, sure: bool) -> None:
        there = self.versions.setdefault(values["run"], {})
        if not sure and values["seq"] in there:
            return
        self.doubtful.pop((values["run"], values["seq"]), None)
        trigger = values["trigger"]
        if not sure or trigger not in (None, *TRIGGERS):  # its digest will be proved, its words cannot be
            self.doubtful[values["run"], values["seq"]] = values
            sealed = values["checkpoint"] is not None
            trigger = (trigger if trigger in TRIGGERS else "external") if sealed else None
            values = {**values, "trigger": trigger, "step": None, "note": None}
        there[values["seq"]] = values

    def numbers(self) -> set[int]:
        return {run for run in {*self.runs, *self.versions, *self._rows} if run > 0}

    def records(self, run: int) -> list[Rec]:
        """The records of a run whose bytes are proved, each once."""
        out: dict[tuple[str, str, int | None], Rec] = {}
        for row, sure in self._rows.get(run, []):
            stored = row["data"] if row["data"] is not None else self._values.get(row["hash"])
            if stored is None or sha256(stored).digest() != row["hash"]:
                continue
            rec = Rec(row, stored, sure)
            there = out.get((rec.collection, rec.key, rec.until))
            if there is None or (rec.sure and not there.sure):
                out[rec.collection, rec.key, rec.until] = rec
        return list(out.values())


def _carved(source: Source, values: dict[bytes, bytes]) -> Found:
    found = Found(values)
    for row in Carver(source.get, source.count).rows():
        found.add(row.table, row.values, sure=source.bad.isdisjoint(row.pages))
    return found


class Rest:
    """What is left of one run, and which of its versions that proves."""

    def __init__(self, found: Found, run: int) -> None:
        self.run = run
        self.row = found.runs.get(run)
        run_id = self.row["run_id"] if self.row else found.ids.get(run, "")
        partial = self.row is not None and self.row["hidden"] == PARTIAL and is_name(run_id)
        self.run_id = run_id if partial or is_run_id(run_id) else ""
        self.records = found.records(run)
        self.versions = dict(found.versions.get(run, {}))
        self.doubtful = {seq: values for (number, seq), values in found.doubtful.items() if number == run}
        self._add_head()
        self.newest = max(self.versions, default=0)
        self._drop_garbled()
        self.proved = sorted(seq for seq, wrong in self._wrong().items() if wrong == 0 and self._named(seq))

    @property
    def hidden(self) -> bool:
        """A fork or an import that was not complete, or a run on its way out."""
        return self.row is not None and bool(self.row["hidden"]) and (" " in self.run_id or not self.versions)

    @property
    def head(self) -> int:
        """The newest version that is proved; 0: there is none."""
        return self.proved[-1] if self.proved and self.run_id else 0

    @property
    def known(self) -> int:
        """The newest version that anything tells of, proved or not."""
        told = [max(rec.seq, rec.until or 0) for rec in self.records]
        return max([self.newest, *told])

    def loss(self) -> dict[str, Any] | None:
        """What of the run could not be proved, for people and programs; ``None`` where all of it was."""
        gone = sorted(set(self.versions) - set(self.proved) if self.head else self.versions)
        if self.head >= self.known and not gone:
            return None
        facts = {"run_id": self.run_id or f"run-{self.run}", "kept": self.head or None, "newest": self.known}
        if not self.head:
            message = "No version of it could be proved: it is left out."
        elif self.head < self.known:
            message = (
                f"It went back to @{self.head}: what came later, up to @{self.known}, could not be proved."
            )
        else:
            message = f"Older versions could not be proved: {', '.join(f'@{seq}' for seq in gone[:10])}."
        return {**facts, "unproved": gone, "aside": None, "message": message}

    def _add_head(self) -> None:
        """The listing's row knows the newest version, where its own row is gone."""
        row = self.row
        if row is None or row["seq"] < 1 or row["seq"] in self.versions:
            return
        same = ("run", "seq", "n", "digest", "counts", "checkpoint")
        trigger = "external" if row["checkpoint"] is not None else None
        self.versions[row["seq"]] = {
            **{name: row[name] for name in same},
            **{
                "token": bytes(16),
                "epoch": 0,
                "at": row["updated_at"],
                "trigger": trigger,
                "step": None,
                "note": None,
            },
        }

    def _named(self, seq: int) -> bool:
        """Whether a checkpoint's id follows from what it is."""
        version = self.versions[seq]
        if version["checkpoint"] is None:
            return True
        return is_checkpoint_id(version["checkpoint"], self.run_id, seq, version["digest"])

    def _wrong(self) -> dict[int, int]:
        """By version: how much more the records add up to than its digest says."""
        events = [(rec.seq, rec.term) for rec in self.records if rec.seq != rec.until]
        events += [
            (rec.until, -rec.term) for rec in self.records if rec.until is not None and rec.seq != rec.until
        ]
        events.sort()
        out, total, seqs = {}, 0, sorted(self.versions)
        for seq, news in zip(seqs, up_to(seqs, events), strict=True):
            total += sum(term for _, term in news)
            out[seq] = (total - int.from_bytes(self.versions[seq]["digest"], "big")) & MASK
        return out

    def _drop_garbled(self) -> None:
        """A row from a damaged page may look sound and be under a wrong key: without it, the versions add up again."""
        doubtful = {rec.term: rec for rec in self.records if not rec.sure}
        for seq, wrong in sorted(self._wrong().items(), reverse=True) if doubtful else []:
            rec = doubtful.get(wrong)
            if wrong and rec is not None and rec.seen_at(seq):
                self.records.remove(rec)
                return

    def split(self) -> tuple[list[Rec], list[Rec], list[Rec]]:
        """Live at the head, superseded and still seen by a version that is kept, and the rest."""
        live, past, rest = [], [], []
        for rec in self.records:
            if self.head and rec.seen_at(self.head):
                live.append(rec)
            elif rec.until is not None and rec.until <= self.head and self._kept_sees(rec):
                past.append(rec)
            else:
                rest.append(rec)
        return live, past, rest

    def _kept_sees(self, rec: Rec) -> bool:
        at = bisect_left(self.proved, rec.seq)
        return at < len(self.proved) and rec.seen_at(self.proved[at])


class Salvage:
    """Every run that is left, from whichever source proves most of it."""

    def __init__(self, sources: list[Source]) -> None:
        values: dict[bytes, bytes] = {}
        self.found = [_carved(source, values) for source in sources]
        self.runs: list[Rest] = []
        for run in sorted(set().union(*(found.numbers() for found in self.found))):
            rests = [Rest(found, run) for found in self.found]
            best = max(rests, key=lambda rest: (rest.head, len(rest.proved), len(rest.records)))
            if not best.hidden:
                self.runs.append(best)

    def unaccounted(self) -> int:
        """How many of the newest commits are of no version that was found."""
        counted = max((found.runs[0]["n"] for found in self.found if 0 in found.runs), default=0)
        there = [version["n"] for rest in self.runs for version in rest.versions.values()]
        return max(counted - max(there, default=0), 0)

    def table(self, name: str) -> list[Values]:
        """The sound rows of one of the smaller tables."""
        return next((found.others[name] for found in self.found if name in found.others), [])
