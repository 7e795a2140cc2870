"""The command in real namespaces: with pids of its own, with the /proc of others, with none, beside a container."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import LEFTOFF, environment, succeed
from tests.crash.harness import require_root

pytestmark = pytest.mark.crash_full

PATIENCE = 240.0
FLOW = """
name: flow
steps:
  - {id: a, run: "echo begun >> a; while [ ! -e gate ]; do sleep 0.02; done"}
"""
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
FOREIGN = ("unshare", "--pid", "--fork", "--kill-child")
WITHOUT = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    require_root()
    (tmp_path / "flow.yaml").write_text(FLOW)
    yield tmp_path
    (tmp_path / "gate").touch()


def begin(where: tuple[str, ...], project: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*where, str(LEFTOFF), *words],
        cwd=project,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(where: tuple[str, ...], project: Path, *words: str) -> tuple[int, str]:
    process = begin(where, project, *words)
    said = process.communicate(timeout=PATIENCE)[0]
    return process.returncode, said


def driven(where: tuple[str, ...], project: Path) -> subprocess.Popen[str]:
    """A run whose step is at work."""
    driver = begin(where, project, "run", "flow.yaml", "--run-id", "r")
    deadline = time.monotonic() + PATIENCE
    while not (project / "a").exists():
        assert driver.poll() is None and time.monotonic() < deadline, driver.communicate()
        time.sleep(0.01)
    return driver


def first_of(container: subprocess.Popen[str]) -> int:
    """The process that is the first in it."""
    return int(Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()[0])


@pytest.mark.parametrize("where", [WITHOUT, FOREIGN], ids=["none", "foreign"])
def test_no_workflow_without_a_proc_of_ones_own(where: tuple[str, ...], project: Path) -> None:
    """Nothing is started, and that is told; reports work, and a run of theirs can be gone on with."""
    code, said = end(where, project, "run", "flow.yaml", "--run-id", "r")
    assert 6 == code and "does not show its processes" in said, said
    assert not (project / "a").exists()
    assert 0 == end(where, project, "start", "w", "--steps", "x", "--run-id", "s")[0]
    assert 0 == end(where, project, "step", "done", "x")[0]
    assert 0 == end(where, project, "resume", "s")[0]
    assert [("s", 1)] == [
        (run["run_id"], run["steps"]["completed"])
        for run in succeed("ls", "--json", cwd=project).json["runs"]
    ]


def test_a_driver_that_is_the_first_process(project: Path) -> None:
    """It heeds SIGTERM, which the first process of a container is not ended by."""
    driver = driven(CONTAINER, project)
    os.kill(first_of(driver), signal.SIGTERM)
    said = driver.communicate(timeout=PATIENCE)[0]
    assert 130 == driver.returncode, said
    (project / "gate").touch()
    succeed("resume", "r", cwd=project)


def test_two_containers_with_one_store(project: Path) -> None:
    """Of one name and one boot, and the pids of the one mean nothing in the other: whoever drives is left alone."""
    driver = driven(CONTAINER, project)
    for words in (("resume", "r", "--yes"), ("stop", "r"), ("rm", "r", "--yes")):
        code, said = end(CONTAINER, project, *words)
        assert 5 == code and "cannot be seen from here" in said, said
    (project / "gate").touch()
    said = driver.communicate(timeout=PATIENCE)[0]
    assert (0, "begun\n") == (driver.returncode, (project / "a").read_text()), said


def test_a_container_that_was_killed(project: Path) -> None:
    """Nobody can tell from another one: it is respected for ten minutes, and the step is asked about."""
    driver = driven(CONTAINER, project)
    os.kill(first_of(driver), signal.SIGKILL)
    driver.communicate(timeout=PATIENCE)
    code, said = end((), project, "resume", "r", "--yes")
    assert 5 == code and "its run can be taken over in" in said, said
