"""The steps of a run that this process drives: as it sees them, and as they will be with its next commit."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.engine.read.state import Reader
from leftoff.engine.steps import lifecycle
from leftoff.engine.steps.reports import needs_decision
from leftoff.model.changes import DELETE
from leftoff.model.codec import REDACTED, payload
from leftoff.model.frozen import freeze, marks, thaw
from leftoff.model.ids import check_step, parent_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.api.buffer import Buffer
    from leftoff.model.changes import Change, ChangeSet
    from leftoff.store.base import View

    Record = dict[str, Any]
    Entry = tuple[Record, list[list[Any]]]  # a step's record and its redacted paths


class BufferedSteps:
    """Step records, read and changed under the lock of the buffer that they wait in."""

    __slots__ = ("_approvals", "_buffer", "_known", "_orders", "_unsaved")

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self._known: dict[str, Entry] | None = None
        self._unsaved: dict[str, tuple[Entry, Change]] = {}  # what is not durable yet
        self._approvals: set[str] = set()  # what only a person decides
        self._orders: dict[str, int] = {}

    # -- reading

    def known(self) -> dict[str, Entry]:
        """Every step: path to (plain record, redacted paths). Whoever goes through them holds the buffer's lock."""
        with self._buffer.lock:  # or a thread could remember what it read before another one's commit
            if self._known is None:
                self._known = self._read()
            return self._known

    def _read(self) -> dict[str, Entry]:
        buffer = self._buffer

        def work(view: View, seq: int | None) -> Any:
            reader = Reader(buffer.store, view, buffer.run, buffer.run_id, seq)
            return reader.values("step"), set(reader.raw("approval"))

        found, self._approvals = buffer.at_head(work)
        self._orders.clear()  # others may have put steps beside ours
        known = {p: buffer.secrets.held("step", p, value.plain, value.holes) for p, value in found.items()}
        known.update((path, entry) for path, (entry, _) in self._unsaved.items())
        for (collection, path), change in buffer.not_durable().items():
            if collection == "step" and change.kind == DELETE:
                known.pop(path, None)
        return known

    def get(self, path: str) -> Record | None:
        with self._buffer.lock:
            found = self.known().get(path)
            return found[0] if found else None

    def look_again(self) -> None:
        """Others have committed: what is there is read anew."""
        self._known = None

    def saved(self, changes: ChangeSet) -> None:
        """A commit became durable: what it said of steps need not be remembered any more."""
        for path in [
            p for p, (_, change) in self._unsaved.items() if changes.changes.get(("step", p)) is change
        ]:
            del self._unsaved[path]

    # -- changing

    def change(self, path: str, change: Callable[[Record], Record]) -> Change:
        """Make of a step's record what ``change`` makes of it; of a new step's, of its place."""
        with self._buffer.lock:
            found = self.known().get(path)
            return self.move(path, change(found[0] if found else {"order": self._next_order(path)}))

    def move(self, path: str, record: Record) -> Change:
        """A step's status has changed: its record, and what is kept beside it."""
        buffer = self._buffer
        with buffer.lock:
            before, status = self.known().get(path), record["status"]
            now = record.get("completed_at") or ""
            if status == "blocked" or (status == "failed" and not now):
                now = iso(buffer.clock.now())
            change = lifecycle.move(buffer.pending, path, record, now)
            self._see(path, record, change)
            if (before is not None and before[0]["status"] == "blocked") != (status == "blocked"):
                self._settle_run()
            return change

    def put(self, path: str, value: Any) -> None:
        """A record that somebody gives; it may ask for a decision again, and never takes one."""
        if not isinstance(value, dict):
            lifecycle.check(path, value)  # says what is wrong with it
        check_step(path)
        value = thaw(value)
        if lifecycle.decides(value):
            self.refuse_approval(path)
        self.change(path, lambda record: freeze(lifecycle.put_over(record, value)))
        self._orders.clear()  # it may stand behind all that were counted

    def add_output(self, path: str, output: str) -> None:
        """A file that a step wrote is one of its outputs; a step that is not there is not made for it."""
        with self._buffer.lock:
            record = self.get(path)
            if record is not None:
                record = {**record, "outputs": lifecycle.merged(record.get("outputs"), [output])}
                self._see(path, record, lifecycle.put(self._buffer.pending, path, record))

    def remove(self, path: str) -> None:
        """A step that is none any more; it stays in the history."""
        with self._buffer.lock:
            before = self.known().pop(path, None)
            lifecycle.remove(self._buffer.pending, path)
            self._approvals.discard(path)
            self._unsaved.pop(path, None)
            if before is not None and before[0]["status"] == "blocked":
                self._settle_run()

    def refuse_approval(self, path: str) -> None:
        """What only a person decides is not for a program to report on."""
        record = self.get(path)
        if path in self._approvals or (record is not None and record.get("kind") == "approval"):
            raise needs_decision(self._buffer.run_id, path)

    def _settle_run(self) -> None:
        """A run is blocked while a step of it is."""
        buffer = self._buffer
        waits = buffer.not_durable().get(("run", "status"))
        before = payload(waits.stored, "status") if waits else buffer.store.read(buffer.row).status
        blocked = any(record["status"] == "blocked" for record, _ in self.known().values())
        after = lifecycle.run_status(before, blocked=blocked)
        if after != before:
            buffer.pending.put("run", "status", after)

    def _see(self, path: str, record: Record, change: Change) -> None:
        """See a step's new record at once, and until it is durable whatever others commit."""
        entry: Entry = (record, marks(record) if change.stored[:1] == REDACTED else [])
        self._buffer.secrets.keep(change)
        self.known()[path] = entry
        self._unsaved[path] = (entry, change)

    def _next_order(self, path: str) -> int:
        """Behind the steps that stand beside it."""
        above = self._above(path)
        if above not in self._orders:
            beside = (
                record.get("order")
                for other, (record, _) in self.known().items()
                if self._above(other) == above
            )
            self._orders[above] = max((n for n in beside if isinstance(n, int)), default=-1)
        self._orders[above] += 1
        return self._orders[above]

    def _above(self, path: str) -> str:
        """The nearest step that contains a step; empty where none does."""
        there, path = self.known(), parent_of(path)
        while path and path not in there:
            path = parent_of(path)
        return path
