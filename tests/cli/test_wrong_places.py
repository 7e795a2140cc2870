"""Stores that are none, folders that are closed, disks that are full, streams that are gone: no traceback."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import leftoff
from tests.agents.hooking import Session
from tests.cli.command import LEFTOFF, Called, call, call_as, environment, succeed
from tests.cli.test_wrong_inputs import RUN, check_document, check_told, home, state, template
from tests.crash import mounts

__all__ = ["home", "template"]  # fixtures

READING = [
    ["ls"],
    ["show", RUN],
    ["status"],
    ["log", RUN],
    ["get"],
    ["brief", RUN],
    ["export", RUN, "-o", "out"],
]
WRITING = [["set", "a=1"], ["start", "x"], ["step", "done", "build"], ["init"]]


def script(command: str, cwd: Path, **env: str) -> Called:
    """A line of bash, with `leftoff` in it."""
    path = f"{LEFTOFF.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        env=environment(PATH=path, PYTHONUNBUFFERED="", **env),  # as everybody has it
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Called((command,), done.returncode, done.stdout, done.stderr)


# -- stores that are none


def spoil(home: Path, how: str) -> None:
    """Put something else where the store should be."""
    database = home / ".leftoff" / "store.db"
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (home / ".leftoff" / name).unlink(missing_ok=True)
    if how == "a folder":
        database.mkdir()
    elif how == "a text file":
        database.write_text("this is not a database\n" * 100)
    elif how == "a foreign database":
        db = apsw.Connection(str(database))
        db.execute("CREATE TABLE t (x)")
        db.close()
    elif how == "a file for a folder":
        shutil.rmtree(home / ".leftoff")
        (home / ".leftoff").write_text("x")


@pytest.mark.damages_store
@pytest.mark.parametrize(
    ("how", "code"),
    [("a folder", 8), ("a text file", 4), ("a foreign database", 4), ("a file for a folder", 8)],
)
def test_a_store_that_is_none(how: str, code: int, home: Path) -> None:
    """Reading and writing say what is there instead, and leave it as it is."""
    spoil(home, how)
    before = sorted(p.stat().st_size for p in home.rglob("store.db*") if p.is_file())
    for words in READING + WRITING:
        check_told(call(*words, cwd=home), code, ".leftoff")
        check_document(call(*words, "--json", cwd=home), code)
    assert before == sorted(p.stat().st_size for p in home.rglob("store.db*") if p.is_file())
    assert not (home / "out").exists()


@pytest.mark.damages_store
def test_an_empty_file_was_a_store(home: Path) -> None:
    """leftoff never leaves one: it was cut off, which is told, and not a byte is written to it."""
    spoil(home, "nothing")
    (home / ".leftoff" / "store.db").touch()
    for words in (["ls"], ["show", RUN], ["set", "a=1"], ["start", "x"]):
        check_told(call(*words, cwd=home), 4, "cut off")
    assert 0 == (home / ".leftoff" / "store.db").stat().st_size


@pytest.mark.damages_store
def test_a_newer_schema(home: Path) -> None:
    """It is named, with what to do, and not a byte is written."""
    script = (
        "import leftoff, sys\n"
        "from leftoff.store import sqlite_connection as connection\n"
        "db = connection.open_file(sys.argv[1])\n"
        "db.execute('PRAGMA user_version = 99')\n"
        "db.execute(\"UPDATE meta SET value = '99' WHERE name LIKE 'min_%'\")\n"
        "db.close()\n"
    )
    database = home / ".leftoff" / "store.db"
    subprocess.run([sys.executable, "-c", script, str(database)], check=True, env=environment())
    for words in READING + WRITING:
        check_told(call(*words, cwd=home), 4, "schema 99")
        check_document(call(*words, "--json", cwd=home), 4)


# -- streams


def test_a_reader_that_had_enough(home: Path) -> None:
    """`| head -1` ends every verb in peace."""
    for words in ("show release-1", "help", "ls --json"):
        result = script(f"set -o pipefail; leftoff {words} | head -c 1; exit ${{PIPESTATUS[0]}}", home)
        assert (0, "") == (result.code, result.err), words


def test_closed_streams(home: Path) -> None:
    """Without stdout, stderr or stdin, verbs do their work, and exit as they would."""
    for command, code in [
        ("leftoff ls >&-", 0),
        ("leftoff ls --json >&-", 0),
        ("leftoff set closed=1 >&- 2>&- <&-", 0),
        ("leftoff show nothing 2>&-", 3),
        ("leftoff help >&-", 0),
        ("leftoff set empty=@- <&-", 0),
        ("leftoff rm release-1 <&-", 7),
    ]:
        result = script(command, home)
        assert code == result.code and "Traceback" not in result.err, f"{command}\n{result}"
    assert {"closed": 1, "empty": ""} == succeed("get", "--json", cwd=home).json


def test_an_output_that_is_full(home: Path) -> None:
    """A result that cannot be written is an I/O error, not a success."""
    for command in ("ls", "ls --json", "help", "get"):
        result = script(f"leftoff {command} > /dev/full", home)
        assert 8 == result.code, str(result)
        assert "Traceback" not in result.err and "Exception ignored" not in result.err, str(result)
    result = script("leftoff show nothing 2> /dev/full", home)
    assert (3, "") == (result.code, result.err)


@pytest.mark.parametrize("json", ["", "--json"])
def test_events_that_cannot_be_written(home: Path, json: str) -> None:
    """Do not end the work, which is done to its end; that they are missing is told."""
    (home / "flow.yaml").write_text("name: flow\nsteps:\n  - {id: a, run: echo done > a.txt}\n")
    result = script(f"leftoff run flow.yaml --run-id f {json} > /dev/full", home)
    assert (8, "done\n") == (result.code, (home / "a.txt").read_text()), str(result)
    assert "Run f is completed, but not all that happened could be written" in result.err
    assert "completed" == succeed("show", "f", "--json", cwd=home).json["status"]
    assert 0 == script(f"set -o pipefail; leftoff run flow.yaml --run-id g {json} | true", home).code


def test_a_folder_that_is_gone(home: Path) -> None:
    """Standing in a folder that was removed is told as that."""
    result = script("mkdir gone && cd gone && rmdir ../gone && leftoff ls", home)
    check_told(result, 3, "current folder is gone")


# -- permissions: as an ordinary user, whoever runs the tests


NOBODY = 65534


def as_nobody(*words: str, cwd: Path) -> Called:
    """The command as somebody without rights."""
    return call_as(NOBODY, *words, cwd=cwd, HOME="/nonexistent", LEFTOFF_TRUST="1")


@pytest.fixture
def theirs(template: Path) -> Iterator[Path]:
    """The same project, owned by whom the command runs as, where everybody may pass: pytest's own folders are shut."""
    with tempfile.TemporaryDirectory(prefix="leftoff-test-") as folder:
        home = Path(folder, "home")
        shutil.copytree(template, home)
        Path(folder).chmod(0o711)
        if os.getuid() == 0:
            for path in [home, *home.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        yield home
        succeed("fsck", cwd=home)


def refuse(path: Path, mode: int) -> Callable[[], None]:
    """Take rights away; what gives them back."""
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    return lambda: path.chmod(before)


@pytest.mark.parametrize(
    ("where", "mode"), [(".leftoff", 0o000), (".leftoff/store.db", 0o000), (".leftoff", 0o500)]
)
def test_a_store_without_permission(where: str, mode: int, theirs: Path) -> None:
    """Neither readable nor writable: exit 8, naming the place; nothing changed."""
    before = state(theirs)
    restore = refuse(theirs / where, mode)
    try:
        for words in [["set", "a=1"], ["start", "x"], ["show", RUN], ["ls"]]:
            result = as_nobody(*words, cwd=theirs)
            if mode == 0o500 and result.code == 0:
                continue  # reading needs no right to write, and a log that is there can be written to
            check_told(result, 8, ".leftoff")
    finally:
        restore()
    if mode != 0o500:
        assert before == state(theirs)


def test_everything_in_the_store_is_its_owners(tmp_path: Path) -> None:
    """Modes do not depend on the umask or on the writer: the sync, the supervisor, a hook, a large file."""
    store = tmp_path / ".leftoff"
    (tmp_path / "big").write_bytes(os.urandom(2_000_000))
    before = os.umask(0)
    try:
        succeed("init", "--protocol", "bmad", cwd=tmp_path)
        succeed("start", "x", cwd=tmp_path)
        succeed("artifact", "big", cwd=tmp_path)
        succeed("supervise", "--once", cwd=tmp_path)
        Session(tmp_path).fire("SessionStart")
    finally:
        os.umask(before)
    names = {path.name for path in store.iterdir()}
    assert {"sync", "supervise.json", "hooks", "blobs"} <= names
    found = {path.relative_to(store) for path in store.rglob("*") if path.stat().st_mode & 0o077}
    assert set() == found and 0o700 == stat.S_IMODE(store.stat().st_mode)


@pytest.mark.parametrize("logged", [False, True], ids=["without its log", "with its log"])
def test_a_store_that_can_only_be_read(logged: bool, theirs: Path) -> None:
    """Whatever only reads works, also where there is no index of the log and none can be made; writing is exit 8."""
    store = theirs / ".leftoff"
    if logged:
        assert 0 == as_nobody("note", "hello", cwd=theirs).code
    else:
        with leftoff.open(store) as opened:  # what is closed as a writer leaves the log empty
            opened.start("x").finish()
    before = state(theirs)
    if not logged:
        (store / "store.db-wal").unlink()
        (store / "store.db-shm").unlink()
    restore = [refuse(path, 0o400) for path in store.iterdir() if path.is_file()]
    restore += [refuse(path, 0o500) for path in (store, theirs)]
    try:
        for words in (
            ["brief", RUN],
            ["show", RUN],
            ["ls"],
            ["log", RUN],
            ["verify", RUN],
            ["status"],
            ["fsck"],
        ):
            result = as_nobody(*words, cwd=theirs)
            assert 0 == result.code and result.out, str(result)
        check_told(as_nobody("set", "a=1", "--run", RUN, cwd=theirs), 8, "cannot be written")
    finally:
        for give_back in restore:
            give_back()
    assert before == state(theirs)


def test_a_project_that_cannot_be_written(theirs: Path) -> None:
    """No store can be made there: exit 8, and how to put it elsewhere."""
    bare = theirs.parent / "bare"
    bare.mkdir()
    if os.getuid() == 0:
        os.chown(bare, NOBODY, NOBODY)
    restore = refuse(bare, 0o500)
    try:
        for words in (["start", "x"], ["init"]):
            check_told(as_nobody(*words, cwd=bare), 8, "LEFTOFF_STORE")
        result = as_nobody("export", RUN, "-o", f"{bare}/out", cwd=theirs)
        check_told(result, 8, "cannot be written")
    finally:
        restore()
    assert [] == list(bare.iterdir())


def test_files_without_permission(theirs: Path) -> None:
    """A value, an artifact, a bundle, settings that may not be read: told, and nothing changed."""
    before = state(theirs)
    secret = theirs / "page.txt"
    restore = refuse(secret, 0o000)
    try:
        check_told(as_nobody("set", "k=@page.txt", cwd=theirs), 8, "page.txt")
        check_told(as_nobody("artifact", "page.txt", cwd=theirs), 8, "page.txt")
        check_told(as_nobody("import", "page.txt", cwd=theirs), 8, "page.txt")
    finally:
        restore()
    assert before == state(theirs)


# -- disks


def limited(*words: str, cwd: Path, size: int) -> Called:
    """The command with no file of its own over a size: a full disk that needs no root."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    done = subprocess.run(
        [str(LEFTOFF), *words],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit,
    )
    return Called(words, done.returncode, done.stdout, done.stderr)


def test_a_full_disk(home: Path) -> None:
    """Exit 8, what was there is safe, and with room again it works."""
    before = state(home)
    (home / "big.bin").write_bytes(os.urandom(200_000))
    before["files"].add("big.bin")
    for words in (
        ["set", f"big={'x' * 30_000}"],
        ["put", "knowledge", "big", json.dumps("x" * 30_000)],
        ["artifact", "big.bin"],
        ["export", RUN, "-o", "out"],
    ):
        check_told(limited(*words, cwd=home, size=4096), 8, "")
        check_document(limited(*words, "--json", cwd=home, size=4096), 8)
    assert before == state(home)
    succeed("set", "big=1", cwd=home)


def test_a_full_disk_for_a_new_store(tmp_path: Path) -> None:
    """Not even the first page can be written: exit 8, and what is left is no half store."""
    check_told(limited("start", "x", cwd=tmp_path, size=1024), 8, "")
    succeed("start", "x", cwd=tmp_path)
    succeed("fsck", cwd=tmp_path)


@pytest.mark.crash_full
def test_a_full_tmpfs(tmp_path: Path) -> None:
    """A file system of half a megabyte: writes fail with exit 8 until there is room again."""
    with mounts.tmpfs(tmp_path / "small", "512k") as small:
        ballast = small / "ballast"
        succeed("start", "x", "--run-id", "x-1", cwd=small)
        with open(ballast, "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(4096))
        check_told(call("set", f"big={'x' * 90_000}", cwd=small), 8, "full")
        check_told(call("export", "x-1", "-o", "out", cwd=small), 8, "cannot be written")
        ballast.unlink()
        succeed("set", "big=1", cwd=small)
        succeed("fsck", cwd=small)


@pytest.mark.crash_full
def test_a_read_only_file_system(tmp_path: Path, template: Path) -> None:
    """Reading works or says why not; writing is exit 8."""
    with mounts.tmpfs(tmp_path / "ro", "8m") as folder:
        shutil.copytree(template, folder / "home")
        mounts.command("mount", "-o", "remount,ro", str(folder))
        try:
            for words in WRITING:
                check_told(call(*words, cwd=folder / "home"), 8, "")
                check_document(call(*words, "--json", cwd=folder / "home"), 8)
            for words in READING[:-1]:
                result = call(*words, cwd=folder / "home")
                assert result.code in (0, 8) and "Traceback" not in result.err, str(result)
            check_told(call("init", "--project", str(folder), cwd=folder), 8, "")
        finally:
            mounts.command("mount", "-o", "remount,rw", str(folder))


def test_leftoff_opens_again(home: Path) -> None:
    """After all that, the project of these tests is an ordinary one."""
    with leftoff.open(home / ".leftoff") as store:
        assert 4 == len(store.list())
