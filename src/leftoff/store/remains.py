"""Rebuild a damaged run from the rows that can still be read: the part of repair that both SQL stores share.

A record is believed only if its bytes have their hash, and a version only if the terms of the records that it sees add
up to its digest. So a row that is damaged, lost, outdated or in the wrong place is never taken for what was committed.
The run goes back to the newest version that is proved. The quarantine has all rows as they were.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from leftoff.clock import iso
from leftoff.model.changes import blob_of
from leftoff.model.codec import JSON, MASK, encode, is_checkpoint_id, sha256, term, text, to_bytes
from leftoff.model.ids import is_run_id
from leftoff.model.versions import card_of, columns_of, counts_at, step_or_pending, up_to
from leftoff.model.words import REPAIRED, TRIGGERS, UNFINISHED
from leftoff.store.base import INLINE
from leftoff.store.rows import ARCHIVED, PARTIAL, TRASHED, is_name

Row = dict[str, Any]
LoadBlob = Callable[[bytes], Iterable[bytes]]


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
    def is_unfinished_copy(self) -> bool:
        """Whether the run is a fork or an import that is not complete, or is being removed."""
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
            named = known is None or is_checkpoint_id(known, self.run_id, seq, digest)
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
