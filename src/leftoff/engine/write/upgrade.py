"""Bringing a run's records to the current schema before anything is written to it, so that it never mixes two."""

from __future__ import annotations

from leftoff.engine.read.state import Reader
from leftoff.engine.write.commit import Terms, commit
from leftoff.model.changes import ChangeSet
from leftoff.model.upgrades import current
from leftoff.model.values import Encoded, blob_of, blob_stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.write.commit import Guard
    from leftoff.engine.write.head import Head
    from leftoff.store.base import Store


def bring_up(store: Store, head: Head, at: int, guard: Guard) -> None:
    """Commit what an old run's records are in the current schema; nothing where they are already."""
    changes = store.read(lambda view: upgrade_changes(Reader(store, view, head.run, head.run_id)))
    if changes.changes:
        commit(store, head, changes, Terms(at, guard))


def upgrade_changes(reader: Reader) -> ChangeSet:
    """What differs between a state as it was written and as the current schema has it."""
    changes = ChangeSet()  # without a scrubber: what is stored was looked at when it was stored
    if reader.schema == current():
        return changes
    for collection in reader.collections():
        records = reader.raw(collection)
        for key, value in reader.values(collection).items() if collection != "item" else ():
            blob = blob_of(records[key].stored)
            if blob is not None and len(records[key].stored) > 33:
                changes.put_stored(collection, key, blob_stored(blob, value.plain))
            else:
                changes.put(
                    collection, key, Encoded(value.plain) if collection == "variable" else value.plain
                )
    changes.put("run", "schema", current())
    return changes
