"""Import runs that another program recorded: each with the history it has, as the checkpoints of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.engine.write.commit import Seal, Terms, commit_in, save_blobs
from leftoff.engine.write.head import Head
from leftoff.errors import Conflict
from leftoff.model.changes import APPEND, NOTHING, Change, ChangeSet
from leftoff.store.base import Store, Tx

if TYPE_CHECKING:
    from leftoff.model.changes import Scrubber

Records = dict[tuple[str, str], Any]


class ImportedVersion(NamedTuple):
    """One version to import: what differs from the one before, when it was made, and how it is sealed."""

    changes: ChangeSet
    at: int
    seal: Seal


def redacted(changes: ChangeSet) -> list[str]:
    """Return the records in which secrets were left out."""
    found = changes.changes.items()
    return [f"{name}/{key}" for (name, key), change in found if change.secret is not NOTHING]


def imported_versions(
    versions: list[tuple[Records, int, Seal]], scrubber: Scrubber | None
) -> list[ImportedVersion]:
    """Return versions, each given with all its records, as what each changes."""
    out: list[ImportedVersion] = []
    before: Records = {}
    for records, at, seal in versions:
        changes = ChangeSet(scrubber)
        for address, value in records.items():
            if address not in before or before[address] != value:
                changes.put(*address, value)
        for address in before.keys() - records.keys():
            changes.delete(*address)
        out.append(ImportedVersion(changes, at, seal))
        before = records
    return out


def weight(history: list[ImportedVersion]) -> int:
    """Return how much there is to write, in records."""
    return sum(1 + sum(map(_weight, version.changes.changes.values())) for version in history)


def _weight(change: Change) -> int:
    if change.kind == APPEND:
        return len(change.items)
    return 1 if change.spread is None else 1 + len(change.spread.encoded)


def create_runs(store: Store, runs: list[tuple[str, list[ImportedVersion]]]) -> None:
    """Write new runs in one transaction. Raise ``Conflict`` if an id is taken."""
    ready = [[save_blobs(store, version.changes) for version in history] for _, history in runs]

    def work(tx: Tx) -> None:
        for (run_id, history), saved in zip(runs, ready, strict=True):
            if tx.find_run(run_id, hidden=True) is not None:
                raise Conflict(f"Run {run_id} is already here.")
            run = tx.add_run(run_id, history[0].at, workflow="", branch="", status="running", hidden=False)
            head = Head(run, run_id, 0, 0)
            for version, (changes, blobs) in zip(history, saved, strict=True):
                done = commit_in(tx, head, changes, Terms(version.at, seal=version.seal, blobs=blobs))
                assert done is not None
                head = Head(run, run_id, done[0].seq, int.from_bytes(done[0].digest, "big"))

    store.write(work)
