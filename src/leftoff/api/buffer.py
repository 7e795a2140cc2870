"""What a process knows of the run that it drives, and what waits for its next commit.

Changes are buffered, and become durable together; a commit that fails keeps its changes. Variables and steps are read
from here as this process sees them: as of its last commit, with what was changed since. `Run` and durable functions
stand on it; threads may share it. ``lock`` guards what is buffered, ``committing`` lets one commit happen at a time and
is always taken first.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from leftoff.api import cells
from leftoff.api.beat import Heart
from leftoff.api.buffered_steps import BufferedSteps
from leftoff.api.bursts import Burst
from leftoff.api.doubt import Doubt
from leftoff.api.secrets import Secrets
from leftoff.api.values import encoded, restored
from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.read.state import Reader
from leftoff.engine.write import lease
from leftoff.engine.write.commit import Guard, Terms, commit_apart, new_token
from leftoff.engine.write.head import gone, need_known
from leftoff.engine.write.rewound import mark_rewound
from leftoff.errors import Invalid, Pruned, Rewound
from leftoff.model.changes import APPEND, DELETE, NOTHING, PUT, Change, ChangeSet
from leftoff.model.codec import BLOB, DICT, LIST, REDACTED
from leftoff.model.frozen import HoledDict, HoledList, freeze_holed, thaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from leftoff.clock import Clock
    from leftoff.engine.read.state import Value
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.write.commit import Seal
    from leftoff.engine.write.head import Head
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import BlobRow, RunRow


class Buffer:
    """One run, as the process that drives it sees and changes it."""

    def __init__(self, store: Store, head: Head, epoch: int, clock: Clock, redactor: Redactor) -> None:
        self.store = store
        self.run, self.run_id = head.run, head.run_id
        self.head = head
        self.epoch, self.guard = epoch, Guard(epoch)
        self.clock = clock
        self.redactor = redactor
        self.secrets = Secrets()
        self.lock = threading.RLock()
        self.committing = threading.RLock()
        self.driving = True
        self.heart: Heart | None = None
        self.burst = Burst()
        self.pending = ChangeSet(redactor)
        self._sent = ChangeSet(redactor)  # what a commit of another thread is about to make durable
        self.blobs: list[BlobRow] = []
        self.steps = BufferedSteps(self)
        self._doubt: Doubt | None = None  # a commit that failed, or so it seems
        self._assigned: dict[str, Change | None] = {}  # not yet committed
        self._cells: dict[str, Any] | None = None
        self._folded = head.seq
        self._pid = os.getpid()

    def row(self, view: View) -> RunRow:
        row = view.run_row(self.run)
        if row is None or row.is_gone:
            raise gone(self.run_id)
        return row

    # -- variables

    def variable(self, name: str) -> Any:
        with self.lock:
            change = self._assigned.get(name, NOTHING)
            if change is NOTHING:
                return self._cell(self._loaded(), name).get(name)
            if change is None:
                raise KeyError(name)
            if change.kind == APPEND:
                return restored(cells.grown(name, self._listed(name), change), name)
            return cells.from_change(name, change, lambda: self._load(name)).get(name)

    def _listed(self, name: str) -> Any:
        """A variable as JSON, before what waits to be appended to it."""
        there = self._loaded()
        return self._cell(there, name).json() if name in there else []

    def assign(self, name: str, value: Any) -> None:
        with self.lock:
            base = known = None
            if isinstance(value, (list, dict)):
                cell = self._cells.get(name) if self._cells is not None else None
                if type(cell) is cells.Cell and not self.secrets.of(name):
                    base = cell.known()
                known = self.head.items.get(name)
            value = encoded(value, name, base)
            change = self._assigned[name] = self.pending.put("variable", name, value, base=base, known=known)
            if change.spread is not None and base is not None:
                change.spread.seq = self.head.seq
            self.secrets.keep(change)

    def unassign(self, name: str) -> None:
        with self.lock:
            if name not in self.variable_names():
                raise KeyError(name)
            self.pending.delete("variable", name)
            self._assigned[name] = None

    def append(self, name: str, item: Any) -> None:
        """Add one entry to the list variable ``name`` (made if need be). Costs the same at any length."""
        with self.lock:
            there = self._assigned.get(name, NOTHING)
            if there is None:
                self.assign(name, [item])
                return
            if there is not NOTHING and there.kind == PUT:
                value = self.variable(name)
                if not isinstance(value, list):
                    raise Invalid(f"{name} is a {type(value).__name__}; it cannot be appended to.")
                self.assign(name, [*list.__iter__(value), item])
                return
            if name in self._loaded() and not self._cell(self._loaded(), name).is_list():
                raise Invalid(f"{name} is not a list; it cannot be appended to.")
            self.pending.append(name, encoded(item, f"{name}[…]"))
            change = self._assigned[name] = self.pending.changes["variable", name]
            if change.kept and not self.secrets.of(name):
                self.secrets.begin(name, self._listed(name))

    def compare_and_set(self, name: str, expected: Any, value: Any) -> None:
        """Set a variable only if it still has the expected value (``None``: only if it is not there), and commit.

        ``Conflict`` where somebody was faster; nothing is changed then.
        """
        changes = ChangeSet(self.redactor)
        expected = encoded(expected, name)
        change = changes.put("variable", name, encoded(value, name), expect=expected)
        with self.committing:
            self.must_drive()
            if name in self._assigned:
                raise Invalid(f"{name} was assigned and is not committed yet; commit() first.")
            now = self.clock.now()
            version, adopt = commit_apart(self.store, self.head, changes, Terms(now, self.guard))
            if version is not None:
                self.secrets.keep(change)
                self.adopted(version, {name: change}, changes, adopt)
            elif self.store.read(self.row).seq != self._folded:
                self.refresh()  # it was so already, by another's hand

    def variable_names(self) -> list[str]:
        with self.lock:
            names = set(self._loaded())
            for name, change in self._assigned.items():
                names.discard(name) if change is None else names.add(name)
            return sorted(names)

    def _loaded(self) -> dict[str, Any]:
        if self._cells is None:
            self._cells = self.at_head(self._read_cells)
        return self._cells

    def at_head(self, work: Any) -> Any:
        """Read at the version this process has seen; where that is gone, at the newest."""
        try:
            return self.store.read(lambda view: work(view, self.head.seq))
        except Pruned:
            self.refresh()
            return self.store.read(lambda view: work(view, None))

    def _read_cells(self, view: View, seq: int | None) -> dict[str, Any]:
        reader = Reader(self.store, view, self.run, self.run_id, seq)
        out: dict[str, Any] = {}
        for name, record in reader.raw("variable").items():
            if record.stored in (LIST, DICT) or record.stored[:1] in (BLOB, REDACTED):
                listed = record.stored == LIST
                out[name] = cells.Cell(make=lambda name=name: self._load(name), listed=listed)  # type: ignore[misc]
            else:
                out[name] = cells.from_stored(name, record.stored)
        return out

    def _load(self, name: str) -> Any:
        def work(view: View, seq: int | None) -> Any:
            value = Reader(self.store, view, self.run, self.run_id, seq).value("variable", name)
            if value is None:
                raise KeyError(name)
            return value

        value = self.at_head(work)
        return freeze_holed(*self.secrets.held("variable", name, value.plain, value.holes), name)

    def _cell(self, there: dict[str, Any], name: str) -> cells.Cell:
        cell = there[name]
        if type(cell) is not cells.Cell:  # a change that was committed, not looked at since
            cell = there[name] = cells.from_change(name, cell, lambda: self._load(name))
        return cell

    # -- commits

    def must_drive(self) -> None:
        if not self.driving:
            raise Invalid(f"Run {self.run_id} is no longer driven by this object.", hint="leftoff.resume it.")

    def commit_all(self) -> Version | None:
        """Make everything buffered durable, and pick up what others committed. ``None`` where nothing changed."""
        version = self.commit(None)
        if version is None and self.store.read(self.row).seq != self._folded:
            self.refresh()
        return version

    def commit(self, seal: Seal | None, *, durable: bool = True, only: Iterable[str] = ()) -> Version | None:
        """Commit what is buffered, or ``only`` the records of some steps.

        One at a time: whoever waits finds its changes committed by the one before, or commits those of all who wait.
        """
        with self.committing:
            return self._commit_now(seal, durable, [("step", path) for path in only])

    def _commit_now(self, seal: Seal | None, durable: bool, only: list[tuple[str, str]]) -> Version | None:
        token, sent = new_token(), None
        try:  # around all of it: who is interrupted anywhere puts back what was taken out
            with self.lock:
                doubt, settled = self._doubt, self._settle_doubt()
                if not self.pending.changes and (seal is None or (doubt and settled and doubt.same(seal))):
                    return settled
                self.must_drive()
                assigned, blobs, since = self._assigned, self.blobs, self.head.seq
                sent = self.pending.only(only) if only else self.pending
                if only:
                    assigned, blobs = {}, []
                self._take_out(sent)
            version, adopt = commit_apart(
                self.store,
                self.head,
                sent,
                Terms(self.clock.now(), self.guard, seal=seal, token=token, blobs=blobs),
                durable=durable,
            )
        except BaseException as error:
            if sent is not None:
                self._restore(sent, blobs, Doubt(token, since, sent, seal, blobs))
            if isinstance(error, Rewound):
                mark_rewound(self.store, error)
            raise
        try:
            self.adopted(version, assigned, sent, adopt)
        except BaseException:  # Ctrl-C: it is durable, whoever goes on
            self.adopted(version, assigned, sent, adopt)
            raise
        return version

    def _take_out(self, sent: ChangeSet) -> None:
        """What is being written waits no longer, and stays readable: other threads see it through the copy."""
        self._sent = sent
        if sent is self.pending:
            self.pending, self._assigned, self.blobs = ChangeSet(self.redactor), self._assigned.copy(), []
        else:
            for address in sent.changes:
                del self.pending.changes[address]

    def _settle_doubt(self) -> Version | None:
        """Before the next commit: what a failed one made durable all the same is not written again."""
        doubt = self._doubt
        if doubt is None:
            return None
        version = doubt.ask(self.store, self.run)
        self._doubt = None
        if version is not None:
            saved = doubt.take_out(self.pending)
            of_variables = [c for (collection, _), c in saved.changes.items() if collection == "variable"]
            self.adopted(version, {c.key: None if c.kind == DELETE else c for c in of_variables}, saved)
            self.blobs = [row for row in self.blobs if row not in doubt.blobs]
            self.refresh()
        return version

    def _restore(self, pending: ChangeSet, blobs: list[BlobRow], doubt: Doubt) -> None:
        """A commit failed: its changes wait for the next one, under what was changed since."""
        with self.lock:
            for address, newer in self.pending.changes.items():
                older = pending.changes.get(address)
                if older is newer:  # it was not taken out yet
                    continue
                if newer.kind == APPEND and older is not None and older.kind == APPEND:
                    older.kept = {**older.kept, **{len(older.items) + i: k for i, k in newer.kept.items()}}
                    older.items = older.items + newer.items
                else:
                    pending.changes[address] = newer
            kept = [] if self.blobs is blobs else self.blobs
            self.pending, self.blobs, self._doubt = pending, blobs + kept, doubt
            self._sent = ChangeSet(self.redactor)
            for (collection, name), change in pending.changes.items():
                if collection == "variable":
                    self._assigned[name] = None if change.kind == DELETE else change

    def adopted(
        self,
        version: Version | None,
        assigned: dict[str, Change | None],
        changes: ChangeSet,
        adopt: Callable[[], None] | None = None,
    ) -> None:
        """A commit is durable: fold it into what is remembered, or forget that if others committed too.

        With what the head learned, under one lock: nobody reads at a version whose changes still wait here. May be cut
        short, and called again: what is remembered is forgotten first.
        """
        with self.lock:
            there, self._cells = self._cells, None
            if adopt is not None:
                adopt()
            self._sent = ChangeSet(self.redactor)
            self.steps.saved(changes)
            self.secrets.grow(assigned)
            ours = version is None or version.seq == self._folded + 1
            if not ours:
                self.steps.look_again()
            if version is not None and version.seq > self._folded:
                self._folded = version.seq
            for name, change in assigned.items():
                if self._assigned.get(name, NOTHING) is change:
                    del self._assigned[name]
            if ours and there is not None:
                self._fold(there, assigned)
                self._cells = there

    def _fold(self, there: dict[str, Any], assigned: dict[str, Change | None]) -> None:
        for name, change in assigned.items():
            if change is None:
                there.pop(name, None)
            elif change.kind == APPEND:
                before = self._cell(there, name) if name in there else None
                there[name] = cells.appended(name, before, change.items, partial(self._load, name))
            else:
                base = there.get(name)
                there[name] = cells.committed(name, change, self._load)
                if change.spread is not None and type(base) is cells.Cell:
                    self._cell(there, name)

    def refresh(self) -> None:
        """Pick up what others have committed, without committing anything."""
        with self.lock:
            row = self.store.read(self._row_now)
            if row.seq != self.head.seq:
                self.head.adopt(-1, row.seq, int.from_bytes(row.digest, "big"), None)
            self._folded = row.seq
            self._cells = None
            self.steps.look_again()

    def _row_now(self, view: View) -> RunRow:
        row = self.row(view)
        need_known(view, self.head, row.seq, row.digest)
        return row

    # -- records

    def put(self, collection: str, key: str, value: Any) -> None:
        """Set any record; durable with the next commit."""
        with self.lock:
            if collection == "variable":
                self.assign(key, value)
            elif collection == "step":
                self.steps.put(key, value)
            else:
                holed = isinstance(value, (HoledDict, HoledList))  # read from a run: it keeps its marks
                self.secrets.keep(self.pending.put(collection, key, thaw(value) if holed else value))

    def not_durable(self) -> dict[tuple[str, str], Change]:
        """What waits for a commit, or is being committed, by its address."""
        with self.lock:
            return {**self._sent.changes, **self.pending.changes}

    def names(self) -> set[str]:
        """The collections that something waits for."""
        return {collection for (collection, _), change in self.not_durable().items() if change.kind != DELETE}

    def read(self, collection: str) -> dict[str, Value]:
        """The records of a collection, with what waits for the next commit."""

        def work(view: View, seq: int | None) -> Any:
            return Reader(self.store, view, self.run, self.run_id, seq).values(collection)

        with self.lock:
            found = self.secrets.show(collection, self.at_head(work))
            return cells.overlay(found, self.not_durable(), collection)

    # -- its end

    def beat(self) -> None:
        """Say that the run is still driven."""
        lease.beat(self.store, self.run, self.run_id, self.epoch, self.clock.now())

    def settle(self, status: str, seal: Seal | None = None, summary: str | None = None) -> bool:
        """Set the run's status in the commit that ends our driving it; whether we drove it."""
        if not self.driving or os.getpid() != self._pid:  # in a forked child the run is its parent's
            self.driving = False
            return False
        with self.committing:
            with self.lock:
                status_changes(self.pending, status, self.clock.now(), summary=summary)
            self.commit(seal)
            self.driving = False
        self.release()  # outside the locks: the heartbeat's thread may be waiting for them
        return True

    def release(self) -> None:
        """Drive it no more, and let others do so."""
        self.let_go()
        self.store.write(lambda tx: lease.free(tx, self.run, self.epoch))

    def let_go(self) -> None:
        """Drive it no more, whatever the store says."""
        self.driving = False
        if self.heart is not None:
            self.heart.stop()
            self.heart = None
