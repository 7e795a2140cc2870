"""A power cut loses no acknowledged commit.

An ext4 lives in a file. The program that writes on it is stopped, and the file is copied as it is: what had
been synced is in the copy, what only the kernel's memory held is not. The copy is what the disk would hold
after a power cut at that moment.
"""

from __future__ import annotations

import random
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.crash import faults, mounts
from tests.crash.harness import Heard, Program, pause, program, require_root
from tests.crash.settings import Settings
from tests.crash.verdict import Violation, verify, verify_alive

SIZE = 192 << 20


def cut(running: Program, image: Path, plan: str) -> None:
    """Cut the power: the copy of the image must hold everything acknowledged until now."""
    copy, point = image.with_suffix(".cut"), image.with_suffix(".after")
    running.freeze()
    heard = deepcopy(running.heard)
    shutil.copyfile(image, copy)
    faults.made("power cuts")
    running.thaw()
    try:
        with mounts.ext4(copy, point) as folder:
            verify(folder / ".leftoff", heard, plan)
            verify_alive(folder / ".leftoff")
    finally:
        copy.unlink()
        point.rmdir()


def cut_often(folder: Path, cuts: int, settings: Settings, seed: int) -> int:
    """Cut the power at random moments of one program's life; how much it had acknowledged in the end."""
    require_root()
    chance = random.Random(seed)
    image = folder / "disk.img"
    mounts.make_image(image, SIZE)
    heard = Heard()
    with mounts.ext4(image, folder / "disk"), program(settings, heard) as running:
        running.go()
        for _ in range(cuts):
            running.acknowledge(chance.choice([1, 10, 40, 90]))
            pause(chance.uniform(0, 0.01))
            cut(running, image, settings.plan)
    return heard.acknowledged


def settings_for(folder: Path, **options: Any) -> Settings:
    """A store on the disk that loses its power."""
    return Settings(store=str(folder / "disk" / ".leftoff"), files=str(folder / "disk"), **options)


@pytest.mark.crash_full
@pytest.mark.parametrize(("cuts", "threads"), [(5, 1), (5, 4)])
def test_power_cuts_lose_nothing_acknowledged(tmp_path: Path, cuts: int, threads: int) -> None:
    """Ten cuts in all, half of them with threads that share a sync."""
    assert cut_often(tmp_path, cuts, settings_for(tmp_path, threads=threads), seed=threads) > 0


@pytest.mark.crash_full
def test_a_store_that_does_not_sync_is_caught(tmp_path: Path) -> None:
    """The deliberately broken variant, `synchronous=OFF`, fails the same check."""
    settings = settings_for(tmp_path, plan="plain", broken="sync-off")
    with pytest.raises(Violation):
        cut_often(tmp_path, 5, settings, seed=1)
