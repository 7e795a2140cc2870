"""A disk that fills, or becomes read-only, while a workflow runs: exit 8, clear words, and a later resume completes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash import faults, mounts
from tests.crash.harness import require_root
from tests.workflow.driving import Flow, mark, until, wait

TEXT = f"""
name: disk
max_parallel: 2
steps:
  - id: a
    run: "{mark("a")}"
  - id: b
    run: "{mark("b")}; {wait("../gate")}"
  - id: c
    needs: [a]
    run: "{mark("c")}; {wait("../gate")}; echo printed"
    outputs: [starts.c]
  - id: d
    needs: [b, c]
    run: "{mark("d")}"
"""


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
    faults.made("full disks")
    return ballast


def completes(flow: Flow) -> None:
    """No step that was acknowledged is done again, none is missing, and nothing of a step was run twice at once."""
    flow.resume().end(0)
    assert [1, 1] == [len(flow.starts(name)) for name in "ad"]
    attempts = {step: record["attempt"] for step, record in flow.steps().items()}
    assert {name: len(flow.starts(name)) for name in "abcd"} == attempts
    assert flow.succeed("fsck", "--json").json["ok"]


@pytest.mark.crash_full
def test_a_disk_that_fills_mid_run(tmp_path: Path) -> None:
    """Two steps are in flight and end when there is no room to say so."""
    require_root()
    with mounts.tmpfs(tmp_path / "small", "3m") as small:
        flow = Flow(small, tmp_path)
        flow.write(TEXT)
        driver = flow.run()
        flow.started("b")
        flow.started("c")
        ballast = fill(small)
        (tmp_path / "gate").touch()
        driver.end(8)
        ballast.unlink()
        assert "is full" in driver.said and "Free some space" in driver.said, driver.said
        completes(flow)
        assert [] == flow.close()


@pytest.mark.crash_full
def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    """Nothing runs, and no step is blamed for it."""
    require_root()
    with mounts.tmpfs(tmp_path / "small", "3m") as small:
        flow = Flow(small, tmp_path)
        flow.write(TEXT)
        (tmp_path / "gate").touch()
        flow.run().kill()
        ballast = fill(small)
        driver = flow.drive("run", "flow.yaml", "--run-id", "other")
        assert 8 == driver.end()
        ballast.unlink()
        assert [] == flow.starts("d")
        flow.drive("run", "flow.yaml", "--run-id", "third").end(0)
        until(lambda: not flow.processes(), "the end of what the killed one left")
        assert [] == flow.close()


@pytest.mark.crash_full
def test_a_store_that_became_read_only(tmp_path: Path) -> None:
    """Whoever wants to go on is told so, and nothing is started; once it can be written to, the run completes."""
    require_root()
    with mounts.tmpfs(tmp_path / "small", "3m") as small, mounts.tmpfs(small / ".leftoff", "3m"):
        os.chmod(small / ".leftoff", 0o700)
        flow = Flow(small, tmp_path)
        flow.write(TEXT)
        driver = flow.run()
        flow.started("b")
        flow.started("c")
        driver.kill_all()
        mounts.command("mount", "-o", "remount,ro", str(small / ".leftoff"))
        driver = flow.resume()
        driver.end(8)
        assert "cannot be written" in driver.said and "Traceback" not in driver.said, driver.said
        assert [1, 1] == [len(flow.starts(name)) for name in "bc"]
        mounts.command("mount", "-o", "remount,rw", str(small / ".leftoff"))
        (tmp_path / "gate").touch()
        completes(flow)
        assert [] == flow.close()
