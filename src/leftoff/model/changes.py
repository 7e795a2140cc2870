"""What a commit changes: a change set, how a value becomes records and back, and the version that they make.

A caller puts changes into a set before it knows what is there. Values are checked, redacted and encoded when they are
put in: a bad value fails at the line that sets it, and later changes to the object change nothing. A later change to
the same record replaces an earlier one.

A list or dict variable over 4 KiB encoded is spread: one record per entry (``item``, one level deep) under a head
record that says only which of the two it is. Everything else is one record. That depends on the value alone, so equal
states have equal digests, however they came about.

A value that is not JSON is written as ``{"$type": NAME, "value": …}`` by ``leftoff.python.values``. JSON that has
the key ``$type`` itself is stored as pairs, so that it is not taken for such a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

from leftoff.clock import iso
from leftoff.errors import Corrupt, Invalid, LeftoffError
from leftoff.model.codec import (
    BLOB,
    DICT,
    JSON,
    LIST,
    MAX_DEPTH,
    REDACTED,
    Checked,
    FrozenDict,
    FrozenList,
    decode,
    encode,
    encode_entries,
    exact_copy,
    freeze,
    holes,
    in_pieces,
    made,
    mark,
    payload,
    pieces,
    sha256,
    store,
    tagged,
    text,
    thaw,
)
from leftoff.model.ids import ancestors, check_key, check_step, parent_of, with_item
from leftoff.model.words import COLLECTIONS, RUN_STATUS, STEP_STATUS


class Scrubber(Protocol):
    def suspicious(self, key: str, text: str, names: set[str] | None = None) -> int: ...
    def scrub(self, key: str, value: Any, what: int = ...) -> tuple[Any, list[list[str | int]]]: ...
    def mask(self, text: str) -> str: ...


Event = TypeVar("Event", bound=tuple[Any, ...])
Load = Callable[[bytes], Iterable[bytes]]  # reads a blob
Save = Callable[[Iterable[bytes]], bytes]  # makes a blob, and returns its hash

# -- a value and its records

SPREAD_OVER = 4096  # bytes of canonical JSON
TYPE = "$type"  # the key that says what a value is
LIST_HEAD = sha256(LIST).digest()
DICT_HEAD = sha256(DICT).digest()


class Encoded:
    """A value that has become JSON, with ``$type`` if it was something else."""

    __slots__ = ("json",)

    def __init__(self, json: Any) -> None:
        self.json = json


def escaped(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return JSON that cannot be taken for anything else: itself, unless a dict in it has the key ``$type``."""
    if depth == 0 or not is_typed(value, depth):
        return value
    if isinstance(value, list):
        return [escaped(item, depth - 1) for item in value]
    inside = {key: escaped(item, depth - 1) for key, item in dict.items(value)}
    if TYPE in inside:
        return {TYPE: "dict", "value": [[key, item] for key, item in inside.items()]}
    return inside


def is_typed(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether a value holds anything that is not the JSON that represents it."""
    try:
        return isinstance(value, (dict, list)) and _has_type(value, depth)
    except RecursionError:
        return False  # too deep to be stored at all


def _has_type(value: Any, depth: int) -> bool:
    if depth == 0:
        raise RecursionError
    if isinstance(value, dict):
        if dict.__contains__(value, TYPE):
            return True
        inside: Iterable[Any] = dict.values(value)
    else:
        inside = list.__iter__(value)
    for item in inside:
        if isinstance(item, (dict, list)) and _has_type(item, depth - 1):
            return True
    return False


def item_prefix(name: str) -> str:
    """Return how every item key of a variable starts."""
    if "%" in name or "/" in name:
        name = name.replace("%", "%25").replace("/", "%2F")
    return name + "/"


def index_key(prefix: str, index: int) -> str:
    return f"{prefix}{index:010d}"


def entry_key(prefix: str, key: str) -> str:
    if "%" in key or "\0" in key:
        key = key.replace("%", "%25").replace("\0", "%00")
    return prefix + key


def entry_name(prefix: str, item_key: str) -> str:
    return item_key[len(prefix) :].replace("%00", "\0").replace("%25", "%")


def after(prefix: str) -> str:
    """Return the first key after every key with this prefix (which ends in ``/``)."""
    return prefix[:-1] + "0"


def spread(name: str, value: Any) -> dict[str, bytes]:
    """Return item key to stored bytes, for each entry."""
    prefix = item_prefix(name)
    if isinstance(value, list):
        return {index_key(prefix, i): store(v, f"{name}[{i}]") for i, v in enumerate(value)}
    return {entry_key(prefix, k): store(v, f"{name}.{k}") for k, v in value.items()}


def gather(name: str, head: bytes, items: Iterable[tuple[str, bytes]]) -> tuple[Any, list[list[Any]]]:
    """Return the value of a spread variable and its redacted paths, from its item records in key order."""
    prefix = item_prefix(name)
    paths: list[list[Any]] = []
    as_list = head[:1] == LIST
    out_list: list[Any] = []
    out_dict: dict[str, Any] = {}
    for item_key, stored in items:
        where = f"item {item_key}"
        key: str | int
        if as_list:
            key = len(out_list)
            if item_key != index_key(prefix, key):
                raise Corrupt(f"{name} has no entry {key}; the next is {item_key}.", where=where)
            out_list.append(payload(stored, where))
        else:
            key = entry_name(prefix, item_key)
            out_dict[key] = payload(stored, where)
        if stored[:1] == REDACTED:
            paths.extend([key, *path] for path in holes(stored))
    if as_list:
        return out_list, paths
    return {key: out_dict[key] for key in sorted(out_dict)}, paths


def blob_stored(blob_hash: bytes, about: dict[str, Any] | None = None) -> bytes:
    """Return stored bytes that refer to a blob: its hash, then JSON about it (none: the blob is the value itself)."""
    return BLOB + blob_hash + (encode(about, "artifact") if about is not None else b"")


def blob_of(stored: bytes) -> bytes | None:
    """Return the hash of the blob that stored bytes refer to."""
    return stored[1:33] if stored[:1] == BLOB else None


def blob_about(stored: bytes, where: str) -> Any:
    """Return the JSON that a blob record carries; ``None`` if the blob itself is the value."""
    if len(stored) < 33:
        raise Corrupt(f"{where} refers to no blob.", where=where)
    if len(stored) == 33:
        return None
    try:
        return decode(stored[33:])
    except ValueError as error:
        raise Corrupt(f"{where} does not decode: {error}", where=where) from error


# -- the change set

DELETE, PUT, APPEND = "delete", "put", "append"

_KNOWN = frozenset(COLLECTIONS)
LAST = 99_999_999  # the order of a step that has none
_JSON_TAG, _REDACTED_TAG = JSON[0], REDACTED[0]
_MARKED = '{"redacted":true}'  # how a mark, and data that looks like one, is encoded
_MARKED_KEY = "redacted"
_LONG = 1000
VALUE_MAX = 1 << 20  # stored bytes; more of them are a blob
LARGE = 1 << 16  # characters of a record that is searched for secrets by its shapes and its names separately
_RESULTS = {"step": "result", "context": "value"}  # the entries whose dicts keep the order of their keys
_FEW = 8  # up to so many entries, a container is first encoded whole


class _Suspicious(Exception):
    """A part of a record may hold a secret."""


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Any = _Nothing()  # no expectation at all; None is the expectation that there is no record


class Change:
    """One record (or one variable, however many records that takes) and its new value.

    Most are plain: what they do not set is a default of the class, which makes them cheap.
    """

    expect: Any = NOTHING  # the change that would make the record what it must be; None: it must not be there
    spread: Spread | None = None
    items: list[bytes]  # stored bytes of appended entries
    step: tuple[str, int] | None = None  # status and order of a step
    value: Any = NOTHING  # an immutable value that need not be decoded again
    secret: Any = NOTHING  # what was redacted, for the process that set it
    kept: dict[int, Any] = {}  # the same, of appended entries by their place among the items

    def __init__(self, kind: str, collection: str, key: str, stored: bytes = b"") -> None:
        self.kind = kind
        self.collection = collection
        self.key = key
        self.stored = stored  # the record's bytes; of a spread variable, its head

    def __repr__(self) -> str:
        return f"<{self.kind} {self.collection}/{self.key}>"

    def entry(self, key: str) -> Any:
        """Return a copy of an entry of the record, as this process reads it from now on."""
        record = payload(self.stored, self.key) if self.secret is NOTHING else thaw(self.secret)
        return record[key]

    def shrunk(self, over: int, shrink: Callable[[bytes], bytes]) -> Change:
        """Return the same change, with ``shrink`` of the bytes of every record that has more than that."""
        records: Iterable[bytes | None] = (self.stored,)
        if self.kind == APPEND:
            records = self.items
        elif self.spread is not None:
            encoded = self.spread.encoded
            records = encoded if isinstance(encoded, list) else encoded.values()
        if not any(stored is not None and len(stored) > over for stored in records):
            return self
        out = Change(self.kind, self.collection, self.key)
        out.__dict__.update(self.__dict__)
        if self.kind == APPEND:
            out.items = [shrink(stored) if len(stored) > over else stored for stored in self.items]
        elif self.spread is not None:
            out.spread = self.spread.shrunk(over, shrink)
        elif len(self.stored) > over:
            out.stored = shrink(self.stored)
        return out


class Spread:
    """The entries of a spread list or dict. ``None`` among the encoded: the same object as was read from the run."""

    __slots__ = ("encoded", "hashes", "prefix", "seq", "values")

    def __init__(self, name: str, values: Any, encoded: Any, hashes: Any) -> None:
        self.seq = -1  # the version that the base was read at; the base says nothing of another
        self.prefix = item_prefix(name)
        self.values = values
        self.encoded = encoded
        self.hashes = hashes  # of the encoded, None where that is

    def shrunk(self, over: int, shrink: Callable[[bytes], bytes]) -> Spread:
        out = Spread("", self.values, self.encoded.copy(), self.hashes.copy())
        out.seq, out.prefix = self.seq, self.prefix
        for key, stored in (
            enumerate(self.encoded) if isinstance(self.encoded, list) else self.encoded.items()
        ):
            if stored is not None and len(stored) > over:
                out.encoded[key] = shrink(stored)
                out.hashes[key] = sha256(out.encoded[key]).digest()
        return out

    def encode_all(self) -> None:
        """Encode the entries that were not, so that the change no longer depends on what was read."""
        self.encoded = _encode_entries(self.values, self.prefix[:-1], None)
        self.hashes = _hash_entries(self.encoded)


class ChangeSet:
    """Changes by (collection, key), in order."""

    __slots__ = ("_save", "_scrubber", "changes")

    def __init__(self, scrubber: Scrubber | None = None, save: Save | None = None) -> None:
        """``save`` makes a blob of stored bytes, given in pieces. With it, large results are never in memory whole."""
        self.changes: dict[tuple[str, str], Change] = {}
        self._scrubber = scrubber
        self._save = save

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def redacted(self) -> list[str]:
        """The keys of records that held a secret. It is not stored."""
        return [key for (_, key), change in self.changes.items() if change.secret is not NOTHING]

    def mask(self, text: str) -> str:
        """Return text for people without secrets."""
        return self._scrubber.mask(text) if self._scrubber is not None else text

    def only(self, addresses: Iterable[tuple[str, str]]) -> ChangeSet:
        """Return the changes of these records."""
        some = ChangeSet(self._scrubber)
        some.changes = {address: self.changes[address] for address in addresses if address in self.changes}
        return some

    def put(
        self,
        collection: str,
        key: str,
        value: Any,
        *,
        expect: Any = NOTHING,
        base: Any = None,
        known: Any = None,
    ) -> Change:
        """Set a record.

        ``expect``: only if it has this value now (``None``: only if it is not there). ``base``: the value read from
        the run. Its entries are recognised by identity if they come back unchanged. ``known``: the hashes of
        the entries that are stored now; an entry that has the same one was looked at for secrets before.
        """
        if collection == "variable":
            change = self._variable(key, value, base, known)
        else:
            change = self._record(collection, key, value)
        if expect is not NOTHING:
            change.expect = self._expected(collection, key, expect)
        self.changes[collection, key] = change
        return change

    def _variable(self, key: str, value: Any, base: Any, known: Any) -> Change:
        if type(key) is not str or not key or not key.isascii() or "\0" in key or len(key) > _LONG:
            check_key(key, "variable")
        kind = type(value)
        if kind is str or kind is int or kind is bool or value is None or kind is float:
            change = Change(PUT, "variable", key, self._stored(key, value, key))
            if change.stored[0] == _JSON_TAG:
                change.value = value
            else:
                change.secret = value
            return change
        value = value.json if kind is Encoded else escaped(value)
        change = Change(PUT, "variable", key)
        if isinstance(value, (list, dict)) and len(value) > _FEW:
            self._container(change, value, base, known)
            return change
        self._whole(change, value, key)
        if len(change.stored) > SPREAD_OVER and isinstance(value, (list, dict)):
            self._container(change, value, base, known)
        return change

    def _record(self, collection: str, key: str, value: Any) -> Change:
        _check_written(collection, key)
        if (collection, key) == ("run", "status") and value not in RUN_STATUS:
            raise Invalid(f"There is no run status {value!r}.", hint=f"Statuses: {', '.join(RUN_STATUS)}.")
        change = Change(PUT, collection, key)
        self._whole(change, value, f"{collection}/{key}", _RESULTS.get(collection, ""))
        if collection == "step":
            change.step = step_facts(key, value)
        return change

    def _whole(self, change: Change, value: Any, name: str, keep: str = "") -> None:
        """Store a value as one record."""
        if type(value) is Checked and (value.has_parts or in_pieces(value.get(keep))):
            saved = self._saved(change.key, value, keep)
            if saved is not None:
                change.stored = saved
                return
            value = {**value, keep: made(value[keep])}
        change.stored = self._stored(change.key, value, name, keep)
        if change.stored[0] == _REDACTED_TAG:
            change.secret = freeze(value)

    def _saved(self, key: str, record: Checked, keep: str) -> bytes | None:
        """Write a record with a large result to a blob while it is encoded, and return what refers to the blob.

        Return ``None`` if the record is not that large, may hold a secret, or cannot be encoded or saved: then it is
        encoded whole, which can redact it, and says what is wrong.
        """
        if self._save is None:
            return None
        begun, encoded = JSON, self._searched(key, record, keep)
        try:
            for piece in encoded:
                begun += piece
                if len(begun) > VALUE_MAX:
                    return blob_stored(self._save(chain((begun,), encoded)))
            return begun
        except (_Suspicious, LeftoffError, ValueError, TypeError, RecursionError):
            return None

    def _searched(self, key: str, record: Checked, keep: str) -> Iterator[bytes]:
        """Encode a record in pieces. Raise an error before a piece that may hold a secret, or a mark."""
        names = set(record.names)
        if exact_copy({**record, keep: None}, names) is None or _MARKED_KEY in names:
            raise _Suspicious
        for piece in pieces(record, keep):
            if isinstance(piece, bytes):  # base64
                yield piece
                continue
            if self._scrubber is not None and self._scrubber.suspicious(key, piece, names):
                raise _Suspicious
            names = set()  # the names are checked with the first piece only
            yield piece.encode()

    def _stored(self, key: str, value: Any, name: str, keep: str = "") -> bytes:
        """Check, redact and encode a value. Only text can be a secret."""
        names: set[str] = set()
        out = text(value, name, keep, names, tag="J")
        kind = type(value)
        scrubber = self._scrubber
        if scrubber is not None and kind is not int and kind is not float:
            what = scrubber.suspicious(key, out, names if len(out) > LARGE else None)
            if what:
                clean, paths = scrubber.scrub(key, value, what)
                if clean is not value:
                    return store(mark(clean, paths), name, keep)
        if kind is not str and _MARKED_KEY in names and _MARKED in out:
            return store(value, name, keep)
        try:
            return out.encode()
        except UnicodeEncodeError:
            encode(value, name)  # says which entry it is
            raise

    def put_stored(self, collection: str, key: str, stored: bytes) -> None:
        """Set a record to bytes that are encoded already (those that refer to a blob)."""
        _check_written(collection, key)
        self.changes[collection, key] = Change(PUT, collection, key, stored)

    def delete(self, collection: str, key: str, *, expect: Any = NOTHING) -> None:
        _check_written(collection, key)
        change = self.changes[collection, key] = Change(DELETE, collection, key)
        if expect is not NOTHING:
            change.expect = self._expected(collection, key, expect)

    def _expected(self, collection: str, key: str, value: Any) -> Change | None:
        """Return what a record must be, encoded and redacted as it would be stored."""
        return None if value is None else ChangeSet(self._scrubber).put(collection, key, value)

    def append(self, name: str, item: Any) -> None:
        """Add one entry to a list variable; its index is taken inside the transaction."""
        check_address("variable", name)
        item = item.json if type(item) is Encoded else escaped(item)
        stored = self._stored(name, item, f"{name}[…]")
        there = self.changes.get(("variable", name))
        if there is None:
            there = self.changes["variable", name] = Change(APPEND, "variable", name)
            there.items = []
        if there.kind != APPEND:
            raise Invalid(
                f"{name} was assigned in this same commit; append to what you assign, or commit() first.",
            )
        if stored[0] == _REDACTED_TAG:
            there.kept = {**there.kept, len(there.items): freeze(item)}
        there.items.append(stored)

    def _container(self, change: Change, value: Any, base: Any, known: Any) -> None:
        """Encode entry by entry. Spread the value if it is over the limit, else store it whole."""
        name = change.key
        if type(base) is not (FrozenList if isinstance(value, list) else FrozenDict):
            base = None
        encoded = _encode_entries(value, name, base)
        hashes = _hash_entries(encoded)
        if self._scrubber is not None and self._suspicious(self._scrubber, name, encoded, hashes, known):
            clean, paths = self._scrubber.scrub(name, value)
            if paths:
                change.secret = freeze(value)
            value = mark(clean, paths)
            encoded = _encode_entries(value, name, None)
            hashes = _hash_entries(encoded)
        if _size(value, encoded, name) <= SPREAD_OVER:
            change.stored = store(value, name)
            return
        values = list(value) if isinstance(value, list) else dict(value)
        change.stored = LIST if isinstance(value, list) else DICT
        change.spread = Spread(name, values, encoded, hashes)

    @staticmethod
    def _suspicious(scrubber: Scrubber, key: str, encoded: Any, hashes: Any, known: Any) -> bool:
        """Return whether any entry may hold a secret, except those that are stored already."""
        if isinstance(encoded, list):
            there = known if isinstance(known, list) else []
            there = there + [None] * (len(encoded) - len(there))
            fresh = [e for e, h, k in zip(encoded, hashes, there, strict=False) if h != k and e is not None]
        else:
            old = known if isinstance(known, dict) else {}
            fresh = [
                b'"%s":%s' % (k.encode(), e)
                for k, e in encoded.items()
                if e is not None and old.get(k) != hashes[k]
            ]
        return bool(fresh) and bool(scrubber.suspicious(key, b"\n".join(fresh).decode()))


def _hash_entries(encoded: Any) -> Any:
    if isinstance(encoded, list):
        return [None if stored is None else sha256(stored).digest() for stored in encoded]
    return {key: None if stored is None else sha256(stored).digest() for key, stored in encoded.items()}


def _encode_entries(value: Any, name: str, base: Any) -> Any:
    """Return stored bytes of every entry, or ``None`` for the very object that ``base`` has in that place."""
    if isinstance(value, list):
        return encode_entries(value, base, name)
    out: dict[str, bytes | None] = {}
    for key, item in value.items():
        if type(key) is not str:
            encode({key: None}, name)
        unchanged = base is not None and key in base and item is base[key]
        out[key] = None if unchanged else store(item, f"{name}.{key}")
    return out


def _size(value: Any, encoded: Any, name: str) -> int:
    """Return the canonical size, or any number over the limit."""
    total = 1
    pairs = enumerate(encoded) if isinstance(encoded, list) else encoded.items()
    for key, stored in pairs:
        total += len(stored) if stored is not None else len(encode(value[key], name)) + 1
        if isinstance(key, str):
            total += len(text(key, name).encode()) + 1
        if total > SPREAD_OVER + 1:
            break
    return total


def check_address(collection: str, key: str) -> None:
    if collection not in _KNOWN:
        raise Invalid(
            f"There is no collection {collection!r}.", hint=f"Collections: {', '.join(COLLECTIONS)}."
        )
    if collection == "step":
        check_step(key)
    else:
        check_key(key, collection)


def _check_written(collection: str, key: str) -> None:
    if collection == "item":
        raise Invalid(
            "The entries of a variable are not records to be written one by one.",
            hint="Assign the variable, or use run.append.",
        )
    check_address(collection, key)


def step_facts(key: str, value: Any) -> tuple[str, int]:
    """Return the status and order of a step, which the store has as columns for counting and listing."""
    status = value.get("status") if isinstance(value, dict) else None
    if status not in STEP_STATUS:
        raise Invalid(
            f"Step {key} has the status {status!r}, which is none.",
            hint=f"Statuses: {', '.join(STEP_STATUS)}.",
        )
    return status, order_of(value)


def order_of(step: dict[str, Any]) -> int:
    """Return the place of a step among its siblings."""
    order = step.get("order")
    return order if isinstance(order, int) and 0 <= order < LAST else LAST


# -- a version, and the columns that a store derives from records: counters, leaves, the order of steps, a run's card

NO_COUNTS = "[0,0,0,0,0,0,0]"


def counts_of(packed: str) -> dict[str, int]:
    """Return the leaf counters of a version, by status."""
    return dict(zip(STEP_STATUS, decode(packed), strict=True))


def pack_counts(counts: dict[str, int]) -> str:
    return "[" + ",".join(str(counts.get(word, 0)) for word in STEP_STATUS) + "]"


class Version(NamedTuple):
    """One commit of a run; sealed, it is a checkpoint and has an id and a trigger."""

    run_id: str
    seq: int
    digest: bytes
    at: int
    n: int = 0
    epoch: int = 0
    counts: str = NO_COUNTS
    checkpoint: str | None = None
    trigger: str | None = None
    step: str | None = None
    note: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def id(self) -> str | None:
        """The checkpoint's id as people use it (12 hex digits), or None if the version is not sealed."""
        return self.checkpoint[:12] if self.checkpoint else None

    def to_json(self) -> dict[str, Any]:
        about = {
            "checkpoint_id": self.id,
            "aliases": list(self.aliases),
            "run_id": self.run_id,
            "seq": self.seq,
            "trigger": self.trigger,
            "step": self.step,
            "created_at": iso(self.at),
            "note": self.note,
            "digest": tagged(self.digest),
            "can_resume": True,
        }
        return with_item(about, self.step)

    def __repr__(self) -> str:
        if self.checkpoint is None:
            return f"<version {self.seq} of {self.run_id}>"
        return f"<checkpoint {self.id} ({self.trigger}) of {self.run_id}@{self.seq}>"


def card_of(records: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str | None], dict[str, Any]]:
    """Return the columns and the card of a run, from the keys and stored bytes of its ``run`` records.

    A value so large that it is a blob is left out.
    """
    own = {key: payload(stored, f"run/{key}") for key, stored in records if stored[:1] != BLOB}

    def taken(key: str) -> str | None:
        value = own.pop(key, None)
        return value if isinstance(value, str) else None

    issue = own.pop("issue", None)
    columns = {
        "workflow": taken("workflow") or "run",
        "branch": taken("branch") or "main",
        "status": taken("status") or "running",
        "title": taken("title"),
        "issue": None if issue is None else str(issue),
        "session": taken("session_id"),
    }
    return columns, own


class Leaves:
    """Steps that are added and removed, and how many leaves there are of each status."""

    def __init__(self) -> None:
        self.statuses: dict[str, str] = {}
        self._below: dict[str, int] = {}  # how many steps are below a path
        self._counts: dict[str, int] = {}

    def add(self, path: str, status: str) -> None:
        self.remove(path)
        for above in ancestors(path):
            self._below[above] = self._below.get(above, 0) + 1
            if self._below[above] == 1 and above in self.statuses:
                self._count(self.statuses[above], -1)
        self.statuses[path] = status
        if self.is_leaf(path):
            self._count(status, 1)

    def remove(self, path: str) -> None:
        if path not in self.statuses:
            return
        if self.is_leaf(path):
            self._count(self.statuses[path], -1)
        del self.statuses[path]
        for above in ancestors(path):
            self._below[above] -= 1
            if self._below[above] == 0 and above in self.statuses:
                self._count(self.statuses[above], 1)

    def is_leaf(self, path: str) -> bool:
        return not self._below.get(path)

    def packed(self) -> str:
        return pack_counts(self._counts)

    def _count(self, status: str, by: int) -> None:
        self._counts[status] = self._counts.get(status, 0) + by


def step_of(load: Load, stored: bytes, where: str) -> dict[str, Any]:
    """Return a step's record from its stored bytes; ``load`` reads one that is a blob."""
    if stored[:1] == BLOB and len(stored) == 33:
        stored = b"".join(load(stored[1:]))
    value = payload(stored, where)
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        raise Corrupt(f"{where} is no step.", where=where)
    return value


def step_or_pending(load: Load, stored: bytes, path: str) -> dict[str, Any]:
    """Return a step's record; a pending one if its blob is lost."""
    try:
        return step_of(load, stored, f"step/{path}")
    except LeftoffError:
        return {"status": "pending"}


def columns_of(steps: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by path the columns that the tables have for each step: status, whether it is a leaf, its place."""
    leaves = Leaves()
    places: dict[str, str] = {}  # its order below the place of the nearest step above it
    for path in sorted(steps, key=lambda path: path.count("/")):
        leaves.add(path, steps[path]["status"])
        above = parent_of(path)
        while above and above not in places:
            above = parent_of(above)
        order = f"{order_of(steps[path]):08d}"
        places[path] = f"{places[above]}/{order}" if above else order
    return {
        path: {"status": step["status"], "leaf": int(leaves.is_leaf(path)), "ord": places[path]}
        for path, step in steps.items()
    }


def counts_at(steps: Iterable[tuple[str, int, int | None, str]], seqs: Iterable[int]) -> dict[int, str]:
    """Return the counters at these versions, from every step's path, first version, last version and status."""
    events = []
    for path, seq, until, status in steps:
        if seq != until:
            events.append((seq, 1, path, status))
            if until is not None:
                events.append((until, -1, path, status))
    events.sort()
    seqs = sorted(seqs)
    leaves, out = Leaves(), {}
    for seq, news in zip(seqs, up_to(seqs, events), strict=True):
        for _, kind, path, status in news:
            leaves.add(path, status) if kind > 0 else leaves.remove(path)
        out[seq] = leaves.packed()
    return out


def up_to(seqs: Iterable[int], events: list[Event]) -> Iterator[list[Event]]:
    """Yield for each version, oldest first, the events since the one before. Events are sorted and start with their
    version."""
    at = 0
    for seq in seqs:
        start = at
        while at < len(events) and events[at][0] <= seq:
            at += 1
        yield events[start:at]
