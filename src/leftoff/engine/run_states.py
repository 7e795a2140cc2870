"""The state of a run: active, archived or in the trash. Each change is one transaction.

An archived run is not listed, but all its names find it, and it can be read and forked where it is. A commit to it, or
a driver that takes its lease, makes it active again. A run in the trash is found only by `undelete`; after some days it
is removed for good. Ids are unique over all states.
"""

from __future__ import annotations

import os

from leftoff import log
from leftoff.clock import iso
from leftoff.engine.commit import Head, Seal, Terms, commit_in
from leftoff.engine.lease import held, state
from leftoff.engine.optimistic_check import need_unmoved
from leftoff.engine.retention_policy import trash_age
from leftoff.engine.store_sweep import attempts_folder, disk_use, remove_attempts, sweep_store
from leftoff.errors import Ambiguous, Conflict, LeaseHeld, LeftoffError, NotFound
from leftoff.files import SWEPT, is_due, mark_done
from leftoff.hints import Any, Iterable
from leftoff.host import ALIVE, UNKNOWN
from leftoff.model.changes import ChangeSet
from leftoff.model.ids import parse_ref, shown_step
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import RunRow, Trashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.project import Project


def refuse_active(view: View, run: int, run_id: str, now: int) -> None:
    """Raise ``LeaseHeld`` if another process drives a run, or one of its steps still runs."""
    lease = view.lease(run)
    if lease is not None and state(lease, now) in (ALIVE, UNKNOWN):
        raise held(run_id, lease, now)
    for attempt in view.attempts(run):
        process = attempt.process
        if attempt.ended_at is None and process is not None and process.state() == ALIVE:
            raise LeaseHeld(
                f"Step {shown_step(attempt.step)} of run {run_id} is still running ({process}).",
                hint=f"`leftoff stop {run_id}` ends it.",
            )


def put_in_archive(store: Store, row: RunRow, now: int) -> None:
    """Archive a run. Raise ``Moved`` if it has changed since ``row`` was read, ``LeaseHeld`` if it is being driven."""

    def work(tx: Tx) -> None:
        need_unmoved(tx, row)
        refuse_active(tx, row.run, row.run_id, now)
        tx.archive(row.run)

    store.write(work)


def trash_run(store: Store, row: RunRow, now: int) -> None:
    """Move a run to the trash, under the same conditions as ``put_in_archive``."""

    def work(tx: Tx) -> None:
        need_unmoved(tx, row)
        refuse_active(tx, row.run, row.run_id, now)
        tx.trash(row.run, now)

    store.write(work)


def in_trash(store: Store) -> list[Trashed]:
    """Return the runs in the trash, the last one first."""
    return store.read(lambda view: view.trashed()) if store.exists() else []


def trashed_to_json(each: Trashed) -> dict[str, Any]:
    row = each.row
    about = {"run_id": row.run_id, "workflow": row.workflow, "title": row.title, "status": row.status}
    return {**about, "removed_at": iso(each.at)}


def bring_back(store: Store, name: str, now: int) -> str:
    """Bring a run back from the trash or the archive, named by its id, workflow, title or issue. Return its id.

    This commits a checkpoint, so that retention counts the run's age from now on.
    """

    def work(tx: Tx) -> str:
        row = _unlisted(tx, name)
        note = "brought back from the archive" if row.is_archived else "brought back from the trash"
        tx.activate(row.run)
        commit_in(tx, Head.of(row), ChangeSet(), Terms(now, seal=Seal("manual", note=note, asked=True)))
        return str(row.run_id)

    parse_ref(name)  # an empty name is wrong usage
    if not store.exists():
        raise NotFound(f"There is no run {name} in the trash or the archive.")
    return store.write(work)


def _unlisted(view: View, name: str) -> RunRow:
    """Return the archived or trashed run of that name. An id wins over every other name."""

    def is_called(row: RunRow) -> bool:
        if name.startswith("#"):
            return bool(row.issue == name[1:])
        known = (row.workflow, row.title)
        return any(isinstance(own, str) and own.casefold() == name.casefold() for own in known)

    rows = [*(each.row for each in view.trashed()), *view.archived()]
    found = [row for row in rows if row.run_id == name] or [row for row in rows if is_called(row)]
    if len(found) > 1:
        names = ", ".join(row.run_id for row in found)
        told = f"{name} names several runs that were removed or archived: {names}."
        raise Ambiguous(told, hint="Give the id of one of them.")
    if found:
        return found[0]
    if view.find_run(name) is not None:
        told = f"Run {name} is neither in the trash nor archived: it is there."
        raise NotFound(told, hint=f"leftoff show {name}")
    raise NotFound(
        f"There is no run {name} in the trash or the archive. A run that was in the trash for too long is gone for "
        "good.",
        hint="`leftoff undelete` lists what is in the trash, `leftoff ls --all` what is archived.",
    )


# -- emptying the trash


def due_trash(store: Store, now: int, age: int | None) -> list[Trashed]:
    """Return what has been in the trash for longer than ``age``. Without an age, nothing is ever due."""
    return [each for each in in_trash(store) if now - each.at > age] if age is not None else []


def remove_for_good(store: Store, each: Trashed) -> int:
    """Remove a run for good. Return the bytes given back. Raise ``Conflict`` if it was brought back meanwhile."""

    def allowed(view: View) -> None:
        if not any(there.row.run == each.row.run and there.n == each.n for there in view.trashed()):
            raise Conflict(f"Run {each.row.run_id} is no longer in the trash.")

    return store.remove(each.row.run, allowed) + remove_attempts(store, each.row.run_id)


def removal_size(store: Store, rows: Iterable[RunRow]) -> int:
    """Return about how many bytes the removal of these runs gives back."""
    rows = list(rows)
    runs = [row.run for row in rows]
    inside = store.read(lambda view: view.size(*runs, alone=True)) if runs else 0
    return inside + sum(disk_use(attempts_folder(store, row.run_id)) for row in rows)


def tidy_store(project: Project) -> None:
    """Remove what is due: blobs after their grace period, and once a day the trash. A failure waits until tomorrow."""
    store, now, stamp = project.store, project.now, os.path.join(project.store_folder, SWEPT)
    try:
        if not is_due(stamp, now):
            store.sweep(thorough=False)
            return
        mark_done(stamp, now)
        for each in due_trash(store, now, trash_age(project.settings.section("retention"))):
            try:
                remove_for_good(store, each)
            except (Conflict, NotFound):
                pass  # another process was faster
        sweep_store(store, thorough=False)
    except (LeftoffError, OSError) as error:
        log.debug("did not sweep: %s", error)
