"""Runs that come from elsewhere: written with the history that another program recorded, and never run unseen.

An imported run has a source, a fact next to it in the store that no bundle takes along. A fork of it has the same
source. The user is asked once per definition before its commands run: the digest of the definition that was agreed to
is stored next to the run. If another definition would run, the user is asked again.
"""

from __future__ import annotations

from leftoff.engine.commit import Head, Seal, Terms, commit_in, save_blobs
from leftoff.engine.quoting import FROM, source_of
from leftoff.errors import Conflict
from leftoff.hints import Any, Callable, NamedTuple
from leftoff.model.changes import APPEND, NOTHING, Change, ChangeSet
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.model.changes import Scrubber

Records = dict[tuple[str, str], Any]
#: called inside the transaction that completes an imported run, with its number and its id
Mark = Callable[[Tx, int, str], None]


class ImportedVersion(NamedTuple):
    """One version to import: what differs from the one before, when it was made, and how it is sealed."""

    changes: ChangeSet
    at: int
    seal: Seal


def redacted_records(changes: ChangeSet) -> list[str]:
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

    def rows(change: Change) -> int:
        if change.kind == APPEND:
            return len(change.items)
        return 1 if change.spread is None else 1 + len(change.spread.encoded)

    return sum(1 + sum(map(rows, version.changes.changes.values())) for version in history)


def create_runs(store: Store, runs: list[tuple[str, list[ImportedVersion]]]) -> None:
    """Write new runs in one transaction. Raise ``Conflict`` if an id is taken."""
    ready = [[save_blobs(store, version.changes) for version in history] for _, history in runs]

    def work(tx: Tx) -> None:
        for (run_id, history), saved in zip(runs, ready, strict=True):
            if tx.find_run(run_id, hidden=True) is not None:
                raise Conflict(f"Run {run_id} is already here.")
            run = tx.add_run(run_id, history[0].at, workflow="", branch="", status="running")
            head = Head(run, run_id, 0, 0)
            for version, (changes, blobs) in zip(history, saved, strict=True):
                done = commit_in(tx, head, changes, Terms(version.at, seal=version.seal, blobs=blobs))
                assert done is not None
                head = Head(run, run_id, done[0].seq, int.from_bytes(done[0].digest, "big"))

    store.write(work)


# -- what the user agreed to


def _agreed_fact(run: int) -> str:
    return f"agreed {run}"


def agreed(view: View, row: RunRow) -> str | None:
    """Return the digest of the definition that the user agreed to run."""
    return view.fact(_agreed_fact(row.run))


def may_run(store: Store, row: RunRow, digest: str | None = None) -> bool:
    """Return whether the commands of a run need no question. ``digest``: those of this definition."""

    def look(view: View) -> bool:
        if not source_of(view, row):
            return True
        found = agreed(view, row)
        return found is not None and digest in (None, found)

    return store.read(look)


def agree(store: Store, row: RunRow, digest: str) -> None:
    """Store that the user saw what an imported run would run, and agreed."""
    store.write(lambda tx: tx.put_fact(_agreed_fact(row.run), digest))


def disagree(tx: Tx, row: RunRow) -> None:
    """Forget that the user agreed."""
    tx.put_fact(_agreed_fact(row.run), None)


def copy_source(tx: Tx, row: RunRow, fork: int) -> None:
    """Give the fork of an imported run the same source, and what the user agreed to."""
    imported = row.card.get("imported")
    name = tx.fact(f"{FROM} {row.run}") or (imported.get("path") if isinstance(imported, dict) else None)
    if name:
        tx.put_fact(f"{FROM} {fork}", str(name))
        tx.put_fact(_agreed_fact(fork), agreed(tx, row))
