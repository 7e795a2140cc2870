"""The one module that writes below a project: nothing is followed, nothing but plain files is written to."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leftoff.engine import project_files
from leftoff.engine.project_files import Place, ProjectFiles
from leftoff.errors import Invalid, UnsafePath

WRITES: dict[str, Callable[[ProjectFiles, str], None]] = {
    "replace": lambda files, path: files.replace(path, b"new"),
    "append": lambda files, path: files.append(path, b"new"),
    "create": lambda files, path: files.create(path, b"new"),
    "link": lambda files, path: files.link(path, "target"),
    "move": lambda files, path: files.move("mine", path),
}
INTO_FILES = ("replace", "append")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/victim").write_text("untouched")
    return tmp_path / "outside"


@pytest.fixture
def project(tmp_path: Path, outside: Path) -> Path:
    (tmp_path / "project/d").mkdir(parents=True)
    (tmp_path / "project/mine").write_text("mine")
    return tmp_path / "project"


def whole(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("inside", [False, True])
def test_a_link_on_the_way(name: str, inside: bool, project: Path, outside: Path) -> None:
    """No part is followed through a link, wherever that leads; what is behind it stays as it is."""
    (project / "d/way").symlink_to(project / "d" if inside else outside)
    with pytest.raises(UnsafePath, match="d/way is, or is behind, a symbolic link"):
        WRITES[name](ProjectFiles(str(project)), "d/way/victim")
    assert ({"victim": "untouched"}, ["way"]) == (whole(outside), os.listdir(project / "d"))


@pytest.mark.parametrize("name", INTO_FILES)
@pytest.mark.parametrize("what", ["link", "dangling", "pipe", "socket", "folder"])
def test_what_is_no_plain_file(name: str, what: str, project: Path, outside: Path) -> None:
    """A link, a pipe, a socket and a folder are refused by name, at once, and stay."""
    path = project / "d/x"
    if what in ("link", "dangling"):
        path.symlink_to(outside / ("victim" if what == "link" else "made"))
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            here = os.getcwd()
            os.chdir(path.parent)  # the name of a socket must be short
            try:
                made.bind("x")
            finally:
                os.chdir(here)
    before = os.lstat(path).st_ino
    with pytest.raises(UnsafePath, match="d/x is a "):
        WRITES[name](ProjectFiles(str(project)), "d/x")
    assert (before, {"victim": "untouched"}) == (os.lstat(path).st_ino, whole(outside))
    assert ["x"] == os.listdir(project / "d"), "nothing is left half written"


@pytest.mark.parametrize("name", INTO_FILES)
def test_a_device(name: str) -> None:
    """Whoever is allowed to would replace it for the whole machine."""
    with pytest.raises(UnsafePath, match="null is a device"):
        WRITES[name](ProjectFiles("/dev"), "null")


@pytest.mark.parametrize("name", INTO_FILES)
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_file_that_its_owner_made_read_only(name: str, mode: int, project: Path) -> None:
    """It stays as it is, and the message says what to do."""
    path = project / "mine"
    path.chmod(mode)
    with pytest.raises(UnsafePath, match="mine is read-only") as error:
        WRITES[name](ProjectFiles(str(project)), "mine")
    assert "chmod u+w mine" in error.value.hint
    assert mode == path.stat().st_mode & 0o777
    path.chmod(0o600)
    assert "mine" == path.read_text()


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "a/../../x", ".git/hooks/x", ".leftoff/x", "", "a\0b"])
@pytest.mark.parametrize("name", WRITES)
def test_a_path_that_leads_out(name: str, path: str, project: Path) -> None:
    """Nor is anything written where git or the store keep theirs."""
    with pytest.raises((Invalid, UnsafePath)):
        WRITES[name](ProjectFiles(str(project)), path)
    assert {"mine", "d"} == set(os.listdir(project))


def test_a_project_that_is_reached_through_a_link(project: Path, tmp_path: Path) -> None:
    """Its own folder may be one."""
    (tmp_path / "near").symlink_to(project)
    ProjectFiles(str(tmp_path / "near")).replace("d/x", b"new")
    assert "new" == (project / "d/x").read_text()


def test_permissions_stay(project: Path) -> None:
    """Of a file that is replaced; a new one is its owner's."""
    (project / "mine").chmod(0o640)
    files = ProjectFiles(str(project))
    files.replace("mine", b"new")
    files.replace("other", b"new")
    assert [0o640, 0o600] == [(project / name).stat().st_mode & 0o777 for name in ("mine", "other")]


def test_permissions_that_are_there_already(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are not set again: a file system that has but one kind of them refuses even that."""

    def refused(fd: int, mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refused)
    (project / "plain.txt").write_bytes(b"before")
    (project / "plain.txt").chmod(0o600)  # as what is written aside begins
    ProjectFiles(str(project)).replace("plain.txt", b"now")
    assert b"now" == (project / "plain.txt").read_bytes()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_swapped_while_it_is_written(
    what: str, project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the rename, a link takes the place: it is replaced, or left behind, and never followed."""
    (project / "d/victim").write_text("old")
    write = project_files.write_new

    def swapped(*words: object) -> None:
        write(*words)  # type: ignore[arg-type]
        if what == "file":
            (project / "d/victim").unlink()
            (project / "d/victim").symlink_to(outside / "victim")
        else:
            (project / "d").rename(project / "moved")
            (project / "d").symlink_to(outside)
        monkeypatch.setattr(project_files, "write_new", None)

    monkeypatch.setattr(project_files, "write_new", swapped)
    ProjectFiles(str(project)).replace("d/victim", b"new")
    assert project_files.write_new is None  # it was swapped
    assert {"victim": "untouched"} == whole(outside)
    assert "new" == (project / ("d" if what == "file" else "moved") / "victim").read_text()


def test_swapped_all_the_time(project: Path, outside: Path) -> None:
    """Somebody exchanges a folder and a link to elsewhere as fast as they can: nothing ever lands there."""
    (project / "link").symlink_to(outside)
    over = threading.Event()

    def exchange() -> None:
        with Place("link", os.open(project, os.O_RDONLY)) as one:
            while not over.is_set():
                project_files.exchanged(one, "d")

    somebody = threading.Thread(target=exchange)
    somebody.start()
    files = ProjectFiles(str(project))
    for number in range(300):
        with suppress(UnsafePath, OSError):
            (files.replace if number % 2 else files.append)("d/victim", b"new")
    over.set()
    somebody.join()
    assert {"victim": "untouched"} == whole(outside)


def test_reading_follows_nothing_and_waits_for_nobody(project: Path, outside: Path) -> None:
    """A link, a pipe and what is behind a link hold nothing."""
    (project / "way").symlink_to(outside)
    (project / "link").symlink_to(outside / "victim")
    os.mkfifo(project / "pipe")
    files = ProjectFiles(str(project))
    assert [None] * 4 == [files.read(path) for path in ("way/victim", "link", "pipe", "../outside/victim")]
    assert b"mine" == files.read("mine")


def test_removing_follows_nothing(project: Path, outside: Path) -> None:
    """A link goes, or stays, by itself."""
    (project / "way").symlink_to(outside)
    files = ProjectFiles(str(project))
    files.remove("way/victim")
    files.remove_folder("way")
    assert ({"victim": "untouched"}, True) == (whole(outside), (project / "way").is_symlink())
    files.remove("way")
    (project / "d/way").symlink_to(outside)
    files.remove_folder("d")
    assert ({"victim": "untouched"}, ["mine"]) == (whole(outside), os.listdir(project))


def test_who_is_still_writing_is_left_alone(project: Path) -> None:
    """Two who write the same file at once: each is whole, the later one stays, nothing is left over."""
    other = ProjectFiles(str(project))

    def slowly() -> Iterator[bytes]:
        yield b"first "
        other.replace("d/page", b"second")
        assert "second" == (project / "d/page").read_text()
        yield b"whole"

    with ProjectFiles(str(project)).open("d/page") as at:
        project_files.replace_at(at, slowly(), None)
    assert {"page": "first whole"} == whole(project / "d")


def test_two_who_set_a_link_at_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is not in its place yet is not taken for one that was left."""
    other, rename = ProjectFiles(str(project)), os.rename

    def later(*words: Any, **folders: Any) -> None:
        monkeypatch.setattr(os, "rename", rename)
        other.link("d/now", "second")
        rename(*words, **folders)

    monkeypatch.setattr(os, "rename", later)
    ProjectFiles(str(project)).link("d/now", "first")
    assert (["now"], "first") == (os.listdir(project / "d"), os.readlink(project / "d/now"))
