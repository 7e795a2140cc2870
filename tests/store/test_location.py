"""A store is refused where SQLite's write-ahead log is unsafe, and accepted everywhere else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from leftoff.errors import StoreUnavailable
from leftoff.files import failure
from leftoff.store import sqlite_files as location
from leftoff.store.sqlite import SqliteStore
from tests.seams import SEAMS

NETWORK = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "lustre", "fuse.glusterfs"]
LOCAL = ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuse.ext2fs", ""]


def mountinfo(folder: Path, *mounts: tuple[str, str, str]) -> str:
    """A file like /proc/self/mountinfo, of device, mount point and type."""
    lines = [
        f"{i} 1 {device} / {point} rw,relatime shared:1 - {kind} source rw"
        for i, (device, point, kind) in enumerate(mounts)
    ]
    path = folder / "mountinfo"
    path.write_text("\n".join(["", *lines, "not a mount"]) + "\n")
    return str(path)


def device(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


@pytest.mark.parametrize("kind", NETWORK)
def test_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    """The refusal names the file system, says what to do instead, and that trying again does not help."""
    mounts = mountinfo(tmp_path, ("0:1", "/", "ext4"), (device(tmp_path), str(tmp_path), kind))
    assert kind == location.file_system(str(tmp_path), mounts)
    with pytest.raises(StoreUnavailable, match=kind.replace(".", r"\.")) as caught:
        location.refuse_network(str(tmp_path), kind)
    assert not caught.value.retry
    assert "LEFTOFF_STORE" in caught.value.hint


@pytest.mark.parametrize("kind", LOCAL)
def test_local_file_system_is_accepted(kind: str, tmp_path: Path) -> None:
    """Whatever is not known to be shared between machines is accepted, also what cannot be told."""
    location.refuse_network(str(tmp_path), kind)


def test_nearest_mount_counts(tmp_path: Path) -> None:
    """Of the mounts above a folder the nearest decides, in whatever order they are listed."""
    inner = tmp_path / "a b"
    (inner / "store").mkdir(parents=True)
    escaped = str(inner).replace(" ", "\\040")
    mounts = [("0:1", "/", "ext4"), ("0:2", escaped, "nfs4"), ("0:3", str(tmp_path), "xfs")]
    for order in (mounts, mounts[::-1]):
        file = mountinfo(tmp_path, *order)
        assert "nfs4" == location.file_system(str(inner / "store"), file)
        assert "xfs" == location.file_system(str(tmp_path), file)
    (tmp_path / "a bc").mkdir()
    assert "xfs" == location.file_system(str(tmp_path / "a bc"), file)


def test_later_mount_covers_an_earlier_one(tmp_path: Path) -> None:
    """Mounted over, a folder is on what was mounted last."""
    file = mountinfo(tmp_path, ("0:1", str(tmp_path), "ext4"), ("0:2", str(tmp_path), "cifs"))
    assert "cifs" == location.file_system(str(tmp_path), file)


def test_device_settles_it(tmp_path: Path) -> None:
    """Where a mount carries the folder's own device number, that mount is the one."""
    file = mountinfo(tmp_path, (device(tmp_path), "/", "ext4"), ("0:999", str(tmp_path), "nfs"))
    assert "ext4" == location.file_system(str(tmp_path), file)


def test_links_are_followed(tmp_path: Path) -> None:
    """A link to a folder on a network is on the network."""
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    file = mountinfo(tmp_path, ("0:1", str(tmp_path), "ext4"), ("0:2", str(tmp_path / "far"), "nfs4"))
    assert "nfs4" == location.file_system(str(tmp_path / "near"), file)


def test_no_list_of_mounts(tmp_path: Path) -> None:
    """Where the mounts cannot be told, nothing is claimed."""
    assert "" == location.file_system(str(tmp_path), str(tmp_path / "missing"))


def test_this_machine(tmp_path: Path) -> None:
    """The folder of this test is on some file system, and the store accepts it."""
    assert "" != location.file_system(str(tmp_path))
    location.refuse_network(str(tmp_path))


def test_store_asks_before_it_is_made(
    store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a network file system no database is created; the next write asks again."""
    mounts = mountinfo(tmp_path, (device(tmp_path), "/", "nfs4"))
    monkeypatch.setattr(SEAMS["connection.MOUNTS"], mounts)
    store = SqliteStore(str(store_path))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="nfs4"):
            store.write(lambda tx: None)
    assert not store.exists()
    monkeypatch.undo()
    store.write(lambda tx: None)
    assert store.exists()
    store.close()


def test_backup_asks_too(store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup is a store, so it does not go to a network file system either."""
    store = SqliteStore(str(store_path))
    store.write(lambda tx: None)
    mounts = mountinfo(tmp_path, (device(tmp_path), "/", "cifs"))
    monkeypatch.setattr(SEAMS["connection.MOUNTS"], mounts)
    with pytest.raises(StoreUnavailable, match="cifs"):
        store.backup(str(tmp_path / "copy"))
    store.close()


@pytest.mark.parametrize(("place", "advised"), [("/.leftoff", False), ("{}/.leftoff/blobs/ab", True)])
def test_what_is_not_ours_to_read(
    tmp_path: Path, place: str, advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose it is, is said; nobody is told to have a folder of the system given to them."""
    (tmp_path / ".leftoff/blobs").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    error = failure(PermissionError(errno.EACCES, "Permission denied", place.format(tmp_path)), "store")
    assert "belongs to" in error.hint and advised == ("chown" in error.hint)
