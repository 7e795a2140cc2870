"""SIGKILL at every line that a driver, a launcher or a shim executes for one job.

Nothing is left to luck: a trace function counts the lines of our own code and kills its process at the one that is
asked for, one after the other, until there is none left to die at. Whenever it is, the same must hold.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leftoff.workflow import process_groups as groups
from leftoff.workflow.attempt_folder import AttemptFolder
from leftoff.workflow.shim_client import Ended, LostJob, Ready
from tests.crash import faults
from tests.seams import SEAMS
from tests.workflow.desk import PATIENCE, Desk, driver, nothing_left

# Kills its process at the given line, counted from when `watch()` was called.
_KILLER = """
import os, sys

OURS = {"attempt_folder.py", "process_groups.py", "redacting_stream.py", "shim.py", "shim_client.py"}

def watch(at):
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if os.path.basename(frame.f_code.co_filename) not in OURS:
            return None
        if event == "line":
            count += 1
            if count == at:
                os.kill(os.getpid(), 9)
        return trace

    sys.settrace(trace)
"""
_OPENING = "sys.path.append(sys.argv[1]); from leftoff.workflow import shim as launcher\n"
_SHIM = """
real = launcher.live
def live(*words):
    watch(AT)
    real(*words)
launcher.live = live
launcher.main()
"""
_LAUNCHER = """
real = launcher.make_redactor
def make_redactor(settings):
    made = real(settings)
    watch(AT)
    sys._getframe(1).f_trace = sys.gettrace()
    return made
launcher.make_redactor = make_redactor
real_shim = launcher.shim
def shim(*words):
    sys.settrace(None)
    real_shim(*words)
launcher.shim = shim
launcher.main()
"""
# Every line takes a minute; each eleventh, as many as a test run can bear.
EVERY = [11, pytest.param(1, marks=pytest.mark.crash_full)]


def ran(folder: Path) -> list[str]:
    path = folder / "ran"
    return path.read_text().split() if path.exists() else []


def play(folder: Path) -> tuple[bool, bool]:
    """One job from its start to its end, whatever happens. Whether it ended well, and its shim is still there."""
    desk = Desk(folder)
    try:
        token = desk.start("/bin/sh", "-c", "echo x >>ran")
        found = desk.next(token)
        if isinstance(found, Ready):
            desk.launcher.go(token)
            process = found.process
            found = desk.next(token)
            if isinstance(found, Ended) or found.told:  # type: ignore[union-attr]
                assert not groups.alive(process, desk.folder(token))
        exit = desk.folder(token).exit()
        if isinstance(found, Ended):
            assert (["x"], True, exit) == (ran(folder), found.exit.ok, found.exit)
            return True, groups.alive(process)
        assert isinstance(found, LostJob)
        assert exit is None
        if not found.told:
            assert ([], False) == (ran(folder), desk.folder(token).began())
        elif ran(folder):
            assert (["x"], True) == (ran(folder), desk.folder(token).began())
        return False, False
    finally:
        desk.close()


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("who", ["shim", "launcher"])
def test_killed_at_any_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, every: int) -> None:
    """A shim or launcher that dies: what was not told never ran; what ran looks like it; an exit on disk is true;
    nothing runs when the end, or the loss, is told."""
    script = _SHIM if who == "shim" else _LAUNCHER
    outcomes = []
    with nothing_left(os.urandom(6).hex()):
        for at in range(1, 10_000, every):
            folder = tmp_path / str(at)
            folder.mkdir()
            monkeypatch.setattr(SEAMS["client._CODE"], _KILLER + _OPENING + script.replace("AT", str(at)))
            outcomes.append(play(folder))
            faults.made("kills", outcomes[-1] != (True, True))
            if outcomes[-1] == (True, True) and outcomes[-2:] != outcomes[-1:]:
                break
    assert (False, False) in outcomes
    assert (True, True) == outcomes[-1]
    assert len(outcomes) > (100 if who == "shim" else 10) // every


_DRIVE = """
AT = int(hear())
watch(AT)
desk = Desk(Path(sys.argv[1]))
token = desk.start("/bin/sh", "-c", "echo x >>ran")
desk.ready(token)
Path(sys.argv[1], "recorded").touch()
desk.launcher.go(token)
desk.end(token)
desk.close()
sys.settrace(None)
say("lived")
"""


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.crash_full)])
def test_a_driver_killed_at_any_line(tmp_path: Path, every: int) -> None:
    """The command never began; or it ran, once, to its end, and the exit code is on disk. Nothing is left running."""
    seen = set()
    for at in range(1, 10_000, every):
        folder = tmp_path / str(at)
        folder.mkdir()
        with nothing_left(os.urandom(6).hex()), driver(_KILLER + _DRIVE, folder) as there:
            there.tell(str(at))
            lived = there.hear() == ["lived"]
            there.process.wait(PATIENCE)
        attempt = AttemptFolder.of(str(folder), "run-1", "t1")
        exit = attempt.exit()
        began = os.path.isdir(attempt) and attempt.began()  # it may have died before it made one
        assert (
            (["x"], True) == (ran(folder), exit is not None and exit.ok)
            if began
            else ([], None) == (ran(folder), exit)
        )
        assert (folder / "recorded").exists() or not began
        faults.made("kills", not lived)
        seen.add((began, lived))
        if lived:
            break
    assert {(False, False), (True, False), (True, True)} == seen
