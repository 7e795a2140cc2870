"""Taking in runs that somebody else kept: each with the history it has, as the checkpoints of one run."""

from __future__ import annotations

from leftoff.engine.commit import NO_GUARD, Seal, commit_in, new_token, save_blobs
from leftoff.engine.head import Head
from leftoff.engine.state import Reader
from leftoff.errors import Conflict
from leftoff.model.changes import NOTHING, ChangeSet
from leftoff.model.upgrades import current as current_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    Records = dict[tuple[str, str], Any]


class Arrival:
    """One version on its way in: what differs from the one before, when it was, and how it is sealed."""

    __slots__ = ("at", "changes", "seal")

    def __init__(self, changes: ChangeSet, at: int, seal: Seal) -> None:
        self.changes = changes
        self.at = at
        self.seal = seal

    def redacted(self) -> list[str]:
        """The records in which secrets were left out."""
        found = self.changes.changes.items()
        return [f"{name}/{key}" for (name, key), change in found if change.secret is not NOTHING]


def arrivals(versions: list[tuple[Records, int, Seal]], scrubber: Scrubber | None) -> list[Arrival]:
    """Versions, each given whole, as what each changes."""
    out: list[Arrival] = []
    before: Records = {("run", "schema"): current_schema()} if current_schema() > 1 else {}
    first = ChangeSet(scrubber)
    for (collection, key), value in before.items():
        first.put(collection, key, value)
    for records, at, seal in versions:
        changes = first if not out else ChangeSet(scrubber)
        for address, value in records.items():
            if address not in before or before[address] != value:
                changes.put(*address, value)
        for address in before.keys() - records.keys() - {("run", "schema")}:
            changes.delete(*address)
        out.append(Arrival(changes, at, seal))
        before = records
    return out


def create(store: Store, runs: list[tuple[str, list[Arrival]]]) -> None:
    """New runs, all of them or none, durable when this returns. Their ids must be free."""
    ready = [save_blobs(store, arrival.changes) for _, history in runs for arrival in history]

    def work(tx: Tx) -> None:
        left = iter(ready)
        for run_id, history in runs:
            if tx.find_run(run_id, hidden=True) is not None:
                raise Conflict(f"Run {run_id} is here already.")
            run = tx.add_run(run_id, history[0].at, workflow="", branch="", status="running", hidden=False)
            seq, digest = 0, 0
            for arrival in history:
                changes, blobs = next(left)
                head = Head(run, run_id, seq, digest)
                done = commit_in(tx, head, changes, arrival.at, NO_GUARD, arrival.seal, new_token(), blobs)
                assert done is not None
                seq, digest = done[0].seq, int.from_bytes(done[0].digest, "big")

    store.write(work)


def records_at(store: Store, view: View, row: RunRow, seq: int | None = None) -> Records:
    """Every record of a run at a version, as plain values."""
    reader = Reader(store, view, row.run, row.run_id, seq)
    found: Records = {}
    for collection in reader.collections():
        if collection != "item":
            for key, value in reader.plain(collection).items():
                found[collection, key] = value
    return found
