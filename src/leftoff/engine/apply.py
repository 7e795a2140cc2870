"""Applying a change set to the rows of a run, inside a transaction.

Only what differs is written: the old hash of each record is known (from the head's cache or one look-up), no value is
read back. The digest and the counters of leaf steps are carried along.
"""

from __future__ import annotations

from leftoff.errors import Conflict, Invalid
from leftoff.model.changes import APPEND, DELETE, NOTHING, step_facts
from leftoff.model.codec import JSON, LIST, encode, holes, payload, sha256
from leftoff.model.digest import term
from leftoff.model.ids import parent_of
from leftoff.model.values import (
    DICT_HEAD,
    LIST_HEAD,
    SPREAD_OVER,
    after,
    entry_key,
    index_key,
    item_prefix,
    spread,
    store_json,
)
from leftoff.model.versions import counts_of, pack_counts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from leftoff.engine.head import Head, Row
    from leftoff.model.changes import Change, ChangeSet
    from leftoff.store.base import Tx

_UNKNOWN: Any = object()
_HEADS = (LIST_HEAD, DICT_HEAD)


class Apply:
    """One commit's worth of changes on one run."""

    __slots__ = (
        "_counts",
        "_known",
        "_lengths",
        "_packed",
        "card_changed",
        "changed",
        "digest",
        "fresh",
        "in_step",
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
        self.digest = int.from_bytes(digest, "big")
        self._packed = counts
        self._counts: dict[str, int] | None = None
        self.fresh: dict[tuple[str, str], Row | None] = {}
        self.lengths: dict[str, int] = {}
        self.changed = False
        self.card_changed = False

    def changes(self, changes: ChangeSet) -> None:
        for change in changes.changes.values():
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
                row = self.tx.row(self.run, collection, key)
        return row  # type: ignore[no-any-return]

    def _put(self, collection: str, key: str, stored: bytes, step: tuple[str, int] | None = None) -> None:
        old = self._row(collection, key)
        hash = sha256(stored).digest()
        if old is not None:
            if old[0] == hash:
                return
            if old[0] in _HEADS and collection == "variable":
                self._drop_items(key)
            self.digest -= term(collection, key, old[0])
        self.digest += term(collection, key, hash)
        self.changed = True
        if step is None:
            self.tx.put(self.run, self.seq, collection, key, hash, stored, existed=old is not None)
            self.fresh[collection, key] = (hash, None, None, None)
            if collection == "run":
                self.card_changed = True
        else:
            facts = self._step(key, step, old)
            self.tx.put(self.run, self.seq, collection, key, hash, stored, existed=old is not None, step=facts)
            self.fresh[collection, key] = (hash, *facts)

    def _delete(self, collection: str, key: str) -> None:
        old = self._row(collection, key)
        if old is None:
            return
        if old[0] in _HEADS and collection == "variable":
            self._drop_items(key)
        self._drop(collection, key, old[0])
        self.fresh[collection, key] = None
        if collection == "run":
            self.card_changed = True
        if collection == "step":
            self._step_gone(key, old)

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
                raise Conflict(f"{name} exists already.", hint="Read it first, or choose another key.")
            return
        wanted = encode(change.expect, name)
        hash = sha256(JSON + wanted).digest()
        if old is not None and old[0] in _HEADS:
            found = self.tx.hashes(self.run, "item", item_prefix(change.key), after(item_prefix(change.key)))
            entries = spread(change.key, change.expect, []) if isinstance(change.expect, (list, dict)) else {}
            same = len(wanted) > SPREAD_OVER and found == {k: sha256(s).digest() for k, s in entries.items()}
        else:
            same = old is not None and old[0] == hash
        if not same:
            raise Conflict(f"{name} has changed since it was read.", hint="Read it again, then decide again.")

    def put_record(self, collection: str, key: str, stored: bytes) -> None:
        """One record as it is, items and heads alike: for copying a whole state."""
        if collection == "step":
            self._put(collection, key, stored, step_facts(key, payload(stored, key)))
        elif collection == "variable":
            self._put_head(key, stored, self._row(collection, key))
        else:
            self._put(collection, key, stored)

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

    def _spread(self, change: Change) -> None:
        name, change_spread = change.key, change.spread
        assert change_spread is not None
        old = self._row("variable", name)
        prefix = change_spread.prefix
        same_kind = old is not None and old[0] == sha256(change.stored).digest()
        if change_spread.base is not None and self.in_step and same_kind:
            self._spread_known(name, change_spread)
        else:
            there = self.tx.hashes(self.run, "item", prefix, after(prefix)) if old and old[0] in _HEADS else {}
            wanted = set()
            for key, stored, value in change_spread.entries():
                wanted.add(key)
                if stored is None:
                    stored = JSON + encode(value, name)
                self._put_item(key, stored, there.get(key))
            for key, hash in there.items():
                if key not in wanted:
                    self._drop("item", key, hash)
        if isinstance(change_spread.encoded, list):
            self.lengths[name] = len(change_spread.encoded)
        if not same_kind:
            self._put_head(name, change.stored, old)

    def _spread_known(self, name: str, change: Any) -> None:
        """The base is what is stored, so only the entries that are not the base's own can differ."""
        prefix, encoded, base = change.prefix, change.encoded, change.base
        if isinstance(encoded, list):
            for index, stored in enumerate(encoded):
                if stored is not None:
                    key = index_key(prefix, index)
                    row = self.tx.row(self.run, "item", key) if index < len(base) else None
                    self._put_item(key, stored, row[0] if row else None)
            gone: Iterable[str] = (index_key(prefix, i) for i in range(len(encoded), len(base)))
        else:
            for entry, stored in encoded.items():
                if stored is not None:
                    key = entry_key(prefix, entry)
                    row = self.tx.row(self.run, "item", key) if entry in base else None
                    self._put_item(key, stored, row[0] if row else None)
            gone = (entry_key(prefix, entry) for entry in base if entry not in encoded)
        for key in gone:
            row = self.tx.row(self.run, "item", key)
            if row is not None:
                self._drop("item", key, row[0])

    def _put_item(self, key: str, stored: bytes, old: bytes | None) -> None:
        hash = sha256(stored).digest()
        if hash == old:
            return
        if old is not None:
            self.digest -= term("item", key, old)
        self.digest += term("item", key, hash)
        self.changed = True
        self.tx.put(self.run, self.seq, "item", key, hash, stored, existed=old is not None)

    def _put_head(self, name: str, stored: bytes, old: Row | None) -> None:
        """The head of a spread variable; its items are not touched."""
        hash = sha256(stored).digest()
        if old is not None:
            self.digest -= term("variable", name, old[0])
        self.digest += term("variable", name, hash)
        self.changed = True
        self.tx.put(self.run, self.seq, "variable", name, hash, stored, existed=old is not None)
        self.fresh["variable", name] = (hash, None, None, None)

    def _append(self, name: str, items: list[bytes]) -> None:
        old = self._row("variable", name)
        if old is not None and old[0] == LIST_HEAD:
            length = self._length(name)
            prefix = item_prefix(name)
            for offset, stored in enumerate(items):
                self._put_item(index_key(prefix, length + offset), stored, None)
            self.lengths[name] = length + len(items)
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
        paths: list[list[Any]] = []
        if old is not None:
            record = self.tx.record(self.run, "variable", name)
            assert record is not None
            if record.stored[:1] != b"B":
                value, paths = payload(record.stored, name), holes(record.stored)
            if record.stored[:1] == b"B" or not isinstance(value, list) or [] in paths:
                raise Invalid(f"{name} is not a list; it cannot be appended to.")
        blobs = {}
        for stored in items:
            if stored[:1] == b"B":  # one entry over 1 MiB: the list spreads, the entry stays a blob
                blobs[len(value)] = stored
                value.append("x" * SPREAD_OVER)
            else:
                paths += [[len(value), *path] for path in holes(stored)]
                value.append(payload(stored, name))
        if len(encode(value, name)) <= SPREAD_OVER:
            self._put("variable", name, store_json(value, paths, name))
            return
        entries = list(spread(name, value, paths).items())
        for index, (key, stored) in enumerate(entries):
            self._put_item(key, blobs.get(index, stored), None)
        self.lengths[name] = len(entries)
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

