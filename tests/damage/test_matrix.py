"""Seeded matrices of damage through the command: never an older state or a missing record without a word."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Called, call
from tests.damage.store import flip

pytestmark = pytest.mark.damages_store

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
        """Every verb gives the right answer or 4, before and after one that writes; whether any of them said 4."""
        before = self.answers(folder)
        wrote = call("set", "more=1", cwd=folder).code
        after = self.answers(folder)
        for one, expected in zip(before, self.expected, strict=True):
            assert one in (expected, 4), what
        assert wrote in (0, 4), what
        if wrote == 4:
            assert all(one in (expected, 4) for one, expected in zip(after, self.expected, strict=True)), what
        else:
            assert before == self.expected, f"{what}: written to, and not all could be read"
        return 4 in (wrote, *[one for one in before if isinstance(one, int)])


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
        assert reported.check(copy, f"byte {offset} by {bit} of the log"), f"byte {offset} by {bit}: no word"


def test_flips_in_the_log(reported: Reported, tmp_path: Path) -> None:
    """One flipped bit in the log: no verb reads an older state, and none writes over it."""
    check_log_flips(reported, tmp_path, 12)


@pytest.mark.crash_full
@pytest.mark.timeout(3600)
def test_many_flips_in_the_log(reported: Reported, tmp_path: Path) -> None:
    """The same three hundred times."""
    check_log_flips(reported, tmp_path, 300)
