"""A new database from what was salvaged, and JSON lines of the rest."""

from __future__ import annotations

import base64
import os

from leftoff.clock import iso
from leftoff.errors import LeftoffError
from leftoff.model.card import card_of
from leftoff.model.codec import BLOB, JSON, encode, payload, sha256, text
from leftoff.model.derived import columns_of, counts_at, step_or_pending
from leftoff.model.digest import MASK, tagged, to_bytes
from leftoff.model.values import blob_about, blob_of
from leftoff.model.words import SALVAGED
from leftoff.store.base import INLINE
from leftoff.store.repair.salvage import Rec
from leftoff.store.rows import ARCHIVED, TRASHED, is_of_attempt
from leftoff.store.sqlite.queries import Q

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    import apsw

    from leftoff.store.blobs import Blobs
    from leftoff.store.repair.salvage import Rest, Salvage, Values


class Rebuilding:
    """Where the runs go that were salvaged.

    ``marks``: by run that went back, what is told of it; it stands in the run from the start, so that nobody can resume
    it unasked, whenever the repair is cut short.
    """

    def __init__(self, marks: dict[str, Values], at: int, newest: int = 0) -> None:
        self.marks = marks
        self.at = at
        self.newest = newest  # the number of the newest commit of all

    def put(self, table: str, row: Values) -> None:
        """A row, in the place of the one that is there. A value goes only where there is none."""
        raise NotImplementedError

    def add_blob(self, hash: bytes) -> None:
        """A record refers to this blob."""
        raise NotImplementedError

    def load_blob(self, hash: bytes) -> Iterator[bytes]:
        """Its content; nothing, where it is not known."""
        raise NotImplementedError


class Rebuild(Rebuilding):
    """Writes the salvaged rows into an empty store, inside one transaction of ``db``."""

    def __init__(
        self, db: apsw.Connection, blobs: Blobs, salvage: Salvage, marks: dict[str, Values], at: int
    ) -> None:
        super().__init__(marks, at)
        self._db = db
        self._blobs = blobs
        self._salvage = salvage
        self._known = {row["hash"]: row for row in salvage.table("blob")}

    def write(self) -> None:
        kept = [rest for rest in self._salvage.runs if rest.head]
        self.newest = max((version["n"] for rest in kept for version in rest.versions.values()), default=0)
        for row in self._salvage.table("meta"):
            if row["name"] not in ("schema", "min_reader", "min_writer"):
                self._db.execute(Q.put_meta, (row["name"], row["value"]))
        for rest in kept:
            RunRebuild(self, rest).write()
        self._others({rest.run: rest for rest in kept})
        self._db.execute("UPDATE run SET n = ? WHERE run = 0", (self.newest,))

    def _others(self, kept: dict[int, Rest]) -> None:
        for row in self._salvage.table("lease"):
            if row["run"] in kept:
                fenced = kept[row["run"]].run_id in self.marks
                insert(self._db, "lease", _fenced(row) if fenced else row)
        for row in self._salvage.table("attempt"):
            if row["run"] in kept and (row["log"] is None or is_of_attempt(row["log"])):
                insert(self._db, "attempt", row)
        for row in self._salvage.table("alias"):
            rest = kept.get(row["run"])
            # An index by checkpoint looks the same as an alias.
            if rest and row["seq"] in rest.proved and row["name"] != rest.versions[row["seq"]]["checkpoint"]:
                insert(self._db, "alias", row)

    def put(self, table: str, row: Values) -> None:
        insert(self._db, table, row, "OR IGNORE" if table == "value" else "OR REPLACE")

    def add_blob(self, hash: bytes) -> None:
        """Its row: as it was, or as its file says."""
        row = self._known.get(hash)
        if row is None:
            found = self._blobs.identify(hash)
            if found is None:
                return  # fsck finds the reference, and the next stage of repair settles it
            row = {"hash": hash, "size": found.size, "stored": found.stored, "encoding": found.encoding}
        insert(self._db, "blob", row, "OR IGNORE")

    def load_blob(self, hash: bytes) -> Iterator[bytes]:
        row = self._blobs.identify(hash)
        return self._blobs.load(row) if row is not None else iter(())


def insert(db: apsw.Connection, table: str, row: Values, how: str = "OR REPLACE") -> None:
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT {how} INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def _fenced(row: Values) -> Values:
    """A run that went back has a new epoch, so that whoever drove it before is fenced off."""
    return {**dict.fromkeys(row), "run": row["run"], "epoch": row["epoch"] + 1}


class RunRebuild:
    """One run."""

    def __init__(self, whole: Rebuilding, rest: Rest) -> None:
        self._whole = whole
        self._rest = rest
        self._live, self._past, _ = rest.split()
        for rec in self._live:
            rec.until = None  # what ended it is left out
        self._versions = {seq: rest.versions[seq] for seq in rest.proved}
        self._head = rest.head
        if rest.run_id in whole.marks:
            self._mark(whole.marks[rest.run_id])

    def _mark(self, facts: Values) -> None:
        """A version more, behind all that ever were: no number of a lost one is given again."""
        seq, stored = self._rest.known + 1, JSON + encode(facts)
        row = {"collection": "context", "key": SALVAGED, "seq": seq, "hash": sha256(stored).digest()}
        mark, head = Rec(row, stored, sure=True), self._versions[self._head]
        digest = int.from_bytes(head["digest"], "big") + mark.term
        for old in [rec for rec in self._live if (rec.collection, rec.key) == (mark.collection, mark.key)]:
            digest -= old.term
            old.until = seq
            self._live.remove(old)
            self._past.append(old)
        self._live.append(mark)
        self._whole.newest += 1
        words = dict.fromkeys(("checkpoint", "trigger", "step", "note"))
        new = {"seq": seq, "n": self._whole.newest, "at": self._whole.at, "token": os.urandom(16), "epoch": 0}
        self._versions[seq] = {**head, **words, **new, "digest": to_bytes(digest & MASK)}
        self._head = seq

    def write(self) -> None:
        steps = {rec.key: self._step(rec) for rec in self._live if rec.collection == "step"}
        columns, none = columns_of(steps), dict.fromkeys(("status", "ord", "leaf"))
        for rec in self._live:
            self._record("record", rec, columns[rec.key] if rec.collection == "step" else none)
        for rec in self._past:
            self._record("past", rec, {"until": rec.until})
        counted = self._counts()
        for seq, version in self._versions.items():
            self._whole.put("version", {**version, "counts": counted[seq]})
        self._run(counted[self._head])

    def _step(self, rec: Rec) -> dict[str, Any]:
        return step_or_pending(self._whole.load_blob, rec.stored, rec.key)

    def _record(self, table: str, rec: Rec, more: Values) -> None:
        data: bytes | None = rec.stored
        if len(rec.stored) > INLINE:
            self._whole.put("value", {"hash": rec.hash, "data": rec.stored})
            data = None
        blob = blob_of(rec.stored)
        if blob is not None:
            self._whole.add_blob(blob)
        named = {"run": self._rest.run, "collection": rec.collection, "key": rec.key, "seq": rec.seq}
        self._whole.put(table, {**named, "hash": rec.hash, "data": data, "blob": blob, **more})

    def _counts(self) -> dict[int, str]:
        """The counters of every version that is kept."""
        steps = [rec for rec in (*self._live, *self._past) if rec.collection == "step"]
        return counts_at(
            ((s.key, s.seq, s.until, self._step(s)["status"]) for s in steps), list(self._versions)
        )

    def _run(self, counts: str) -> None:
        rest = self._rest
        head = self._versions[self._head]
        columns, card = card_of((rec.key, rec.stored) for rec in self._live if rec.collection == "run")
        first = min(version["at"] for version in rest.versions.values())
        row = {
            "created_at": first,
            **(rest.row or {}),
            "run": rest.run,
            "run_id": rest.run_id,
            **{name: head[name] for name in ("n", "seq", "digest", "checkpoint")},
            "counts": counts,
            "updated_at": head["at"],
            **columns,
            "card": text(card),
            "hidden": rest.row["hidden"] if rest.row and rest.row["hidden"] in (TRASHED, ARCHIVED) else 0,
        }
        self._whole.put("run", row)


def lines(rest: Rest, records: Iterable[Rec]) -> Iterator[bytes]:
    """What of a run found no place in the new database, as JSON: versions first, then records by version."""
    for seq, version in sorted({**rest.versions, **rest.doubtful}.items()):
        if seq not in rest.proved or not rest.head or seq in rest.doubtful:
            yield encode(
                {
                    "version": seq,
                    "checkpoint_id": version["checkpoint"],
                    "trigger": version["trigger"],
                    "step": version["step"],
                    "note": version["note"],
                    "created_at": iso(version["at"]),
                    "digest": tagged(version["digest"]),
                }
            )
    for rec in sorted(records, key=lambda rec: (rec.seq, rec.collection, rec.key)):
        named = {"collection": rec.collection, "key": rec.key, "since": rec.seq, "until": rec.until}
        yield encode({**named, **_told(rec)})


def _told(rec: Rec) -> dict[str, Any]:
    where = f"{rec.collection}/{rec.key}"
    try:
        if rec.stored in (b"L", b"D"):
            return {"entries": "list" if rec.stored == b"L" else "dict"}
        if rec.stored[:1] == BLOB:
            return {"blob": rec.stored[1:33].hex(), "value": blob_about(rec.stored, where)}
        return {"value": payload(rec.stored, where)}
    except LeftoffError:
        return {"stored": base64.b64encode(rec.stored).decode()}
