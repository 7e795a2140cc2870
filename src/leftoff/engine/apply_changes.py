"""Applying a change set to the rows of a run, inside a transaction.

Only what differs is written: the old hash of each record is known (from the head's cache or one look-up), no value is
read back. The digest and the counters of leaf steps are carried along.
"""

from __future__ import annotations

from leftoff.engine.head_cache import LIMIT
from leftoff.errors import Conflict, Invalid
from leftoff.hints import Any, Iterable
from leftoff.model.changes import (
    APPEND,
    DELETE,
    DICT_HEAD,
    LIST_HEAD,
    NOTHING,
    SPREAD_OVER,
    after,
    blob_stored,
    entry_key,
    entry_name,
    index_key,
    item_prefix,
    spread,
)
from leftoff.model.codec import LIST, REDACTED, encode, holes, payload, sha256, store, term
from leftoff.model.ids import parent_of
from leftoff.model.versions import counts_of, pack_counts
from leftoff.store.base import VALUE_MAX
from leftoff.store.rows import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.head_cache import Head, Row
    from leftoff.model.changes import Change, Spread
    from leftoff.store.base import Tx

_UNKNOWN: Any = object()
_HEADS = (LIST_HEAD, DICT_HEAD)


def _hash_stored(stored: bytes) -> bytes:
    """The hash that a record has whose bytes these are; large ones are stored as a reference to a blob."""
    if len(stored) > VALUE_MAX:
        stored = blob_stored(sha256(stored).digest())
    return sha256(stored).digest()


class Apply:
    """One commit's worth of changes on one run."""

    __slots__ = (
        "_counts",
        "_items",
        "_known",
        "_lengths",
        "_packed",
        "card_changed",
        "changed",
        "digest",
        "empty",
        "fresh",
        "in_step",
        "items",
        "lengths",
        "run",
        "seq",
        "tx",
    )

    def __init__(self, tx: Tx, head: Head, since: int, digest: bytes, counts: str) -> None:
        self.tx = tx
        self.run = head.run
        self.seq = since + 1
        self.in_step = since == head.seq  # whether what the process remembers still holds
        self._known = head.rows if self.in_step else {}
        self._lengths = head.lengths if self.in_step else {}
        self._items = head.items if self.in_step else {}
        self.empty = head.empty if self.in_step else frozenset()
        self.digest = int.from_bytes(digest, "big")
        self._packed = counts
        self._counts: dict[str, int] | None = None
        self.fresh: dict[tuple[str, str], Row | None] = {}
        self.lengths: dict[str, int] = {}
        self.items: dict[str, Any] = {}
        self.changed = False
        self.card_changed = False

    def changes(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.expect is not NOTHING:
                self._expect(change)
            if change.kind == DELETE:
                self._delete(change.collection, change.key)
            elif change.kind == APPEND:
                self._append(change.key, change.items)
            elif change.spread is not None:
                self._spread(change)
            else:
                self._put(change.collection, change.key, change.stored, change.step)

    def packed_counts(self) -> str:
        return self._packed if self._counts is None else pack_counts(self._counts)

    # -- rows

    def _row(self, collection: str, key: str) -> Row | None:
        address = (collection, key)
        row: Any = self.fresh.get(address, _UNKNOWN)
        if row is _UNKNOWN:
            row = self._known.get(address, _UNKNOWN)
            if row is _UNKNOWN:
                row = self.tx.row(self.run, collection, key) if collection not in self.empty else None
        return row  # type: ignore[no-any-return]

    def _put(self, collection: str, key: str, stored: bytes, step: tuple[str, int] | None = None) -> None:
        old = self._row(collection, key)
        hash = sha256(stored).digest()
        new = term(collection, key, hash)
        if old is None:
            self.digest += new
        else:
            before = old[0]
            if before == hash:
                return
            if before in _HEADS and collection == "variable":
                self._drop_items(key)
            self.digest += new - (old[4] if len(old) > 4 else term(collection, key, before))
        self.changed = True
        if collection in self.empty:
            self.empty -= {collection}
        record = Record(collection, key, self.seq, hash, stored)
        if step is None:
            self.tx.put(self.run, record, old is not None)
            self.fresh[collection, key] = (hash, None, None, None, new)
            if collection == "run":
                self.card_changed = True
        else:
            facts = self._step(key, step, old)
            self.tx.put(self.run, record, old is not None, facts)
            self.fresh[collection, key] = (hash, *facts, new)

    def _delete(self, collection: str, key: str) -> None:
        old = self._row(collection, key)
        if old is None:
            self._see_empty(collection)
            return
        if old[0] in _HEADS and collection == "variable":
            self._drop_items(key)
        self._drop(collection, key, old[0])
        self.fresh[collection, key] = None
        if collection == "run":
            self.card_changed = True
        if collection == "step":
            self._step_gone(key, old)

    def _see_empty(self, collection: str) -> None:
        """Each step that ends drops its error, and hardly any run has one. Whoever ends several looks that up once."""
        may_be = collection == "error" and self._known and collection not in self.empty
        if may_be and not self.tx.hashes(self.run, collection):
            self.empty |= {collection}

    def _drop(self, collection: str, key: str, hash: bytes) -> None:
        self.digest -= term(collection, key, hash)
        self.changed = True
        self.tx.drop(self.run, self.seq, collection, key)

    def _expect(self, change: Change) -> None:
        """Compare and set: the record must have the expected value (``None``: must not be there)."""
        old = self._row(change.collection, change.key)
        name = f"{change.collection}/{change.key}"
        if change.expect is None:
            if old is not None:
                raise Conflict(f"{name} already exists.", hint="Read it first, or choose another key.")
            return
        wanted: Change = change.expect
        if wanted.stored[:1] == REDACTED and [] in holes(wanted.stored):
            raise Conflict(
                f"{name} is a secret, which is not stored: it cannot be compared with.",
                hint="Set it without.",
            )
        same = old is not None and old[0] == _hash_stored(wanted.stored)
        if same and wanted.spread is not None:
            prefix = item_prefix(change.key)
            entries = spread(change.key, wanted.spread.values)
            found = self.tx.hashes(self.run, "item", prefix, after(prefix))
            same = found == {key: _hash_stored(stored) for key, stored in entries.items()}
        if not same:
            raise Conflict(f"{name} has changed since it was read.", hint="Read it again, then decide again.")

    def put_record(self, collection: str, key: str, stored: bytes, step: tuple[str, int] | None) -> None:
        """One record as it is, items and heads alike: for copying a whole state."""
        if collection == "variable":
            self._put_head(key, stored, self._row(collection, key))
        else:
            self._put(collection, key, stored, step)

    def drop_record(self, collection: str, key: str, hash: bytes) -> None:
        """End one record as it is."""
        if collection == "variable":
            self._drop(collection, key, hash)
        else:
            self._delete(collection, key)

    # -- spread variables

    def _drop_items(self, name: str) -> None:
        prefix = item_prefix(name)
        for key, hash in self.tx.hashes(self.run, "item", prefix, after(prefix)).items():
            self._drop("item", key, hash)
        self.lengths[name] = 0
        self.items[name] = None

    def _spread(self, change: Change) -> None:
        """Write the entries that differ. The hashes of the others are known, or looked up once."""
        name, spread = change.key, change.spread
        assert spread is not None
        old = self._row("variable", name)
        same_kind = old is not None and old[0] == sha256(change.stored).digest()
        there = self._entry_hashes(name, spread.prefix, change.stored) if same_kind else None
        if not same_kind and old is not None and old[0] in _HEADS:
            self._drop_items(name)
        if isinstance(spread.encoded, list):
            self._spread_list(name, spread, there or [])
        else:
            self._spread_dict(name, spread, there or {})
        if not same_kind:
            self._put_head(name, change.stored, old)

    def _entry_hashes(self, name: str, prefix: str, head: bytes) -> Any:
        known = self.items.get(name, self._items.get(name))
        if known is not None:
            return known
        found = self.tx.hashes(self.run, "item", prefix, after(prefix))
        return list(found.values()) if head == LIST else {entry_name(prefix, k): h for k, h in found.items()}

    def _spread_list(self, name: str, spread: Spread, there: list[bytes]) -> None:
        values, known, current = spread.values, len(there), spread.seq == self.seq - 1
        hashes: list[bytes] = spread.hashes.copy()
        for index, hash in enumerate(hashes):
            old = there[index] if index < known else None
            if hash is not None:
                if hash != old:
                    self._put_item(index_key(spread.prefix, index), spread.encoded[index], old, hash)
            elif old is not None and current:  # the very object that is stored
                hashes[index] = old
            else:
                stored = store(values[index], name)
                hashes[index] = self._put_item(index_key(spread.prefix, index), stored, old)
        for index in range(len(hashes), known):
            self._drop("item", index_key(spread.prefix, index), there[index])
        self._remember(name, hashes)

    def _spread_dict(self, name: str, spread: Spread, there: dict[str, bytes]) -> None:
        hashes: dict[str, bytes] = spread.hashes.copy()
        current = spread.seq == self.seq - 1
        for key, hash in spread.hashes.items():
            old = there.get(key)
            if hash is not None:
                if hash != old:
                    self._put_item(entry_key(spread.prefix, key), spread.encoded[key], old, hash)
            elif old is not None and current:
                hashes[key] = old
            else:
                stored = store(spread.values[key], name)
                hashes[key] = self._put_item(entry_key(spread.prefix, key), stored, old)
        for key, hash in there.items():
            if key not in hashes:
                self._drop("item", entry_key(spread.prefix, key), hash)
        self._remember(name, hashes)

    def _remember(self, name: str, hashes: Any) -> None:
        self.lengths[name] = len(hashes)
        self.items[name] = hashes if len(hashes) <= LIMIT else None

    def _put_item(self, key: str, stored: bytes, old: bytes | None, hash: bytes = b"") -> bytes:
        """One entry; its hash."""
        hash = hash or sha256(stored).digest()
        if hash == old:
            return hash
        if old is not None:
            self.digest -= term("item", key, old)
        self.digest += term("item", key, hash)
        self.changed = True
        self.tx.put(self.run, Record("item", key, self.seq, hash, stored), old is not None)
        return hash

    def _put_head(self, name: str, stored: bytes, old: Row | None) -> None:
        """The head of a spread variable; its items are not touched."""
        hash = sha256(stored).digest()
        if old is not None:
            self.digest -= term("variable", name, old[0])
        self.digest += term("variable", name, hash)
        self.changed = True
        self.tx.put(self.run, Record("variable", name, self.seq, hash, stored), old is not None)
        self.fresh["variable", name] = (hash, None, None, None)

    def _append(self, name: str, items: list[bytes]) -> None:
        old = self._row("variable", name)
        if old is not None and old[0] == LIST_HEAD:
            length = self._length(name)
            prefix = item_prefix(name)
            for offset, stored in enumerate(items):
                self._put_item(index_key(prefix, length + offset), stored, None)
            self.lengths[name] = length + len(items)
            self.items[name] = None
            return
        if old is not None and old[0] == DICT_HEAD:
            raise Invalid(f"{name} is a dict; it cannot be appended to.")
        self._append_small(name, items, old)

    def _length(self, name: str) -> int:
        known = self.lengths.get(name, self._lengths.get(name))
        if known is not None:
            return known
        prefix = item_prefix(name)
        last = self.tx.last_key(self.run, "item", prefix, after(prefix))
        return int(last[len(prefix) :]) + 1 if last else 0

    def _append_small(self, name: str, items: list[bytes], old: Row | None) -> None:
        """The list is still one record: read it, and spread it once it is over the limit."""
        value: Any = []
        if old is not None:
            record = self.tx.record(self.run, "variable", name)
            assert record is not None
            value = payload(record.stored, name) if record.stored[:1] != b"B" else None
            if not isinstance(value, list):
                raise Invalid(f"{name} is not a list; it cannot be appended to.")
        blobs = {}
        for stored in items:
            if stored[:1] == b"B":  # one entry over 1 MiB: the list spreads, the entry stays a blob
                blobs[len(value)] = stored
                value.append("x" * SPREAD_OVER)
            else:
                value.append(payload(stored, name))
        if len(encode(value, name)) <= SPREAD_OVER:
            self._put("variable", name, store(value, name))
            return
        entries = list(spread(name, value).items())
        for index, (key, stored) in enumerate(entries):
            self._put_item(key, blobs.get(index, stored), None)
        self.lengths[name] = len(entries)
        self.items[name] = None
        self._put_head(name, LIST, old)

    # -- steps: counters of leaves, and where each stands

    def _count(self, status: str | None, by: int) -> None:
        if self._counts is None:
            self._counts = counts_of(self._packed)
        if status is not None:
            self._counts[status] += by

    def _above(self, key: str) -> tuple[str, Row] | None:
        """The nearest step above that is a record."""
        parent = parent_of(key)
        while parent:
            row = self._row("step", parent)
            if row is not None:
                return parent, row
            parent = parent_of(parent)
        return None

    def _set_leaf(self, key: str, row: Row, leaf: bool) -> None:
        self.tx.set_leaf(self.run, key, leaf)
        self._count(row[1], 1 if leaf else -1)
        self.fresh["step", key] = (row[0], row[1], row[2], int(leaf))

    def _step(self, key: str, step: tuple[str, int], old: Row | None) -> tuple[str, str, int]:
        """Status, ord and leaf of a step that is being put; keeps the counters."""
        status, order = step
        if old is not None:
            if old[3] and old[1] != status:
                self._count(old[1], -1)
                self._count(status, 1)
            return status, old[2] or "", old[3] or 0
        above = self._above(key)
        if above is not None and above[1][3]:
            self._set_leaf(above[0], above[1], False)
        leaf = not self.tx.has_below(self.run, key)
        if leaf:
            self._count(status, 1)
        own = f"{order:08d}"
        return status, f"{above[1][2]}/{own}" if above is not None else own, int(leaf)

    def _step_gone(self, key: str, old: Row) -> None:
        if old[3]:
            self._count(old[1], -1)
        above = self._above(key)
        if above is not None and not above[1][3] and not self.tx.has_below(self.run, above[0]):
            self._set_leaf(above[0], above[1], True)
