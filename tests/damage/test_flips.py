"""A flipped byte anywhere in the database is reported with its place, and never read as a wrong value."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import Corrupt, LeftoffError
from leftoff.store.fsck.check_run import RunCheck
from leftoff.store.rows import Record
from leftoff.store.sqlite import connection
from leftoff.store.sqlite import view as sqlite_view
from leftoff.store.sqlite.pages import is_map
from tests.damage.store import PAGE, Sample, flip, problems, tidy, wrong

pytestmark = pytest.mark.damages_store
HEADER = 100


def kinds(data: bytes) -> dict[str, list[int]]:
    """The pages of a database by what they are for, numbered from 1."""
    names = {2: "inner index", 5: "inner table", 10: "leaf index", 13: "leaf table"}
    free = set(free_pages(data))
    out: dict[str, list[int]] = {}
    for number in range(1, len(data) // PAGE + 1):
        first = data[(number - 1) * PAGE + (HEADER if number == 1 else 0)]
        kind = names.get(first, "overflow")
        if number in free:
            kind = "free"
        elif is_map(number):
            kind = "map"
        elif number == 1:
            kind = "first"
        out.setdefault(kind, []).append(number)
    return out


def free_pages(data: bytes) -> Iterator[int]:
    """The pages on the list of free ones: trunks and what they name."""
    trunk = int.from_bytes(data[32:36], "big")
    while trunk:
        yield trunk
        page = data[(trunk - 1) * PAGE : trunk * PAGE]
        count = int.from_bytes(page[4:8], "big")
        for place in range(8, 8 + 4 * count, 4):
            yield int.from_bytes(page[place : place + 4], "big")
        trunk = int.from_bytes(page[:4], "big")


def offsets(data: bytes, total: int) -> list[int]:
    """Places to flip: the header densely, then every kind of page by turns, its edges and its checksum too."""
    rng = random.Random(20260131)
    dense = min(HEADER, total // 4)
    chosen = set(rng.sample(range(HEADER), dense)) | {16, 18, 20}
    pages = list(kinds(data).values())
    while len(chosen) < total:
        for numbers in pages:
            start = (rng.choice(numbers) - 1) * PAGE
            chosen.add(
                start + rng.choice([rng.randrange(PAGE), rng.randrange(12), PAGE - 1 - rng.randrange(8)])
            )
    return sorted(chosen)[:total] if len(chosen) == total else rng.sample(sorted(chosen), total)


def check_flips(sample: Sample, folder: Path, total: int) -> int:
    """Flip one byte at a time; how many times something could not be read."""
    data = (sample.path / "store.db").read_bytes()
    path = sample.copy(folder / "copy") / "store.db"
    rng = random.Random(7)
    unread = 0
    for offset in offsets(data, total):
        by = rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        flip(path, offset, by)
        found = problems(path.parent)
        page = offset // PAGE + 1
        named = [p for p in found if f"{path} page {page} " in p["where"]]
        assert named, f"byte {offset} (page {page}) by {by:#x}: fsck says {found}"
        bad = wrong(sample, path.parent, LeftoffError if offset < HEADER else Corrupt)
        assert {} == bad, f"byte {offset} by {by:#x}"
        unread += 1
        tidy(path)
        path.write_bytes(data)
    return unread


def test_every_kind_of_page_is_there(sample: Sample) -> None:
    """The sample has pages of every kind, so that each is tried."""
    found = kinds((sample.path / "store.db").read_bytes())
    assert {"first", "map", "free", "overflow", "leaf index", "leaf table", "inner index"} <= set(found)


def test_flips(sample: Sample, tmp_path: Path) -> None:
    """One flipped byte: fsck names its page, and no value is wrong."""
    assert 30 == check_flips(sample, tmp_path, 30)


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_flips(sample: Sample, tmp_path: Path) -> None:
    """The same a thousand times, with every byte of the header."""
    assert 1000 == check_flips(sample, tmp_path, 1000)


@pytest.mark.parametrize("keep", [0.3, 0.999])
def test_truncated(sample: Sample, tmp_path: Path, keep: float) -> None:
    """A database that lost its end is reported, and no value is wrong."""
    path = sample.copy(tmp_path / "copy") / "store.db"
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    assert problems(path.parent)
    assert {} == wrong(sample, path.parent)


def test_a_page_of_zeros(sample: Sample, tmp_path: Path) -> None:
    """A page that was never written is reported as such, and no value is wrong."""
    data = (sample.path / "store.db").read_bytes()
    path = sample.copy(tmp_path / "copy") / "store.db"
    for kind, numbers in kinds(data).items():
        number = numbers[len(numbers) // 2]
        path.write_bytes(data[: (number - 1) * PAGE] + bytes(PAGE) + data[number * PAGE :])
        named = any(f"{path} page {number} " in p["where"] for p in problems(path.parent))
        assert named or kind == "free", kind  # a free one may well be zeros
        assert {} == wrong(sample, path.parent, LeftoffError), kind
        tidy(path)


def test_command_ends_with_4(sample: Sample, tmp_path: Path) -> None:
    """The command says what is damaged and ends with 4."""
    path = sample.copy(tmp_path / "copy")
    flip(path / "store.db", 5 * PAGE + 77)
    command = [sys.executable, "-m", "leftoff", "fsck", "--json", "--store", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert 4 == done.returncode, done.stderr
    assert f"{path / 'store.db'} page 6 (byte 20480)" in done.stdout


def test_sabotage_is_seen(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THE DELIBERATE BREAKAGE: with neither checksums nor hashes looked at, flips are read as wrong values."""
    usual = connection.prepare

    def careless(db: Any, where: str) -> Any:
        connection.pragma(usual(db, where), "checksum_verification=0")
        return db

    def unchecked(run: int, collection: str, key: str, seq: int, hash: bytes, stored: bytes) -> Record:
        return Record(collection, key, seq, hash, stored)

    monkeypatch.setattr(connection, "prepare", careless)
    monkeypatch.setattr(sqlite_view, "_checked", unchecked)
    data = (sample.path / "store.db").read_bytes()
    path = sample.copy(tmp_path / "copy") / "store.db"
    found = [place for place in range(len(data)) if data.startswith(b'"item item item', place)]
    for place in found[:: max(1, len(found) // 20)]:
        flip(path, place + 3, 0x01)
    assert wrong(sample, path.parent)


def has_rows(data: bytes, leaf: int) -> bool:
    return any(data[(leaf - 1) * PAGE + 3 : (leaf - 1) * PAGE + 5])


def test_page_in_another_place(sample: Sample, tmp_path: Path) -> None:
    """A sound page in the place of another is reported by fsck, whatever its rows look like there."""
    path = sample.copy(tmp_path / ".leftoff")
    data = (path / "store.db").read_bytes()
    used = [n for kind in ("leaf index", "leaf table") for n in kinds(data)[kind] if has_rows(data, n)]
    used += kinds(data)["overflow"]
    rng = random.Random(4)
    for _ in range(25):
        here, there = rng.sample(used, 2)
        page = data[(there - 1) * PAGE : there * PAGE]
        (path / "store.db").write_bytes(data[: (here - 1) * PAGE] + page + data[here * PAGE :])
        assert [] != problems(path), f"page {there} in the place of {here}"
        tidy(path / "store.db")


def test_mistake_of_fsck_is_no_damage(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong in fsck itself on a sound store is raised as what it is: a repair would build the store anew."""

    def mistaken(self: Any) -> None:
        raise TypeError("a mistake")

    monkeypatch.setattr(RunCheck, "check", mistaken)
    path = sample.copy(tmp_path / ".leftoff")
    before = (path / "store.db").read_bytes()
    with leftoff.open(path) as store, pytest.raises(TypeError, match="a mistake"):
        store.fsck(repair=True)
    assert before == (path / "store.db").read_bytes()
