"""Ending what a dead driver left has two halves: what lives is found, then it is ended. A driver may come between."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leftoff.engine.opening import open_run
from leftoff.errors import LeaseHeld
from leftoff.host import ALIVE, Process, scope, started
from leftoff.store.base import Tx
from leftoff.store.rows import Holder
from leftoff.store.sqlite import SqliteStore
from leftoff.workflow.process_groups import Rest, members, signal_all
from leftoff.workflow.stop_run import stop_driver
from tests.cli.command import call, succeed
from tests.races.between import Seam, taken_up
from tests.seams import SEAMS


@pytest.fixture
def seam(monkeypatch: pytest.MonkeyPatch) -> Seam:
    return Seam(monkeypatch)


@pytest.fixture
def orphan(project: Path) -> Iterator[Process]:
    """A run of a workflow whose driver is gone, and whose step lives on."""
    (project / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: 'false'}\n")
    assert 1 == call("run", "flow.yaml", "--run-id", "r", cwd=project).code
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as sleeping:
        process = Process(scope(), sleeping.pid, started(sleeping.pid))
        store = SqliteStore(str(project / ".leftoff"))
        row = store.read(lambda view: view.find_run("r"))
        assert row is not None

        def leave(tx: Tx) -> None:
            tx.add_attempt("left", row.run, "a", 0, log="attempts/r/left")
            tx.set_attempt_process("left", process)

        store.write(leave)
        store.close()
        yield process
        sleeping.kill()


@pytest.mark.parametrize("verb", ["stop", "rollback"])
def test_steps_of_a_driver_that_came_since(project: Path, orphan: Process, seam: Seam, verb: str) -> None:
    """They are its own: whoever ends what a dead driver left lets them live."""
    seam.after(SEAMS["stop.left_running"], lambda: taken_up(project, "r"))
    assert 5 == call(verb, "r", *(["--yes"] if verb == "rollback" else []), cwd=project).code
    assert ALIVE == orphan.state()


@pytest.mark.parametrize("lives", [True, False])
def test_a_driver_that_came_since_it_was_given_up(
    project: Path, orphan: Process, seam: Seam, lives: bool
) -> None:
    """What its steps left is not tidied away under it, whether any lives or not."""
    script = project / ".leftoff/attempts/r/left/script-a"
    script.parent.mkdir(parents=True)
    script.write_text("true")
    if not lives:
        os.kill(orphan.pid, signal.SIGKILL)
        os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
    seam.before(SEAMS["lifecycle.forsake"], lambda: taken_up(project, "r"))
    succeed("finish", "--status", "abandoned", "--run", "r", cwd=project)
    assert (lives, "true") == (orphan.state() == ALIVE, script.read_text())


def test_nobody_drives_it_while_its_steps_end(project: Path, orphan: Process, seam: Seam) -> None:
    """Whoever resumes meanwhile is told, instead of following steps that are being ended."""
    seen: list[str] = []

    def resumes() -> None:
        store = SqliteStore(str(project / ".leftoff"))
        with pytest.raises(LeaseHeld) as told:
            open_run(store, "r", store.clock.now(), driver=(orphan, "another process"))
        store.close()
        seen.append(str(told.value))

    seam.before(SEAMS["stop.end_processes"], resumes)
    assert 0 == call("stop", "r", cwd=project).code
    assert "driven by who ends its steps" in seen[0]
    taken_up(project, "r")


def test_a_session_that_only_time_can_tell_of(project: Path, orphan: Process) -> None:
    """Where nobody knows the agent's process, who names no session is most often the agent itself: its steps end."""
    store = SqliteStore(str(project / ".leftoff"))
    row = store.read(lambda view: view.find_run("r"))
    assert row is not None
    holder = Holder("session", None, "s", "agent", store.clock.now())
    store.write(lambda tx: tx.put_lease(row.run, 9, holder))
    store.close()
    assert 0 == call("stop", "r", cwd=project).code
    assert ALIVE != orphan.state()


def test_a_driver_that_let_go_since(project: Path, seam: Seam) -> None:
    """Its process works on something else by now, and is not told to end."""
    succeed("start", "w", "--run-id", "r", cwd=project)
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
        process = Process(scope(), other.pid, started(other.pid))
        store = SqliteStore(str(project / ".leftoff"))
        row = store.read(lambda view: view.find_run("r"))
        assert row is not None
        store.write(lambda tx: tx.put_lease(row.run, 7, Holder("process", process, None, "it", 1)))
        seam.after(
            SEAMS["stop.state"],
            lambda: store.write(lambda tx: tx.put_lease(row.run, 7)),
        )
        stop_driver(store, row, 2)
        store.close()
        assert ALIVE == process.state()
        other.kill()


@pytest.fixture
def sleeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that do nothing; they are gone with the test, however it ends."""
    made: list[subprocess.Popen[bytes]] = []

    def start(*, leads: bool) -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen(["sleep", "1000"], start_new_session=leads))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.wait()


def test_a_pid_that_is_anothers_by_now(sleeper: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Is not signalled: of a session only who is in it."""
    other, leader = sleeper(leads=True), sleeper(leads=True)
    signal_all([other.pid], signal.SIGKILL, leader.pid)
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.05)
    signal_all([other.pid], signal.SIGKILL, other.pid)
    assert -signal.SIGKILL == other.wait()


def test_a_session_whose_leader_is_outside_of_the_container(
    sleeper: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is 0 for everybody in it: nobody of it is taken for a member, nor signalled."""
    child = sleeper(leads=False)
    monkeypatch.setattr(os, "getsid", lambda pid: 0)
    monkeypatch.setattr(os, "getpgrp", lambda: 0)
    assert [] == members(0)
    assert [child.pid] == Rest(child.pid, 0)._left()
    signal_all([child.pid], signal.SIGKILL, 0)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.05)
