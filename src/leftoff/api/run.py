"""A run that this process drives: changes are buffered, and become durable together.

They become durable at ``commit()``, at ``checkpoint()`` and at the end of a step; that is also when other processes
see them, and when this one picks up theirs. A commit that fails keeps its changes: call it again.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from leftoff.api import cells
from leftoff.api.beat import Heart
from leftoff.api.doubt import Doubt
from leftoff.api.files import FilesMixin
from leftoff.api.read import RunView
from leftoff.api.secrets import Secrets
from leftoff.api.steps import StepsMixin
from leftoff.api.views import Values, Variables
from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.read.state import Reader
from leftoff.engine.write import lease
from leftoff.engine.write.commit import Guard, Seal, commit_apart, new_token
from leftoff.errors import Invalid, Pruned, StoreUnavailable
from leftoff.model.changes import APPEND, DELETE, NOTHING, PUT, Change, ChangeSet
from leftoff.model.codec import BLOB, DICT, LIST, REDACTED
from leftoff.model.frozen import freeze, freeze_holed
from leftoff.model.ids import parent_of
from leftoff.model.words import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from leftoff.api.store import Store
    from leftoff.engine.write.head import Head
    from leftoff.model.versions import Version
    from leftoff.store.base import View
    from leftoff.store.rows import BlobRow


class Run(StepsMixin, FilesMixin, RunView):
    """One run, driven by this process until it is finished, paused, or the process ends."""

    def __init__(self, owner: Store, head: Head, epoch: int, *, resumed: bool) -> None:
        super().__init__(owner._store, head.run, head.run_id, owner._clock, limits=owner._limits)
        self._owner = owner
        self._head = head
        self._guard = Guard(epoch)
        self._epoch = epoch
        self.resumed = resumed  # whether there was something to go on from
        self._redactor = owner._redactor
        self._lock = threading.RLock()
        self._committing = threading.RLock()  # one commit at a time; always taken before the other lock
        self._pid = os.getpid()
        self._pending = ChangeSet(self._redactor)
        self._doubt: Doubt | None = None  # a commit that failed, or so it seems
        self._blobs: list[BlobRow] = []
        self._assigned: dict[str, Change | None] = {}  # not yet committed
        self._cells: dict[str, Any] | None = None
        self._secrets = Secrets()
        self._driving = True
        self._variables = Variables(self)
        self._init_steps()
        self._heart: Heart | None = Heart(self, owner._heartbeat)
        owner._drives(self)

    # -- variables

    @property
    def variables(self) -> Variables:
        return self._variables

    def _variable(self, name: str) -> Any:
        with self._lock:
            change = self._assigned.get(name, NOTHING)
            if change is NOTHING:
                return self._cell(self._loaded(), name).get()
            if change is None:
                raise KeyError(name)
            if change.kind == APPEND:
                there = self._loaded()
                return cells.grown(name, self._cell(there, name).get() if name in there else [], change)
            return cells.from_change(name, change, lambda: self._load(name)).get()

    def _assign(self, name: str, value: Any) -> None:
        with self._lock:
            base = known = None
            if isinstance(value, (list, dict)):
                cell = self._cells.get(name) if self._cells is not None else None
                if type(cell) is cells.Cell and not self._secrets.of(name):
                    base = cell.known()
                known = self._head.items.get(name)
            change = self._assigned[name] = self._pending.put("variable", name, value, base=base, known=known)
            if change.spread is not None and base is not None:
                change.spread.seq = self._head.seq
            self._secrets.keep(change)

    def _unassign(self, name: str) -> None:
        with self._lock:
            if name not in self._variable_names():
                raise KeyError(name)
            self._pending.delete("variable", name)
            self._assigned[name] = None

    def append(self, name: str, item: Any) -> None:
        """Add one entry to the list variable ``name`` (made if need be). Costs the same at any length."""
        with self._lock:
            there = self._assigned.get(name, NOTHING)
            if there is None:
                self._assign(name, [item])
                return
            if there is not NOTHING and there.kind == PUT:
                value = self._variable(name)
                if not isinstance(value, list):
                    raise Invalid(f"{name} is a {type(value).__name__}; it cannot be appended to.")
                self._assign(name, [*value, item])
                return
            if name in self._loaded() and not self._cell(self._loaded(), name).is_list():
                raise Invalid(f"{name} is not a list; it cannot be appended to.")
            self._pending.append(name, item)
            change = self._assigned[name] = self._pending.changes["variable", name]
            if change.kept and not self._secrets.of(name):
                self._secrets.begin(
                    name, self._cell(self._loaded(), name).get() if name in self._loaded() else []
                )

    def compare_and_set(self, name: str, expected: Any, value: Any) -> None:
        """Set a variable only if it still has the expected value (``None``: only if it is not there), and commit.

        ``Conflict`` where somebody was faster; nothing is changed then.
        """
        changes = ChangeSet(self._redactor)
        change = changes.put("variable", name, value, expect=expected)
        with self._committing:
            self._must_drive()
            if name in self._assigned:
                raise Invalid(f"{name} was assigned and is not committed yet; commit() first.")
            now = self._clock.now()
            version, adopt = commit_apart(self._store, self._head, changes, now, guard=self._guard)
            if version is not None:
                self._secrets.keep(change)
                self._adopted(version, {name: change}, changes, adopt)
            elif self._store.read(self._row).seq != self._folded:
                self.refresh()  # it was so already, by another's hand

    def _variable_names(self) -> list[str]:
        with self._lock:
            names = set(self._loaded())
            for name, change in self._assigned.items():
                names.discard(name) if change is None else names.add(name)
            return sorted(names)

    def _loaded(self) -> dict[str, Any]:
        if self._cells is None:
            self._cells = self._at_head(self._read_cells)
        return self._cells

    def _at_head(self, work: Any) -> Any:
        """Read at the version this process has seen; where that is gone, at the newest."""
        try:
            return self._store.read(lambda view: work(view, self._head.seq))
        except Pruned:
            self.refresh()
            return self._store.read(lambda view: work(view, None))

    def _read_cells(self, view: View, seq: int | None) -> dict[str, Any]:
        reader = Reader(self._store, view, self._number, self.id, seq)
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
            value = Reader(self._store, view, self._number, self.id, seq).value("variable", name)
            if value is None:
                raise KeyError(name)
            return value

        value = self._at_head(work)
        return freeze_holed(*self._secrets.held("variable", name, value.plain, value.holes), name)

    def _cell(self, there: dict[str, Any], name: str) -> cells.Cell:
        cell = there[name]
        if type(cell) is not cells.Cell:  # a change that was committed, not looked at since
            cell = there[name] = cells.from_change(name, cell, lambda: self._load(name))
        return cell

    # -- commits

    def commit(self) -> Version | None:
        """Make everything buffered durable, and pick up what others committed. ``None`` where nothing changed."""
        self._close_left_open(None)
        version = self._commit(None)
        if version is None and self._store.read(self._row).seq != self._folded:
            self.refresh()
        return version

    def checkpoint(
        self, trigger: str = "manual", note: str | None = None, *, step: str | None = None
    ) -> Version:
        """Commit and seal: a version with an id, to come back to."""
        self._close_left_open(None)
        self._track_git()
        version = self._commit(Seal(trigger, step or self._current_step(), self._masked(note), asked=True))
        assert version is not None
        return version

    def _must_drive(self) -> None:
        if not self._driving:
            raise Invalid(f"Run {self.id} is not driven by this object any more.", hint="leftoff.resume it.")

    def _commit(self, seal: Seal | None, *, durable: bool = True, only: Iterable[str] = ()) -> Version | None:
        """Commit what is buffered, or ``only`` the records of some steps.

        One at a time: whoever waits finds its changes committed by the one before, or commits those of all who wait.
        """
        with self._committing:
            return self._commit_now(seal, durable, [("step", path) for path in only])

    def _commit_now(self, seal: Seal | None, durable: bool, only: list[tuple[str, str]]) -> Version | None:
        with self._lock:
            doubt, settled = self._doubt, self._settle_doubt()
            pending = self._pending
            if not pending.changes and (seal is None or (doubt and settled and doubt.same(seal))):
                return settled
            self._must_drive()
            assigned, blobs, since = self._assigned, self._blobs, self._head.seq
            if only:
                pending, assigned, blobs = pending.take(only), {}, []
            else:
                # What is being written stays readable while it is: other threads see it through the copy.
                self._pending, self._assigned = ChangeSet(self._redactor), assigned.copy()
                self._blobs = []
        token = new_token()
        try:
            version, adopt = commit_apart(
                self._store,
                self._head,
                pending,
                self._clock.now(),
                guard=self._guard,
                seal=seal,
                token=token,
                blobs=blobs,
                durable=durable,
            )
        except BaseException:
            self._restore(pending, blobs, Doubt(token, since, pending, seal, blobs))
            raise
        self._adopted(version, assigned, pending, adopt)
        return version

    def _settle_doubt(self) -> Version | None:
        """Before the next commit: what a failed one made durable all the same is not written again."""
        doubt = self._doubt
        if doubt is None:
            return None
        version = doubt.ask(self._store, self._number)
        self._doubt = None
        if version is not None:
            saved = doubt.take_out(self._pending)
            of_variables = [c for (collection, _), c in saved.changes.items() if collection == "variable"]
            self._adopted(version, {c.key: None if c.kind == DELETE else c for c in of_variables}, saved)
            self._blobs = [row for row in self._blobs if row not in doubt.blobs]
            self.refresh()
        return version

    def _restore(self, pending: ChangeSet, blobs: list[BlobRow], doubt: Doubt) -> None:
        """A commit failed: its changes wait for the next one, under what was changed since."""
        with self._lock:
            for address, newer in self._pending.changes.items():
                older = pending.changes.get(address)
                if newer.kind == APPEND and older is not None and older.kind == APPEND:
                    older.kept = {**older.kept, **{len(older.items) + i: k for i, k in newer.kept.items()}}
                    older.items = older.items + newer.items
                else:
                    pending.changes[address] = newer
            self._pending, self._blobs, self._doubt = pending, blobs + self._blobs, doubt
            for (collection, name), change in pending.changes.items():
                if collection == "variable":
                    self._assigned[name] = None if change.kind == DELETE else change

    def _adopted(
        self,
        version: Version | None,
        assigned: dict[str, Change | None],
        changes: ChangeSet,
        adopt: Callable[[], None] | None = None,
    ) -> None:
        """A commit is durable: fold it into what is remembered, or forget that if others committed too.

        With what the head learned, under one lock: nobody reads at a version whose changes still wait here.
        """
        with self._lock:
            if adopt is not None:
                adopt()
            self._steps_saved(changes)
            self._secrets.grow(assigned)
            ours = version is None or version.seq == self._folded + 1
            if ours and self._cells is not None:
                self._fold(assigned)
            elif not ours:
                self._cells = None
                self._steps = None
            if version is not None and version.seq > self._folded:
                self._folded = version.seq
            for name, change in assigned.items():
                if self._assigned.get(name, NOTHING) is change:
                    del self._assigned[name]

    def _fold(self, assigned: dict[str, Change | None]) -> None:
        assert self._cells is not None
        for name, change in assigned.items():
            if change is None:
                self._cells.pop(name, None)
            elif change.kind == APPEND:
                before = self._cell(self._cells, name) if name in self._cells else None
                self._cells[name] = cells.appended(name, before, change.items, partial(self._load, name))
            else:
                base = self._cells.get(name)
                self._cells[name] = cells.committed(name, change, self._load)
                if change.spread is not None and type(base) is cells.Cell:
                    self._cell(self._cells, name)

    def refresh(self) -> None:
        """Pick up what others have committed, without committing anything."""
        with self._lock:
            row = self._store.read(self._row)
            if row.seq != self._head.seq:
                self._head.adopt(-1, row.seq, int.from_bytes(row.digest, "big"), None)
            self._folded = row.seq
            self._cells = None
            self._steps = None

    # -- records

    def put(self, collection: str, key: str, value: Any) -> None:
        """Set any record; durable with the next commit."""
        with self._lock:
            if collection == "variable":
                self._assign(key, value)
                return
            change = self._pending.put(collection, key, value)
            self._secrets.keep(change)
            if collection == "step":
                self._step_put(key, freeze(value), change)
                self._orders.pop(parent_of(key), None)  # it may stand behind all that were counted

    def note(self, text: str) -> None:
        """Leave a note for whoever goes on."""
        now = self._clock.now()
        from leftoff.clock import iso

        about = {"text": self._redactor.mask(text), "at": iso(now), "step": self._current_step()}
        with self._lock:
            self._notes += 1
            key = f"{now:015d}-{self._notes:04d}-{new_token()[:3].hex()}"
            self._pending.put("note", key, {k: v for k, v in about.items() if v is not None})

    def _names(self) -> list[str]:
        return sorted({*super()._names(), *(collection for collection, _ in self._pending.changes)})

    def _read(self, collection: str) -> Mapping[str, Any]:
        def work(view: View, seq: int | None) -> Any:
            return Reader(self._store, view, self._number, self.id, seq).values(collection)

        if collection == "step":
            return self.steps
        if collection == "variable":
            return self.variables
        found = self._secrets.show(collection, self._at_head(work))
        return Values(collection, cells.overlay(found, self._pending, collection))

    # -- history

    def fork(
        self,
        *,
        branch: str,
        ref: str | int | Version | None = None,
        run_id: str | None = None,
        **variables: Any,
    ) -> Run:
        """A new run on another branch that starts from here (or from ``ref``)."""
        self.commit()
        return self._owner._fork(self, ref, branch, run_id, variables)

    def diff(self, old: Any, new: Any = None) -> Any:
        self.commit()
        return super().diff(old, new)

    # -- its end

    def beat(self) -> None:
        """Say that this run is still driven. A thread does so by itself."""
        lease.beat(self._store, self._number, self.id, self._epoch, self._clock.now())

    def finish(self, status: str = "completed", *, summary: str | None = None) -> None:
        """End the run (completed, failed or abandoned) and stop driving it."""
        self._settle(status, None, summary)

    def pause(self, note: str | None = None) -> None:
        """Stop driving the run for now; it stays unfinished."""
        self._settle("paused", Seal("session_end", note=self._masked(note)) if note else None, None)

    def _masked(self, text: str | None) -> str | None:
        return self._redactor.mask(text) if text is not None else None

    def _settle(self, status: str, seal: Seal | None, summary: str | None) -> None:
        """Set the run's status in the commit that ends our driving it."""
        if not self._driving:
            return
        if os.getpid() != self._pid:  # a forked child: the run is its parent's
            self._driving = False
            return
        self._close_all(None)
        with self._committing:
            with self._lock:
                status_changes(self._pending, status, self._clock.now(), summary=self._masked(summary))
            self._commit(seal)
            self._driving = False
        self._release()  # outside the locks: the heartbeat's thread may be waiting for them
        self._owner._project.update_page()

    def _release(self) -> None:
        self._let_go()
        self._store.write(lambda tx: lease.free(tx, self._number, self._epoch))

    def _let_go(self) -> None:
        """Drive it no more, whatever the store says."""
        self._driving = False
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
        self._owner._runs.discard(self)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._driving:
            return
        self._close_all(error)
        try:
            self._leave(error)
        except StoreUnavailable:
            if error is None:
                raise
            # The error that ended the work is the one to tell; the lease ends with the process.

    def _leave(self, error: BaseException | None) -> None:
        if error is None:
            self._say_what_is_left()
            self.finish()
        elif isinstance(error, Exception):
            self._settle(
                "failed", None if self._sealed_error(error) else Seal("error", note=self._told(error)), None
            )
        elif isinstance(error, KeyboardInterrupt):
            self._settle("paused", None if self._sealed_error(error) else Seal("user_interrupt"), None)
        else:
            self._settle("paused", Seal("session_end"), None)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _say_what_is_left(self) -> None:
        steps = self.steps
        inner = {parent_of(path) for path in steps}
        open_steps = [path for path, step in steps.items() if step["status"] not in ("completed", "skipped")]
        left = [path for path in open_steps if path not in inner]
        if left and self.status in UNFINISHED:
            shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
            print(f"leftoff: run {self.id} is completed; steps left: {shown}", file=sys.stderr)

    def __repr__(self) -> str:
        return f"<Run {self.id}, driven by this process>" if self._driving else super().__repr__()
