"""`leftoff finish`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import PATIENCE, call, environment, succeed
from tests.cli.runs import driven, started


def test_it_says_what_is_left(tmp_path: Path) -> None:
    """It does not insist: the steps that are left are named on stderr and stay as they are."""
    started(tmp_path, "flow", "--steps", "a,b,c,d,e,f,g,h")
    succeed("step", "done", "a", cwd=tmp_path)
    succeed("step", "start", "b", cwd=tmp_path)
    done = succeed("finish", "--summary", "enough", cwd=tmp_path)
    assert "" == done.out and "steps left: c, d, e, f, g and more" in done.err
    found = succeed("show", "latest", "--json", cwd=tmp_path).json
    assert ("completed", "finished") == (found["status"], found["health"])
    assert ("enough", True) == (found["records"]["run"]["summary"], found["completed_at"].endswith("Z"))
    assert {"completed": 1, "running": 1, "pending": 6}.items() <= found["steps"].items()
    assert "session_end" == found["version"]["trigger"]


@pytest.mark.parametrize(
    ("status", "unfinished"), [("completed", False), ("failed", True), ("abandoned", False)]
)
def test_every_status(status: str, unfinished: bool, tmp_path: Path) -> None:
    """completed, failed or abandoned; a failed run is unfinished and can be gone on with."""
    run = started(tmp_path, "flow", "--steps", "a")
    succeed("step", "skip", "a", cwd=tmp_path)
    done = succeed("finish", "--status", status, "--json", cwd=tmp_path)
    assert (run, status, 100) == (done.json["run_id"], done.json["status"], done.json["percent"])
    assert "steps left" not in done.err
    assert (0 if unfinished else 3) == call("set", "x=1", cwd=tmp_path).code


def test_twice_is_once(tmp_path: Path) -> None:
    """The second time nothing changes, and that is said."""
    run = started(tmp_path)
    first = succeed("finish", "--json", cwd=tmp_path).json
    again = succeed("finish", "--run", run, "--json", cwd=tmp_path)
    assert first["head"] == again.json["head"] and "already" in again.err


def test_a_driven_run_is_a_conflict(tmp_path: Path) -> None:
    """Not while another live process drives it; one that was killed stands in nobody's way."""
    with driven(tmp_path) as run:
        assert 5 == call("finish", "--run", run, cwd=tmp_path).code
    succeed("finish", "--run", run, cwd=tmp_path)
    code = "import leftoff, os, time; r = leftoff.start('dies'); print(r.id, flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run = process.stdout.readline().strip()
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    process.stdout.close()
    succeed("finish", "--run", run, cwd=tmp_path)


def test_wrong_usage(tmp_path: Path) -> None:
    """A status that is none names those there are; without a run it exits 3."""
    assert 3 == call("finish", cwd=tmp_path).code
    started(tmp_path)
    done = call("finish", "--status", "done", cwd=tmp_path)
    assert 2 == done.code and "completed, failed, abandoned" in done.err
