"""Repair after anything that a disk may do, several things at once: what is left is clean and as it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import leftoff
from leftoff.errors import LeftoffError
from tests.damage.store import PAGE, Sample, flip
from tests.damage.test_repair import check_honest, repair


def damage(path: Path, rng: random.Random) -> str:
    """Do one thing to a store's files; what."""
    database = path / "store.db"
    data = bytearray(database.read_bytes())
    count = len(data) // PAGE
    what = rng.choice(["flip", "zeros", "garbage", "sector", "misplaced", "cut", "blob", "no blob"])
    start = rng.randrange(count) * PAGE
    if what == "flip":
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    elif what == "zeros":
        data[start : start + PAGE] = bytes(PAGE)
    elif what == "garbage":
        data[start : start + PAGE] = rng.randbytes(PAGE)
    elif what == "sector":
        data[start + 512 : start + 1024] = rng.randbytes(512)
    elif what == "misplaced":
        other = rng.randrange(count) * PAGE
        data[start : start + PAGE] = data[other : other + PAGE]
    elif what == "cut":
        del data[len(data) - rng.randrange(1, 5 * PAGE) :]
    else:
        blob = rng.choice(sorted(path.glob("blobs/*/*")))
        flip(blob, 0) if what == "blob" else blob.unlink()
    database.write_bytes(data)
    return f"{what} at page {start // PAGE + 1}"


def check_random(sample: Sample, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = sample.copy(folder / f"{seed}" / ".leftoff")
    done = [damage(path, rng) for _ in range(rng.choice([1, 1, 2, 3, 6]))]
    try:
        repair(path)
        check_honest(sample, path)
        with leftoff.open(path) as store, store.start("afterwards") as run:
            run.variables["alive"] = True
    except (AssertionError, LeftoffError) as error:
        raise AssertionError(f"seed {seed}: {done}") from error


@pytest.mark.parametrize("seed", range(8))
def test_random_damage(sample: Sample, tmp_path: Path, seed: int) -> None:
    """Whatever happened to the files, the store is clean after a repair, what it has is as it was, and work goes on."""
    check_random(sample, tmp_path, seed)


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_much_random_damage(sample: Sample, tmp_path: Path) -> None:
    """The same many times."""
    for seed in range(100, 500):
        check_random(sample, tmp_path, seed)
