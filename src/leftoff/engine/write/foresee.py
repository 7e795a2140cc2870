"""What a commit will ask a store for, told beforehand: a store that is far away then answers all of it at once."""

from __future__ import annotations

from leftoff.model.ids import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.write.head import Head
    from leftoff.model.changes import ChangeSet
    from leftoff.store.base import Tx

    Address = tuple[str, str]


def foresee(tx: Tx, head: Head, changes: ChangeSet, attempt: str | None) -> None:
    """The records that are not remembered; those that are, if others have committed meanwhile."""
    wanted: dict[Address, None] = {}
    again: list[Address] = []
    for address in changes.changes:
        if address in head.rows:
            again.append(address)
        else:
            wanted[address] = None
            if address[0] == "step":
                _above(head, address[1], wanted, again)
        if address[0] == "run":
            wanted["run", ""] = None
    tx.fetch(head.run, wanted, attempt, again, head.seq)


def _above(head: Head, step: str, wanted: dict[Address, None], again: list[Address]) -> None:
    """A new step asks those above it whether they were leaves."""
    for path in ancestors(step):
        if ("step", path) not in head.rows:
            wanted["step", path] = None
        else:
            again.append(("step", path))
