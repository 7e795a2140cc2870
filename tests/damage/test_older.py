"""A store that lost its newest commits is noticed by the number of the newest commit in `lock`: its log is damaged, cut
or gone, or an older copy of the database was put back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import leftoff
from leftoff.store.sqlite_connection import MARK
from tests.cli.command import call, succeed
from tests.damage.store import flip, problems

pytestmark = pytest.mark.damages_store


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    """A project whose run has done one of two steps; that commit is in the log alone."""
    succeed("start", "a", "--run-id", "a", "--steps", "x,y", cwd=tmp_path)
    with leftoff.open(tmp_path / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
    succeed("step", "done", "x", cwd=tmp_path)
    return tmp_path


def check_asks(project: Path) -> None:
    """Every verb refuses the store until it is repaired, and the run asks before it resumes after that."""
    assert 4 == call("ls", cwd=project).code
    assert 4 == call("note", "more", cwd=project).code
    assert ["wal"] == [problem["code"] for problem in problems(project / ".leftoff")]
    told = succeed("fsck", "--repair", cwd=project).out
    assert "salvaged: run a: " in told
    verdict = call("verify", "a", "--json", cwd=project)
    assert 7 == verdict.code
    assert ["integrity.salvaged"] == [f["code"] for f in verdict.json["findings"] if f["level"] == "ask"]
    with leftoff.open(project / ".leftoff") as store:
        assert "repaired" in store.get("a").records["context"]
    assert 2 == call("put", "context", "repaired", "null", "--run", "a", cwd=project).code
    assert 7 == call("resume", "a", "--yes", cwd=project).code
    succeed("resume", "a", "--accept", "integrity.salvaged", cwd=project)
    assert 0 == call("verify", "a", cwd=project).code
    assert "Clean." in succeed("fsck", cwd=project).out


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "header", "first frame"])
def test_a_damaged_log(worked: Path, damage: str) -> None:
    """SQLite reads a damaged log as if the commits behind the damage had never been made."""
    log = worked / ".leftoff" / "store.db-wal"
    data = log.read_bytes()
    (worked / ".leftoff" / "store.db-shm").unlink()
    if damage == "gone":
        log.unlink()
    elif damage in ("empty", "cut"):
        log.write_bytes(data[: 0 if damage == "empty" else len(data) // 2])
    else:
        flip(log, 5 if damage == "header" else 100)
    check_asks(worked)


def test_an_older_copy(worked: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Once the right files are put back, the store is whole."""
    right = tmp_path_factory.mktemp("right") / "store"
    shutil.copytree(worked / ".leftoff", right)
    (worked / ".leftoff" / "store.db-wal").write_bytes(b"")
    (worked / ".leftoff" / "store.db-shm").unlink()
    assert "an older copy was put back" in call("ls", cwd=worked).err.replace("\n", " ")
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        shutil.copy(right / name, worked / ".leftoff" / name)
    assert [] == problems(worked / ".leftoff")
    assert ["a"] == [run["run_id"] for run in succeed("ls", "--json", cwd=worked).json["runs"]]


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
