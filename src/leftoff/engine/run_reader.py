"""Reading a run's state: now, or at any kept version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from leftoff.errors import Corrupt, NoCheckpoint, Pruned
from leftoff.model.changes import (
    Version,
    after,
    blob_about,
    blob_of,
    gather,
    index_key,
    item_prefix,
    step_facts,
)
from leftoff.model.codec import BLOB, DICT, JSON, LIST, MASK, Row, decode, holes, payload, sum_of, term
from leftoff.model.typed import readable
from leftoff.model.words import REPAIRED
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import Record, RunRow, misplaced

_SPREAD = (LIST, DICT)
PROVED = 10_000  # records that are added up before they are shown: a tenth of what showing them takes
DEFINITION = "definition"  # in the collection `context`: the workflow file that a run executes


class Value:
    """A record's value as it was read: plain JSON, the mark in every redacted place, and those places."""

    __slots__ = ("holes", "plain", "seq")

    def __init__(self, plain: Any, holes: list[list[Any]], seq: int) -> None:
        self.plain = plain
        self.holes = holes
        self.seq = seq


class Lost(Value):
    """A value whose bytes are damaged or gone: reading it raises. The others can be read."""

    __slots__ = ("error",)

    def __init__(self, error: Corrupt, seq: int) -> None:
        self.error = error
        self.seq = seq

    @property
    def plain(self) -> NoReturn:
        raise self.error

    holes = plain


class Beginning(list):  # type: ignore[type-arg]
    """The first entries of a long list, and of how many."""

    def __init__(self, entries: Iterable[Any], of: int) -> None:
        super().__init__(entries)
        self.of = of


def seen_step(record: dict[str, Any]) -> dict[str, Any]:
    """Return a step's record with the result of Python code as people see it."""
    if "result" not in record or ("typed" not in record and "digest" not in record):
        return record
    return {**record, "result": readable(record["result"])}


def met(about: Any) -> bool | None:
    """Return whether a criterion is met: ``true`` or ``{"met": true}``, and so for false; None if it is not said."""
    value = about.get("met") if isinstance(about, dict) else about
    return value if isinstance(value, bool) else None


def need_version(view: View, run: int, run_id: str, seq: int) -> Version:
    """Return a version, or raise an error that says why it cannot be read."""
    version = view.version(run, seq)
    if version is not None:
        return version
    bounds = view.bounds(run)
    newest = bounds[1] if bounds else 0
    if not 0 < seq < newest:
        raise NoCheckpoint(f"Run {run_id} has no version {seq}; its newest is {newest}.")
    left = ", ".join(f"{run_id}@{near}" for near in view.around(run, seq) if near is not None)
    if view.row(run, "context", REPAIRED) is not None:
        why = "a repair could not bring it back, or it was pruned"
        raise NoCheckpoint(f"Version {seq} of run {run_id} is gone: {why}. Still there around it: {left}.")
    raise Pruned(f"Version {seq} of run {run_id} is gone: it was pruned. Still there around it: {left}.")


def proved_version(
    view: View, run: int, run_id: str, seq: int
) -> tuple[Version, dict[tuple[str, str], Record]]:
    """Return a version with all of its records, checked against its digest so that none is missing."""
    version = need_version(view, run, run_id, seq)
    found = _proved(view, run, run_id, version)
    assert found is not None
    return version, {(name, key): record for name in found for key, record in found[name].items()}


def _proved(
    view: View, run: int, run_id: str, version: Version, most: float = float("inf")
) -> dict[str, dict[str, Record]] | None:
    """Return the records of a version by collection, checked against its digest; ``None`` if there are more than
    ``most``."""
    total, number = 0, 0
    out: dict[str, dict[str, Record]] = {}
    for collection in view.collections(run, past=True):
        found: dict[str, Record] = {}
        out[collection] = found
        for record in view.records_at(run, version.seq, collection):
            number += 1
            if number > most:
                return None
            found[record.key] = record
            total += term(collection, record.key, record.hash)
    if (total & MASK).to_bytes(32, "big") != version.digest:
        raise misplaced(f"run {run_id}@{version.seq}")
    return out


def whole(store: SqlStore, view: View, stored: bytes, what: str) -> bytes:
    """Return stored bytes; if they are a blob, its content, as the snapshot of the view knows it."""
    if stored[:1] == BLOB and len(stored) == 33:
        row = view.blob(stored[1:])
        if row is None:
            message = f"The store does not know the blob that holds {what} any more."
            raise Corrupt(message, where=f"blob {stored[1:].hex()}")
        return b"".join(store.load_blob(row.hash, row))
    return stored


def facts_of(store: SqlStore, view: View, collection: str, key: str, stored: bytes) -> tuple[str, int] | None:
    """Return the columns that the store has for a step, its status and order; ``None`` for any other record."""
    if collection != "step":
        return None
    return step_facts(key, payload(whole(store, view, stored, f"step/{key}"), f"step/{key}"))


class Reader:
    """The records of one run at one version (``seq`` None: the newest), read inside one snapshot."""

    def __init__(self, store: SqlStore, view: View, run: int, run_id: str, seq: int | None = None) -> None:
        self._store = store
        self.view = view
        self.run = run
        self.run_id = run_id
        if seq is not None:
            self._version = need_version(view, run, run_id, seq)
            head = view.head(run)
            if head is not None and head[0] == seq:
                seq = None
        self._seq = seq
        self._then: dict[str, dict[str, Record]] | None = {} if seq is not None else None  # once it is proved

    def raw(self, collection: str) -> dict[str, Record]:
        """Return stored records by key, in key order."""
        if self._seq is None:
            return {record.key: record for record in self.view.records(self.run, collection)}
        if self._then == {}:  # a page of history in another's place would hide records
            self._then = _proved(self.view, self.run, self.run_id, self._version, PROVED)
        if self._then is not None:
            found = self._then.get(collection, {})
        else:
            found = {r.key: r for r in self.view.records_at(self.run, self._seq, collection)}
        return {key: found[key] for key in sorted(found)}

    def keys(self, collection: str) -> list[str]:
        """Return the keys of a collection, in order; of the newest version without reading the values."""
        if self._seq is None:
            return sorted(self.view.hashes(self.run, collection))
        return list(self.raw(collection))

    def bulk(self, collection: str) -> tuple[list[Row], int]:
        """Return key, hash and bytes of all records of a collection in key order, and their part of the digest."""
        if self._seq is None:
            return self.view.bulk(self.run, collection)
        rows = [(record.key, record.hash, record.stored) for record in self.raw(collection).values()]
        return rows, sum_of(collection, rows)

    def part(self, collection: str) -> int:
        """Return what the records of a collection add to the digest, all of them checked."""
        return self.view.part(self.run, collection) if self._seq is None else self.bulk(collection)[1]

    def collections(self) -> list[str]:
        return self.view.collections(self.run, past=self._seq is not None)

    def values(self, collection: str) -> dict[str, Value]:
        """Return the values of a collection by key, in key order; variables are put together from their items."""
        records = self.raw(collection)
        items: dict[str, list[Record]] = {}
        if collection == "variable" and any(record.stored in _SPREAD for record in records.values()):
            for item in self.raw("item").values():
                items.setdefault(item.key.partition("/")[0] + "/", []).append(item)
        return {key: self._value(record, items.get(item_prefix(key), [])) for key, record in records.items()}

    def value(self, collection: str, key: str) -> Value | None:
        """Return one value; of the newest version without reading the others."""
        now = self._seq is None
        record = self.view.record(self.run, collection, key) if now else self.raw(collection).get(key)
        if record is None:
            return None
        items: Iterable[Record] = ()
        if record.stored in _SPREAD and collection == "variable":
            prefix = item_prefix(key)
            if now:
                items = self.view.records(self.run, "item", prefix, after(prefix))
            else:
                items = (item for item in self.raw("item").values() if item.key.startswith(prefix))
        return self._value(record, items)

    def record(self, collection: str, key: str | None) -> dict[str, Any]:
        """Return a copy of one record that is an object; an empty dict if there is none."""
        found = self.value(collection, key) if key is not None else None
        return dict(found.plain) if found is not None and isinstance(found.plain, dict) else {}

    def plain(self, collection: str) -> dict[str, Any]:
        """Return values as people and templates see them: a variable that is not JSON as the nearest JSON."""
        found = {key: value.plain for key, value in self.values(collection).items()}
        return {key: readable(value) for key, value in found.items()} if collection == "variable" else found

    def beginnings(self, most: int) -> dict[str, Any]:
        """Return the variables as people see them; of a long list of the newest version, read only so many entries."""
        if self._seq is not None:
            return self.plain("variable")
        out: dict[str, Any] = {}
        for key, record in self.raw("variable").items():
            prefix, total = item_prefix(key), 0
            if record.stored == LIST and (
                last := self.view.last_key(self.run, "item", prefix, after(prefix))
            ):
                total = int(last[len(prefix) :]) + 1
            if total > most:
                items = self.view.records(self.run, "item", prefix, index_key(prefix, most))
                out[key] = Beginning(readable(self._value(record, items).plain), total)
            else:
                found = self.value("variable", key)
                out[key] = readable(found.plain) if found is not None else None
        return out

    def redacted_variables(self) -> list[str]:
        """Return the variables in which something is redacted."""
        heads: dict[str, str] = {}
        out: set[str] = set()
        for key, record in self.raw("variable").items():
            if record.stored in _SPREAD:
                heads[item_prefix(key)[:-1]] = key
            elif record.stored[:1] != JSON and self._value(record).holes:
                out.add(key)
        current = self._seq is None and heads
        items = self.view.records(self.run, "item") if current else self.raw("item").values() if heads else ()
        for item in items:
            if item.stored[:1] != JSON and holes(self._whole(item)):
                out.add(heads[item.key.partition("/")[0]])
        return sorted(out)

    def plain_of(self, collection: str, rows: Iterable[Row]) -> dict[str, Any]:
        """Decode rows that were read already (of any collection but variables); raise ``Corrupt`` if one is lost."""
        out = {}
        for key, hash, stored in rows:
            if stored[:1] == JSON:
                out[key] = payload(stored, key)
            else:
                out[key] = self._value(Record(collection, key, 0, hash, stored)).plain
        return out

    def _whole(self, record: Record) -> bytes:
        where = f"{record.collection}/{record.key} of run {self.run_id}"
        return whole(self._store, self.view, record.stored, where)

    def _value(self, record: Record, items: Iterable[Record] = ()) -> Value:
        """Decode a record. ``items``: those of a variable that is spread."""
        if record.stored[:1] == JSON:  # as most are
            try:
                return Value(decode(record.stored[1:]), [], record.seq)
            except ValueError:
                pass  # the error names the place below
        where = f"{record.collection}/{record.key} of run {self.run_id}"
        newest = record.seq
        try:
            if record.stored in _SPREAD and record.collection == "variable":
                pairs = []
                for item in items:
                    newest = max(newest, item.seq)
                    pairs.append((item.key, self._whole(item)))
                plain, paths = gather(record.key, record.stored, pairs)
            else:
                stored = self._whole(record)
                if blob_of(stored) is not None:
                    plain, paths = blob_about(stored, where), []
                else:
                    plain, paths = payload(stored, where), holes(stored)
        except Corrupt as error:
            return Lost(error, newest)
        return Value(plain, paths, newest)


def read_collection(
    store: SqlStore, run: int, run_id: str, collection: str, seq: int | None = None
) -> dict[str, Value]:
    """Read one collection of a run in its own snapshot."""
    return store.read(lambda view: Reader(store, view, run, run_id, seq).values(collection))


def definition_of(store: SqlStore, row: RunRow, seq: int | None = None) -> dict[str, Any] | None:
    """Return ``path``, ``digest`` and ``text`` of the workflow file that a run executes; ``None`` if it has none.

    The text is ``None`` if it was not stored, because it held a secret. ``seq``: at that version.
    """
    known = store.read(
        lambda view: Reader(store, view, row.run, row.run_id, seq).record("context", DEFINITION)
    )
    if not isinstance(known.get("digest"), str):
        return None
    return known if isinstance(known.get("text"), str) else {**known, "text": None}
