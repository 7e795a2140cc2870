"""What holds in the moment before a command starts: the driver with one thing changed, and what it did."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.cli.command import environment, succeed
from tests.workflow.flows import lines, path_with_leftoff, runs, write

# Nobody looks before a step is placed: what others report comes, for the driver, after its look.
LATE = """
from leftoff.workflow import drive_steps
drive_steps._already_ended = lambda stage, unit, leaf: False
"""

# What the driver does, in order: its commits, and the commands it lets start.
TRACED = """
from leftoff.workflow.driver import Driver
from leftoff.workflow.shim_client import Launcher
def told(owner, name, word):
    real = getattr(owner, name)
    def instead(self, *given, **named):
        with open("trace", "a") as out: print(word(named), file=out)
        return real(self, *given, **named)
    setattr(owner, name, instead)
told(Driver, "write", lambda named: "synced" if named["durable"] else "written")
told(Launcher, "go", lambda named: "go")
"""


# A signal in the moment in which the run is there, and is not driven yet.
TOLD_EARLY = """
import os, signal
from leftoff.workflow.driver import Driver
real = Driver.begin
def begin(driver):
    os.kill(os.getpid(), signal.SIGTERM)
    real(driver)
Driver.begin = begin
"""


# A signal while the store is waited for.
TOLD_WAITING = """
import os, signal
from leftoff.store.sqlite_connection import Turn
from leftoff.workflow import driver as starting
real, take = starting.start_driver, Turn.take
def waits(*given):
    os.kill(os.getpid(), signal.SIGTERM)
    return take(*given)
def start(*given, **more):
    Turn.take = waits
    return real(*given, **more)
starting.start_driver = start
"""


def changed(folder: Path, change: str) -> int:
    """`leftoff run flow.yaml` with something changed; its exit code."""
    code = f"{change}\nfrom leftoff.cli import main\nimport sys\nsys.exit(main(['run', 'flow.yaml']))"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder,
        env=environment(PATH=path_with_leftoff()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.mark.parametrize(("word", "status", "code"), [("start", "running", 7), ("done", "completed", 0)])
def test_somebody_took_a_step_in_between(tmp_path: Path, word: str, status: str, code: int) -> None:
    """A step that others took, or did, after the driver looked is not started: its own transaction looks again."""
    write(
        tmp_path,
        f"""
        name: between
        steps:
          - {{id: a, run: leftoff step {word} /b}}
          - {{id: b, run: touch ran}}
        """,
    )
    assert code == changed(tmp_path, LATE)
    assert not (tmp_path / "ran").exists()
    (run,) = runs(tmp_path)
    steps = succeed("show", run, "--json", cwd=tmp_path).json["step_records"]
    assert [("a", "completed"), ("b", status)] == [(step["step"], step["status"]) for step in steps]


@pytest.mark.parametrize(("idempotent", "last"), [("true", "written"), ("false", "synced")])
def test_a_start_that_must_be_known(tmp_path: Path, idempotent: str, last: str) -> None:
    """What must not run twice is on the disk as started before it starts; the start of others costs no sync."""
    write(
        tmp_path,
        f"""
        name: once
        steps:
          - {{id: a, run: 'true'}}
          - {{id: b, run: 'true', idempotent: {idempotent}}}
        """,
    )
    assert 0 == changed(tmp_path, TRACED)
    trace = lines(tmp_path, "trace")
    second = [at for at, word in enumerate(trace) if word == "go"][1]
    assert last == trace[second - 1], trace


def test_a_signal_between_the_start_and_the_first_step(tmp_path: Path) -> None:
    """The run that is there by then is paused with a checkpoint, as every one that is interrupted."""
    write(tmp_path, "name: early\nsteps: [{id: a, run: touch ran}]\n")
    assert 130 == changed(tmp_path, TOLD_EARLY)
    (run,) = runs(tmp_path)
    found = succeed("show", run, "--json", cwd=tmp_path).json
    assert ("paused", "pending") == (found["status"], found["step_records"][0]["status"])
    assert found["head"]["checkpoint_id"] is not None and not (tmp_path / "ran").exists()
    succeed("resume", run, cwd=tmp_path)
    assert (tmp_path / "ran").exists()


def test_a_signal_while_the_store_is_waited_for(tmp_path: Path) -> None:
    """Ends the command at once, however long somebody else has the store: there is no run yet."""
    succeed("init", cwd=tmp_path)
    write(tmp_path, "name: early\nsteps: [{id: a, run: touch ran}]\n")
    assert 130 == changed(tmp_path, TOLD_WAITING)
    assert [] == succeed("ls", "--json", cwd=tmp_path).json["runs"]
