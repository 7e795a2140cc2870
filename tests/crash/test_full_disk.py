"""A full disk fails commits with a typed error, loses nothing, and the next commit after relief succeeds."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import faults, mounts
from tests.crash.harness import Heard, Program, program, require_root
from tests.crash.settings import Settings
from tests.crash.verdict import Violation, verify

Relief = Callable[[], None]


def settings_for(folder: Path, broken: str = "") -> Settings:
    """Plain commits that keep trying while the disk is full."""
    return Settings(
        store=str(folder / ".leftoff"), files=str(folder), plan="plain", tries=500, pause=0.02, broken=broken
    )


def limit(running: Program, size: int | None) -> None:
    """No file of the program may be written beyond `size`: a full disk that needs no root."""
    hard = resource.prlimit(running.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def meet_full_disk(running: Program, relieve: Relief) -> None:
    """Work until a commit fails, make room, and see that work goes on."""
    running.until(lambda message: "failed" in message, "no commit failed on a full disk")
    faults.made("full disks")
    relieve()
    running.acknowledge(5)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """By a limit on the size of files."""
    heard = Heard()
    with program(settings_for(tmp_path), heard) as running:
        running.go()
        running.acknowledge(20)
        limit(running, 8192)
        meet_full_disk(running, lambda: limit(running, None))
    verify(tmp_path / ".leftoff", heard, "plain")
    assert {"StoreUnavailable"} == {failure["error"] for failure in heard.failures}


def test_an_acknowledged_failure_is_caught(tmp_path: Path) -> None:
    """The deliberately broken variant: it acknowledges what a full disk refused."""
    heard = Heard()
    with program(settings_for(tmp_path, broken="swallow"), heard) as running:
        running.go()
        running.acknowledge(20)
        limit(running, 8192)
        running.finish()
    with pytest.raises(Violation, match="was acknowledged, the store is at"):
        verify(tmp_path / ".leftoff", heard, "plain")


@pytest.mark.crash_full
def test_a_full_tmpfs_loses_nothing(tmp_path: Path) -> None:
    """By a file system of one megabyte, with a ballast that is thrown out when it is full."""
    require_root()
    heard = Heard()
    with mounts.tmpfs(tmp_path / "small", "1m") as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(256 * 1024))
        with program(settings_for(small), heard) as running:
            running.go()
            meet_full_disk(running, ballast.unlink)
        verify(small / ".leftoff", heard, "plain")
    assert {"StoreUnavailable"} == {failure["error"] for failure in heard.failures}
