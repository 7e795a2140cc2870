"""Bytes of the database that flip, go or turn to zeros: no read gives a wrong value, and fsck reports the damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import leftoff
from leftoff.errors import LeftoffError
from leftoff.store import base
from leftoff.store import sqlite_connection as connection
from leftoff.store.integrity import RunCheck
from leftoff.store.rows import Record
from tests.cli.command import call
from tests.crash import faults
from tests.damage.store import PAGE, Sample, everything, flip, problems, tidy, wrong

pytestmark = pytest.mark.damages_store


def damages(data: bytes, total: int) -> list[tuple[str, bytes]]:
    """Damaged forms of a database, with their names: flipped bits, pages of zeros, lost ends."""
    rng, out = random.Random(20260131), []
    for number in range(total):
        changed = bytearray(data)
        if number % 5 < 3:
            at = rng.randrange(len(data)) if number % 2 else rng.randrange(3 * PAGE)
            changed[at] ^= 1 << rng.randrange(8)
            out.append((f"a bit of byte {at} flipped", bytes(changed)))
        elif number % 5 == 3:
            page = rng.randrange(len(data) // PAGE)
            changed[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
            out.append((f"page {page + 1} zeroed", bytes(changed)))
        else:
            end = rng.randrange(1, len(data))
            out.append((f"cut after {end} bytes", data[:end]))
    return out


def check(sample: Sample, folder: Path, total: int) -> int:
    """Damage the database in many ways, one at a time; return how often fsck reported it."""
    path, found = sample.copy(folder / ".leftoff") / "store.db", 0
    for what, damaged in damages(path.read_bytes(), total):
        path.write_bytes(damaged)
        faults.made("damages")
        told = bool(problems(path.parent))
        assert {} == wrong(sample, path.parent, LeftoffError), what
        assert told or sample.expected == everything(path.parent, sample.runs), f"{what}: no word"
        found += told
        tidy(path)
    return found


def test_no_read_gives_a_wrong_value(sample: Sample, tmp_path: Path) -> None:
    """Every value is read as it was written, or an error is raised. Damage that fsck does not report hides nothing."""
    assert check(sample, tmp_path, 15) > 9


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_no_read_gives_a_wrong_value_a_thousand_times(sample: Sample, tmp_path: Path) -> None:
    """The same a thousand times."""
    assert check(sample, tmp_path, 1000) > 700


def test_the_command_exits_with_4(sample: Sample, tmp_path: Path) -> None:
    """The command says what is damaged, with the keys that programs rely on."""
    path = sample.copy(tmp_path / ".leftoff")
    data = (path / "store.db").read_bytes()
    for place in range(data.index(b'"item item'), len(data), PAGE):
        flip(path / "store.db", place)
    done = call("fsck", "--json", "--store", str(path), cwd=tmp_path)
    assert 4 == done.code
    assert {"ok", "checked", "problems", "quarantined"} <= done.json.keys()
    assert not done.json["ok"] and "page" in [problem["code"] for problem in done.json["problems"]]


def test_sabotage_is_seen(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THE DELIBERATE BREAKAGE: with neither checksums nor hashes looked at, flips are read as wrong values."""
    usual = connection.prepare

    def careless(db: Any, where: str) -> Any:
        connection.pragma(usual(db, where), "checksum_verification=0")
        return db

    def unchecked(run: int, collection: str, key: str, seq: int, hash: bytes, stored: bytes) -> Record:
        return Record(collection, key, seq, hash, stored)

    monkeypatch.setattr(connection, "prepare", careless)
    monkeypatch.setattr(base, "checked", unchecked)
    data = (sample.path / "store.db").read_bytes()
    path = sample.copy(tmp_path / "copy") / "store.db"
    found = [place for place in range(len(data)) if data.startswith(b'"item item item', place)]
    for place in found[:: max(1, len(found) // 20)]:
        flip(path, place + 3, 0x01)
    assert wrong(sample, path.parent)


def test_mistake_of_fsck_is_no_damage(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong in fsck itself on a sound store is raised as what it is: a repair would rebuild the store."""

    def mistaken(self: Any) -> None:
        raise TypeError("a mistake")

    monkeypatch.setattr(RunCheck, "check", mistaken)
    path = sample.copy(tmp_path / ".leftoff")
    before = (path / "store.db").read_bytes()
    with leftoff.open(path) as store, pytest.raises(TypeError, match="a mistake"):
        store.fsck(repair=True)
    assert before == (path / "store.db").read_bytes()
