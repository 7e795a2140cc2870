"""The commit: one atomic, durable change of records that gives the run its next version.

Everything that costs time happens before the transaction: values were checked, redacted and encoded when they were
put into the change set, and large ones become blobs here. Inside, a commit looks at the run's head once, fences off
drivers that lost their lease and attempts that are not current, writes what differs, and moves the head.

Only what differs is written: the hash of each record that is there is known (from what the process remembers, or from
one look-up), so no value is read back. The digest and the counters of leaf steps are carried along.

A report is a commit by the process that works on a run: one transaction finds the run, looks, changes and commits.
Reports need no lease and work next to a live driver. So several agents that report at once lose nothing, not even on
the same step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from leftoff.clock import SYSTEM, iso
from leftoff.engine.find import Find, need_store
from leftoff.engine.lease import gone, sign_of_life
from leftoff.errors import Conflict, Invalid, LeftoffError, Rewound, StaleEpoch
from leftoff.host import debug, user
from leftoff.model.changes import (
    APPEND,
    DELETE,
    DICT_HEAD,
    LIST_HEAD,
    NOTHING,
    SPREAD_OVER,
    Change,
    ChangeSet,
    Scrubber,
    Spread,
    Version,
    after,
    blob_stored,
    card_of,
    counts_of,
    entry_key,
    entry_name,
    index_key,
    item_prefix,
    pack_counts,
    spread,
)
from leftoff.model.codec import (
    LIST,
    MASK,
    REDACTED,
    checkpoint_id,
    encode,
    holes,
    payload,
    sha256,
    store,
    term,
)
from leftoff.model.ids import parent_of, shown_step
from leftoff.model.words import REPAIRED, TRIGGERS
from leftoff.store.base import NOT_A_STEP, VALUE_MAX, SqlStore, Step, Stood, Tx, View
from leftoff.store.rows import BlobRow, Record, RunRow

# hash, status, ord and leaf, as the store has them; then what it adds to the digest, if that is known
Row = tuple[Any, ...]

REMEMBERED = 20_000  # rows; a run with more is looked up
_KNOWN_TRIGGERS = frozenset(TRIGGERS)
_HEADS = (LIST_HEAD, DICT_HEAD)
_UNKNOWN: Any = object()


class Seal:
    """What makes a commit a checkpoint. ``asked``: this one is wanted, even if a protocol would not seal it."""

    __slots__ = ("aliases", "asked", "note", "step", "trigger")

    def __init__(
        self,
        trigger: str,
        step: str | None = None,
        note: str | None = None,
        aliases: tuple[str, ...] = (),
        *,
        asked: bool = False,
    ) -> None:
        if trigger not in _KNOWN_TRIGGERS:
            raise Invalid(f"There is no trigger {trigger!r}.", hint=f"Triggers: {', '.join(TRIGGERS)}.")
        self.trigger = trigger
        self.step = step
        self.note = note
        self.aliases = aliases
        self.asked = asked

    def clean(self, changes: ChangeSet) -> Seal:
        """Return the same without the secrets that the changes may not have either."""
        if self.note is None:
            return self
        return Seal(self.trigger, self.step, changes.mask(self.note), self.aliases, asked=self.asked)


class Guard(NamedTuple):
    """By what right a commit is made: a driver's epoch, or an attempt's token. Neither: a plain report."""

    epoch: int | None = None
    attempt: str | None = None

    def check(self, tx: Tx, head: Head | RunRow, epoch: int) -> None:
        if self.epoch is not None and self.epoch != epoch:
            raise StaleEpoch(
                f"Run {head.run_id} was taken over: it is at epoch {epoch}, this process at {self.epoch}."
            )
        if self.attempt:
            attempt = tx.attempt(self.attempt)  # of this run, or of the one whose step reports on this
            if attempt is None:
                raise Conflict(
                    "No attempt at a step has the token in LEFTOFF_ATTEMPT.",
                    hint="Unset LEFTOFF_ATTEMPT if this is not a step that leftoff started.",
                )
            if attempt.number != attempt.current:
                step = shown_step(attempt.step)
                raise Conflict(
                    f"This is attempt {attempt.number} at {step}; attempt {attempt.current} is current.",
                    hint="Stop here: the step was started again.",
                )


NO_GUARD = Guard()


def new_token() -> bytes:
    """Return what identifies a commit when it is tried again."""
    return os.urandom(16)


class Terms:
    """When a commit is made, by what right, how it is sealed, its idempotency token, and the blobs that were saved for
    it. ``unless``: it is not made if the commit after this version with this token was made."""

    __slots__ = ("at", "blobs", "guard", "seal", "token", "unless")

    def __init__(
        self,
        at: int,
        guard: Guard = NO_GUARD,
        seal: Seal | None = None,
        token: bytes = b"",
        blobs: Sequence[BlobRow] | None = None,
    ) -> None:
        self.at = at
        self.guard = guard
        self.seal = seal
        self.token = token or new_token()
        self.blobs: Sequence[BlobRow] = blobs or ()
        self.unless: tuple[int, bytes] | None = None


class CameLate(Exception):
    """The commit that ``Terms.unless`` names has arrived after all."""


class BaseMoved(Exception):
    """A spread value is described by what changed in it, and another process has committed since it was read."""


# -- what a process remembers of a run


class Head:
    """One run, as last seen by this process, so that a commit need not look it up again.

    It is a cache with one rule: it counts only if, inside the transaction, the run is still at this version. Every
    commit looks at that first, so another writer costs a few look-ups, never a wrong answer.
    """

    __slots__ = ("at", "counts", "empty", "items", "lengths", "rows", "run", "run_id")

    def __init__(self, run: int, run_id: str, seq: int, digest: int, counts: str = "") -> None:
        self.run = run
        self.run_id = run_id
        self.at = (seq, digest)  # one thing: threads read it while another sets it
        self.counts = counts  # of its leaf steps by status, packed; empty: not known
        self.rows: dict[tuple[str, str], Row | None] = {}
        self.empty: frozenset[str] = frozenset()  # collections without any record
        self.lengths: dict[str, int] = {}  # of spread lists
        self.items: dict[str, Any] = {}  # hashes of the entries of spread variables that were assigned whole

    @property
    def seq(self) -> int:
        return self.at[0]

    @classmethod
    def of(cls, row: RunRow) -> Head:
        """Return the head of a run as its row has it."""
        return cls(row.run, row.run_id, row.seq, int.from_bytes(row.digest, "big"), row.counts)

    def adopt(self, since: int, seq: int, digest: int, learned: Apply | None) -> None:
        """Remember a commit that became durable: it went from ``since`` to ``seq``, and this is what it learned."""
        known = self.at[0]
        if seq <= known:
            return  # a thread that committed later was faster
        if learned is None:
            self.rows, self.lengths, self.items = {}, {}, {}
            self.counts, self.empty = "", frozenset()
        else:
            self.counts, self.empty = learned.packed_counts(), learned.empty
            if since == known and len(self.rows) < REMEMBERED:
                self.rows.update(learned.fresh)
                if learned.lengths:
                    self.lengths.update(learned.lengths)
                    self.items.update(learned.items)
            else:
                self.rows, self.lengths, self.items = learned.fresh, learned.lengths, learned.items
        self.at = (seq, digest)


def need_known(view: View, head: Head, seq: int, digest: bytes) -> None:
    """Raise ``Rewound`` if the history of a run, which is at ``seq`` now, lacks what the store acknowledged."""
    known, content = head.at
    if seq > known:
        version = view.version(head.run, known) if known > 0 else None
        if version is None:  # none is known, or it was pruned
            return
        digest = version.digest
    if seq < known or int.from_bytes(digest, "big") != content:
        error = Rewound(
            f"The store lost version {known} of run {head.run_id}, which it had acknowledged: it is at version {seq}, "
            "without that."
        )
        error.run_id, error.kept, error.newest = head.run_id, seq, known
        raise error


# -- the commit


def commit(
    store: SqlStore, head: Head, changes: ChangeSet, terms: Terms, *, durable: bool = True
) -> Version | None:
    """Make the changes durable. Return the version, or ``None`` if nothing differs and nothing is sealed."""
    version, adopt = commit_apart(store, head, changes, terms, durable=durable)
    adopt()
    return version


def commit_apart(
    store: SqlStore, head: Head, changes: ChangeSet, terms: Terms, *, durable: bool = True
) -> tuple[Version | None, Callable[[], None]]:
    """Like ``commit``, for callers with threads: the head learns of it when they call the second part."""
    try:
        return _try_commit(store, head, changes, terms, durable)
    except BaseMoved:  # outside of the transaction, where an entry over 1 MiB can become a blob
        for change in changes.changes.values():
            if change.spread is not None:
                change.spread.encode_all()
        return _try_commit(store, head, changes, terms, durable)


def _try_commit(
    store: SqlStore, head: Head, changes: ChangeSet, terms: Terms, durable: bool
) -> tuple[Version | None, Callable[[], None]]:
    changes, rows = save_blobs(store, changes)
    if rows:
        terms.blobs = [*rows, *terms.blobs]
    (seq, digest), stood = head.at, None
    if store.shared and seq and head.counts:  # where this process takes the run to stand
        known = (seq, digest.to_bytes(32, "big"), head.counts)
        stood = Stood(head.run, head.run_id, *known, terms.guard.epoch, terms.token)
    done = store.commit(lambda tx: commit_in(tx, head, changes, terms), stood, durable=durable)
    if done is None:
        return None, lambda: None
    version, since, apply = done
    return version, lambda: head.adopt(since, version.seq, apply.digest, apply)


def commit_in(tx: Tx, head: Head, changes: ChangeSet, terms: Terms) -> tuple[Version, int, Apply] | None:
    """Do the part inside the transaction. It may run again after a rollback: it changes nothing but rows."""
    now = tx.head(head.run)
    if now is None:
        raise gone(head.run_id)
    since, digest, counts, epoch, run_id = now
    if terms.unless is not None and tx.applied(head.run, *terms.unless) is not None:
        raise CameLate
    if terms.guard is not NO_GUARD:
        terms.guard.check(tx, head, epoch)
    apply = Apply(tx, head, since, digest, counts)
    if (since, apply.digest) != head.at:
        need_known(tx, head, since, digest)
    for row in terms.blobs:
        tx.put_blob(row)
    seal = terms.seal
    if tx.follower is not None and (seal is None or not seal.asked):
        seal = tx.follower.seal(tx, head.run, changes, seal)
    if seal is not None:
        seal = seal.clean(changes)
    apply.changes(changes.changes.values())
    if not apply.changed and seal is None:
        return None
    return add_version(tx, apply, run_id, epoch, terms, seal), since, apply


def add_version(tx: Tx, apply: Apply, run_id: str, epoch: int, terms: Terms, seal: Seal | None) -> Version:
    """Add the run's next version, sealed so (which a protocol may decide, whatever the terms say)."""
    seq = apply.seq
    debug("commits %s@%d%s", run_id, seq, f", sealed as {seal.trigger}" if seal is not None else "")
    apply.digest &= MASK
    digest = apply.digest.to_bytes(32, "big")
    version = Version(run_id, seq, digest, terms.at, 0, epoch, apply.packed_counts())
    if apply.card_changed:
        set_card(tx, apply.run)
    if seal is not None:
        version = version._replace(
            checkpoint=checkpoint_id(run_id, seq, digest),
            trigger=seal.trigger,
            step=seal.step,
            note=seal.note,
            aliases=seal.aliases,
        )
    tx.add_version(apply.run, version, terms.token)
    for name in version.aliases:
        tx.add_alias(apply.run, seq, name)
    return version


def set_card(tx: Tx, run: int) -> None:
    """Bring the listing's copy of the `run` records up to date."""
    columns, card = card_of((record.key, record.stored) for record in tx.records(run, "run"))
    tx.set_card(run, columns, card)


def save_blobs(store: SqlStore, changes: ChangeSet) -> tuple[ChangeSet, list[BlobRow]]:
    """Make blobs of values over 1 MiB, before the transaction that refers to them; return the changes as it has them.

    Those that were given keep their bytes: they are read from there until the commit is durable, and it may be tried
    again.
    """
    saved: list[BlobRow] = []
    large = [
        address
        for address, change in changes.changes.items()
        if len(change.stored) > VALUE_MAX or change.kind == APPEND or change.spread is not None
    ]
    if not large:
        return changes, saved

    def shrink(stored: bytes) -> bytes:
        saved.append(store.save_blob([stored]))
        return blob_stored(saved[-1].hash)

    small = changes.only(changes.changes)  # with its scrubber, which masks the seal's note
    for address in large:
        small.changes[address] = small.changes[address].shrunk(VALUE_MAX, shrink)
    return small, saved


def _hash_stored(stored: bytes) -> bytes:
    """Return the hash of the record that has these bytes. Large ones are stored as a reference to a blob."""
    if len(stored) > VALUE_MAX:
        stored = blob_stored(sha256(stored).digest())
    return sha256(stored).digest()


class Apply:
    """One commit's worth of changes on one run, and what it learns of the rows that it writes."""

    def __init__(self, tx: Tx, head: Head, since: int, digest: bytes, counts: str) -> None:
        self.tx = tx
        self.run = head.run
        self.seq = since + 1
        # What the process remembers counts only if the run is still there.
        self._head = head if since == head.at[0] else Head(head.run, head.run_id, since, 0)
        self.empty = self._head.empty
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
                self._spread(change, change.spread)
            else:
                self._put(change.collection, change.key, change.stored, change.step)

    def packed_counts(self) -> str:
        return self._packed if self._counts is None else pack_counts(self._counts)

    # -- rows

    def _row(self, collection: str, key: str) -> Row | None:
        address = (collection, key)
        row: Any = self.fresh.get(address, _UNKNOWN)
        if row is _UNKNOWN:
            row = self._head.rows.get(address, _UNKNOWN)
            if row is _UNKNOWN:
                row = self.tx.row(self.run, collection, key) if collection not in self.empty else None
        return row  # type: ignore[no-any-return]

    def _write(
        self, collection: str, key: str, stored: bytes, hash: bytes, before: int, step: Step = NOT_A_STEP
    ) -> int:
        """Make this the live record; what was there added ``before`` to the digest. Return what this one adds."""
        new = term(collection, key, hash)
        self.digest += new - before
        self.changed = True
        self.tx.put(self.run, Record(collection, key, self.seq, hash, stored), step)
        return new

    def _put(self, collection: str, key: str, stored: bytes, step: tuple[str, int] | None = None) -> None:
        address = (collection, key)
        old: Any = self._head.rows.get(address, _UNKNOWN)
        if old is _UNKNOWN or address in self.fresh:
            old = self._row(collection, key)
        hash = sha256(stored).digest()
        before = 0
        if old is not None:
            if old[0] == hash:
                return
            if collection == "variable" and old[0] in _HEADS:
                self._drop_items(key)
            before = old[4] if len(old) > 4 else term(collection, key, old[0])
        elif collection in self.empty:
            self.empty -= {collection}
        if collection == "run":
            self.card_changed = True
        facts = self._step(key, step, old) if step is not None else NOT_A_STEP
        new = self._write(collection, key, stored, hash, before, facts)
        self.fresh[collection, key] = (hash, *facts, new)

    def _delete(self, collection: str, key: str) -> None:
        old = self._row(collection, key)
        if old is None:
            # Each step that ends drops its error, and hardly any run has one. A process that ends several looks once.
            may_be = collection == "error" and self._head.rows and collection not in self.empty
            if may_be and not self.tx.hashes(self.run, collection):
                self.empty |= {collection}
            return
        if old[0] in _HEADS and collection == "variable":
            self._drop_items(key)
        self._drop(collection, key, old[0])
        self.fresh[collection, key] = None
        if collection == "run":
            self.card_changed = True
        if collection == "step":
            if old[3]:
                self._count(old[1], -1)
            above = self._above(key)
            if above is not None and not above[1][3] and not self.tx.has_below(self.run, above[0]):
                self._set_leaf(*above, leaf=True)

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
            entries = spread(change.key, wanted.spread.values)
            same = self._stored_items(change.key) == {k: _hash_stored(s) for k, s in entries.items()}
        if not same:
            raise Conflict(f"{name} has changed since it was read.", hint="Read it again, then decide again.")

    def put_record(self, collection: str, key: str, stored: bytes, step: tuple[str, int] | None) -> None:
        """Write one record as it is, items and heads alike: for copying a whole state."""
        if collection == "variable":
            self._put_head(key, stored)
        else:
            self._put(collection, key, stored, step)

    def drop_record(self, collection: str, key: str, hash: bytes) -> None:
        """End one record as it is."""
        if collection == "variable":
            self._drop(collection, key, hash)
        else:
            self._delete(collection, key)

    # -- spread variables

    def _stored_items(self, name: str) -> dict[str, bytes]:
        """Return the hashes of the entries that are stored, by item key, in order."""
        prefix = item_prefix(name)
        return self.tx.hashes(self.run, "item", prefix, after(prefix))

    def _drop_items(self, name: str) -> None:
        for key, hash in self._stored_items(name).items():
            self._drop("item", key, hash)
        self.lengths[name] = 0
        self.items[name] = None

    def _spread(self, change: Change, spread: Spread) -> None:
        """Write the entries that differ. The hashes of the others are known, or looked up once."""
        name, prefix = change.key, spread.prefix
        old = self._row("variable", name)
        as_list = change.stored == LIST
        there: Any = [] if as_list else {}
        same_kind = old is not None and old[0] == sha256(change.stored).digest()
        if same_kind:
            there = self.items.get(name, self._head.items.get(name))
            if there is None:
                found = self._stored_items(name)
                there = [*found.values()] if as_list else {entry_name(prefix, k): h for k, h in found.items()}
        elif old is not None and old[0] in _HEADS:
            self._drop_items(name)
        hashes = spread.hashes.copy()
        keys: Any
        if as_list:
            key_of: Callable[[str, Any], str] = index_key
            keys, known = range(len(hashes)), len(there)
            new, before = spread.hashes, there + [None] * (len(hashes) - known)
            ended: Iterable[Any] = range(len(hashes), known)
        else:
            key_of, keys, new = entry_key, list(hashes), spread.hashes.values()
            before = [there.get(key) for key in keys]
            ended = [key for key in there if key not in hashes]
        current = spread.seq == self.seq - 1
        for key, hash, stood in zip(keys, new, before, strict=False):
            if hash is None:  # the very object that was read
                if stood is None or not current:
                    raise BaseMoved
                hashes[key] = stood
            elif hash != stood:
                self._put_item(key_of(prefix, key), spread.encoded[key], stood, hash)
        for key in ended:
            self._drop("item", key_of(prefix, key), there[key])
        self.lengths[name] = len(hashes)
        self.items[name] = hashes if len(hashes) <= REMEMBERED else None
        if not same_kind:
            self._put_head(name, change.stored)

    def _put_item(self, key: str, stored: bytes, old: bytes | None, hash: bytes = b"") -> bytes:
        """Write one entry, which had the hash ``old``. Return its hash."""
        hash = hash or sha256(stored).digest()
        if hash != old:
            before = term("item", key, old) if old is not None else 0
            self._write("item", key, stored, hash, before)
        return hash

    def _put_head(self, name: str, stored: bytes) -> None:
        """Write the head of a spread variable; its items are not touched."""
        old, hash = self._row("variable", name), sha256(stored).digest()
        before = term("variable", name, old[0]) if old is not None else 0
        self._write("variable", name, stored, hash, before)
        self.fresh["variable", name] = (hash, *NOT_A_STEP)

    def _append(self, name: str, items: list[bytes]) -> None:
        old = self._row("variable", name)
        if old is not None and old[0] == LIST_HEAD:
            prefix = item_prefix(name)
            length = self.lengths.get(name, self._head.lengths.get(name))
            if length is None:
                last = self.tx.last_key(self.run, "item", prefix, after(prefix))
                length = int(last[len(prefix) :]) + 1 if last else 0
            for offset, stored in enumerate(items):
                self._put_item(index_key(prefix, length + offset), stored, None)
            self.lengths[name] = length + len(items)
            self.items[name] = None
            return
        if old is not None and old[0] == DICT_HEAD:
            raise Invalid(f"{name} is a dict; it cannot be appended to.")
        self._append_small(name, items, old)

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
        self._put_head(name, LIST)

    # -- steps: counters of leaves, and where each stands

    def _count(self, status: str | None, by: int) -> None:
        if self._counts is None:
            self._counts = counts_of(self._packed)
        if status is not None:
            self._counts[status] += by

    def _above(self, key: str) -> tuple[str, Row] | None:
        """Return the nearest step above that is a record."""
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
        """Return status, ord and leaf of a step that is being put, and keep the counters."""
        status, order = step
        if old is not None:
            if old[3] and old[1] != status:
                self._count(old[1], -1)
                self._count(status, 1)
            return status, old[2] or "", old[3] or 0
        above = self._above(key)
        if above is not None and above[1][3]:
            self._set_leaf(*above, leaf=False)
        leaf = not self.tx.has_below(self.run, key)
        if leaf:
            self._count(status, 1)
        own = f"{order:08d}"
        return status, f"{above[1][2]}/{own}" if above is not None else own, int(leaf)


# -- reports

Make = Callable[[Tx, RunRow, ChangeSet], Seal | None]


class Reported(NamedTuple):
    """The run as it was found, and the version that the report made (``None``: it changed nothing).

    ``redacted``: the keys of records that held a secret, which was not stored.
    """

    row: RunRow
    version: Version | None
    redacted: Sequence[str] = ()

    @property
    def seq(self) -> int:
        return self.version.seq if self.version is not None else self.row.seq

    @property
    def left(self) -> RunRow:
        """Return where the run stands after this report, for an operation that continues: see ``need_unmoved``."""
        if self.version is None:
            return self.row
        return RunRow((*self.row[:3], self.version.seq, self.version.digest, *self.row[5:]))

    def to_json(self) -> dict[str, Any]:
        left_out = {"redacted": [*self.redacted]} if self.redacted else {}
        return {"run_id": self.row.run_id, "seq": self.seq, **left_out}


def beat(store: SqlStore, find: Find, at: int, guard: Guard = NO_GUARD) -> RunRow:
    """Give a sign of life, which makes no version."""
    need_store(store)

    def work(tx: Tx) -> RunRow:
        row = find(tx)
        guard.check(tx, row, 0)
        sign_of_life(tx, row.run, at)
        return row

    return store.write(work)


def report(
    store: SqlStore,
    find: Find,
    make: Make,
    terms: Terms,
    scrubber: Scrubber | None = None,
    changes: ChangeSet | None = None,
) -> Reported:
    """Find the run, let ``make`` fill a change set (and say how to seal it), and commit.

    ``changes``: those that do not depend on what is there, made beforehand.
    """
    need_store(store)
    ready, saved = save_blobs(store, changes) if changes is not None else (ChangeSet(), [])
    terms.blobs = [*saved, *terms.blobs]

    def work(tx: Tx) -> Reported:
        wanted = ChangeSet(scrubber)
        wanted.changes.update(ready.changes)
        row = find(tx)
        tx.prove(row)
        return report_in(store, tx, row, make, terms, wanted)

    return store.write(work)


def report_in(store: SqlStore, tx: Tx, row: RunRow, make: Make, terms: Terms, changes: ChangeSet) -> Reported:
    """Do the part inside the transaction. ``make`` says how it is sealed."""
    seal = make(tx, row, changes)
    ready, large = save_blobs(
        store, changes
    )  # hardly ever any: a record that was read here may be that large
    own = Terms(terms.at, terms.guard, seal, terms.token, [*terms.blobs, *large])
    done = commit_in(tx, Head.of(row), ready, own)
    return Reported(row, done[0] if done is not None else None)


def mark_rewound(store: SqlStore, error: Rewound) -> None:
    """Put the record `context/repaired` into a run whose store lost acknowledged versions, so that resuming it asks.

    Only the process that made the lost commits knows of them.
    """
    now = getattr(store, "clock", SYSTEM).now()
    message = f"The store went back to @{error.kept}, though it had acknowledged @{error.newest}."
    facts = {"at": iso(now), "kept": error.kept, "newest": error.newest, "message": message, "aside": []}

    def mark(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        if tx.record(row.run, "context", REPAIRED) is None:  # the first mark knows most
            changes.put("context", REPAIRED, facts)

    def work(tx: Tx) -> None:
        row = tx.find_run(error.run_id)
        if row is not None:
            report_in(store, tx, row, mark, Terms(now), ChangeSet())

    try:
        store.write(work)
    except LeftoffError:  # the caller gets the error in any case
        pass


class Audit(NamedTuple):
    """Who decided what about a run: an action, the face through which it came, the fields that were given with it."""

    action: str
    via: str
    said: Mapping[str, Any]

    def put(self, changes: ChangeSet, at: int, **more: Any) -> None:
        """Add the record to the changes that carry the action out. more: fields that are known only then."""
        said = {**self.said, **more}
        about = {"action": self.action, "by": user(), "at": iso(at), "via": self.via, "said": said}
        changes.put("audit", f"{about['at']} {self.action}", about)
