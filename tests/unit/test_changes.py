"""What happens in a project is told as it happens: commits, drivers that die, runs that go quiet."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.engine.project import Project
from leftoff.host import Process, started, this_process
from leftoff.operations.watching import Changes, News
from leftoff.store.rows import Holder
from leftoff.store.sqlite import SqliteStore
from leftoff.testing import FakeClock, FaultyStore
from tests.contract.scribe import AT, Scribe

SOON_S = 60.0  # for what will be told: only a failure waits so long


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose store counts what it is asked."""
    made = Project(str(tmp_path), clock=FakeClock(AT))
    made._store = FaultyStore(SqliteStore(str(tmp_path / ".leftoff")))
    yield made
    made.store.close()


def reads(project: Project) -> int:
    store = project.store
    assert isinstance(store, FaultyStore)
    return store.calls.get("read", 0)


def test_nothing_is_asked_while_nothing_happens(project: Project) -> None:
    """Beside a driver that lives, too."""
    scribe = Scribe(project.store)
    project.store.write(
        lambda tx: tx.put_lease(scribe.run, 1, Holder("process", this_process(), None, "me", AT))
    )
    with Changes(project) as changes:
        before = reads(project)
        assert News() == changes.wait(0.5)
        assert before == reads(project)
        scribe.commit()
        assert {"run-1": 2} == changes.wait().runs


def test_a_driver_that_dies_is_told(project: Project) -> None:
    """It commits nothing any more; that its process is gone is seen all the same."""
    scribe = Scribe(project.store)
    child = subprocess.Popen(["sleep", "600"])
    driver = Process(this_process().scope, child.pid, started(child.pid) or "")
    project.store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("process", driver, None, "it", AT)))
    with Changes(project) as changes:
        assert not changes.wait(0)
        child.kill()
        child.wait()
        assert changes.wait(SOON_S).concerns("run-1")
        assert not changes.wait(0)


def test_a_run_that_goes_quiet_is_told(project: Project) -> None:
    """Once for each step of it; a beat that came meanwhile keeps it alive."""
    scribe, clock = Scribe(project.store), project.clock
    assert isinstance(clock, FakeClock)
    project.store.write(lambda tx: tx.put_lease(scribe.run, 1, Holder("session", None, "s", "agent", AT)))
    quiet, stalled = project.limits
    with Changes(project) as changes:
        project.store.write(lambda tx: tx.beat(scribe.run, 1, AT + quiet))
        clock.set(AT + quiet + 1)
        assert not changes.wait(0)
        for later in (2 * quiet, quiet + stalled):
            clock.set(AT + later + 1)
            assert changes.wait(0).concerns("run-1")
            assert not changes.wait(0)


def test_the_first_is_at_once(project: Project) -> None:
    """Who follows looks once at the beginning, and misses nothing that is committed from then on."""
    with Changes(project) as changes:
        told = changes.follow()
        assert next(told).others
        Scribe(project.store, "new")
        assert next(told).concerns("new")
