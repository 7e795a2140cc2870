"""Seeded matrices of damage through the command: never an older state or a missing record without a word."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Corrupt, NoCheckpoint, Pruned
from leftoff.store.sqlite import connection
from tests.cli.command import Called, call
from tests.damage.store import PAGE, checksum, flip

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
    """Swap two pages, or zero one, of a store whose log is empty; how often that was told."""
    rng, told = random.Random(17), 0
    whole = reported.copy(folder / "whole")
    with leftoff.open(whole / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
    data = (whole / ".leftoff" / "store.db").read_bytes()
    assert len(data) > 20 * PAGE
    for number in range(total):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        one, other = sorted(rng.sample(range(1, len(data) // PAGE), 2))
        pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
        if number % 3:
            pages[one], pages[other] = pages[other], pages[one]
        else:
            pages[one], other = bytes(PAGE), -1
        (copy / ".leftoff" / "store.db").write_bytes(b"".join(pages))
        told += reported.check(copy, f"page {one + 1} in the place of {other + 1}")
    return told


def _pages(folder: Path) -> list[bytes]:
    """Those of a store, once its log is empty."""
    with leftoff.open(folder / ".leftoff") as store:
        store._store.truncate()  # type: ignore[attr-defined]
    data = (folder / ".leftoff" / "store.db").read_bytes()
    return [data[at : at + PAGE] for at in range(0, len(data), PAGE)]


def test_a_page_that_was_never_written(reported: Reported, tmp_path: Path) -> None:
    """A disk that forgot a write leaves a page as it was, with a right checksum: what is read is what was written, or
    the damage is told; no verb calls it an error of its own."""
    whole, told = reported.copy(tmp_path / "whole"), 0
    older = _pages(whole)
    many = json.dumps([{"n": n, "text": "item " * 4} for n in range(200)])
    for given in (("set", f"many:={many}"), ("step", "start", "e"), ("set", "n=9"), ("step", "done", "e")):
        assert 0 == call(*given, cwd=whole).code
    newer, expected = _pages(whole), Reported.answers(whole)
    for number, (before, now) in enumerate(zip(older, newer, strict=False)):
        if before == now:
            continue
        pages = [*newer[:number], before, *newer[number + 1 :]]
        (whole / ".leftoff" / "store.db").write_bytes(b"".join(pages))
        for words, one, right in zip(READS, Reported.answers(whole), expected, strict=True):
            assert one in (right, 4), f"page {number + 1}: {words}"
            told += one == 4
        shutil.copytree(whole, tmp_path / "copy")
        assert call("set", "more=1", cwd=tmp_path / "copy").code in (0, 4), f"page {number + 1}"
        shutil.rmtree(tmp_path / "copy")
    assert told


def test_pages_in_other_places(reported: Reported, tmp_path: Path) -> None:
    """Two pages swapped, or one zeroed: what is read is what was written, or the damage is told."""
    assert check_pages(reported, tmp_path, 12)


def _roots(folder: Path) -> dict[str, int]:
    """The first page of each table and index."""
    db = connection.open_file(str(folder / ".leftoff" / "store.db"))
    rows: list[Any] = db.execute("SELECT name, rootpage FROM sqlite_master").fetchall()
    db.close()
    return dict(rows)


def replace_root(folder: Path, of: str, by: str) -> None:
    """Put the first page of one table or index in the place of another's."""
    pages, roots = _pages(folder), _roots(folder)
    pages[roots[of] - 1] = pages[roots[by] - 1]
    (folder / ".leftoff" / "store.db").write_bytes(b"".join(pages))


def test_rows_of_another_table_in_the_place_of_leases(reported: Reported, tmp_path: Path) -> None:
    """Who drives a run cannot be told then: every verb that asks ends with 4."""
    whole = reported.copy(tmp_path / "whole")
    replace_root(whole, "lease", "run")
    for words in (("verify", "r"), ("resume", "r", "--dry-run"), ("show", "r"), ("status",)):
        assert 4 == call(*words, cwd=whole).code, words


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


EMPTY = bytes((10, 0, 0, 0, 0, USABLE >> 8, USABLE & 255)).ljust(
    USABLE, b"\0"
)  # a page of an index without entries


def test_an_empty_page_in_the_place_of_the_index_of_steps(tmp_path: Path) -> None:
    """No verb says that no step comes next, waits or is running: the run's head counts them."""
    call("start", "w", "--run-id", "r", "--steps", "a,b,c", cwd=tmp_path)
    call("step", "start", "a", cwd=tmp_path)
    pages, roots = _pages(tmp_path), _roots(tmp_path)
    assert "b" == json.loads(call("ls", "--json", cwd=tmp_path).out)["runs"][0]["next_step"]
    pages[roots["record_leaf"] - 1] = EMPTY + checksum(EMPTY)
    (tmp_path / ".leftoff" / "store.db").write_bytes(b"".join(pages))
    for words in (("ls",), ("status",), ("next",), ("save",)):
        assert 4 == call(*words, cwd=tmp_path).code, words
    assert not json.loads(call("fsck", "--json", cwd=tmp_path).out)["ok"]


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


LONG = 150


@pytest.mark.parametrize(
    "texts", [(b"round 50", b"round 90"), (b"text 50", b"text 90")], ids=["versions", "records"]
)
def test_a_page_of_a_long_history_in_another_place(texts: tuple[bytes, bytes], tmp_path: Path) -> None:
    """fsck finds it, whoever reads an old version is told, and nothing goes on from one that lacks anything."""
    file = tmp_path / ".leftoff" / "store.db"
    with leftoff.open(file.parent) as store:
        run = store.start("x", run_id="x-1")
        for n in range(LONG):
            run.variables["text"] = f"text {n} " * 5
            run.checkpoint(note=f"round {n}")
        versions = {
            version.seq: store.get(f"x-1@{version.seq}").variables["text"] for version in run.history()
        }
        run.pause()
    data = file.read_bytes()
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    one, other = (next(at for at, page in enumerate(pages) if text in page) for text in texts)
    pages[one], pages[other] = pages[other], pages[one]
    file.write_bytes(b"".join(pages))
    refused, read = [], []
    with leftoff.open(file.parent) as store:
        assert not store.fsck().ok
        run = store.resume("x-1")
        for seq in versions:
            try:
                assert versions[seq] == store.get(f"x-1@{seq}").variables.get("text")
            except (Pruned, Corrupt, NoCheckpoint):
                read.append(seq)
        for seq in list(versions)[::10]:
            try:
                assert versions[seq] == run.fork(branch=f"b{seq}", ref=seq).variables["text"]
            except (Pruned, Corrupt):
                refused.append(seq)
        with pytest.raises((Pruned, Corrupt)):
            run.rollback(refused[0])
    assert len(refused) < LONG / 10
    assert 0 < len(read) < LONG


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_pages_in_other_places(reported: Reported, tmp_path: Path) -> None:
    """The same three hundred times."""
    assert check_pages(reported, tmp_path, 300)
