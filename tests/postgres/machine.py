"""One of several machines that drive the runs of a store: `python -m tests.postgres.machine URL NUMBER LEASE_S STEPS`.

It takes any run that nobody drives, does the steps that are left, and goes on until all are finished. What it says on
stdout is for the test. While there is a file `hold` in its folder, it stops at the end of a step, before that is
committed. `unfenced` behind the rest is THE DELIBERATE BREAKAGE: it commits whether it still drives or not.
"""

from __future__ import annotations

import os
import random
import sys
import time

import leftoff
from leftoff import host
from leftoff.engine import commit
from leftoff.errors import LeaseHeld, LeftoffError
from leftoff.model.words import UNFINISHED
from leftoff.python import run_buffer
from leftoff.store import rows
from leftoff.store import server_connection as connection
from leftoff.store.base import SqlStore
from leftoff.store.postgres import PostgresStore

STEP_S = 0.02
HOLD = "hold"


def be_a_machine(number: int, lease_s: float) -> None:
    """Not to be seen from the others; leases and timeouts are those of hours, in seconds."""
    host._scope = f"machine-{number}@machine-{number}/boot-{number}/1"
    rows.LIMIT_MS = int(lease_s * 1000)
    connection.IDLE_MS = int(lease_s * 1000)
    run_buffer.IN_A_ROW = 1 << 60  # every step is committed when it ends


def take_the_fences_away() -> None:
    """The check before a commit; commits of one statement, which check it themselves, are not made."""
    commit.Guard.check = lambda *_: None  # type: ignore[method-assign]
    PostgresStore.commit = SqlStore.commit  # type: ignore[method-assign]


def drive(run: leftoff.Run, number: int, steps: int) -> None:
    """Each step leaves who did it, under which epoch, in the commit that ends it."""
    print("drives", run.id, flush=True)
    for step in range(steps):
        if run.done(f"s{step}"):
            continue
        with run.step(f"s{step}"):
            time.sleep(STEP_S)
            run.append("done", {"step": step, "machine": number, "epoch": run._buffer.epoch})
            if os.path.exists(HOLD):
                print("holds", run.id, flush=True)
            while os.path.exists(HOLD):
                time.sleep(0.01)
    run.finish()
    print("finished", run.id, flush=True)


def work(url: str, number: int, steps: int) -> bool:
    """A turn with the runs that are left; whether there were any."""
    store = leftoff.open(url)
    left = [info.id for info in store.list(status=UNFINISHED)]
    random.shuffle(left)
    for run_id in left:
        try:
            drive(store.resume(run_id, take_over=True), number, steps)
        except LeaseHeld:
            continue
        except LeftoffError as error:
            print("lost", run_id, type(error).__name__, flush=True)
            break  # what it had of the run is of no use any more
    try:
        store.close()
    except LeftoffError:
        pass
    return bool(left)


def main(url: str, number: int, lease_s: float, steps: int, broken: str = "") -> None:
    be_a_machine(number, lease_s)
    if broken:
        take_the_fences_away()
    while True:
        try:
            if not work(url, number, steps):
                break
        except LeftoffError as error:
            print("lost", "-", type(error).__name__, flush=True)
        time.sleep(0.2)
    print("over", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
