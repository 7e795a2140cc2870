"""The buffer of a driven run: what its process knows of it, and the changes that wait for the next commit.

Changes become durable together. A commit that fails keeps its changes for the next one. Variables, steps and records
are read as this process sees them: as of its last commit, with the changes since. `Run` and durable functions write
through a buffer, and threads may share it. ``lock`` guards what is buffered. ``committing`` lets one commit happen at a
time, and is always taken first.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import monotonic
from typing import Any

from leftoff.clock import Clock, iso
from leftoff.engine import lease
from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.commit import (
    CameLate,
    Guard,
    Head,
    Seal,
    Terms,
    commit_apart,
    mark_rewound,
    need_known,
    new_token,
)
from leftoff.engine.lease import gone
from leftoff.engine.opening import status_changes
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_reader import Reader, Value
from leftoff.engine.step_lifecycle import needs_decision
from leftoff.errors import Invalid, LeftoffError, Pruned, Rewound, StoreUnavailable
from leftoff.model.changes import APPEND, DELETE, LARGE, NOTHING, PUT, Change, ChangeSet, Version, blob_of
from leftoff.model.codec import (
    BLOB,
    DICT,
    LIST,
    REDACTED,
    HoledDict,
    HoledList,
    freeze,
    freeze_holed,
    marks,
    payload,
    thaw,
)
from leftoff.model.ids import check_step, parent_of
from leftoff.python.values import encode_variable, restored
from leftoff.python.variable_cells import (
    Cell,
    ProcessSecrets,
    after_append,
    after_commit,
    cell_of_bytes,
    cell_of_change,
    overlay,
    with_appended,
)
from leftoff.store.base import SqlStore, View
from leftoff.store.rows import BlobRow, RunRow

Record = dict[str, Any]
Entry = tuple[Record, list[list[Any]]]  # a step's record and its redacted places

HEARTBEAT_S = 30.0
QUICK_S = 0.005  # a step that takes no longer is a quick one
IN_A_ROW = 8  # so many quick steps make a burst
DEFERRED_S = 0.02  # a deferred start is committed after that long
OVER_S = 1.0  # without a quick step, the burst is over
DECLARED_AT_ONCE = 500  # items of a batch that are declared in one commit
UNKNOWN = (
    "Whether the commit before it was made is not known yet. The next one finds out; none is made twice."
)


_NOTHING_SENT = ChangeSet()


class LargeRecord(Record):
    """The record of a step with a large result, which is decoded each time it is read: into the reader's own copy."""

    first: Any  # the object that the first reader gets, if nothing else refers to it; reading it deletes it

    def __init__(self, record: Record, load: Callable[[], bytes]) -> None:
        super().__init__({**record, "result": None})
        self._load = load

    def __getitem__(self, key: str) -> Any:
        return payload(self._load(), key)[key] if key == "result" else super().__getitem__(key)

    def items(self) -> Any:
        return [(key, self[key]) for key in dict.keys(self)]

    def __iter__(self) -> Iterator[str]:
        """Overridden for ``{**record}``, which reads around ``[]`` otherwise."""
        return super().__iter__()


class DeferredStarts:
    """The step starts that wait during a burst of quick steps.

    Entering a step commits that it is running. In a loop over thousands of steps of a millisecond each that is half of
    the work, and no reader can see it. So after a few quick steps in a row the next starts wait. The heartbeat's thread
    commits the start of a step that takes longer. If the process is killed in a burst, the step that was in flight
    shows as pending, and it runs again, as a running one would.
    """

    __slots__ = ("_count", "_last", "waiting")

    def __init__(self) -> None:
        self._count = 0  # quick steps in a row
        self._last = 0.0
        self.waiting: dict[str, tuple[Record, Iterable[str], float]] = {}

    def defers(self, path: str, record: Record, above: Iterable[str]) -> bool:
        """Return whether the start of this step may wait. If so it waits from now on."""
        if self._count < IN_A_ROW:
            return False
        self.waiting[path] = (record, above, monotonic())
        return True

    def ended(self, took: float) -> None:
        """Count a step that was completed."""
        self._last = monotonic()
        self._count = self._count + 1 if took <= QUICK_S else 0

    def failed(self) -> None:
        """End the burst: the next starts are committed at once."""
        self._count = 0

    def due(self) -> list[tuple[str, Record, Iterable[str]]]:
        now = monotonic()
        return [
            (p, record, up) for p, (record, up, at) in list(self.waiting.items()) if now - at >= DEFERRED_S
        ]

    def lasts(self) -> bool:
        return bool(self.waiting) or monotonic() - self._last < OVER_S


class UnansweredCommit:
    """A commit that failed and may be durable all the same: Ctrl-C after the sync, a connection that broke too late.

    Its changes went back to the buffer, and more may have joined them. Before the next commit the store is asked by the
    token. If the commit was made, its changes leave the buffer and only the rest is written.
    """

    __slots__ = ("_changes", "_seal", "_since", "_token", "blobs")

    def __init__(
        self, token: bytes, since: int, changes: ChangeSet, seal: Seal | None, blobs: list[BlobRow]
    ) -> None:
        self._token = token
        self._since = since
        self._seal = seal
        self._changes = {a: (change, _appended(change)) for a, change in changes.changes.items()}
        self.blobs = blobs

    @property
    def place(self) -> tuple[int, bytes]:
        """The version that it was to follow, and its token."""
        return self._since, self._token

    def ask(self, store: SqlStore, run: int) -> Version | None:
        """Return the version that it became, if any. A write, so that it comes after a commit still under way."""
        try:
            return store.write(lambda tx: tx.applied(run, self._since, self._token))
        except StoreUnavailable as error:
            error.hint = UNKNOWN
            raise

    def take_out(self, pending: ChangeSet) -> ChangeSet:
        """Take what is durable out of the buffer. Return the changes that left it as a whole."""
        out = ChangeSet()
        for address, (change, appended) in self._changes.items():
            if pending.changes.get(address) is not change:
                continue  # it was changed again since, and is still to be written
            if _appended(change) > appended:
                change.items = change.items[appended:]
                change.kept = {i - appended: kept for i, kept in change.kept.items() if i >= appended}
            else:
                out.changes[address] = pending.changes.pop(address)
        return out

    def has_seal(self, seal: Seal) -> bool:
        mine = self._seal
        return mine is not None and all(getattr(mine, name) == getattr(seal, name) for name in seal.__slots__)


def _appended(change: Change) -> int:
    return len(change.items) if change.kind == APPEND else 0


class RunBuffer:
    """One run, as the process that drives it sees and changes it."""

    def __init__(self, store: SqlStore, head: Head, epoch: int, clock: Clock, redactor: Redactor) -> None:
        self.store = store
        self.run, self.run_id = head.run, head.run_id
        self.head = head
        self.epoch, self.guard = epoch, Guard(epoch)
        self.clock = clock
        self.redactor = redactor
        self.lock = threading.RLock()
        self.committing = threading.RLock()
        self.driving = True
        self.over = False  # the run was completed before: what the program sets again is not written
        self.heart: Heartbeat | None = None
        self.starts = DeferredStarts()
        self.pending = ChangeSet(redactor, self._save)
        self.blobs: list[BlobRow] = []
        self._saved: dict[bytes, BlobRow] = {}  # the blobs of large results
        self._sent = _NOTHING_SENT  # the changes that a commit is writing now
        self._unanswered: UnansweredCommit | None = None
        self._secrets = ProcessSecrets()
        self._cells: dict[str, Any] | None = None  # variables as of `_folded`: cells, or committed changes
        self._steps: dict[str, Entry] | None = None
        self._approvals: set[str] = set()  # steps that only a person decides
        self._orders: dict[str, int] = {}  # the last order below each parent
        self._folded = head.seq
        self._pid = os.getpid()

    def row(self, view: View) -> RunRow:
        row = view.run_row(self.run)
        if row is None or row.is_gone:
            raise gone(self.run_id)
        return row

    def now(self) -> str:
        return iso(self.clock.now())

    def not_durable(self) -> dict[tuple[str, str], Change]:
        """Return the changes that wait for a commit or are being committed, by their address."""
        with self.lock:
            return {**self._sent.changes, **self.pending.changes}

    def at_head(self, work: Any) -> Any:
        """Read at the version that this process has seen, or at the newest if that one was pruned."""
        try:
            return self.store.read(lambda view: work(view, self.head.seq))
        except Pruned:
            self.refresh()
            return self.store.read(lambda view: work(view, None))

    def _reader(self, view: View, seq: int | None) -> Reader:
        return Reader(self.store, view, self.run, self.run_id, seq)

    # -- variables

    def variable(self, name: str) -> Any:
        with self.lock:
            address = ("variable", name)
            sent, change = self._sent.changes.get(address), self.pending.changes.get(address)
            if change is None:
                change, sent = sent, None
            if change is None:
                cells = self._loaded()
                return self._cell(cells, name).get(name)
            if change.kind == DELETE:
                raise KeyError(name)
            if change.kind == APPEND:
                before = self._stored_list(name)
                if sent is not None:
                    before = with_appended(name, before, sent)
                return restored(with_appended(name, before, change), name)
            return cell_of_change(name, change, partial(self._load, name)).get(name)

    def _stored_list(self, name: str) -> Any:
        """Return a list variable as JSON, without the entries that wait to be appended."""
        cells = self._loaded()
        return self._cell(cells, name).json() if name in cells else []

    def assign(self, name: str, value: Any) -> None:
        with self.lock:
            base = known = None
            if isinstance(value, (list, dict)):
                cell = self._cells.get(name) if self._cells is not None else None
                if type(cell) is Cell and not self._secrets.has(name):
                    base = cell.known()
                known = self.head.items.get(name)
            if type(value) is not str:
                value = encode_variable(value, name, base)
            change = self.pending.put("variable", name, value, base=base, known=known)
            if change.spread is not None and base is not None:
                change.spread.seq = self.head.seq
            if change.secret is not NOTHING or self._secrets.kept:
                self._secrets.keep(change)

    def unassign(self, name: str) -> None:
        with self.lock:
            if name not in self.variable_names():
                raise KeyError(name)
            self.pending.delete("variable", name)

    def append(self, name: str, item: Any) -> None:
        with self.lock:
            address = ("variable", name)
            there = self.pending.changes.get(address) or self._sent.changes.get(address)
            if there is not None and there.kind == DELETE:
                self.assign(name, [item])
                return
            if there is not None and there.kind == PUT:
                value = self.variable(name)
                if not isinstance(value, list):
                    raise Invalid(f"{name} is a {type(value).__name__}; it cannot be appended to.")
                self.assign(name, [*list.__iter__(value), item])
                return
            cells = self._loaded()
            if name in cells and not self._cell(cells, name).is_list():
                raise Invalid(f"{name} is not a list; it cannot be appended to.")
            self.pending.append(name, encode_variable(item, f"{name}[…]"))
            change = self.pending.changes.get(address)
            if change is not None and change.kept and not self._secrets.has(name):
                self._secrets.keep_list(name, self._stored_list(name))

    def compare_and_set(self, name: str, expected: Any, value: Any) -> None:
        changes = ChangeSet(self.redactor)
        expected = encode_variable(expected, name)
        change = changes.put("variable", name, encode_variable(value, name), expect=expected)
        with self.committing:
            self.must_drive()
            if ("variable", name) in self.pending.changes:
                raise Invalid(f"{name} was assigned and is not committed yet; commit() first.")
            terms = Terms(self.clock.now(), self.guard)
            version, adopt = commit_apart(self.store, self.head, changes, terms)
            if version is not None:
                self._secrets.keep(change)
                self._adopt(version, changes, adopt)
            elif self.store.read(self.row).seq != self._folded:
                self.refresh()  # another process had set it to this value

    def variable_names(self) -> list[str]:
        with self.lock:
            names = set(self._loaded())
            for (collection, name), change in self.not_durable().items():
                if collection == "variable":
                    names.discard(name) if change.kind == DELETE else names.add(name)
            return sorted(names)

    def _loaded(self) -> dict[str, Any]:
        if self._cells is None:
            records = self.at_head(lambda view, seq: self._reader(view, seq).raw("variable"))
            self._cells = {}
            for name, record in records.items():
                if record.stored in (LIST, DICT) or record.stored[:1] in (BLOB, REDACTED):
                    self._cells[name] = Cell(make=partial(self._load, name), listed=record.stored == LIST)
                else:
                    self._cells[name] = cell_of_bytes(name, record.stored)
        return self._cells

    def _load(self, name: str) -> Any:
        def work(view: View, seq: int | None) -> Any:
            value = self._reader(view, seq).value("variable", name)
            if value is None:
                raise KeyError(name)
            return value

        value = self.at_head(work)
        return freeze_holed(*self._secrets.reveal("variable", name, value.plain, value.holes), name)

    def _cell(self, cells: dict[str, Any], name: str) -> Cell:
        cell = cells[name]
        if type(cell) is not Cell:  # a committed change that was not read yet
            cell = cells[name] = cell_of_change(name, cell, partial(self._load, name))
        return cell

    # -- steps

    def step_records(self) -> dict[str, Entry]:
        """Return every step by its path. Hold the lock while you iterate over them."""
        steps = self._steps
        if steps is None:
            with self.lock:  # so that no thread remembers steps that it read before another thread's commit
                steps = self._steps
                if steps is None:
                    steps = self._steps = self._read_steps()
        return steps

    def _read_steps(self) -> dict[str, Entry]:
        def work(view: View, seq: int | None) -> Any:
            reader = self._reader(view, seq)
            return reader.values("step"), set(reader.raw("approval"))

        found, self._approvals = self.at_head(work)
        self._orders.clear()  # other processes may have added steps
        values = overlay(self._secrets.reveal_all("step", found), self.not_durable(), "step")
        steps = {path: (value.plain, value.holes) for path, value in values.items()}
        for path, (record, _, _) in self.starts.waiting.items():
            steps[path] = (record, marks(record))
        return steps

    def forget_steps(self) -> None:
        """Read the steps again when they are next needed: other processes have committed."""
        self._steps = None

    def step(self, path: str) -> Record | None:
        found = self.step_records().get(path)
        return found[0] if found else None

    def step_or_new(self, path: str) -> Record:
        """Return a step's record. For a new step it has only its order, after its siblings."""
        record = self.step(path)
        if record is None:
            with self.lock:
                record = self.step(path) or {"order": self._next_order(path)}
        return record

    def start_step(
        self, path: str, record: Record, above: Iterable[str] = (), *, durable: bool = False
    ) -> None:
        """Commit that a step runs, together with what waits of the steps ``above`` it. In a burst that may wait.

        It only shows what is in flight, so it need not be ``durable``: the commit of the step's end syncs it too.
        """
        heart = self.heart
        if not durable and heart is not None and self.starts.defers(path, record, above):
            with self.lock:
                self.step_records()[path] = (record, marks(record))
            heart.watch()
            return
        self.move_step(path, record)
        self.commit(None, durable=durable, only=[*above, path])

    def commit_due_starts(self) -> bool:
        """Commit the starts that have waited long enough. Return whether to look again soon.

        The heartbeat's thread calls this. No other commit may happen meanwhile: the end of a step must not overtake its
        start. The thread does not wait for another commit, because a thread that ends the run waits for this one.
        """
        if not self.committing.acquire(blocking=False):
            return True
        try:
            with self.lock:
                paths: list[str] = []
                for path, record, above in self.starts.due():
                    self.move_step(path, record)
                    paths += [*above, path]
                if paths:
                    self.commit(None, durable=False, only=paths)
        except LeftoffError:
            pass  # the next commit of the run raises it
        finally:
            self.committing.release()
        return self.starts.lasts()

    def commit_completed(self, path: str, record: Record, change: Change, took: float) -> None:
        """Commit the end of a step, durably, with all that is buffered. Its result is read as it is stored from now on.

        The caller may change its own object, and a text may have been masked.
        """
        if self.step(path) is record and isinstance(record.get("result"), (dict, list, str)):
            record["result"] = change.entry("result")
        self.starts.ended(took)
        self._commit_step(change, Seal("step_complete", path))

    def fail_step(self, path: str, record: Record, seal: Seal | None) -> None:
        """Record that a step failed or was interrupted, durably."""
        self.starts.failed()
        self._commit_step(self.move_step(path, record), seal)

    def _commit_step(self, change: Change, seal: Seal | None) -> None:
        """Commit, unless another thread has committed this change together with its own."""
        with self.committing:
            if self.pending.changes.get(("step", change.key)) is change:
                self.commit(seal)

    def move_step(self, path: str, record: Record) -> Change:
        """Set a step's record after its status changed, with the records that belong to it."""
        with self.lock:
            steps, status = self.step_records(), record["status"]
            before, now = steps.get(path), record.get("completed_at") or ""
            if status == "blocked" or (status == "failed" and not now):
                now = self.now()
            change = lifecycle.move(self.pending, path, record, now)
            self._show_step(path, record, change)
            if (before is not None and before[0]["status"] == "blocked") != (status == "blocked"):
                self._update_run_status()
            return change

    def declare_step(self, path: str, order: int | None = None, known: Record | None = None) -> None:
        """Make a step pending, to show that it is to be done. ``order``: its place (left out: after its siblings)."""
        with self.lock:
            if order is None:
                order = self.step_or_new(path)["order"]
            self.move_step(path, lifecycle.declare(order, known))

    def declare_items(self, items: list[tuple[str, int | None]], above: Iterable[str]) -> None:
        """Commit that the steps of items are to be done, with what waits of the steps ``above`` them."""
        for start in range(0, len(items), DECLARED_AT_ONCE):
            some = items[start : start + DECLARED_AT_ONCE]
            for path, order in some:
                self.declare_step(path, order)
            self.commit(None, only=[*above, *(path for path, _ in some)])

    def _show_step(self, path: str, record: Record, change: Change) -> None:
        """Read this record from now on."""
        self.starts.waiting.pop(path, None)
        if change.secret is not NOTHING or self._secrets.kept:
            self._secrets.keep(change)
        stored = change.stored
        if (len(stored) > LARGE or stored[:1] == BLOB) and change.secret is NOTHING and "result" in record:
            record = change.value = LargeRecord(record, partial(self._content, stored))
        self.step_records()[path] = (record, marks(record) if stored[:1] == REDACTED else [])

    def _content(self, stored: bytes) -> bytes:
        hash = blob_of(stored)
        return stored if hash is None else b"".join(self.store.load_blob(hash, self._saved[hash]))

    def _save(self, pieces: Iterable[bytes]) -> bytes:
        """Save the blob of a change that waits for the next commit."""
        row = self.store.save_blob(pieces)
        self.blobs.append(row)
        self._saved[row.hash] = row
        return row.hash

    def put_step(self, path: str, value: Any) -> None:
        """Set a step's record to what the program gives. It may ask for a decision again, and never makes one."""
        if not isinstance(value, dict):
            lifecycle.check(path, value)  # raises the error
        check_step(path)
        value = thaw(value)
        if lifecycle.decides(value):
            self.refuse_approval(path)
        with self.lock:
            self.move_step(path, freeze(lifecycle.put_over(self.step_or_new(path), value)))
            self._orders.clear()  # the given record may have its own order

    def add_output(self, path: str, output: str) -> None:
        """Add a file to the outputs of a step, if there is such a step."""
        with self.lock:
            record = self.step(path)
            if record is not None:
                record = {**record, "outputs": lifecycle.merged(record.get("outputs"), [output])}
                self._show_step(path, record, lifecycle.put(self.pending, path, record))

    def remove_step(self, path: str) -> None:
        """Remove a step. It stays in the history."""
        with self.lock:
            before = self.step_records().pop(path, None)
            lifecycle.remove_step(self.pending, path)
            self._approvals.discard(path)
            self.starts.waiting.pop(path, None)
            if before is not None and before[0]["status"] == "blocked":
                self._update_run_status()

    def refuse_approval(self, path: str) -> None:
        """Raise an error if only a person decides this step."""
        record = self.step(path)
        if path in self._approvals or (record is not None and record.get("kind") == "approval"):
            raise needs_decision(self.run_id, path)

    def _update_run_status(self) -> None:
        """Set the run's status: it is blocked while one of its steps is."""
        waits = self.not_durable().get(("run", "status"))
        before = payload(waits.stored, "status") if waits else self.store.read(self.row).status
        blocked = any(record["status"] == "blocked" for record, _ in self.step_records().values())
        after = lifecycle.status_of_run(before, blocked=blocked)
        if after != before:
            self.pending.put("run", "status", after)

    def _next_order(self, path: str) -> int:
        """Return the order of a new step: after its siblings."""
        above = self._nearest(path)
        if above not in self._orders:
            orders = (
                record.get("order")
                for other, (record, _) in self.step_records().items()
                if self._nearest(other) == above
            )
            self._orders[above] = max((n for n in orders if isinstance(n, int)), default=-1)
        self._orders[above] += 1
        return self._orders[above]

    def _nearest(self, path: str) -> str:
        """Return the nearest step that contains a step, or an empty text."""
        steps, path = self.step_records(), parent_of(path)
        while path and path not in steps:
            path = parent_of(path)
        return path

    # -- records

    def put(self, collection: str, key: str, value: Any) -> None:
        """Set any record. It is durable with the next commit."""
        with self.lock:
            if collection == "variable":
                self.assign(key, value)
            elif collection == "step":
                self.put_step(key, value)
            else:
                holed = isinstance(value, (HoledDict, HoledList))  # read from a run: it keeps its marks
                self._secrets.keep(self.pending.put(collection, key, thaw(value) if holed else value))

    def collections(self) -> set[str]:
        """Return the collections that have records waiting for a commit."""
        return {collection for (collection, _), change in self.not_durable().items() if change.kind != DELETE}

    def read(self, collection: str) -> dict[str, Value]:
        """Return the records of a collection, with the changes that are not durable yet."""

        def work(view: View, seq: int | None) -> Any:
            return self._reader(view, seq).values(collection)

        with self.lock:
            found = self._secrets.reveal_all(collection, self.at_head(work))
            return overlay(found, self.not_durable(), collection)

    # -- commits

    def must_drive(self) -> None:
        if not self.driving:
            raise Invalid(f"Run {self.run_id} is no longer driven by this object.", hint="leftoff.resume it.")

    def commit_all(self) -> Version | None:
        """Make everything buffered durable, and pick up what others committed. Return ``None`` if nothing changed."""
        version = self.commit(None)
        if version is None and self.store.read(self.row).seq != self._folded:
            self.refresh()
        return version

    def commit(self, seal: Seal | None, *, durable: bool = True, only: Iterable[str] = ()) -> Version | None:
        """Commit what is buffered, or ``only`` the records of some steps.

        One thread commits at a time. It commits the changes of all threads that wait.
        """
        with self.committing:
            if self.over:
                return None
            return self._commit_now(seal, durable, [("step", path) for path in only] if only else [])

    def _commit_now(self, seal: Seal | None, durable: bool, only: list[tuple[str, str]]) -> Version | None:
        token, sent = new_token(), None
        try:  # an interrupt anywhere in here puts the changes back
            with self.lock:
                failed = self._unanswered
                settled = self._settle_unanswered(failed) if failed is not None else None
                if not self.pending.changes and (
                    seal is None or (failed and settled and failed.has_seal(seal))
                ):
                    return settled
                self.must_drive()
                since, blobs = self.head.seq, [] if only else self.blobs
                sent = self.pending.only(only) if only else self.pending
                if only:
                    self._sent = sent
                    for address in sent.changes:
                        del self.pending.changes[address]
                else:
                    self._sent, self.pending, self.blobs = sent, ChangeSet(self.redactor, self._save), []
            terms = Terms(self.clock.now(), self.guard, seal=seal, token=token, blobs=blobs)
            if failed is not None and settled is None:  # on a server it may arrive after the look
                terms.unless = failed.place
            version, adopt = commit_apart(self.store, self.head, sent, terms, durable=durable)
        except BaseException as error:
            if sent is not None:
                self._put_back(sent, UnansweredCommit(token, since, sent, seal, blobs))
            if isinstance(error, CameLate):
                self._unanswered = failed
                return self._commit_now(seal, durable, only)
            if isinstance(error, Rewound):
                mark_rewound(self.store, error)
            raise
        try:
            self._adopt(version, sent, adopt)
        except BaseException:  # Ctrl-C: the commit is durable all the same
            self._adopt(version, sent, adopt)
            raise
        return version

    def _put_back(self, sent: ChangeSet, unanswered: UnansweredCommit) -> None:
        """Put the changes of a failed commit back, below the changes since."""
        with self.lock:
            for address, newer in self.pending.changes.items():
                older = sent.changes.get(address)
                if older is newer:  # it was not taken out yet
                    continue
                if newer.kind == APPEND and older is not None and older.kind == APPEND:
                    older.kept = {**older.kept, **{len(older.items) + i: k for i, k in newer.kept.items()}}
                    older.items = older.items + newer.items
                else:
                    sent.changes[address] = newer
            kept = [] if self.blobs is unanswered.blobs else self.blobs
            self.pending, self.blobs, self._unanswered = sent, unanswered.blobs + kept, unanswered
            self._sent = _NOTHING_SENT

    def _settle_unanswered(self, unanswered: UnansweredCommit) -> Version | None:
        """Find out whether the failed commit was made. If so, do not write its changes again."""
        version = unanswered.ask(self.store, self.run)
        self._unanswered = None
        if version is not None:
            self._adopt(version, unanswered.take_out(self.pending))
            self.blobs = [row for row in self.blobs if row not in unanswered.blobs]
            self.refresh()
        return version

    def _adopt(
        self, version: Version | None, changes: ChangeSet, adopt: Callable[[], None] | None = None
    ) -> None:
        """Fold a durable commit into what is remembered, or forget that if other processes committed too.

        The head learns of it under the same lock, so that no thread reads at a version whose changes still wait here.
        An interrupted call can be repeated: what is remembered is forgotten first.
        """
        with self.lock:
            cells, self._cells = self._cells, None
            if adopt is not None:
                adopt()
            self._sent = _NOTHING_SENT
            ours = version is None or version.seq == self._folded + 1
            if not ours:
                self.forget_steps()
            if version is not None and version.seq > self._folded:
                self._folded = version.seq
            if ours and cells is not None:
                self._fold(cells, changes)
                self._cells = cells
            if self._secrets.kept:
                self._secrets.appended(changes)

    def _fold(self, cells: dict[str, Any], changes: ChangeSet) -> None:
        for (collection, name), change in changes.changes.items():
            if collection != "variable":
                continue
            load = partial(self._load, name)
            if change.kind == DELETE:
                cells.pop(name, None)
            elif change.kind == APPEND:
                before = self._cell(cells, name) if name in cells else None
                cells[name] = after_append(name, before, change.items, load)
            else:
                base = cells.get(name)
                cells[name] = after_commit(name, change, load)
                if change.spread is not None and type(base) is Cell:
                    self._cell(cells, name)

    def refresh(self) -> None:
        """Pick up what others have committed, without committing anything."""

        def known_row(view: View) -> RunRow:
            row = self.row(view)
            need_known(view, self.head, row.seq, row.digest)
            return row

        with self.lock:
            row = self.store.read(known_row)
            if row.seq != self.head.seq:
                self.head.adopt(-1, row.seq, int.from_bytes(row.digest, "big"), None)
            self._folded = row.seq
            self._cells = None
            self.forget_steps()

    # -- its end

    def beat(self) -> None:
        """Renew the lease: the run is still driven."""
        lease.renew_lease(self.store, self.run, self.run_id, self.epoch, self.clock.now())

    def settle(self, status: str, seal: Seal | None = None, summary: str | None = None) -> bool:
        """Set the run's status in the commit that ends the driving. Return whether this process drove the run."""
        if not self.driving or os.getpid() != self._pid:  # in a forked child the run is its parent's
            self.driving = False
            return False
        with self.committing:
            with self.lock:
                status_changes(self.pending, status, self.clock.now(), summary=summary)
            self.commit(seal)
            self.driving = False
        self.release()  # outside of the locks: the heartbeat's thread may be waiting for them
        return True

    def release(self) -> None:
        """Stop driving the run, and free its lease."""
        self.let_go()
        self.store.write(lambda tx: lease.free(tx, self.run, self.epoch))

    def let_go(self) -> None:
        """Stop driving the run, without a word to the store."""
        self.driving = False
        if self.heart is not None:
            self.heart.stop()
            self.heart = None


class Heartbeat:
    """The thread that renews the lease of a driven run, and commits deferred starts in a burst of short steps.

    It refers to the buffer weakly: a run that the program no longer uses stops beating.
    """

    def __init__(self, buffer: RunBuffer, interval: float = HEARTBEAT_S) -> None:
        self._buffer = weakref.ref(buffer)
        self._interval = interval
        self._stopped = False
        self._watching = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"leftoff-{buffer.run_id}", daemon=True)
        self._thread.start()

    def watch(self) -> None:
        """Look after deferred starts soon, and for as long as the burst lasts."""
        if not self._watching:
            self._watching = True
            self._wake.set()

    def _loop(self) -> None:
        next_beat = monotonic() + self._interval
        while True:
            self._wake.wait(DEFERRED_S if self._watching else max(0.0, next_beat - monotonic()))
            self._wake.clear()
            buffer = self._buffer()
            if self._stopped or buffer is None:
                return
            if self._watching:
                self._watching = False
                if buffer.commit_due_starts():
                    self._watching = True
            if monotonic() >= next_beat:
                next_beat = monotonic() + self._interval
                try:
                    buffer.beat()
                except LeftoffError as error:
                    if not error.retry:  # it was taken over or removed: its next commit raises that
                        return
            del buffer

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
