"""Runs that were imported: their commands run only after a person has seen them.

An imported run has a source, a fact beside it in the store that no bundle takes along. A fork of it has the same
source. The user is asked once per definition: the digest of the definition that was agreed to is stored beside the run.
If another definition would run, the user is asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leftoff.engine.read.quoting import FROM, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    #: called inside the transaction that completes an imported run, with its number and its id
    Mark = Callable[[Tx, int, str], None]

__all__ = ["agree", "agreed", "copy_source", "disagree", "may_run", "source_of"]

_AGREED = "agreed"  # of a fact beside a run: the digest of the definition that a person agreed to run


def agreed(view: View, row: RunRow) -> str | None:
    """Return the digest of the definition that a person agreed to run."""
    return view.fact(_fact(row))


def may_run(store: Store, row: RunRow, digest: str | None = None) -> bool:
    """Return whether the commands of a run need no question. ``digest``: those of this definition."""

    def look(view: View) -> bool:
        if not source_of(view, row):
            return True
        found = agreed(view, row)
        return found is not None and digest in (None, found)

    return store.read(look)


def agree(store: Store, row: RunRow, digest: str) -> None:
    """Store that a person saw what an imported run would run, and agreed."""
    store.write(lambda tx: tx.put_fact(_fact(row), digest))


def disagree(tx: Tx, row: RunRow) -> None:
    """Forget that the user agreed."""
    tx.put_fact(_fact(row), None)


def copy_source(tx: Tx, row: RunRow, fork: int) -> None:
    """Give the fork of an imported run the same source, and what the user agreed to."""
    imported = row.card.get("imported")
    name = tx.fact(f"{FROM} {row.run}") or (imported.get("path") if isinstance(imported, dict) else None)
    if name:
        tx.put_fact(f"{FROM} {fork}", str(name))
        tx.put_fact(f"{_AGREED} {fork}", agreed(tx, row))


def _fact(row: RunRow) -> str:
    return f"{_AGREED} {row.run}"
