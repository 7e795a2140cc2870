"""Reading a run's state: now, or at any kept version."""

from __future__ import annotations

from leftoff.errors import Corrupt, NoCheckpoint, Pruned
from leftoff.model.changes import step_facts
from leftoff.model.codec import BLOB, DICT, JSON, LIST, holes, payload
from leftoff.model.digest import MASK, sum_of, term
from leftoff.model.values import after, blob_about, blob_of, gather, index_key, is_typed, item_prefix
from leftoff.model.words import REPAIRED
from leftoff.store.rows import Record, misplaced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    from leftoff.model.digest import Row
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View

_SPREAD = (LIST, DICT)
PROVED = 10_000  # records that are added up before they are shown: a tenth of what showing them takes


class Value:
    """A record's value as it was read: plain JSON, the mark in every redacted place, and those places."""

    __slots__ = ("holes", "plain", "seq")

    def __init__(self, plain: Any, holes: list[list[Any]], seq: int) -> None:
        self.plain = plain
        self.holes = holes
        self.seq = seq


class Beginning(list):  # type: ignore[type-arg]
    """The first entries of a long list, and of how many."""

    def __init__(self, entries: Iterable[Any], of: int) -> None:
        super().__init__(entries)
        self.of = of


def seen(value: Any) -> Any:
    """A variable's value as people see it."""
    if not is_typed(value):
        return value
    from leftoff.model.shown import shown

    return shown(value)


def seen_step(record: dict[str, Any]) -> dict[str, Any]:
    """A step's record, with what Python code returned as people see it."""
    if "result" not in record or ("typed" not in record and "digest" not in record):
        return record
    return {**record, "result": seen(record["result"])}


class Lost(Value):
    """A value whose bytes are damaged or gone. The others can be read; whoever looks at this one is told."""

    __slots__ = ("error",)

    def __init__(self, error: Corrupt, seq: int) -> None:
        self.error = error
        self.seq = seq

    @property
    def plain(self) -> NoReturn:
        raise self.error

    holes = plain


def need_version(view: View, run: int, run_id: str, seq: int) -> Version:
    """The version, or a clear word on why it cannot be read."""
    version = view.version(run, seq)
    if version is not None:
        return version
    view.need_all_checkpoints(run)
    bounds = view.bounds(run)
    newest = bounds[1] if bounds else 0
    if not 0 < seq < newest:
        raise NoCheckpoint(f"Run {run_id} has no version {seq}; its newest is {newest}.")
    before, after = view.around(run, seq)
    left = ", ".join(f"{run_id}@{near}" for near in (before, after) if near is not None)
    if view.row(run, "context", REPAIRED) is not None:
        why = "a repair could not bring it back, or it was pruned"
        raise NoCheckpoint(f"Version {seq} of run {run_id} is gone: {why}. Still there around it: {left}.")
    _refuse_lost(view, run, run_id, seq)
    raise Pruned(f"Version {seq} of run {run_id} is gone: it was pruned. Still there around it: {left}.")


def _refuse_lost(view: View, run: int, run_id: str, seq: int) -> None:
    """A prune drops what is no checkpoint in its order, before anything else: where an older such version is there,
    none has dropped this one."""
    if any(version.id is None for version in view.versions(run, sealed=False, before=seq, limit=PROVED)):
        raise Corrupt(
            f"Version {seq} of run {run_id} is lost: no prune has dropped it.",
            where=f"run {run_id}@{seq}",
            hint="`leftoff fsck` shows whether the store is damaged, or a repair has left it out.",
        )


def proved_version(
    view: View, run: int, run_id: str, seq: int
) -> tuple[Version, dict[tuple[str, str], Record]]:
    """A version with all of its records, which add up to its digest: what is made of them must not lack any."""
    version = need_version(view, run, run_id, seq)
    found = _proved(view, run, run_id, version)
    assert found is not None
    return version, {(name, key): record for name in found for key, record in found[name].items()}


def _proved(
    view: View, run: int, run_id: str, version: Version, most: float = float("inf")
) -> dict[str, dict[str, Record]] | None:
    """The records that a version saw, by collection, added up; ``None`` where there are more than ``most``."""
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


def whole(store: Store, view: View, stored: bytes, what: str) -> bytes:
    """Stored bytes; those that are a blob themselves are read from it, as the snapshot that has them knows it."""
    if stored[:1] == BLOB and len(stored) == 33:
        row = view.blob(stored[1:])
        if row is None:
            message = f"The store does not know the blob that holds {what} any more."
            raise Corrupt(message, where=f"blob {stored[1:].hex()}")
        return b"".join(store.load_blob(row.hash, row))
    return stored


def facts_of(store: Store, view: View, collection: str, key: str, stored: bytes) -> tuple[str, int] | None:
    """What the store keeps beside a step: its status and order; ``None`` for any other record."""
    if collection != "step":
        return None
    return step_facts(key, payload(whole(store, view, stored, f"step/{key}"), f"step/{key}"))


class Reader:
    """The records of one run at one version (``seq`` None: the newest), read inside one snapshot."""

    def __init__(self, store: Store, view: View, run: int, run_id: str, seq: int | None = None) -> None:
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
        """Stored records by key, in key order."""
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
        """The keys of a collection, in order; of the newest version without reading what is under them."""
        if self._seq is None:
            return sorted(self.view.hashes(self.run, collection))
        return list(self.raw(collection))

    def bulk(self, collection: str) -> tuple[list[Row], int]:
        """Key, hash and bytes of all records of a collection, in key order; and their part of the digest."""
        if self._seq is None:
            return self.view.bulk(self.run, collection)
        rows = [(record.key, record.hash, record.stored) for record in self.raw(collection).values()]
        return rows, sum_of(collection, rows)

    def part(self, collection: str) -> int:
        """What the records of a collection add to the digest, all of them checked."""
        return self.view.part(self.run, collection) if self._seq is None else self.bulk(collection)[1]

    def collections(self) -> list[str]:
        return self.view.collections(self.run, past=self._seq is not None)

    def values(self, collection: str) -> dict[str, Value]:
        """The values of a collection by key, in key order; variables are put together from their items."""
        records = self.raw(collection)
        if collection == "variable" and any(r.stored in _SPREAD for r in records.values()):
            return self._variables(records)
        return {key: self._value(record) for key, record in records.items()}

    def value(self, collection: str, key: str) -> Value | None:
        """One value of the newest version, without reading the others."""
        record = (
            self.view.record(self.run, collection, key)
            if self._seq is None
            else self.raw(collection).get(key)
        )
        if record is None:
            return None
        if record.stored in _SPREAD and collection == "variable":
            prefix = item_prefix(key)
            if self._seq is None:
                items: Iterable[Record] = self.view.records(self.run, "item", prefix, after(prefix))
            else:
                items = (r for r in self.raw("item").values() if r.key.startswith(prefix))
            return self._gathered(record, items)
        return self._value(record)

    def plain(self, collection: str) -> dict[str, Any]:
        """Values as people and templates see them: a variable that is no JSON as the JSON that comes nearest to it."""
        found = {key: value.plain for key, value in self.values(collection).items()}
        return {key: seen(value) for key, value in found.items()} if collection == "variable" else found

    def beginnings(self, most: int) -> dict[str, Any]:
        """The variables as people see them; of a long list of the newest version, only so many entries are read."""
        if self._seq is not None:
            return self.plain("variable")
        records = self.raw("variable")
        return {key: self._beginning(key, record, most) for key, record in records.items()}

    def _beginning(self, key: str, record: Record, most: int) -> Any:
        prefix = item_prefix(key)
        last = self.view.last_key(self.run, "item", prefix, after(prefix)) if record.stored == LIST else None
        total = int(last[len(prefix) :]) + 1 if last else 0
        if total <= most:
            found = self.value("variable", key)
            return seen(found.plain) if found is not None else None
        items = self.view.records(self.run, "item", prefix, index_key(prefix, most))
        return Beginning(seen(self._gathered(record, items).plain), total)

    def redacted_variables(self) -> list[str]:
        """The variables in which something is redacted; entries are looked at one by one."""
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
        """Rows that were read already (of any collection but variables), decoded; `Corrupt` where one is lost."""
        out = {}
        for key, hash, stored in rows:
            if stored[:1] == JSON:
                out[key] = payload(stored, key)
            else:
                out[key] = self._value(Record(collection, key, 0, hash, stored)).plain
        return out

    def _variables(self, records: dict[str, Record]) -> dict[str, Value]:
        items: dict[str, list[Record]] = {}
        for record in self.raw("item").values():
            items.setdefault(record.key.partition("/")[0], []).append(record)
        out = {}
        for key, record in records.items():
            if record.stored in _SPREAD:
                out[key] = self._gathered(record, items.get(item_prefix(key)[:-1], []))
            else:
                out[key] = self._value(record)
        return out

    def _gathered(self, head: Record, items: Iterable[Record]) -> Value:
        newest = head.seq
        pairs = []
        try:
            for item in items:
                newest = max(newest, item.seq)
                pairs.append((item.key, self._whole(item)))
            plain, paths = gather(head.key, head.stored, pairs)
        except Corrupt as error:
            return Lost(error, newest)
        return Value(plain, paths, newest)

    def _whole(self, record: Record) -> bytes:
        where = f"{record.collection}/{record.key} of run {self.run_id}"
        return whole(self._store, self.view, record.stored, where)

    def _value(self, record: Record) -> Value:
        where = f"{record.collection}/{record.key} of run {self.run_id}"
        try:
            stored = self._whole(record)
            if blob_of(stored) is not None:
                plain, paths = blob_about(stored, where), []
            else:
                plain, paths = payload(stored, where), holes(stored)
        except Corrupt as error:
            return Lost(error, record.seq)
        return Value(plain, paths, record.seq)


def read(store: Store, run: int, run_id: str, collection: str, seq: int | None = None) -> dict[str, Value]:
    """One collection of a run in a snapshot of its own."""
    return store.read(lambda view: Reader(store, view, run, run_id, seq).values(collection))


def met(about: Any) -> bool | None:
    """Whether a criterion is met: ``true`` or ``{"met": true}``, and so for false; None where it is not said."""
    value = about.get("met") if isinstance(about, dict) else about
    return value if isinstance(value, bool) else None
