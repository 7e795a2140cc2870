"""Any system call of a driver may be the last thing that it does: the next one goes on, and nothing runs twice."""

from __future__ import annotations

import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.crash import faults, strace
from tests.crash.flows import Flow, definition, verify
from tests.crash.verdict import Violation, check

STEPS, WIDTH, SECONDS = 6, 2, 0.1
# What a driver does that others see: records, their syncs, messages to shims, folders of attempts, what it tidies up.
CALLS = ["pwrite64", "fdatasync", "sendto", "sendmsg", "mkdir", "unlink"]
SAMPLE = [("sendto", 3), ("fdatasync", 4), ("pwrite64", 11), ("unlink", 1)]


def flow_in(folder: Path) -> Flow:
    folder.mkdir(parents=True)
    return Flow(folder, definition(STEPS, SECONDS, width=WIDTH), 0)


def traced(flow: Flow, *expressions: str) -> subprocess.Popen[bytes]:
    """A driver under strace: only its own thread, not what it starts."""
    strace.require()
    options = [word for expression in expressions for word in ("-e", expression)]
    flow.under = ["strace", "-o", str(flow.folder / "strace.log"), *options]
    try:
        return flow.go()
    finally:
        flow.under = []


def one_death(folder: Path, name: str, when: int, *, again: bool) -> bool:
    """Kill the first driver at one call, or the one that resumes it; whether there was such a call."""
    flow = flow_in(folder)
    try:
        if again:
            first = flow.go()
            while first.poll() is None and len(flow.lines("starts")) < WIDTH + 1:
                time.sleep(0.002)
            flow.kill(first, children=False)
        driver = traced(flow, strace.watch([name]), strace.fault(name, "signal=KILL", when))
        _, said = driver.communicate(timeout=120)
        check(
            driver.returncode in (0, -signal.SIGKILL), f"it ended with {driver.returncode}: {said.decode()}"
        )
        faults.made("kills", driver.returncode != 0)
        flow.kills += driver.returncode != 0
        flow.until_done(0, 0.0)
        verify(flow)
    except Violation as violation:
        raise Violation(f"killed at call {when} of {name}: {violation}") from violation
    finally:
        flow.close()
    return driver.returncode != 0


@pytest.mark.parametrize(("name", "when"), SAMPLE)
def test_death_at_a_call(tmp_path: Path, name: str, when: int) -> None:
    """A sample of the full run."""
    assert one_death(tmp_path / "one", name, when, again=False)


@pytest.mark.crash_full
@pytest.mark.parametrize("again", [False, True], ids=["first driver", "second driver"])
@pytest.mark.parametrize("name", CALLS)
def test_death_at_every_call(tmp_path: Path, name: str, again: bool) -> None:
    """Each in turn, until a driver no longer makes so many."""
    hits, when = 0, 1
    with ThreadPoolExecutor(2) as pool:
        while True:
            tries = range(when, when + 4)
            found = list(pool.map(lambda n: one_death(tmp_path / str(n), name, n, again=again), tries))
            hits, when = hits + sum(found), when + 4
            if not all(found):
                break
    print(f"\nkilled at {hits} calls of {name} ({'second' if again else 'first'} driver)")
    assert hits or again
