"""Damage in the log is silent for SQLite, which forgets what lies behind it. leftoff tells whoever opens the store,
before anything is read or written."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.store.sqlite import connection
from leftoff.store.sqlite.pages import checksum
from leftoff.store.sqlite.wal import FRAME, HEADER, STEP, Log
from tests.cli.command import call, spawn, succeed
from tests.damage.store import PAGE, flip, problems
from tests.races.between import Seam
from tests.store.processes import child

pytestmark = pytest.mark.damages_store

COMMITS = 40
WRITER = f"""
import os, signal, sys
import leftoff
run = leftoff.open(sys.argv[1]).start("log", run_id="log", steps=["a"])
for n in range({COMMITS}):
    run.variables.update(n=n, text="t" * 500)
    run.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose writer was killed: its log holds many commits, its index is there."""
    path = tmp_path_factory.mktemp("killed") / ".leftoff"
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)], capture_output=True, text=True, timeout=60
    )
    assert -9 == done.returncode, done.stderr
    return path


def copied(killed: Path, folder: Path, *, index: bool) -> Path:
    """A copy, with the index or without it. What else knows how far it was is taken away: see ``test_older``."""
    path = folder / ".leftoff"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(killed, path)
    (path / "lock").unlink()
    if not index:
        (path / "store.db-shm").unlink()
    return path


def places(log: Log) -> dict[str, list[int]]:
    """Bytes of a log by what they are."""
    middle = HEADER + log.valid // 2 * STEP
    last = HEADER + (log.valid - 1) * STEP
    rng = random.Random(3)
    return {
        "header": list(range(HEADER)),
        "frame head": list(range(middle, middle + FRAME)),
        "page": [middle + FRAME + rng.randrange(4096) for _ in range(30)],
        "first frame": [HEADER + rng.randrange(STEP) for _ in range(10)],
        "last frame": [last + rng.randrange(STEP) for _ in range(20)] + list(range(last, last + FRAME)),
    }


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.crash_full)])
@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
@pytest.mark.parametrize("where", ["header", "frame head", "page", "first frame", "last frame"])
def test_flip_is_found(killed: Path, tmp_path: Path, where: str, index: bool, every: int) -> None:
    """A flipped byte in any part of the log is reported, with and without the index, and nothing older is read."""
    wal = copied(killed, tmp_path, index=index) / "store.db-wal"
    data = wal.read_bytes()
    for at, offset in enumerate(places(Log(data))[where][::every]):
        flip(wal, offset, 1 << at % 8)
        found = problems(wal.parent)
        assert ["wal"] == [p["code"] for p in found], f"byte {offset}"
        bad = 0 if offset < HEADER else HEADER + (offset - HEADER) // STEP * STEP
        assert f"{wal} at byte {bad}" == found[0]["where"]
        if at % 8 == 0:
            check_refused(wal.parent)
        copied(killed, tmp_path, index=index)


def check_refused(path: Path) -> None:
    """Neither a read nor a write gets through, again and again, and the log stays as it is."""
    log = (path / "store.db-wal").read_bytes()
    for _ in range(2):
        with leftoff.open(path) as store:
            with pytest.raises(leftoff.Corrupt, match=r"-wal at byte|is at commit"):
                store.get("log")
            with pytest.raises(leftoff.Corrupt, match=r"-wal at byte|is at commit"):
                store.start("another")
    assert log == (path / "store.db-wal").read_bytes()


def check_some_version(path: Path) -> None:
    """What is left is a version of the run as it was: all of its variables are of one commit."""
    with leftoff.open(path) as store:
        for info in store.list():
            variables = store.get(info.run_id).variables
            marked = "salvaged" in store.get(info.run_id).records.get("context", {})
            assert info.row.seq == variables.get("n", -1) + 2 + marked


def test_whole_log_is_clean(killed: Path, tmp_path: Path) -> None:
    """A log that nobody damaged is none of fsck's business, with and without the index."""
    for index in (True, False):
        path = copied(killed, tmp_path, index=index)
        assert [] == problems(path)
        with leftoff.open(path) as store:
            assert COMMITS - 1 == store.get("log").variables["n"]


@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_log_copied_while_it_is_written(tmp_path: Path, index: bool) -> None:
    """A copy of a live store is clean, also when a commit is under way."""
    path = tmp_path / "live" / ".leftoff"
    with leftoff.open(path) as store, store.start("log") as run:
        for n in range(20):
            run.variables.update(n=n, text="t" * 500)
            run.commit()
            copy = copied(path, tmp_path, index=index)
            assert [] == problems(copy)


@pytest.mark.parametrize("cut", [1, FRAME, FRAME + 1, STEP - 1, STEP + 5, 2 * STEP])
def test_torn_tail_is_no_damage(killed: Path, tmp_path: Path, cut: int) -> None:
    """A log that ends within a frame, or within a transaction, was never acknowledged to that end."""
    wal = copied(killed, tmp_path, index=False) / "store.db-wal"
    log = Log(wal.read_bytes())
    wal.write_bytes(log.data[: HEADER + log.valid * STEP - cut])
    assert [] == problems(wal.parent)
    check_some_version(wal.parent)


def test_torn_frame_is_no_damage(killed: Path, tmp_path: Path) -> None:
    """Frames of the last commits that never reached the disk are no damage, whatever lies behind them."""
    log = Log((killed / "store.db-wal").read_bytes())
    for back in (1, 3, 9):
        start = HEADER + (log.valid - back) * STEP
        for torn in (bytes(STEP), log.data[start : start + 512] + bytes(STEP - 512)):
            wal = copied(killed, tmp_path, index=False) / "store.db-wal"
            wal.write_bytes(log.data[:start] + torn + log.data[start + STEP :])
            os.utime(wal, (1, 1))  # before this machine was started: the power may have gone
            assert [] == problems(wal.parent), back
            check_some_version(wal.parent)


def test_two_commits_are_not_torn(killed: Path, tmp_path: Path) -> None:
    """While the machine runs, only the commit that was being written can be torn: two behind a bad frame were made."""
    log = Log((killed / "store.db-wal").read_bytes())
    ends = [frame.number for frame in log.all_frames() if frame.after]
    for lost, refused in ((1, False), (2, True), (5, True)):
        wal = copied(killed, tmp_path, index=False) / "store.db-wal"
        start = HEADER + ends[-lost - 1] * STEP  # the first frame of that many commits
        wal.write_bytes(log.data[:start] + bytes(STEP) + log.data[start + STEP :])
        assert refused == bool(problems(wal.parent)), lost
        (check_refused if refused else check_some_version)(wal.parent)


@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_one_commit_that_the_index_knows(killed: Path, tmp_path: Path, index: bool) -> None:
    """The last commit alone is missed where the index knew it: at once, and after fsck had a look, too."""
    wal = copied(killed, tmp_path, index=index) / "store.db-wal"
    log = Log(wal.read_bytes())
    wal.write_bytes(log.data[: HEADER + (log.valid - 1) * STEP] + random.Random(1).randbytes(STEP))
    for _ in range(2):
        assert (["wal"] if index else []) == [p["code"] for p in problems(wal.parent)]
        (check_refused if index else check_some_version)(wal.parent)


def test_a_log_that_is_gone(killed: Path, tmp_path: Path) -> None:
    """A log that was removed or emptied is missed where its index is left; a repair does without it, and says so."""
    for remove in (Path.unlink, lambda wal: wal.write_bytes(b"")):
        wal = copied(killed, tmp_path, index=True) / "store.db-wal"
        remove(wal)
        with leftoff.open(wal.parent) as store, pytest.raises(leftoff.Corrupt, match="The log is gone"):
            store.list()
        assert ["wal"] == [p["code"] for p in problems(wal.parent)]
        with leftoff.open(wal.parent) as store:
            assert ["wal"] == [problem["code"] for problem in store.fsck(repair=True).repaired]
        assert [] == problems(wal.parent)


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_an_older_store(killed: Path, tmp_path: Path, cut: int) -> None:
    """A log that is gone, or cut, together with its index: the number of the newest commit is also elsewhere."""
    path = copied(killed, tmp_path, index=False)
    shutil.copy(killed / "lock", path / "lock")
    wal = path / "store.db-wal"
    log = Log(wal.read_bytes())
    wal.write_bytes(log.data[: HEADER + (log.valid - cut) * STEP] if cut else b"")
    if not cut:
        wal.unlink()
    with leftoff.open(path) as store, pytest.raises(leftoff.Corrupt, match="is at commit"):
        store.list()
    check_refused(path)
    assert ["wal"] == [p["code"] for p in problems(path)]
    with leftoff.open(path) as store:
        done = store.fsck(repair=True)
        assert ["wal"] == [each["code"] for each in done.repaired]
        lost = [loss["run_id"] for loss in done.salvaged]  # perhaps: it asks before it resumes
        assert (["log"] if cut else []) == lost
    assert [] == problems(path)


def test_fsck_is_the_first_to_look(killed: Path, tmp_path: Path) -> None:
    """It finds by itself that a store is an older one."""
    path = copied(killed, tmp_path, index=False)
    shutil.copy(killed / "lock", path / "lock")
    (path / "store.db-wal").unlink()
    assert ["wal"] == [p["code"] for p in problems(path)]


def test_a_commit_while_it_is_opened(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes nobody believe that what they read is older than it should be."""
    succeed("start", "w", cwd=project)
    path = project / ".leftoff"
    db = connection.open_file(str(path / "store.db"))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    (path / "store.db-shm").unlink()
    Seam(monkeypatch).after("leftoff.store.sqlite.migrate.check", lambda: spawn("note", "x", cwd=project))
    with leftoff.open(path) as store:
        assert 1 == len(store.list())


def test_a_new_store_in_the_place_of_an_old_one(killed: Path, tmp_path: Path) -> None:
    """Is not missed anything: what its folder remembers is of the other one."""
    path = copied(killed, tmp_path, index=False)
    shutil.copy(killed / "lock", path / "lock")
    for left in ("store.db", "store.db-wal"):
        (path / left).unlink()
    shutil.rmtree(path / "blobs", ignore_errors=True)
    for _ in range(2):
        with leftoff.open(path) as store:
            store.start("new")
        for left in ("store.db-wal", "store.db-shm"):
            (path / left).unlink(missing_ok=True)


def test_a_log_of_an_earlier_life(tmp_path: Path) -> None:
    """An older copy of the log in the place of the present one, whose index is left, is no older store."""
    succeed("start", "a", "--run-id", "a", cwd=tmp_path)
    log = tmp_path / ".leftoff/store.db-wal"
    older = log.read_bytes()
    with leftoff.open(log.parent) as store:
        store._store.truncate()  # type: ignore[attr-defined]
    succeed("start", "b", "--run-id", "b", cwd=tmp_path)
    assert log.stat().st_size
    log.write_bytes(older)
    done = call("ls", cwd=tmp_path)
    assert 4 == done.code
    assert "an older copy was put back" in done.err


@pytest.mark.parametrize("between", ["goes on", "begins anew"])
def test_an_older_log_with_its_index(tmp_path: Path, between: str) -> None:
    """Both put back as they were: no older store either, and after a repair the run asks."""
    succeed("start", "a", "--run-id", "a", "--steps", "x,y", cwd=tmp_path)
    folder = tmp_path / ".leftoff"
    older = {name: (folder / name).read_bytes() for name in ("store.db-wal", "store.db-shm")}
    succeed("step", "done", "x", cwd=tmp_path)
    if between == "begins anew":
        with leftoff.open(folder) as store:
            store._store.truncate()  # type: ignore[attr-defined]
        succeed("set", "k=1", cwd=tmp_path)
    for name, data in older.items():
        (folder / name).write_bytes(data)
    done = call("ls", cwd=tmp_path)
    assert 4 == done.code
    assert "an older copy was put back" in done.err
    succeed("fsck", "--repair", cwd=tmp_path)
    assert 7 == call("resume", "a", "--dry-run", cwd=tmp_path).code


def test_large_damage_is_found(killed: Path, tmp_path: Path) -> None:
    """A sector of garbage in the middle of the log is reported, too: too much lies behind it to be a torn tail."""
    wal = copied(killed, tmp_path, index=False) / "store.db-wal"
    log = Log(wal.read_bytes())
    start = HEADER + log.valid // 3 * STEP + 512
    wal.write_bytes(log.data[:start] + random.Random(1).randbytes(512) + log.data[start + 512 :])
    assert ["wal"] == [p["code"] for p in problems(wal.parent)]
    check_refused(wal.parent)


def test_index_of_an_earlier_life_proves_nothing(killed: Path, tmp_path: Path) -> None:
    """After a restart of the machine the index may know of frames that were never synced: it is not believed."""
    path = copied(killed, tmp_path, index=True)
    wal = path / "store.db-wal"
    log = Log(wal.read_bytes())
    wal.write_bytes(log.data[: HEADER + (log.valid - 1) * STEP])
    assert ["wal"] == [p["code"] for p in problems(path)]
    copied(killed, tmp_path, index=True)
    wal.write_bytes(log.data[: HEADER + (log.valid - 1) * STEP])
    os.utime(path / "store.db-shm", (1, 1))
    assert [] == problems(path)


def test_log_that_begins_again(killed: Path, tmp_path: Path) -> None:
    """Where the log was copied back and its first frame is being written anew, nothing is lost."""
    path = copied(killed, tmp_path, index=False)
    wal = path / "store.db-wal"
    log = Log(wal.read_bytes())
    pages, _ = log.committed()
    database = bytearray((path / "store.db").read_bytes())
    for number, page in pages.items():
        start = (number - 1) * PAGE
        database[start : start + PAGE] = page[:-8] + checksum(page)
    (path / "store.db").write_bytes(database)
    wal.write_bytes(log.data[:HEADER] + random.Random(2).randbytes(STEP) + log.data[HEADER + STEP :])
    assert [] == problems(path)
    with leftoff.open(path) as store:
        assert COMMITS - 1 == store.get("log").variables["n"]


BUSY = """
store.write(add("one"))
say("written")
hear()
store.truncate()
say("emptied")
hear()
"""


def test_a_log_that_is_emptied_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others do to the log while we open the store is no damage: an index that is in use proves nothing."""
    path, usual = tmp_path / ".leftoff", connection.open_file
    with child(BUSY, path) as other:
        assert "written" == other.hear()

        def slowly(*words: Any, **more: Any) -> Any:
            monkeypatch.undo()
            other.tell()
            assert "emptied" == other.hear()
            return usual(*words, **more)

        monkeypatch.setattr(connection, "open_file", slowly)
        with leftoff.open(path) as store:
            assert [] == store.list()
        other.tell()
    assert [] == problems(path)
