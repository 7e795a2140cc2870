"""Two drivers that want to resume one run at once, stopped and woken at any moment: one wins, the other is told who."""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.verify.situations import Place
from tests.workflow.driving import PATIENCE, Driver, until

# A step that must never run twice at once, and writes down when it ran.
STEP = r"""
exec 9>lock
flock -n 9 || { echo overlap >> overlaps; exit 9; }
echo "begin $LEFTOFF_ATTEMPT" >> intervals
until test -e gate; do sleep 0.02; done
echo "end $LEFTOFF_ATTEMPT" >> intervals
"""
FLOW = """
name: race
steps:
  - {id: a, run: sh step.sh}
  - {id: b, run: sh step.sh, needs: [a]}
"""


# Deliberately broken: whoever wants a lease gets it, and nobody looks at epochs.
BROKEN = """
import sys
from leftoff.engine import commit
from leftoff.engine import lease
from leftoff.engine import run_checks as own
lease.state = lambda lease, now: "free"
own.stands_in_the_way = lease.stands_in_the_way = lambda lease, now, session=None: False
commit.Guard.check = lambda self, tx, head, epoch: None
from leftoff.cli.dispatch import dispatch
sys.exit(dispatch(sys.argv[1:]))
"""


def race(place: Place, seed: int, patience: float = PATIENCE, **more: Any) -> None:
    """A dead run; two drivers; pauses injected into both; then the gate opens."""
    rng = random.Random(seed)
    first = place.drive("run", "flow.yaml", "--run-id", f"r{seed}")
    first.until("step_start", step="a")
    first.kill()
    drivers = [place.drive("resume", f"r{seed}", **more) for _ in range(2)]
    for _ in range(3):
        for driver in drivers:
            if rng.random() < 0.7:
                pause(driver, rng.uniform(0, 0.05))
    end = time.monotonic() + patience
    while time.monotonic() < end and all(driver.process.poll() is None for driver in drivers):
        time.sleep(0.02)  # for the end of the loser
    (place.folder / "gate").touch()
    codes = sorted(driver.process.wait(PATIENCE) for driver in drivers)
    (place.folder / "gate").unlink()
    told = "\n".join(map(str, drivers))
    assert [0, 5] == codes, told
    loser = next(driver for driver in drivers if driver.process.returncode == 5)
    winner = next(driver for driver in drivers if driver.process.returncode == 0)
    assert f"driven by leftoff resume (process {winner.pid} " in loser.said + str(loser.events), told
    assert "completed" == place.show(f"r{seed}")["status"]
    assert one_driver_per_epoch(place, f"r{seed}")


def pause(driver: Driver, seconds: float) -> None:
    """SIGSTOP, then SIGCONT."""
    if driver.process.poll() is None:
        driver.signal(signal.SIGSTOP)
        time.sleep(seconds)
        driver.signal(signal.SIGCONT)


def one_driver_per_epoch(place: Place, run: str) -> bool:
    """Epochs never go back, and a checkpoint of each has one driver: two that won would each have completed b."""
    from leftoff.store.sqlite import SqliteStore

    store = SqliteStore(str(place.folder / ".leftoff"))
    row = store.read(lambda view: view.find_run(run))
    assert row is not None
    versions = store.read(lambda view: view.versions(row.run, sealed=False))
    store.close()
    epochs = [version.epoch for version in sorted(versions, key=lambda version: version.seq) if version.epoch]
    ends = [version for version in versions if version.trigger == "step_complete"]
    return epochs == sorted(epochs) and ["a", "b"] == sorted(str(version.step) for version in ends)


def races(place: Place, number: int) -> None:
    place.write(FLOW)
    place.file("step.sh", STEP)
    place.commit("flow")
    for seed in range(number):
        race(place, seed)
    assert not (place.folder / "overlaps").exists()
    lines = place.lines("intervals")
    assert all(
        (begin.split()[0], end.split()[0], begin.split()[1]) == ("begin", "end", end.split()[1])
        for begin, end in zip(lines[::2], lines[1::2], strict=True)
    ), lines


def test_a_few_races(place: Place) -> None:
    """A sample of what the full matrix does 200 times: one winner, one told, no step twice at once."""
    races(place, 10)


def test_a_broken_lease_is_noticed(place: Place) -> None:
    """The race finds out where two can drive one run: without leases and epochs it does not pass."""
    place.write(FLOW)
    place.file("step.sh", STEP)
    place.commit("flow")
    with pytest.raises(AssertionError):
        race(place, 0, patience=3, program=[sys.executable, "-c", BROKEN])
        assert not (place.folder / "overlaps").exists()
    place.file("gate")
    until(lambda: not place.processes(), "the end of every step")


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_races(place: Place) -> None:
    """Never two that commit under one epoch, never two intervals of one step that overlap, in 200 races."""
    races(place, 200)


def test_a_driver_that_wakes_is_refused(tmp_path: Path) -> None:
    """An old driver that wakes after a take-over is refused at its next beat or commit, and ends its children.

    Where those had been followed by the new one, they have failed, and the next resume does them again: never two.
    """
    place = Place(tmp_path)
    (tmp_path / "leftoff.toml").write_text('[heartbeat]\ninterval = "1s"\n')
    place.write(FLOW)
    place.file("step.sh", STEP)
    place.commit("flow")
    old = place.run()
    old.until("step_start", step="a")
    old.signal(signal.SIGSTOP)
    place.tamper("UPDATE lease SET scope = 'away@away/x/1', beat = beat - 3600000, since = since - 3600000")
    new = place.resume("--yes")
    try:
        new.until("start")
        old.signal(signal.SIGCONT)
        assert 5 == old.end()
        new.end(1)
        (place.folder / "gate").touch()
        place.resume().end(0)
    finally:
        assert [] == place.close()
    assert not (place.folder / "overlaps").exists()
