"""The runner's hand on the store: everything it changes in a run goes through here, under its epoch.

What happened in one turn of the driver is one transaction, of one commit per event: a checkpoint for each step that
ended, and one sync for all of them. An entry looks at the records inside the transaction and changes what it finds
there, so that what a step's own process or a person reported meanwhile is never overwritten with older knowledge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from leftoff.engine.lifecycle.opening import open_run
from leftoff.engine.lifecycle.rollback import rollback
from leftoff.engine.read.state import Reader
from leftoff.engine.steps.lifecycle import Steps
from leftoff.engine.write import lease
from leftoff.engine.write.commit import Guard, Terms, commit_in, save_blobs
from leftoff.engine.write.head import need_known
from leftoff.engine.write.rewound import mark_rewound
from leftoff.errors import Rewound
from leftoff.model.changes import ChangeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leftoff.clock import Clock
    from leftoff.engine.redaction.redactor import Redactor
    from leftoff.engine.write.commit import Seal
    from leftoff.engine.write.head import Head
    from leftoff.host import Process
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow, RunRow
    from leftoff.store.watch import News


class Page:
    """One commit in the making: what is there, and what shall change."""

    def __init__(self, ledger: Ledger, tx: Tx, at: int) -> None:
        self.tx = tx
        self.at = at
        self.run = ledger.run
        self.changes = ChangeSet(ledger.scrubber)
        self.blobs: list[BlobRow] = []
        self._reader = Reader(ledger.store, tx, ledger.run, ledger.run_id)
        self.steps = Steps(self._reader, self.changes, at)

    def get(self, collection: str, key: str) -> Any:
        """A record as it was before this commit; ``None`` where there is none."""
        found = self._reader.value(collection, key)
        return None if found is None else found.plain

    def step(self, path: str) -> dict[str, Any]:
        """A step's record as it is by now."""
        found = self.steps.get(path)
        return found if found is not None else {"status": "pending"}

    def put(self, collection: str, key: str, value: Any) -> None:
        self.changes.put(collection, key, value)

    def row(self) -> RunRow:
        row = self.tx.run_row(self.run)
        assert row is not None
        return row


if TYPE_CHECKING:
    T = TypeVar("T")
    Entry = Callable[[Page], Seal | None]


class Records:
    """A run's records, at its head or at version ``seq``, for whoever only looks."""

    def __init__(self, store: Store, run: int, run_id: str, seq: int | None = None) -> None:
        self.store = store
        self.run = run
        self.run_id = run_id
        self.seq = seq

    def read(self, collection: str) -> dict[str, Any]:
        """The records of a collection, as plain values."""
        return self.store.read(lambda view: self.reader(view).plain(collection))

    def reader(self, view: View) -> Reader:
        return Reader(self.store, view, self.run, self.run_id, self.seq)


class Ledger(Records):
    """One run, driven by this process."""

    def __init__(self, store: Store, head: Head, epoch: int, clock: Clock, scrubber: Redactor) -> None:
        super().__init__(store, head.run, head.run_id)
        self.epoch = epoch
        self.clock = clock
        self.scrubber = scrubber
        self.foreign = False  # whether others committed since this was last set back
        self.shared = False  # whether others ever did
        self._head = head
        self._guard = Guard(epoch)

    def write(self, entries: Sequence[Entry], *, durable: bool = True) -> list[Version | None]:
        """Commit each entry, in order, in one transaction; the versions, ``None`` where nothing changed."""
        at = self.clock.now()

        def work(tx: Tx) -> list[Any]:
            return [self._commit(tx, entry, at) for entry in entries]

        done = self._known(lambda: self.store.write(work, durable=durable))
        for entry in done:
            if entry is not None:
                version, since, apply = entry
                if since != self._head.seq:
                    self.foreign = self.shared = True
                self._head.adopt(since, version.seq, apply.digest, apply)
        return [entry[0] if entry is not None else None for entry in done]

    def _commit(self, tx: Tx, entry: Entry, at: int) -> Any:
        page = Page(self, tx, at)
        seal = entry(page)
        if seal is not None and seal.note:
            seal.note = self.scrubber.mask(seal.note)
        changes, large = save_blobs(self.store, page.changes)
        return commit_in(tx, self._head, changes, Terms(at, self._guard, seal=seal, blobs=page.blobs + large))

    def take(self, driver: tuple[Process, str], *, take_over: bool) -> None:
        """Drive the run from now on: its lease under a new epoch, and its head as it is then."""
        at = self.clock.now()
        self._head, epoch = open_run(self.store, self.run_id, at, driver=driver, take_over=take_over)
        assert epoch is not None
        self.epoch, self._guard = epoch, Guard(epoch)

    def begin(self) -> None:
        """Roll the run back before the first entry, if ``seq`` says so."""
        seq, self.seq = self.seq, None
        if seq is not None:
            rollback(self.store, self._head, seq, self.clock.now(), guard=self._guard)

    # -- looking

    def concerned(self, news: News) -> bool:
        """Whether others may have committed something to this run, by what was heard."""
        return news.others or news.runs.get(self.run_id, 0) > self._head.seq

    def moved(self) -> bool:
        """Whether others committed since we last looked."""
        head = self._look()
        moved = head is not None and head[0] != self._head.seq
        if moved and head is not None:
            self._head.adopt(-1, head[0], int.from_bytes(head[1], "big"), None)
            self.shared = True
        told, self.foreign = moved or self.foreign, False
        return told

    def _look(self) -> Any:
        """The head, which has what was acknowledged to us."""

        def look(view: View) -> Any:
            head = view.head(self.run)
            if head is not None:
                need_known(view, self._head, head[0], head[1])
            return head

        return self._known(lambda: self.store.read(look))

    def _known(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Rewound as error:
            mark_rewound(self.store, error)
            raise

    # -- the lease

    def beat(self) -> None:
        lease.beat(self.store, self.run, self.run_id, self.epoch, self.clock.now())
        if self.store.shared:
            self._look()

    def release(self) -> None:
        self.store.write(lambda tx: lease.free(tx, self.run, self.epoch))
