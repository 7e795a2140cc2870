"""Seeded matrices of damage through the command: never an older state or a missing record without a word."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.store import sqlite_connection as connection
from tests.cli.command import Called, call
from tests.damage.store import PAGE, flip

pytestmark = pytest.mark.damages_store

USABLE = PAGE - 8  # bytes before the checksum of a page
READS = (("show", "r", "--json"), ("get",), ("log", "r", "--json"), ("ls", "--json"))


class Reported:
    """A project whose run was reported on by verbs, each in its turn, so that all of it is still in the log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.call("start", "flow", "--run-id", "r", "--steps", "a,b,c,d")
        for number, step in enumerate("abcd"):
            self.call("set", f"n={number}", f"text={'t' * 300 * number}")
            self.call("step", "done", step, "--result", json.dumps({"n": number}))
        self.store = folder / ".leftoff"
        self.expected = self.answers(folder)

    def call(self, *words: str) -> None:
        done = call(*words, cwd=self.folder)
        assert 0 == done.code, str(done)

    @staticmethod
    def answers(folder: Path) -> list[Any]:
        return [_settled(call(*words, cwd=folder)) for words in READS]

    def copy(self, to: Path, *, index: bool = True) -> Path:
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.folder, to)
        if not index:
            (to / ".leftoff" / "store.db-shm").unlink()
        return to

    def check(self, folder: Path, what: str) -> bool:
        """Every verb gives the right answer or 4; whether any of them said 4."""
        before = self.answers(folder)
        for words, one, expected in zip(READS, before, self.expected, strict=True):
            assert one in (expected, 4), f"{what}: {words}"
        return 4 in [one for one in before if isinstance(one, int)]

    def check_not_written_over(self, folder: Path, what: str) -> None:
        """What was told once is told by a verb that writes, too, and afterwards again."""
        files = {
            path: path.read_bytes()
            for path in (folder / ".leftoff").glob("store.db*")
            if "shm" not in path.name
        }
        assert 4 == call("set", "more=1", cwd=folder).code, what
        assert self.check(folder, what), what
        for path, content in files.items():
            assert content == path.read_bytes(), what


def _settled(done: Called) -> Any:
    """What a verb said, or its exit code where it failed."""
    assert done.code in (0, 4), str(done)
    return done.out if done.code == 0 else done.code


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    return Reported(tmp_path_factory.mktemp("reported"))


# -- the log


def check_log_flips(reported: Reported, folder: Path, total: int) -> None:
    rng = random.Random(5)
    size = (reported.store / "store.db-wal").stat().st_size
    assert size > 30 * 4096
    for number in range(total):
        copy = reported.copy(folder / "copy", index=number % 2 == 0)
        offset, bit = rng.randrange(size), 1 << rng.randrange(8)
        flip(copy / ".leftoff" / "store.db-wal", offset, bit)
        what = f"byte {offset} by {bit} of the log"
        assert reported.check(copy, what), f"{what}: no word"
        reported.check_not_written_over(copy, what)


def test_flips_in_the_log(reported: Reported, tmp_path: Path) -> None:
    """One flipped bit in the log: no verb reads an older state, and none writes over it."""
    check_log_flips(reported, tmp_path, 12)


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_flips_in_the_log(reported: Reported, tmp_path: Path) -> None:
    """The same three hundred times."""
    check_log_flips(reported, tmp_path, 300)


# -- pages


def check_pages(reported: Reported, folder: Path, total: int) -> int:
    """Zero a page of a store whose log is empty; how often that was told."""
    rng, told = random.Random(17), 0
    whole = reported.copy(folder / "whole")
    with leftoff.open(whole / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
    data = (whole / ".leftoff" / "store.db").read_bytes()
    assert len(data) > 20 * PAGE
    for _ in range(total):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        one = rng.randrange(1, len(data) // PAGE)
        pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
        pages[one] = bytes(PAGE)
        (copy / ".leftoff" / "store.db").write_bytes(b"".join(pages))
        told += reported.check(copy, f"page {one + 1} zeroed")
    return told


def _pages(folder: Path) -> list[bytes]:
    """Those of a store, once its log is empty."""
    with leftoff.open(folder / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
    data = (folder / ".leftoff" / "store.db").read_bytes()
    return [data[at : at + PAGE] for at in range(0, len(data), PAGE)]


def test_zeroed_pages(reported: Reported, tmp_path: Path) -> None:
    """What is read is what was written, or the damage is told."""
    assert check_pages(reported, tmp_path, 12)


def _roots(folder: Path) -> dict[str, int]:
    """The first page of each table and index."""
    db = connection.open_file(str(folder / ".leftoff" / "store.db"))
    rows: list[Any] = db.execute("SELECT name, rootpage FROM sqlite_master").fetchall()
    db.close()
    return dict(rows)


def test_a_copy_that_is_not_known_is_no_copy_that_was_not_kept(tmp_path: Path) -> None:
    """A page of the table of copies that was never written: their bytes lie there, and records name them. That is told
    before anything is put back; a file whose copy is known is restored, and a repair finds the others."""
    assert 0 == call("start", "flow", "--run-id", "r", cwd=tmp_path).code
    older: list[bytes] = []
    for name in ("a.txt", "b.txt"):
        older = _pages(tmp_path)
        (tmp_path / name).write_text(f"then {name}")
        assert 0 == call("track", name, cwd=tmp_path).code
        assert 0 == call("save", cwd=tmp_path).code
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("now")
    pages, root = _pages(tmp_path), _roots(tmp_path)["blob"] - 1
    pages[root] = older[root]
    (tmp_path / ".leftoff" / "store.db").write_bytes(b"".join(pages))
    for words in (
        ("cat", "r:b.txt"),
        ("restore", "r", "b.txt", "--yes"),
        ("rollback", "r", "--files", "--yes"),
    ):
        assert 4 == call(*words, cwd=tmp_path).code, words
    assert ["now", "now"] == [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")]
    assert 0 == call("restore", "r", "a.txt", "--yes", cwd=tmp_path).code
    assert "then a.txt" == (tmp_path / "a.txt").read_text()
    assert (4, 0) == (call("fsck", cwd=tmp_path).code, call("fsck", "--repair", cwd=tmp_path).code)
    assert "then b.txt" == call("cat", "r:b.txt", cwd=tmp_path).out


@pytest.mark.parametrize("steps", [200, 900])
def test_a_stale_page_of_many_records_is_not_written_over(steps: int, tmp_path: Path) -> None:
    """A report adds the run up first: on a page that a disk forgot to write nothing is committed."""
    file = tmp_path / ".leftoff" / "store.db"
    with leftoff.open(file.parent) as store:
        run = store.start("x", run_id="x-1", steps=[f"step-{n}" for n in range(steps)])
        run.variables["v"] = "then"
        run.pause()
    older = _pages(tmp_path)
    assert 0 == call("set", "v=since", cwd=tmp_path).code
    newer = _pages(tmp_path)
    (stale,) = [n for n, page in enumerate(older) if b'"then"' in page and b'"since"' in newer[n]]
    content = b"".join([*newer[:stale], older[stale], *newer[stale + 1 :]])
    file.write_bytes(content)
    for words in (("set", "w=1"), ("note", "text"), ("step", "done", "step-1"), ("save",)):
        assert 4 == call(*words, cwd=tmp_path).code, words
    assert content == file.read_bytes()


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_zeroed_pages(reported: Reported, tmp_path: Path) -> None:
    """The same three hundred times."""
    assert check_pages(reported, tmp_path, 300)
