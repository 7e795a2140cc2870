"""Ending what runs of a run, from outside of its driver: the driver itself, or what a dead one left running."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from leftoff.engine.lease import describe, state
from leftoff.errors import LeaseHeld, StoreUnavailable
from leftoff.host import ALIVE
from leftoff.workflow.processes import groups
from leftoff.workflow.stage import GRACE

if TYPE_CHECKING:
    from leftoff.host import Process
    from leftoff.store.base import Store
    from leftoff.store.rows import Lease, RunRow

LOOK = 0.02
PATIENCE = 15.0  # beyond the grace that the driver gives its steps


def stop_driver(store: Store, row: RunRow, now: int) -> bool:
    """Ask a live driver to stop, and wait until it has. False where there is none.

    A driver that cannot be seen from here, and an agent's session, are not ours to stop.
    """
    lease = store.read(lambda view: view.lease(row.run))
    if lease is None or not lease.held:
        return False
    found = state(lease, now)
    if found != ALIVE and lease.kind == "process":
        if found == "unknown":
            raise LeaseHeld(
                f"Run {row.run_id} is driven by {describe(lease)}, which cannot be seen from here.",
                hint="Stop it there: `leftoff stop` on that machine, or in that container.",
            )
        return False
    if lease.kind != "process" or lease.process is None:
        return False
    if lease.process.pid == os.getpid():
        return False
    _ask(lease.process, signal.SIGTERM)
    _await(store, row, lease)
    return True


def _ask(process: Process, number: int) -> None:
    """Signal a process, never another one that has its pid by now."""
    try:
        fd = groups.handle(process)
        if fd is None:
            if process.state() == ALIVE:
                os.kill(process.pid, number)
            return
        try:
            signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)
    except PermissionError:
        raise StoreUnavailable(
            f"{process} belongs to another user, and cannot be told to stop.", hint="Stop it as that user."
        ) from None
    except ProcessLookupError:
        pass  # it is gone already


def _await(store: Store, row: RunRow, before: Lease) -> None:
    assert before.process is not None
    deadline = time.monotonic() + GRACE + PATIENCE
    while time.monotonic() < deadline:
        lease = store.read(lambda view: view.lease(row.run))
        if lease is None or not lease.held or lease.epoch != before.epoch:
            return
        if before.process.state() != ALIVE:
            return
        time.sleep(LOOK)
    raise LeaseHeld(
        f"Run {row.run_id} was asked to stop, and {describe(before)} has not stopped yet.",
        hint="Look at what it does (`leftoff logs -f`), then try again; kill -9 is safe, if need be.",
    )


def end_attempts(store: Store, row: RunRow, now: int, grace: float = GRACE) -> list[str]:
    """End every process of this run's steps that lives without a driver; the steps."""
    attempts = store.read(lambda view: view.attempts(row.run))
    alive = {
        a.step: a.process
        for a in attempts
        if a.ended_at is None and a.process is not None and groups.alive(a.process)
    }
    end_processes(list(alive.values()), grace)
    return list(alive)


def end_processes(processes: list[Process], grace: float) -> None:
    """Ask them to end; kill those that have not after the grace."""
    alive = processes
    for process in alive:
        groups.terminate(process)
    deadline = time.monotonic() + grace
    while alive and time.monotonic() < deadline:
        time.sleep(LOOK)
        alive = [process for process in alive if groups.alive(process)]
    for process in alive:
        groups.kill(process)
