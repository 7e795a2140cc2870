"""Repair of a damaged write-ahead log: what one byte explains is put right, of the rest the sound part is kept."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import leftoff
from leftoff.errors import StoreUnavailable
from leftoff.store.sqlite.pages import PageFile, checksum
from leftoff.store.sqlite.wal import FRAME, HEADER, STEP, Log
from tests.damage.store import PAGE, flip, problems
from tests.damage.test_log import COMMITS, check_some_version, copied, places
from tests.damage.test_log import killed as killed
from tests.damage.test_repair import repair, set_aside


def newest(path: Path) -> int:
    """The last commit that is there."""
    with leftoff.open(path) as store:
        return int(store.get("log").variables.get("n", -1))


@pytest.mark.parametrize("few", [2, pytest.param(9, marks=pytest.mark.crash_full)])
@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_flipped_byte_is_put_right(killed: Path, tmp_path: Path, index: bool, few: int) -> None:
    """After one flipped byte anywhere in the log no commit is lost; the files are kept as they were found."""
    for where, offsets in places(Log((killed / "store.db-wal").read_bytes())).items():
        for at, offset in enumerate(offsets[:: len(offsets) // few]):
            path = copied(killed, tmp_path / f"{offset}", index=index)
            flip(path / "store.db-wal", offset, 1 << at % 8)
            damaged = (path / "store.db-wal").read_bytes()
            report = repair(path)
            assert [damaged] == [file.read_bytes() for file in set_aside(report, "store.db-wal")]
            assert COMMITS - 1 == newest(path), f"{where}: byte {offset} by {1 << at % 8:#x}"


def test_what_lies_behind_is_kept(killed: Path, tmp_path: Path) -> None:
    """Where more than a byte of a page is wrong, the commits behind it are kept too: the next frame proves them."""
    path = copied(killed, tmp_path, index=True)
    log = Log((path / "store.db-wal").read_bytes())
    start = HEADER + log.valid // 2 * STEP + FRAME
    damaged = log.data[:start] + random.Random(1).randbytes(600) + log.data[start + 600 :]
    (path / "store.db-wal").write_bytes(damaged)
    report = repair(path)
    assert [damaged] == [file.read_bytes() for file in set_aside(report, "store.db-wal")]
    assert COMMITS - 1 == newest(path)


def test_sound_part_is_kept(killed: Path, tmp_path: Path) -> None:
    """Where frames are gone altogether, every commit before them is kept, and the whole log beside."""
    path = copied(killed, tmp_path, index=True)
    log = Log((path / "store.db-wal").read_bytes())
    number = log.valid // 2
    start, end = HEADER + number * STEP, HEADER + (number + 3) * STEP
    damaged = log.data[:start] + random.Random(1).randbytes(end - start) + log.data[end:]
    (path / "store.db-wal").write_bytes(damaged)
    expected = sum(1 for frame in log.all_frames() if frame.after and frame.number <= number) - 2
    report = repair(path)
    assert [damaged] == [file.read_bytes() for file in set_aside(report, "store.db-wal")]
    assert expected == newest(path) > 10
    check_some_version(path)


def test_header_is_lost(killed: Path, tmp_path: Path) -> None:
    """A log without its header is set aside; the database goes on from what was copied back."""
    path = copied(killed, tmp_path, index=True)
    data = (path / "store.db-wal").read_bytes()
    (path / "store.db-wal").write_bytes(random.Random(1).randbytes(HEADER) + data[HEADER:])
    report = repair(path)
    assert set_aside(report, "store.db-wal")
    with leftoff.open(path) as store:
        assert [] == store.list()


def test_log_that_was_copied_back(killed: Path, tmp_path: Path) -> None:
    """Where all of the log is in the database already, its damage loses nothing: not even the frames behind it."""
    path = copied(killed, tmp_path, index=False)
    log = Log((path / "store.db-wal").read_bytes())
    pages, count = log.committed()
    database = bytearray((path / "store.db").read_bytes().ljust(count * PAGE, b"\0"))
    for number, page in pages.items():
        database[(number - 1) * PAGE : number * PAGE] = page[:-8] + checksum(page)
    (path / "store.db").write_bytes(database)
    start = HEADER + log.valid // 2 * STEP + FRAME
    (path / "store.db-wal").write_bytes(log.data[:start] + bytes(2000) + log.data[start + 2000 :])
    repair(path)
    assert COMMITS - 1 == newest(path)


def test_page_and_log(killed: Path, tmp_path: Path) -> None:
    """Damage in both at once: each is put right."""
    path = copied(killed, tmp_path, index=True)
    flip(path / "store.db", 3 * PAGE + 17)
    flip(path / "store.db-wal", HEADER + 40 * STEP + 100)
    repair(path)
    assert COMMITS - 1 == newest(path)


def test_repair_that_is_cut_short(killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended while it copies the log back, a repair has lost nothing: the log says all that is copied."""
    path = copied(killed, tmp_path, index=False)
    flip(path / "store.db-wal", HEADER + 40 * STEP + 100)
    written: list[int] = []

    def fails(self: PageFile, number: int, page: bytes) -> None:
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(number)
        write(self, number, page)

    write = PageFile.write
    monkeypatch.setattr(PageFile, "write", fails)
    with leftoff.open(path) as store, pytest.raises(StoreUnavailable):
        store.fsck(repair=True)
    monkeypatch.undo()
    assert [] == problems(path)
    assert COMMITS - 1 == newest(path)
