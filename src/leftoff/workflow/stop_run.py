"""Ending what runs of a run, from outside of its driver: the driver itself, or what a dead one left running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from leftoff.engine.commit import Seal, Terms, report
from leftoff.engine.find import need_run
from leftoff.engine.git import git_head, remember_git
from leftoff.engine.lease import free, held, refuse_driven, release, state, take
from leftoff.engine.opening import status_changes
from leftoff.engine.run_reader import definition_of
from leftoff.engine.step_lifecycle import put_back, steps_in
from leftoff.errors import LeaseHeld, NotFound
from leftoff.host import ALIVE, Process, this_process
from leftoff.model.changes import ChangeSet, Scrubber
from leftoff.model.words import FINISHED
from leftoff.store.base import SqlStore, Tx
from leftoff.store.rows import Lease, RunRow
from leftoff.workflow import process_groups as groups
from leftoff.workflow.attempt_folder import GRACE_S as GRACE

LOOK = 0.02
PATIENCE = 15.0  # beyond the grace that the driver gives its steps


def stop_driver(store: SqlStore, row: RunRow, now: int, grace: float = GRACE) -> bool:
    """Ask a live driver to stop, and wait until it has. False where there is none.

    A driver that cannot be seen from here, and an agent's session, are not ours to stop.
    """
    lease = store.read(lambda view: view.lease(row.run))
    if lease is None or not lease.held or lease.kind != "process" or lease.process is None:
        return False
    found = state(lease, now)
    if found == "unknown":
        raise held(row.run_id, lease, now)
    if found != ALIVE or lease.process.pid == os.getpid():
        return False
    if _drives(store, row, lease):
        groups.send_signal(lease.process, signal.SIGTERM)
    _await(store, row, lease, grace)
    return True


def _drives(store: SqlStore, row: RunRow, before: Lease) -> bool:
    """Whether who drove a run still does, under the same epoch."""
    lease = store.read(lambda view: view.lease(row.run))
    return lease is not None and lease.held and lease.epoch == before.epoch


def _await(store: SqlStore, row: RunRow, before: Lease, grace: float) -> None:
    assert before.process is not None
    deadline = time.monotonic() + grace + PATIENCE
    while time.monotonic() < deadline:
        if not _drives(store, row, before) or before.process.state() != ALIVE:
            return
        time.sleep(LOOK)
    raise LeaseHeld(
        f"Run {row.run_id} was asked to stop, and {before} has not stopped yet.",
        hint="Look at what it does (`leftoff logs -f`), then try again; kill -9 is safe, if need be.",
    )


def left_running(store: SqlStore, row: RunRow, folder: str) -> dict[str, list[Process]]:
    """Return the processes of this run's steps that live without a driver, by step."""
    alive: dict[str, list[Process]] = {}
    for attempt in store.read(lambda view: view.attempts(row.run)):
        if attempt.ended_at is None and attempt.process is not None and groups.lives(attempt, folder):
            alive.setdefault(attempt.step, []).append(attempt.process)
    return alive


def end_attempts(store: SqlStore, row: RunRow, folder: str, now: int, grace: float = GRACE) -> list[str]:
    """End what lives of this run's steps without a driver; the steps. ``LeaseHeld`` where there is one by now: they are
    its own. Nobody becomes the driver before they have ended."""
    if not left_running(store, row, folder):
        return []
    with _alone(store, row, now):
        return _end(store, row, folder, grace)


def _end(store: SqlStore, row: RunRow, folder: str, grace: float) -> list[str]:
    alive = left_running(store, row, folder)
    groups.end_processes([process for found in alive.values() for process in found], grace)
    return list(alive)


@contextmanager
def _alone(store: SqlStore, row: RunRow, now: int) -> Iterator[None]:
    """Nobody drives a run, and nobody will meanwhile: ``LeaseHeld`` where somebody does."""
    epoch = store.write(lambda tx: _hold(tx, row, now))
    try:
        yield
    finally:
        if epoch is not None:
            store.write(lambda tx: free(tx, row.run, epoch))


def _hold(tx: Tx, row: RunRow, now: int) -> int | None:
    """The lease of a run that nobody drives, in place of a dead driver's; ``None`` where our own session has it."""
    need_run(tx, row.run, row.run_id)
    lease = refuse_driven(tx, row.run, row.run_id, now, None)
    if lease is not None and lease.is_at_work(now):
        return None
    return take(tx, row.run, row.run_id, (this_process(), "who ends its steps"), now, take_over=True)


def forsake_attempts(store: SqlStore, row: RunRow, folder: str, now: int, grace: float = GRACE) -> list[str]:
    """Nobody will go on with this run: end what lives of it, and keep of its attempts what they printed.

    What a step had set may hold a secret: it is masked when it is taken in, and nobody takes it in any more. Where
    somebody goes on with it after all, its attempts are theirs.
    """
    if not store.read(lambda view: view.attempts(row.run)):
        return []
    try:
        with _alone(store, row, now):
            ended = _end(store, row, folder, grace)
            for attempt in store.read(lambda view: view.attempts(row.run)):
                groups.attempt_folder_of(attempt, folder).tidy()
    except (LeaseHeld, NotFound):
        return []
    return ended


def pause(
    store: SqlStore, row: RunRow, at: int, *, project: str, scrubber: Scrubber | None, note: str
) -> None:
    """Nobody drives the run any more: it is paused, what a runner had in flight is to be done, a checkpoint says so.

    The attempts stay open: how they ended is for whoever resumes to find out.
    """
    of_runner, head = definition_of(store, row) is not None, git_head(project)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        lease = refuse_driven(tx, row.run, row.run_id, at, None)
        if row.status in FINISHED:
            return None
        opened = {attempt.step for attempt in tx.attempts(row.run) if attempt.ended_at is None}
        steps = steps_in(store, tx, row, changes, at)
        for path, record in steps.all().items() if of_runner else ():
            if record["status"] == "running":
                steps.move(path, put_back(record, steps.now if path in opened else None))
        if row.status == "running":
            status_changes(changes, "paused", at)
        remember_git(head, row, changes)
        release(tx, row.run, lease)
        return Seal("session_end", note=note)

    report(store, lambda view: need_run(view, row.run, row.run_id), make, Terms(at), scrubber=scrubber)
