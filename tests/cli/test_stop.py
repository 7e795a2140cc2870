"""`leftoff stop` as anyone calls it. What becomes of steps that run is in tests/workflow."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from tests.cli.command import LEFTOFF, call, environment, succeed


def test_a_live_driver(tmp_path: Path) -> None:
    """It is asked to stop, and has when `stop` returns: a checkpoint, no process, no lease; resuming goes on."""
    (tmp_path / "flow.yaml").write_text("name: nap\nsteps:\n  - id: sleep\n    run: test -e go || sleep 60\n")
    command = [str(LEFTOFF), "run", "flow.yaml", "--run-id", "nap-1", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if json.loads(line)["event"] == "step_start":
                break
        stopped = succeed("stop", "nap-1", "--json", cwd=tmp_path).json
        driver.stdout.read()
    assert 130 == driver.returncode
    assert ("paused", "idle", 1) == (stopped["status"], stopped["health"], stopped["steps"]["pending"])
    newest = succeed("log", "nap-1", "--json", cwd=tmp_path).json["checkpoints"][0]
    assert ("session_end", f"interrupted by {signal.SIGTERM.name}") == (newest["trigger"], newest["note"])
    (tmp_path / "go").touch()
    succeed("resume", "nap-1", cwd=tmp_path)


def test_nobody(tmp_path: Path) -> None:
    """A run that nobody drives is paused."""
    succeed("start", "work", "--run-id", "r", cwd=tmp_path)
    done = succeed("stop", "r", cwd=tmp_path)
    assert ("", "paused\n") == (done.out, succeed("get", "run/status", "r", cwd=tmp_path).out)
    assert "leftoff resume r" in done.err


def test_a_finished_run(tmp_path: Path) -> None:
    """There is nothing to stop; that is said, and nothing is changed."""
    succeed("start", "work", "--run-id", "r", cwd=tmp_path)
    succeed("finish", cwd=tmp_path)
    assert "r is completed" in succeed("stop", "r", cwd=tmp_path).err
    assert "completed\n" == succeed("get", "run/status", "r", cwd=tmp_path).out


def test_wrong_words(tmp_path: Path) -> None:
    """Where there is no run there is nothing to stop; an unknown one is not there."""
    assert 3 == call("stop", cwd=tmp_path).code
    assert 3 == call("stop", "nothing", cwd=tmp_path).code
