"""`kill -9` during a stream of commits loses none that was acknowledged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.harness import Heard, pause, program
from tests.crash.settings import Settings
from tests.crash.verdict import Violation, verify, verify_alive
from tests.postgres.conftest import location as location
from tests.postgres.conftest import name as name
from tests.postgres.conftest import server as server
from tests.postgres.conftest import url as url


def kill_often(folder: Path, store: str, kills: int, threads: int) -> Heard:
    """Kill at random moments, from the first instant on; each program goes on where the last one died."""
    chance = random.Random(kills + threads)
    heard = Heard()
    settings = Settings(store=store, files=str(folder), threads=threads)
    for _ in range(kills):
        with program(settings, heard) as running:
            running.go()
            running.acknowledge(chance.choice([0, 1, 5, 20, 60, 120]))
            pause(chance.uniform(0, 0.01))
        verify(store, heard, settings.plan)
    verify_alive(store)
    return heard


@pytest.mark.parametrize(("kills", "threads"), [(4, 1), (4, 4)])
def test_kills_lose_nothing_acknowledged(tmp_path: Path, kills: int, threads: int) -> None:
    """A sample of the full run: steps, blobs, artifacts, appends, prunes and plain commits, also by threads."""
    assert kill_often(tmp_path, str(tmp_path / ".leftoff"), kills, threads).acknowledged > 0


def test_kills_beside_a_server(tmp_path: Path, url: str) -> None:
    """The same with a store on a server, which may still be at work for the one that was killed."""
    assert kill_often(tmp_path, url, 3, 2).acknowledged > 0


@pytest.mark.crash_full
@pytest.mark.parametrize(("kills", "threads"), [(40, 1), (60, 4)])
def test_a_hundred_kills_lose_nothing_acknowledged(
    tmp_path: Path, location: str, kills: int, threads: int
) -> None:
    """A hundred kills, on two stores that live through all of theirs."""
    assert kill_often(tmp_path, location, kills, threads).acknowledged > kills


def test_an_early_acknowledgement_is_caught(tmp_path: Path) -> None:
    """The deliberately broken variant: whoever acknowledges before the commit is found out."""
    settings = Settings(
        store=str(tmp_path / ".leftoff"), files=str(tmp_path), plan="plain", broken="ack-early"
    )
    heard = Heard()
    with pytest.raises(Violation, match="was acknowledged, the store is at"):
        for _ in range(30):
            with program(settings, heard) as running:
                running.go()
                running.acknowledge(5)
            verify(tmp_path / ".leftoff", heard, settings.plan)
