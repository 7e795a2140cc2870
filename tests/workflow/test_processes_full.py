"""A disk that is full when an attempt ends: the end is told at once, and written as soon as it can be."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leftoff.files import sync as sync_fd
from leftoff.workflow import process_groups as groups
from leftoff.workflow import shim
from leftoff.workflow.attempt_folder import AttemptFolder, Exit, Order
from leftoff.workflow.shim_client import Ended
from tests.crash.mounts import tmpfs
from tests.seams import SEAMS
from tests.workflow.desk import Desk, desk_in, nothing_left, wait_for


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The driver's side and the shim's of a channel."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


def failing(monkeypatch: pytest.MonkeyPatch, times: int, error: int = errno.ENOSPC) -> list[int]:
    """Let the exit be written only after so many tries; a list of those."""
    real, tries = shim.write_exit, []

    def write(line: bytes, folder: str) -> int:
        tries.append(1)
        return error if len(tries) <= times else real(line, folder)

    monkeypatch.setattr(SEAMS["shim.write_exit"], write)
    monkeypatch.setattr(SEAMS["shim.RETRY_S"], 0.001)
    return tries


def test_an_exit_that_cannot_be_written_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
) -> None:
    """It is told before it is written, and then what becomes of the shim."""
    ours, theirs = pair
    failing(monkeypatch, 3)
    exit = Exit(3, at=1, left={})
    shim.record_exit(exit, str(tmp_path), theirs.fileno(), free=True)
    assert b"Xu " + exit.line(tmp_path.name) + b"Wf\n" == ours.recv(1000)
    assert exit == AttemptFolder(str(tmp_path)).exit()


def test_an_exit_that_can_never_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Without a driver the shim gives up after its time; without a folder at once."""
    ours, theirs = pair
    tries = failing(monkeypatch, 10**9)
    monkeypatch.setattr(SEAMS["shim.KEEP_TRYING_S"], 0.05)
    ours.close()
    shim.record_exit(Exit(3, at=1), str(tmp_path), theirs.fileno(), free=True)
    assert len(tries) > 1
    tries = failing(monkeypatch, 10**9, errno.ENOENT)
    shim.record_exit(Exit(3, at=1), str(tmp_path), theirs.fileno(), free=True)
    assert 1 == len(tries)


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
    assert 0 == shim.write_exit(Exit(7, at=2).line(tmp_path.name), str(tmp_path))
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
    assert 0 == shim.write_exit(Exit(0, at=1).line(tmp_path.name), str(tmp_path))
    assert [] == synced
    assert 0 == shim.sync_exit(str(tmp_path))
    assert ["vars", "result", "exit", tmp_path.name, tmp_path.parent.name] == synced


@pytest.mark.crash_full
def test_a_disk_that_fills(tmp_path: Path) -> None:
    """On a real full disk: the command runs on, its end is told; and written once there is room."""
    with tmpfs(tmp_path / "small", "400k") as small, nothing_left(os.urandom(6).hex()):
        desk = Desk(small)
        try:
            token = desk.go("/bin/sh", "-c", "yes | head -c 1000000; exit 4", cwd="/")
            assert 4 == desk.end(token).code
            folder = desk.folder(token)
            if folder.exit() is None:
                process = desk.processes[token]
                assert groups.alive(process, folder)
                os.truncate(folder.file("log"), 0)
                wait_for(lambda: folder.exit(), "the exit is written")
            assert 4 == getattr(folder.exit(), "code", None)
            desk.launcher.events(1.5)
            assert 0 == desk.sh("true", cwd="/")[0].code
        finally:
            desk.close()


@pytest.mark.crash_full
def test_a_disk_without_room_for_the_exit(tmp_path: Path) -> None:
    """No inode and no block is left when the command ends: told, retried, written when there is room."""
    with tmpfs(tmp_path / "small", "200k") as small, nothing_left(os.urandom(6).hex()):
        desk = Desk(small)
        try:
            token = desk.go("/bin/sh", "-c", f"head -c 1000000 /dev/zero >{small}/fill; exit 4", cwd="/")
            found = desk.next(token)
            assert isinstance(found, Ended)
            assert (4, None) == (found.exit.code, desk.folder(token).exit())
            assert groups.alive(desk.processes[token], desk.folder(token))
            time.sleep(1.2)
            os.unlink(small / "fill")
            wait_for(lambda: desk.folder(token).exit(), "the exit is written")
            assert found.exit == desk.folder(token).exit()
        finally:
            desk.close()


def test_orders_have_no_defaults() -> None:
    """A message that is not whole is an error, not a job with something missing."""
    with pytest.raises((EOFError, ValueError, TypeError)):
        Order.unpack(b"")
