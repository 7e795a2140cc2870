"""Any system call of a commit may fail, or be the last thing the process does."""

from __future__ import annotations

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.crash import faults, strace
from tests.crash.harness import Heard, program
from tests.crash.settings import Settings
from tests.crash.verdict import Violation, check, verify, verify_alive

OPERATIONS = 12  # one of every kind, see model.MIXED
ERRORS = ["error=ENOSPC", "error=EIO", "signal=KILL"]
CORE = {"pwrite64", "fdatasync", "fsync", "openat"}
SAMPLE = [
    ("pwrite64", "error=ENOSPC"),
    ("pwrite64", "signal=KILL"),
    ("fdatasync", "error=EIO"),
    ("fdatasync", "signal=KILL"),
    ("fsync", "error=EIO"),
    ("write", "error=ENOSPC"),
    ("openat", "error=EIO"),
    ("rename", "signal=KILL"),
]


def workload(folder: Path, broken: str = "") -> Settings:
    """Open a store, one operation of every kind, close; rehearsed in another store first."""
    (folder / "rehearsal").mkdir(parents=True)
    return Settings(
        store=str(folder / ".leftoff"),
        files=str(folder),
        count=OPERATIONS,
        warm=str(folder / "rehearsal" / ".leftoff"),
        broken=broken,
    )


def one_fault(folder: Path, name: str, what: str, when: int, broken: str = "") -> bool:
    """Fail or kill at one call; then everything acknowledged is there, and the store goes on.

    Whether there was such a call: how many there are varies a little with the moment.
    """
    settings = workload(folder, broken)
    heard = Heard()
    where = f"{what} at call {when} of {name}"
    with (
        program(settings, heard) as running,
        strace.attached(
            running.pid, folder / "strace.log", strace.watch([name]), strace.fault(name, what, when)
        ),
    ):
        running.go()
        code = running.finish()
    check(not heard.fatal, f"{where}: {heard.failures[-1:]} {heard.fatal}")
    if broken == "" and what != "signal=KILL":
        check(heard.done and code == 0, f"{where}: the program ended with {code}, {heard.failures}")
    check(what != "signal=KILL" or code in (0, -signal.SIGKILL), f"{where}: ended with {code}")
    try:
        verify(folder / ".leftoff", heard, settings.plan)
        verify_alive(folder / ".leftoff")
    except Violation as violation:
        raise Violation(f"{where}: {violation}; failures: {heard.failures}") from violation
    hit = code == -signal.SIGKILL or "(INJECTED)" in (folder / "strace.log").read_text(errors="replace")
    faults.made("kills" if what == "signal=KILL" else "failed system calls", hit)
    shutil.rmtree(folder)
    return hit


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often the workload makes each call when nothing fails."""
    folder = tmp_path_factory.mktemp("counted")
    heard = Heard()
    log = folder / "strace.log"
    with (
        program(workload(folder), heard) as running,
        strace.attached(running.pid, log, strace.watch(strace.CALLS)),
    ):
        running.go()
        code = running.finish()
    assert heard.done and code == 0 and heard.acknowledged == OPERATIONS, (heard, code)
    calls = strace.count(log)
    assert calls.keys() >= CORE, f"the workload never calls {CORE - calls.keys()}: what is tested here?"
    return calls


@pytest.mark.parametrize("share", [0.25, 0.75])
@pytest.mark.parametrize(("name", "what"), SAMPLE)
def test_a_fault_loses_nothing(
    tmp_path: Path, counted: dict[str, int], name: str, what: str, share: float
) -> None:
    """A sample of the matrix below."""
    when = max(1, int(counted.get(name, 0) * share))
    assert one_fault(tmp_path / "fault", name, what, when), f"{name} was never called {when} times"


@pytest.mark.crash_full
@pytest.mark.parametrize("what", ERRORS)
@pytest.mark.parametrize("name", strace.CALLS)
def test_no_fault_loses_anything(tmp_path: Path, counted: dict[str, int], name: str, what: str) -> None:
    """Every call of the workload in turn fails with each error, and is the last before a kill."""

    def at(when: int) -> bool | Violation:
        try:
            return one_fault(tmp_path / str(when), name, what, when)
        except Violation as violation:
            return violation

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(at, range(1, counted.get(name, 0) + 1)))
    violations = [str(one) for one in found if isinstance(one, Violation)]
    assert not violations, f"{len(violations)} of {len(found)} faults:\n" + "\n".join(violations)
    assert found.count(False) <= len(found) // 10, f"too few calls of {name} could be hit: {found}"


def test_an_acknowledged_failure_is_caught(tmp_path: Path, counted: dict[str, int]) -> None:
    """The deliberately broken variant: whoever takes a failed commit for a durable one is found out."""
    with pytest.raises(Violation, match="was acknowledged"):
        for number, when in enumerate(range(counted["pwrite64"] // 2, counted["pwrite64"])):
            one_fault(tmp_path / str(number), "pwrite64", "error=ENOSPC", when, broken="swallow")
