"""Files of our own are whole, whoever writes them at the same time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leftoff.files import failure, is_due, mark_done, write_private
from tests.seams import SEAMS


def test_two_who_write_the_same_file(tmp_path: Path) -> None:
    """Each writes aside, under a name of its own: threads of one process, too."""
    path = tmp_path / "there" / "file"

    def content() -> Iterator[bytes]:
        yield b"of the "
        write_private(str(path), [b"of the second"])
        assert b"of the second" == path.read_bytes()
        yield b"first"

    write_private(str(path), content())
    assert b"of the first" == path.read_bytes()
    assert [path] == list(path.parent.iterdir())
    assert 0o600 == path.stat().st_mode & 0o777


def test_a_time_that_cannot_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of another user's file: what is due once a day is done for today all the same."""

    def denied(*_: Any, **named: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    stamp = tmp_path / "swept"
    stamp.touch()
    os.utime(stamp, (0, 0))
    monkeypatch.setattr(os, "utime", denied)
    now = int((tmp_path.stat().st_mtime) * 1000)
    assert is_due(str(stamp), now)
    mark_done(str(stamp), now)
    assert not is_due(str(stamp), now)


@pytest.mark.parametrize(("number", "word"), [(errno.EMFILE, "ulimit -n"), (errno.EROFS, "writable")])
def test_what_to_do_about_it(number: int, word: str) -> None:
    """The hint is about what is wrong."""
    assert word in failure(OSError(number, os.strerror(number)), "/there").hint


def test_a_private_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Neither what was written of it, nor a change of what was there: on a full disk it is tried again and again."""

    def half() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "folder" / "file"
    write_private(str(path), [b"before"])
    with pytest.raises(OSError, match="No space"):
        write_private(str(path), half())
    assert (["file"], b"before") == (os.listdir(path.parent), path.read_bytes())


def test_a_private_file_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content before it gets its name, then the name: after a power cut it is there, whole, or not at all."""
    path, done = tmp_path / "kept" / "event", []

    def sync(fd: int) -> None:
        done.append((os.path.isdir(f"/proc/self/fd/{fd}"), path.exists()))

    monkeypatch.setattr(SEAMS["files.sync"], sync)
    write_private(str(path), [b"what happened"])
    assert [(False, False), (True, True)] == done
    write_private(str(path), [b"a copy"], durable=False)
    assert (2, b"a copy") == (len(done), path.read_bytes())
