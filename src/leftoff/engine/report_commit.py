"""Reports on a run from whoever works on it: one transaction finds the run, looks, changes and commits.

Reports need no lease and work beside a live driver. Reading and writing in the same transaction, several agents that
report at once lose nothing, not even on the same step.
"""

from __future__ import annotations

from leftoff.engine.commit import NO_GUARD, Terms, commit_in, save_blobs
from leftoff.engine.head_cache import Head, need_store
from leftoff.engine.lease import sign_of_life
from leftoff.hints import Any, Callable
from leftoff.model.changes import ChangeSet
from leftoff.store.rows import RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.commit import Guard, Seal
    from leftoff.model.changes import Scrubber
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View

    Find = Callable[[View], RunRow]
    Make = Callable[[Tx, RunRow, ChangeSet], Seal | None]


class Reported:
    """The run as it was found, and the version that the report made (``None``: it changed nothing).

    ``redacted``: the keys of records that held a secret, which was not stored.
    """

    __slots__ = ("redacted", "row", "version")

    def __init__(self, row: RunRow, version: Version | None) -> None:
        self.row = row
        self.version = version
        self.redacted: list[str] = []

    @property
    def seq(self) -> int:
        return self.version.seq if self.version is not None else self.row.seq

    @property
    def left(self) -> RunRow:
        """Where the run stands by this report, for whoever goes on from there: see ``need_unmoved``."""
        if self.version is None:
            return self.row
        return RunRow((*self.row[:3], self.version.seq, self.version.digest, *self.row[5:]))

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.row.run_id, "seq": self.seq}


def beat(store: Store, find: Find, at: int, guard: Guard = NO_GUARD) -> RunRow:
    """A sign of life, which makes no version."""
    need_store(store)

    def work(tx: Tx) -> RunRow:
        row = find(tx)
        guard.check(tx, row, 0)
        sign_of_life(tx, row.run, at)
        return row

    return store.write(work)


def report(
    store: Store,
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


def report_in(store: Store, tx: Tx, row: RunRow, make: Make, terms: Terms, changes: ChangeSet) -> Reported:
    """The part inside the transaction; how it is sealed is for ``make`` to say."""
    seal = make(tx, row, changes)
    # Hardly ever any: a record that was read here may be that large.
    ready, large = save_blobs(store, changes)
    own = Terms(terms.at, terms.guard, seal, terms.token, [*terms.blobs, *large])
    done = commit_in(tx, Head.of(row), ready, own)
    return Reported(row, done[0] if done is not None else None)
