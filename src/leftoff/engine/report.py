"""Reports on a run from whoever works on it: one transaction finds the run, looks, changes and commits.

Reports need no lease and work beside a live driver. Reading and writing in the same transaction, several agents that
report at once lose nothing, not even on the same step.
"""

from __future__ import annotations

from leftoff.engine.commit import NO_GUARD, commit_in, new_token, save_blobs
from leftoff.engine.head import Head
from leftoff.errors import NotFound
from leftoff.model.changes import ChangeSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.engine.commit import Guard, Seal
    from leftoff.model.changes import Scrubber
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow, RunRow

    Find = Callable[[View], RunRow]
    Make = Callable[[Tx, RunRow, ChangeSet], Seal | None]


class Reported:
    """The run as it was found, and the version that the report made (``None``: it changed nothing)."""

    __slots__ = ("row", "version")

    def __init__(self, row: RunRow, version: Version | None) -> None:
        self.row = row
        self.version = version

    @property
    def seq(self) -> int:
        return self.version.seq if self.version is not None else self.row.seq


def report(
    store: Store,
    find: Find,
    make: Make,
    at: int,
    *,
    guard: Guard = NO_GUARD,
    scrubber: Scrubber | None = None,
    changes: ChangeSet | None = None,
    blobs: list[BlobRow] | None = None,
) -> Reported:
    """Find the run, let ``make`` fill a change set (and say how to seal it), and commit.

    ``changes``: those that do not depend on what is there, made beforehand. ``blobs``: saved beforehand.
    """
    if not store.exists():
        raise NotFound(
            f"There is no run here: {store.name} does not exist.", hint="`leftoff start WORKFLOW` starts one."
        )
    token = new_token()
    saved = list(blobs or ())
    if changes is not None:
        saved += save_blobs(store, changes)

    def work(tx: Tx) -> Reported:
        row = find(tx)
        wanted = ChangeSet(scrubber)
        if changes is not None:
            wanted.changes.update(changes.changes)
        seal = make(tx, row, wanted)
        head = Head(row.run, row.run_id, row.seq, int.from_bytes(row.digest, "big"))
        large = save_blobs(store, wanted)  # hardly ever: only a record that was read here can be that large
        done = commit_in(tx, head, wanted, at, guard, seal, token, saved + large)
        return Reported(row, done[0] if done is not None else None)

    return store.write(work)
