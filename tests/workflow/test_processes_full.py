"""A disk that is full when an attempt ends, and folders that are gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leftoff.files import sync as sync_fd
from leftoff.workflow import shim
from leftoff.workflow.attempt_folder import AttemptFolder, Exit, Order
from tests.crash.mounts import tmpfs
from tests.seams import SEAMS
from tests.workflow.desk import Desk, desk_in, nothing_left


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """Whoever removes the store under a running step still hears how it ended."""
    with desk_in(tmp_path) as desk:
        token = desk.go("/bin/sh", "-c", f"rm -r '{tmp_path}/attempts'; exit 3", cwd="/")
        assert 3 == desk.end(token).code
        assert None is desk.folder(token).exit()


def test_a_folder_that_was_never_there(tmp_path: Path) -> None:
    """Where nothing can say that the command began, it does not begin."""
    with desk_in(tmp_path) as desk:
        token = desk.start("/bin/sh", "-c", "touch ran")
        desk.ready(token)
        os.rmdir(desk.folder(token))
        desk.launcher.go(token)
        exit = desk.end(token)
        assert (126, False) == (exit.code, (tmp_path / "ran").exists())
        assert "cannot be written to: No such file or directory" in str(exit.error)
        assert 0 == desk.sh("true")[0].code


def test_a_torn_exit_is_written_anew(tmp_path: Path) -> None:
    """What an earlier try left is replaced."""
    (tmp_path / "exit").write_bytes(b'{"at":1,"code":0,"err' * 100)
    assert shim.write_exit(Exit(7, at=2).line(tmp_path.name), str(tmp_path))
    assert Exit(7, at=2) == AttemptFolder(str(tmp_path)).exit()


def test_what_an_exit_vouches_for_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables and result are durable before the exit is, then the names that lead to it."""
    for name in ("vars", "result"):
        (tmp_path / name).touch()
    synced: list[str] = []
    real = sync_fd

    def sync(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    monkeypatch.setattr(SEAMS["shim.sync"], sync)
    monkeypatch.setattr(
        SEAMS["shim.sync_folder"], lambda path: synced.append(os.path.basename(os.path.realpath(path)))
    )
    assert shim.write_exit(Exit(0, at=1).line(tmp_path.name), str(tmp_path))
    assert [] == synced
    shim.sync_exit(str(tmp_path))
    assert ["vars", "result", "exit", tmp_path.name, tmp_path.parent.name] == synced


@pytest.mark.crash_full
def test_a_disk_without_room_for_the_exit(tmp_path: Path) -> None:
    """No block is left when the command ends: the driver hears how it ended, and the shim takes another job."""
    with tmpfs(tmp_path / "small", "200k") as small, nothing_left(os.urandom(6).hex()):
        desk = Desk(small)
        try:
            token = desk.go("/bin/sh", "-c", f"head -c 1000000 /dev/zero >{small}/fill; exit 4", cwd="/")
            assert (4, None) == (desk.end(token).code, desk.folder(token).exit())
            os.unlink(small / "fill")
            assert 0 == desk.sh("true", cwd="/")[0].code
        finally:
            desk.close()


def test_orders_have_no_defaults() -> None:
    """A message that is not whole is an error, not a job with something missing."""
    with pytest.raises((EOFError, ValueError, TypeError)):
        Order.unpack(b"")
