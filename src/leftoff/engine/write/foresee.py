"""What a commit will ask a store for, told beforehand: a store that is far away then answers all of it at once."""

from __future__ import annotations

from leftoff.model.ids import parent_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.write.head import Head
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx

    Address = tuple[str, str]


def foresee(tx: Tx, head: Head, changes: ChangeSet, attempt: str | None) -> None:
    """The records that are not remembered. If others have committed meanwhile, the rest is looked up one by one."""
    wanted: dict[Address, None] = {}
    for collection, key in changes.changes:
        if (collection, key) not in head.rows:
            wanted[collection, key] = None
            if collection == "step":
                _above(head, key, wanted)
        if collection == "run":
            wanted["run", ""] = None
    tx.fetch(head.run, wanted, attempt)


def _above(head: Head, step: str, wanted: dict[Address, None]) -> None:
    """A new step asks those above it whether they were leaves."""
    while step := parent_of(step):
        if ("step", step) not in head.rows:
            wanted["step", step] = None
