"""Who drives a run, with real processes: the living are not pushed aside, the dead are followed and fenced off."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine import lease
from leftoff.engine.commit import Guard, Head, Terms, commit
from leftoff.engine.opening import Opening, open_run, start_new_run
from leftoff.errors import LeaseHeld, StaleEpoch
from leftoff.host import Process, scope, this_process
from leftoff.model.changes import ChangeSet
from leftoff.store.rows import Holder
from leftoff.store.sqlite import SqliteStore
from leftoff.testing import FakeClock
from tests.store.processes import Child, child

MINUTE = 60_000
DRIVES = """
run = store.read(lambda view: view.find_run("run-1")).run
epoch = store.write(lambda tx: take(tx, run, "run-1", (this_process(), "driver.py"), 1770000000000))
say(epoch)
hear()
"""
ME = (this_process(), "test")


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(store_path))
    yield store
    store.close()


@pytest.fixture
def head(store: SqliteStore) -> Head:
    return start_new_run(store, Opening("work", run_id="run-1"), FakeClock().now())[0]


def drive(store: SqliteStore, clock: FakeClock | None = None, **more: Any) -> int:
    """Open the run as its driver; the epoch."""
    epoch = open_run(store, "run-1", (clock or FakeClock()).now(), driver=ME, **more)[1]
    assert epoch is not None
    return epoch


def put(name: str) -> ChangeSet:
    changes = ChangeSet()
    changes.put("variable", name, 1)
    return changes


def driven(head: Head, store: SqliteStore) -> Child:
    """A process that drives the run, under epoch 1."""
    started = Child(DRIVES, store.folder)
    assert "1" == started.hear()
    return started


@pytest.fixture
def driver(head: Head, store: SqliteStore) -> Iterator[Child]:
    each = driven(head, store)
    yield each
    each.close()


def test_live_driver_is_told(driver: Child, store: SqliteStore) -> None:
    """The refusal says who drives the run, where, and since when, and that waiting may help."""
    with pytest.raises(LeaseHeld) as caught:
        drive(store)
    host = os.uname().nodename
    expected = (
        f"Run run-1 is driven by driver.py (process {driver.pid} on {host}), since 2026-02-02T02:40:00Z."
    )
    assert expected == caught.value.message
    assert caught.value.retry
    assert caught.value.hint


def test_live_driver_does_not_expire(driver: Child, store: SqliteStore) -> None:
    """A process that lives on this machine keeps its lease however long it is silent, even while it is stopped."""
    os.kill(driver.pid, signal.SIGSTOP)
    clock = FakeClock()
    clock.advance(24 * 60 * MINUTE)
    for take_over in (False, True):
        with pytest.raises(LeaseHeld):
            drive(store, clock, take_over=take_over)


def test_dead_driver_is_followed(driver: Child, store: SqliteStore) -> None:
    """A driver that was killed is followed at once, under the next epoch, by whoever comes."""
    driver.kill()
    assert 2 == drive(store)
    assert 2 == drive(store)  # the same process again


def test_unreaped_driver_is_dead(driver: Child, store: SqliteStore) -> None:
    """A zombie drives nothing."""
    os.kill(driver.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while Path(f"/proc/{driver.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.001)
    assert 2 == drive(store)


def test_old_driver_is_fenced_off(driver: Child, store: SqliteStore, head: Head) -> None:
    """What a driver commits after it was followed is refused inside the transaction, and changes nothing."""
    driver.kill()
    commit(store, head, put("before"), Terms(0, Guard(1)))
    assert 2 == drive(store)
    with pytest.raises(StaleEpoch, match="epoch 2") as caught:
        commit(store, head, put("after"), Terms(0, Guard(1)))
    assert not caught.value.retry
    commit(store, head, put("mine"), Terms(0, Guard(2)))
    names = store.read(lambda view: [record.key for record in view.records(head.run, "variable")])
    assert ["before", "mine"] == names


def test_old_driver_cannot_beat(driver: Child, store: SqliteStore, head: Head) -> None:
    """A driver that was followed learns it by its next beat."""
    driver.kill()
    drive(store)
    with pytest.raises(StaleEpoch):
        lease.renew_lease(store, head.run, "run-1", 1, 0)


def test_two_cannot_both_follow(driver: Child, store: SqliteStore) -> None:
    """Of two that follow a dead driver one gets the lease, and the other is told of it."""
    driver.kill()
    second = DRIVES.replace("say(epoch)", "say(epoch, os.getpid())")
    with child(second, store.folder) as other:
        epoch, pid = other.hear().split()
        assert (2, other.pid) == (int(epoch), int(pid))
        with pytest.raises(LeaseHeld, match=str(other.pid)):
            drive(store)


def test_reused_pid_is_another_process(store: SqliteStore, head: Head) -> None:
    """A process that has the pid of a dead driver, and not its start time, is not that driver."""
    past = Process(scope(), os.getppid(), "1")
    store.write(lambda tx: tx.put_lease(head.run, 4, Holder("process", past, None, "old", 0)))
    assert 5 == drive(store)


def test_earlier_boot_is_gone(store: SqliteStore, head: Head) -> None:
    """No process of this machine outlives a reboot."""
    machine, _, space = scope().split("/")
    past = Process(f"{machine}/another-boot/{space}", os.getpid(), this_process().started)
    store.write(lambda tx: tx.put_lease(head.run, 4, Holder("process", past, None, "old", 0)))
    assert 5 == drive(store)


def test_another_machine_of_the_same_name(store: SqliteStore, head: Head) -> None:
    """Machines of one image may have one name and one id. A driver that was heard of while this one ran is not of an
    earlier boot of it."""
    machine, _, space = scope().split("/")
    twin = Process(f"{machine}/another-boot/{space}", os.getpid(), this_process().started)
    heard = FakeClock().now() - 1
    store.write(lambda tx: tx.put_lease(head.run, 4, Holder("process", twin, None, "twin", heard)))
    with pytest.raises(LeaseHeld, match="cannot be seen from here"):
        drive(store)


@pytest.mark.parametrize("unseen", ["elsewhere@host-b/boot/1", "{machine}/{boot}/another-namespace"])
def test_unseen_driver(store: SqliteStore, head: Head, unseen: str) -> None:
    """A driver on another machine or in a container holds its lease while it beats; silent for over ten minutes,
    a person may take over, and nobody does so by accident."""
    machine, boot, _ = scope().split("/")
    far = Process(unseen.format(machine=machine, boot=boot), 1, "1")
    clock = FakeClock()
    store.write(lambda tx: tx.put_lease(head.run, 7, Holder("process", far, None, "far", clock.now())))
    clock.advance(8 * MINUTE)
    store.write(lambda tx: tx.beat(head.run, 7, clock.now()))
    clock.advance(10 * MINUTE)
    for take_over in (False, True):
        with pytest.raises(LeaseHeld, match="taken over in 1 min"):
            drive(store, clock, take_over=take_over)
    clock.advance(1)
    with pytest.raises(LeaseHeld, match="take_over=True"):
        drive(store, clock)
    assert 8 == drive(store, clock, take_over=True)
