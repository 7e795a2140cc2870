"""Who dies when, and what becomes of the work: drivers, launchers, shims and commands that are killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from leftoff.errors import LeftoffError
from leftoff.host import Process, scope, started
from leftoff.workflow import process_groups as groups
from leftoff.workflow.attempt_folder import AttemptFolder, Exit
from leftoff.workflow.shim_client import Ended, LostJob, Ready
from tests.workflow.desk import PATIENCE, Desk, desk_in, driver, nothing_left, wait_for


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path) as made:
        yield made


@pytest.fixture
def alone() -> Iterator[None]:
    """Nothing is left of what the test starts."""
    with nothing_left(os.urandom(6).hex()):
        yield


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def launcher_pid(desk: Desk) -> int:
    assert desk.launcher._process is not None
    return desk.launcher._process.pid


def process_of(pid: int) -> Process:
    return Process(scope(), pid, started(pid))


# --------------------------------------------------------------------------------------------- the driver

JOB = """
token = desk.start("/bin/sh", "-c", "echo $LEFTOFF_STEP >>ran; exit 3", env={"LEFTOFF_STEP": "one"})
process = desk.ready(token)
say(process.pid)
"""


def test_a_driver_that_dies_before_it_says_go(alone: None, tmp_path: Path) -> None:
    """Its shim ends by itself, and the command never ran, nor looks as if it had."""
    with driver(JOB + "os.kill(os.getpid(), 9)", tmp_path) as there:
        process = there.hear_process()
        there.process.wait(PATIENCE)
        wait_for(lambda: not groups.alive(process), "the shim ended")
    folder = AttemptFolder.of(str(tmp_path), "run-1", "t1")
    assert ([], False, None) == (lines(tmp_path / "ran"), folder.began(), folder.exit())


def test_a_driver_that_dies_as_soon_as_it_said_go(alone: None, tmp_path: Path) -> None:
    """The command runs, once, and its exit code is on disk."""
    with driver(JOB + "desk.launcher.go(token); os.kill(os.getpid(), 9)", tmp_path) as there:
        process = there.hear_process()
        there.process.wait(PATIENCE)
        wait_for(lambda: not groups.alive(process), "the shim ended")
    folder = AttemptFolder.of(str(tmp_path), "run-1", "t1")
    exit = folder.exit()
    assert (["one"], True, 3) == (lines(tmp_path / "ran"), folder.began(), exit and exit.code)


def test_a_driver_that_dies_before_a_shim_is_ready(alone: None, tmp_path: Path) -> None:
    """A shim that is made for a dead driver ends; nothing ran."""
    script = """
import signal
import subprocess
os.kill(desk.launcher._process.pid, signal.SIGSTOP)
token = desk.start("/bin/sh", "-c", "touch ran")
say(desk.launcher._process.pid)
hear()
"""
    with driver(script, tmp_path) as there:
        (launcher,) = there.hear()
        there.kill()
        os.kill(int(launcher), signal.SIGCONT)
        wait_for(lambda: not started(int(launcher)), "the launcher ended")
    assert not (tmp_path / "ran").exists()


def test_a_driver_that_drops_a_job(desk: Desk, tmp_path: Path) -> None:
    """A job that was dropped before it was told never runs, and nothing is heard of it."""
    token = desk.start("/bin/sh", "-c", "touch ran")
    process = desk.ready(token)
    desk.launcher.drop(token)
    wait_for(lambda: not groups.alive(process), "the shim ended")
    desk.launcher.go(token)
    assert ([], False) == (desk.launcher.events(0.1), (tmp_path / "ran").exists())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
def test_the_drivers_group_is_killed(alone: None, tmp_path: Path, number: signal.Signals) -> None:
    """Whatever ends a driver together with its process group does not end the work."""
    script = """
token = desk.go("/bin/sh", "-c", "while [ ! -e on ]; do sleep 0.02; done; exit 7")
say(desk.processes[token].pid)
hear()
"""
    with driver(script, tmp_path) as there:
        process = there.hear_process()
        os.killpg(there.pid, number)
        there.process.wait(PATIENCE)
        assert groups.alive(process)
        (tmp_path / "on").touch()
        wait_for(lambda: not groups.alive(process), "the work ended")
    assert 7 == getattr(AttemptFolder.of(str(tmp_path), "run-1", "t1").exit(), "code", None)


def test_reattached(alone: None, tmp_path: Path) -> None:
    """The next driver waits for a process that it did not start, and takes its exit code."""
    script = """
token = desk.go("/bin/sh", "-c", "echo began; while [ ! -e on ]; do sleep 0.02; done; echo ended; exit 7")
say(desk.processes[token].pid)
hear()
"""
    folder = AttemptFolder.of(str(tmp_path), "run-1", "t1")
    with driver(script, tmp_path) as there:
        process = there.hear_process()
        there.kill()
    with closing(Desk(tmp_path)) as desk:
        desk.launcher.watch("t1", process, folder)
        assert [] == desk.launcher.events(0.3)
        (tmp_path / "on").touch()
        assert 7 == desk.end("t1").code
    assert "began\nended" == folder.tail()


def test_timeout_without_a_driver(alone: None, tmp_path: Path) -> None:
    """A timeout holds though nobody drives any more, also for one that ignores SIGTERM."""
    script = """
token = desk.go("/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", timeout=0.5, grace=0.2)
say(desk.processes[token].pid)
hear()
"""
    with driver(script, tmp_path) as there:
        process = there.hear_process()
        there.kill()
        wait_for(lambda: not groups.alive(process), "it was ended")
    exit = AttemptFolder.of(str(tmp_path), "run-1", "t1").exit()
    assert exit is not None
    assert (124, 9, True) == (exit.code, exit.signal, exit.timed_out)


def test_stopped_without_a_driver(alone: None, tmp_path: Path) -> None:
    """Whoever has the record of an attempt can end it in order."""
    script = """
token = desk.go("/bin/sh", "-c", "sleep 60")
say(desk.processes[token].pid)
hear()
"""
    with driver(script, tmp_path) as there:
        process = there.hear_process()
        folder = AttemptFolder.of(str(tmp_path), "run-1", "t1")
        wait_for(lambda: folder.began(), "it began")
        there.kill()
        groups.terminate(process)
        wait_for(lambda: not groups.alive(process), "it ended")
    exit = folder.exit()
    assert exit is not None
    assert (143, 15, True) == (exit.code, exit.signal, exit.stopped)


# ------------------------------------------------------------------------------------------- the launcher


def test_a_launcher_that_dies_while_jobs_run(desk: Desk, tmp_path: Path) -> None:
    """What runs goes on and is heard of; what waits to be told still can be; a new launcher serves the next."""
    running = desk.go("/bin/sh", "-c", "while [ ! -e on ]; do sleep 0.02; done; exit 4")
    waiting = desk.start("/bin/sh", "-c", "exit 5")
    desk.ready(waiting)
    before = launcher_pid(desk)
    os.kill(before, signal.SIGKILL)
    desk.launcher.go(waiting)
    assert 5 == desk.end(waiting).code
    parallel = [desk.go("/bin/sh", "-c", "exit 6") for _ in range(3)]
    assert before != launcher_pid(desk)
    (tmp_path / "on").touch()
    assert [4, 6, 6, 6] == [desk.end(token).code for token in (running, *parallel)]


def test_a_launcher_that_dies_with_a_job_in_hand(desk: Desk, tmp_path: Path) -> None:
    """A job whose shim was not made is lost, and was not told. The next one gets another launcher."""
    os.kill(launcher_pid(desk), signal.SIGSTOP)
    token = desk.start("/bin/sh", "-c", "echo x >>ran")
    os.kill(launcher_pid(desk), signal.SIGKILL)
    lost = desk.next(token)
    assert isinstance(lost, LostJob) and not lost.told
    assert (0, []) == (desk.sh("true")[0].code, lines(tmp_path / "ran"))


def test_no_launcher_can_be_made(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that says so, for a job that is started; a job that was in hand is lost."""
    pid = launcher_pid(desk)
    os.kill(pid, signal.SIGSTOP)
    token = desk.start("/bin/sh", "-c", "touch ran")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not started(pid), "it is dead")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/no/such/python")
        lost = desk.next(token)
        assert isinstance(lost, LostJob)
        assert not lost.told
        with pytest.raises(LeftoffError, match="cannot be kept running: No such file"):
            desk.start("true")
    assert 0 == desk.sh("true")[0].code
    assert not (tmp_path / "ran").exists()


def test_a_launcher_that_is_dead_already(desk: Desk) -> None:
    """It is started again for whoever needs it. A job that it got before its death was noticed is lost, untold."""
    for look in (False, True):
        os.kill(launcher_pid(desk), signal.SIGKILL)
        if look:
            desk.launcher.events(0.2)
        first = desk.next(desk.start("true"))
        assert isinstance(first, Ready) or (not look and isinstance(first, LostJob) and not first.told)
        assert 0 == desk.sh("true")[0].code
        groups.kill(desk.processes.popitem()[1])  # the next job needs a new one, too


def test_a_launcher_ignores_what_ends_drivers(desk: Desk) -> None:
    """Ctrl-C, a hangup and a polite kill pass it by."""
    assert 0 == desk.sh("true")[0].code
    groups.kill(desk.processes.popitem()[1])
    before = launcher_pid(desk)
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        os.kill(before, number)
    assert 0 == desk.sh("true")[0].code
    assert before == launcher_pid(desk)


# ----------------------------------------------------------------------------------------------- the shim


def test_a_shim_that_dies_before_it_is_told(desk: Desk, tmp_path: Path) -> None:
    """Its job is lost and was not told: nothing ran; saying go to it changes nothing."""
    token = desk.start("/bin/sh", "-c", "touch ran")
    process = desk.ready(token)
    os.kill(process.pid, signal.SIGKILL)
    channel = desk.launcher._shims[token]
    wait_for(lambda: not channel.waits, "it is dead, and the launcher has let go of its channel, too")
    desk.launcher.go(token)
    lost = desk.next(token)
    assert isinstance(lost, LostJob)
    assert (False, False) == (lost.told, (tmp_path / "ran").exists())


def test_a_shim_that_dies_while_its_command_runs(desk: Desk, tmp_path: Path) -> None:
    """The command goes on, and the attempt is not over before it has ended; how it ended nobody knows."""
    token = desk.go("/bin/sh", "-c", ": >up; while [ ! -e on ]; do sleep 0.02; done; touch ended")
    process = desk.processes[token]
    wait_for((tmp_path / "up").exists, "it runs")
    os.kill(process.pid, signal.SIGKILL)
    assert [] == desk.launcher.events(0.5)
    assert groups.alive(process, desk.folder(token))
    (tmp_path / "on").touch()
    lost = desk.next(token)
    assert isinstance(lost, LostJob)
    assert (True, True, None) == (
        lost.told,
        (tmp_path / "ended").exists(),
        desk.folder(token).exit(),
    )
    assert not groups.alive(process)


def test_a_command_without_its_shim_still_has_its_timeout(desk: Desk, tmp_path: Path) -> None:
    """While the driver lives, it ends what the shim would have ended."""
    token = desk.go(
        "/bin/sh", "-c", "trap '' TERM; : >up; while :; do sleep 0.05; done", timeout=0.3, grace=0.1
    )
    wait_for((tmp_path / "up").exists, "it runs")
    os.kill(desk.processes[token].pid, signal.SIGKILL)
    lost = desk.next(token)
    assert isinstance(lost, LostJob)
    assert lost.told


def test_a_shim_that_dies_after_it_wrote_the_exit(desk: Desk, tmp_path: Path) -> None:
    """What is written counts, though it was not told."""
    token = desk.go("/bin/sh", "-c", ": >up; while [ ! -e on ]; do sleep 0.02; done")
    wait_for((tmp_path / "up").exists, "it runs")
    os.kill(desk.processes[token].pid, signal.SIGKILL)
    written = Exit(9, at=1)
    Path(desk.folder(token), "exit").write_bytes(written.line(token))
    (tmp_path / "on").touch()
    assert written == desk.end(token)


def test_a_shim_that_dies_while_it_is_free(desk: Desk) -> None:
    """Nobody notices: the next job is run by another one."""
    for look in (False, True):
        token = desk.go("true")
        desk.end(token)
        os.kill(desk.processes[token].pid, signal.SIGKILL)
        wait_for(lambda token=token: not groups.alive(desk.processes[token]), "it is dead")  # type: ignore[misc]
        if look:
            assert [] == desk.launcher.events(0.1)
        assert 0 == desk.sh("true")[0].code


def test_a_free_shim_that_dies_with_a_job_in_hand(desk: Desk) -> None:
    """It is on record with the job, so no other may take it: it is lost, has not begun, and can be started again."""
    first = desk.go("true")
    desk.end(first)
    process = desk.processes[first]
    os.kill(process.pid, signal.SIGSTOP)
    second = desk.start("true")
    assert process == desk.ready(second)
    os.kill(process.pid, signal.SIGKILL)
    desk.launcher.go(second)
    assert isinstance(desk.next(second), LostJob)
    assert not desk.folder(second).began()
    assert 0 == desk.sh("true")[0].code


def test_a_free_shim_that_dies_unnoticed(desk: Desk) -> None:
    """A job that nobody has heard of is given to another one."""
    first = desk.go("true")
    desk.end(first)
    process = desk.processes[first]
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not started(process.pid), "it is dead")
    second = desk.go("true")
    assert process != desk.processes[second]
    assert 0 == desk.end(second).code


def test_everything_of_an_attempt_is_killed(desk: Desk, tmp_path: Path) -> None:
    """Shim and command killed together: lost, and nothing is known; the group is empty."""
    token = desk.go("/bin/sh", "-c", ": >up; sleep 60 & sleep 60")
    wait_for((tmp_path / "up").exists, "it runs")
    os.killpg(desk.processes[token].pid, signal.SIGKILL)
    lost = desk.next(token)
    assert isinstance(lost, LostJob)
    assert (True, None) == (lost.told, desk.folder(token).exit())


def test_a_command_that_kills_its_group(desk: Desk) -> None:
    """kill -9 0 takes the shim along: the attempt is lost, not hung."""
    lost = desk.next(desk.go("/bin/sh", "-c", "kill -9 0"))
    assert isinstance(lost, LostJob)
    assert lost.told


def test_nobody_but_the_command_is_left(alone: None, tmp_path: Path) -> None:
    """Driver, launcher and shim dead: the attempt lives while its command does, and can be ended."""
    script = """
token = desk.go("/bin/sh", "-c", "trap 'touch asked; exit' TERM; : >up; sleep 60 >/dev/null & wait")
say(desk.processes[token].pid)
hear()
"""
    folder = AttemptFolder.of(str(tmp_path), "run-1", "t1")
    with driver(script, tmp_path) as there:
        process = there.hear_process()
        wait_for((tmp_path / "up").exists, "it runs")
        there.kill()
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: process.state() == "gone", "the shim is dead")
    with closing(Desk(tmp_path)) as desk:
        desk.launcher.watch("t1", process, folder)
        assert groups.alive(process)
        groups.terminate(process)
        wait_for((tmp_path / "asked").exists, "the command was asked")
        assert isinstance(desk.next("t1"), LostJob)


# ------------------------------------------------------------------------------------------------- groups


def test_kill_ends_everything(desk: Desk, tmp_path: Path) -> None:
    """The shim, its group, and the groups inside of its session."""
    script = "set -m; trap '' TERM; sleep 60 & sleep 61 & : >up; wait"
    token = desk.go("bash", "-c", script)
    wait_for((tmp_path / "up").exists, "it runs")
    groups.kill(desk.processes[token])
    assert not groups.alive(desk.processes[token])
    end = desk.next(token)  # the shim may see its command die before it dies itself
    assert isinstance(end, LostJob) or (isinstance(end, Ended) and end.exit.signal == 9)


def test_another_process_with_the_pid_is_not_the_attempt(desk: Desk) -> None:
    """A pid that was given to somebody else proves nothing, and that one is left alone."""
    mine = process_of(os.getpid())
    before = Process(mine.scope, mine.pid, f"{mine.started}0")
    assert not groups.alive(before)
    groups.terminate(before)
    groups.kill(before)
    desk.launcher.watch("t1", before, AttemptFolder("/nowhere"))
    assert isinstance(desk.next("t1"), LostJob)


def test_what_cannot_be_seen_counts_as_alive() -> None:
    """On another machine it may run; after another boot of this one it does not."""
    elsewhere = Process("other@host/boot/1", 1, "1")
    machine, _, space = scope().split("/")
    assert (True, False) == (
        groups.alive(elsewhere),
        groups.alive(Process(f"{machine}/another-boot/{space}", 1, "1")),
    )


def test_members_by_ps_are_those_of_proc(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the same processes are found."""
    token = desk.go("/bin/sh", "-c", "sleep 60 & sleep 60 & : >up; wait")
    process = desk.processes[token]
    wait_for((tmp_path / "up").exists, "it runs")
    expected = sorted(groups.members(process.pid))
    assert 4 == len(expected)
    assert expected == sorted(pid for pid in groups._listed() if groups._session(pid) == process.pid)
    monkeypatch.setattr(os, "pidfd_open", None, raising=False)
    monkeypatch.delattr(os, "pidfd_open")
    groups.terminate(process)
    assert isinstance(desk.next(token), Ended)


def test_closing_leaves_what_runs(alone: None, tmp_path: Path) -> None:
    """A driver that ends in order leaves what it told to go; what it did not, and what is free, ends."""
    desk = Desk(tmp_path)
    running = desk.go("/bin/sh", "-c", ": >up; while [ ! -e on ]; do sleep 0.02; done; exit 3")
    waiting = desk.start("/bin/sh", "-c", "touch ran")
    desk.ready(waiting)
    wait_for((tmp_path / "up").exists, "it runs")
    desk.close()
    process = desk.processes[running]
    wait_for(lambda: not groups.alive(desk.processes[waiting]), "what was not told ends")
    assert groups.alive(process)
    time.sleep(0.1)
    (tmp_path / "on").touch()
    wait_for(lambda: not groups.alive(process), "the work ended")
    assert 3 == getattr(desk.folder(running).exit(), "code", None)
    assert not (tmp_path / "ran").exists()
