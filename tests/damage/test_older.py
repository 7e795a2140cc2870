"""A store that is older than it was, by the number of the newest commit that `lock` keeps: told as long as it is so."""

from __future__ import annotations

from pathlib import Path

import pytest

import leftoff
from leftoff.store.sqlite.writer import MARK, Turn
from tests.cli.command import call, succeed
from tests.damage.store import problems
from tests.damage.test_tampering import tamper
from tests.races.between import Seam

pytestmark = pytest.mark.damages_store


@pytest.fixture
def older(tmp_path: Path) -> dict[str, bytes]:
    """The files of a store that went on since: its run has done one of two steps by now, and its log is empty."""
    succeed("start", "a", "--run-id", "a", "--steps", "x,y", cwd=tmp_path)
    before = files_of(tmp_path)
    emptied(tmp_path)
    before["store.db"] = files_of(tmp_path)["store.db"]
    succeed("step", "done", "x", cwd=tmp_path)
    emptied(tmp_path)
    return before


def files_of(project: Path) -> dict[str, bytes]:
    names = ("store.db", "store.db-wal", "store.db-shm")
    return {name: (project / ".leftoff" / name).read_bytes() for name in names}


def emptied(project: Path) -> None:
    with leftoff.open(project / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]


def put_back(project: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (project / ".leftoff" / name).write_bytes(data)


class Killed(BaseException):
    pass


def die() -> None:
    raise Killed


def test_the_right_one_is_put_back(tmp_path: Path, older: dict[str, bytes]) -> None:
    """Who was told that the store is an older one, and puts the right one back, has a whole store."""
    right = files_of(tmp_path)
    put_back(tmp_path, {"store.db": older["store.db"]})
    assert "an older copy was put back" in call("ls", cwd=tmp_path).err
    assert ["wal"] == [p["code"] for p in problems(tmp_path / ".leftoff")]
    put_back(tmp_path, {"store.db": right["store.db"]})
    assert [] == problems(tmp_path / ".leftoff")
    assert ["a"] == [run["run_id"] for run in succeed("ls", "--json", cwd=tmp_path).json["runs"]]


def test_an_older_store_that_has_all_of_its_log(tmp_path: Path, older: dict[str, bytes]) -> None:
    """A log that is whole, and in the database already, does not tell that nothing is missing."""
    put_back(tmp_path, older)
    assert 4 == call("ls", cwd=tmp_path).code
    succeed("fsck", "--repair", cwd=tmp_path)
    assert 7 == call("resume", "a", "--dry-run", cwd=tmp_path).code


@pytest.mark.parametrize(
    "place",
    [
        "os.replace",
        "leftoff.store.repair.repair.perhaps",
        "leftoff.engine.write.salvaged.mark_in",
        "leftoff.store.sqlite.wal_check.forget_note",
    ],
)
@pytest.mark.parametrize("number", [True, False], ids=["with the number", "without"])
def test_a_repair_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: bool
) -> None:
    """Between taking the log away and the end: that leaves no older store in silence, nor a run that does not ask."""
    succeed("start", "a", "--run-id", "a", "--steps", "x,y", cwd=tmp_path)
    emptied(tmp_path)
    succeed("step", "done", "x", cwd=tmp_path)
    path = tmp_path / ".leftoff"
    if not number:
        (path / "lock").unlink()
    if place == "os.replace":
        data = bytearray((path / "store.db").read_bytes())
        data[5 * 4096 : 6 * 4096] = bytes(4096)  # so that a new one has to be built
        (path / "store.db").write_bytes(data)
    else:
        (path / "store.db-wal").write_bytes(b"")

    with monkeypatch.context() as patch:
        Seam(patch).before(place, die)
        with leftoff.open(path) as store, pytest.raises(Killed):
            store.fsck(repair=True)
    if place == "os.replace" and not number:
        return  # nobody knows that there was a log
    assert 4 == call("ls", cwd=tmp_path).code
    succeed("fsck", "--repair", cwd=tmp_path)
    assert 7 == call("resume", "a", "--dry-run", cwd=tmp_path).code


def test_a_repair_that_is_killed_behind_its_new_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That has no log any more that could tell what is missing, nor had this store a number: a note does."""
    succeed("start", "a", "--run-id", "a", "--steps", "x,y", cwd=tmp_path)
    succeed("start", "b", "--run-id", "b", cwd=tmp_path)
    path = tmp_path / ".leftoff"
    for table in ("version", "run"):
        tamper(path, f"DELETE FROM {table} WHERE n = (SELECT max(n) FROM {table}) AND run > 0")
    (path / "lock").unlink()
    with monkeypatch.context() as patch:
        Seam(patch).before("leftoff.store.repair.repair.perhaps", die)
        with leftoff.open(path) as store, pytest.raises(Killed):
            store.fsck(repair=True)
    assert 4 == call("ls", cwd=tmp_path).code
    succeed("fsck", "--repair", cwd=tmp_path)
    assert 7 == call("resume", "a", "--dry-run", cwd=tmp_path).code


@pytest.mark.parametrize("at", [0, 19, 20, 39])
def test_a_number_that_is_damaged(tmp_path: Path, at: int) -> None:
    """Or that is read while it is written: the store is whole, and says so."""
    succeed("start", "a", cwd=tmp_path)
    lock = tmp_path / ".leftoff/lock"
    data = bytearray(lock.read_bytes())
    assert b"1" == data[MARK + 19 : MARK + 20]
    data[MARK + at] = ord("9")
    lock.write_bytes(data)
    succeed("ls", cwd=tmp_path)


def test_a_store_that_is_repaired_while_it_is_opened(
    tmp_path: Path, older: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number that was read before is given up by then: nothing is missed by it."""
    put_back(tmp_path, {"store.db": older["store.db"]})

    def repaired() -> None:
        turn = Turn(str(tmp_path / ".leftoff/lock"))
        turn.take(1)
        turn.mark(0)
        turn.close()

    Seam(monkeypatch).after("leftoff.store.sqlite.migrate.check", repaired)
    with leftoff.open(tmp_path / ".leftoff") as store:
        assert 1 == len(store.list())
