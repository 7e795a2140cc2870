"""Runs that come from elsewhere: where from, and whether the user agreed that their commands run.

An imported run has a source, a fact next to it in the store that no bundle takes along. A fork of it has the same
source. The user is asked once per definition before its commands run: the digest of the definition that was agreed to
is stored next to the run. If another definition would run, the user is asked again.
"""

from __future__ import annotations

from leftoff.engine.quoting import FROM, source_of
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow


def _agreed_fact(run: int) -> str:
    return f"agreed {run}"


def agreed(view: View, row: RunRow) -> str | None:
    """Return the digest of the definition that the user agreed to run."""
    return view.fact(_agreed_fact(row.run))


def may_run(store: SqlStore, row: RunRow, digest: str | None = None) -> bool:
    """Return whether the commands of a run need no question. ``digest``: those of this definition."""

    def look(view: View) -> bool:
        if not source_of(view, row):
            return True
        found = agreed(view, row)
        return found is not None and digest in (None, found)

    return store.read(look)


def agree(store: SqlStore, row: RunRow, digest: str) -> None:
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
