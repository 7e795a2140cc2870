"""Archived runs that the store itself keeps, for all its machines: each is whole where it was, and out of sight.

So it is a matter of one transaction, and whoever checks, copies or dumps the store has them like any other run. What
their steps printed stays, too.
"""

from __future__ import annotations

import os

from leftoff.engine.lifecycle.opening import find as find_run
from leftoff.engine.lifecycle.origin import came_back, note_leaving
from leftoff.engine.read.info import Listing, RunInfo, info
from leftoff.engine.retention.bundle_check import open_bundle
from leftoff.engine.retention.export import export, import_bundle
from leftoff.engine.retention.prune import check_removable, refuse_driven, remove_attempts
from leftoff.engine.write.head import gone
from leftoff.engine.write.unmoved import need_unmoved
from leftoff.errors import Conflict
from leftoff.store.rows import ARCHIVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.host import Process
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow


def put(
    store: Store, run_id: str, now: int, check: Callable[[RunRow], None], limits: tuple[int, int]
) -> dict[str, Any]:
    """Archive a run, unless ``check`` is against it or it went on meanwhile; how it is listed."""
    check_removable(store, run_id, now)
    row = store.read(lambda view: find_run(view, run_id))
    check(row)

    def work(tx: Tx) -> dict[str, Any]:
        need_unmoved(tx, row)
        refuse_driven(tx, row.run, run_id, now)
        about = info(tx, row, now, limits).to_json()
        tx.archive(row.run)
        return {**about, "archived": True}

    return store.write(work)


def rows(store: Store) -> list[RunRow]:
    """The runs that are archived here, latest first."""
    return store.read(lambda view: view.archived()) if store.exists() else []


def find(store: Store, run_id: str) -> RunRow | None:
    """The archived run of that id."""
    row = store.read(lambda view: view.find_run(run_id, hidden=True)) if store.exists() else None
    return row if row is not None and row.hidden == ARCHIVED else None


def pages(store: Store) -> list[dict[str, Any]]:
    """What listings show of them, and the other names of their checkpoints."""
    return store.read(_pages) if store.exists() else []


def _pages(view: View) -> list[dict[str, Any]]:
    rows, names = view.archived(), view.archived_names()
    shown = [(row, RunInfo(row, Listing(None, [row], row.updated_at, ahead=view))) for row in rows]
    return [
        {**info.to_json(), "archived": True, "names": sorted(set(names.get(row.run, ())))}
        for row, info in shown
    ]


def take_back(store: Store, run: int) -> None:
    """It is seen again; somebody may have been faster."""

    def work(tx: Tx) -> None:
        if _is_here(tx, run):
            tx.untrash(run)

    store.write(work)


def copy_out(store: Store, run: int, into: Store, now: int, driver: tuple[Process, str]) -> None:
    """The same run in another store; here it stays as it is."""
    from tempfile import TemporaryDirectory

    row = store.read(lambda view: view.run_row(run))
    if row is None:
        raise gone(str(run))
    with TemporaryDirectory(prefix="leftoff-") as folder:
        path = os.path.join(folder, "run")
        done = export(store, row, path, inside=True)
        ours = store.read(lambda view: note_leaving(view, done.row))
        bundle = open_bundle(path)
        try:
            import_bundle(into, bundle, now, driver, came_back(ours, row.run_id, bundle.head.digest))
        finally:
            bundle.close()


def discard(store: Store, run: int, seq: int, now: int) -> bool:
    """It goes into the trash; whether it was here, at that version."""

    def work(tx: Tx) -> bool:
        same = _is_at(tx, run, seq)
        if same:
            tx.trash(run, now)
        return same

    return store.write(work)


def delete(store: Store, run: int, seq: int) -> int:
    """It goes for good, if it is still archived at that version; bytes given back."""
    row = store.read(lambda view: view.run_row(run))
    if row is None:
        raise gone(str(run))

    def allowed(view: View) -> None:
        if not _is_at(view, run, seq):
            raise Conflict(
                f"Run {row.run_id} is no longer archived as it was.",
                hint="Somebody worked on it meanwhile. Nothing was removed; look again.",
            )

    return store.remove(run, allowed) + remove_attempts(store, row.run_id)


def _is_at(view: View, run: int, seq: int) -> bool:
    row = view.run_row(run)
    return row is not None and (row.hidden, row.seq) == (ARCHIVED, seq)


def _is_here(view: View, run: int) -> bool:
    row = view.run_row(run)
    return row is not None and row.hidden == ARCHIVED
