"""`kill -9` at random moments of a workflow loses no step, runs none twice at once, and none that is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.flows import MOST, Flow, definition, mixed, verify
from tests.crash.verdict import Violation


@contextmanager
def witnessed(folder: Path, steps: int, seconds: float, seed: int, *, broken: str = "") -> Iterator[Flow]:
    """A run whose processes are gone afterwards, whatever happens."""
    flow = Flow(folder, definition(steps, seconds), seed, broken=broken)
    try:
        yield flow
    finally:
        flow.close()


@pytest.mark.parametrize(
    ("children", "seed"), [(False, 1), (True, 2), (None, 3)], ids=["driver", "driver and steps", "mixed"]
)
def test_kills_lose_no_step(tmp_path: Path, children: bool | None, seed: int) -> None:
    """A sample of the full run."""
    with witnessed(tmp_path, 40, 0.1, seed) as flow:
        flow.until_done(8, 0.5, children=children)
        assert flow.kills
        verify(flow)


def kinds(folder: Path, items: int, kills: int, seed: int) -> Flow:
    """Kills of a run that has phases, items, outputs and checks."""
    text, paths = mixed(items, 0.1)
    flow = Flow(folder, text, seed, paths=paths)
    try:
        flow.until_done(kills, 0.4)
        assert flow.kills
        verify(flow)
    finally:
        flow.close()
    return flow


def test_kills_lose_no_item(tmp_path: Path) -> None:
    """Items of a `foreach`, the command that finds them, outputs, checks and phases are recovered like plain steps."""
    kinds(tmp_path, 8, 8, 6)


@pytest.mark.crash_full
@pytest.mark.parametrize("seed", [21, 22, 23])
def test_forty_kills_lose_no_item(tmp_path: Path, seed: int) -> None:
    """The same with more of everything."""
    flow = kinds(tmp_path, 60, 40, seed)
    starts = len(flow.lines("starts"))
    print(
        f"\nseed {seed}: {flow.kills} kills ({flow.with_children} with the steps), {starts} starts of {len(flow.paths)}"
    )


def test_steps_that_outlive_their_driver_are_not_run_again(tmp_path: Path) -> None:
    """Steps that are longer than any driver lives: each is started once, and followed by one driver after the other."""
    with witnessed(tmp_path, MOST, 4.0, 4) as flow:
        flow.until_done(5, 0.5, children=False, rest=0.0)
        assert flow.kills
        verify(flow)
        assert MOST == len(flow.lines("starts"))


@pytest.mark.crash_full
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_fifty_kills_lose_no_step(tmp_path: Path, seed: int) -> None:
    """200 shell steps, killed 50 times: the driver, or the driver and its steps."""
    with witnessed(tmp_path, 200, 0.3, seed) as flow:
        flow.until_done(50, 0.6)
        starts, attempts = flow.lines("starts"), flow.attempts()
        print(
            f"\nseed {seed}: {flow.kills} kills ({flow.with_children} with the steps), {len(starts)} starts, "
            f"{sum(map(len, attempts.values()))} attempts on record, {len(flow.lines('overlaps'))} overlaps"
        )
        assert 50 == flow.kills
        verify(flow)


@pytest.mark.crash_full
def test_fifty_deaths_of_the_driver_alone_start_nothing_twice(tmp_path: Path) -> None:
    """Nothing ends a step but itself: 200 steps are 200 starts, whatever becomes of their drivers."""
    with witnessed(tmp_path, 200, 0.3, 14) as flow:
        flow.until_done(50, 0.6, children=False)
        assert 50 == flow.kills
        verify(flow)
        assert 200 == len(flow.lines("starts"))


# -- the deliberately broken variants


def caught(
    folder: Path, broken: str, steps: int, seconds: float, *, children: bool, rest: float
) -> Violation:
    """What the suite says of a broken driver."""
    with witnessed(folder, steps, seconds, 5, broken=broken) as flow, pytest.raises(Violation) as caught:
        flow.until_done(6, 0.5, children=children, rest=rest)
        verify(flow)
    return caught.value


def test_a_driver_that_forgets_what_runs_is_caught(tmp_path: Path) -> None:
    """Steps of an earlier driver that are not looked for run twice at once."""
    assert "twice at once" in str(caught(tmp_path, "forgetful", MOST, 5.0, children=False, rest=0.0))


def test_a_driver_that_does_not_believe_exit_codes_is_caught(tmp_path: Path) -> None:
    """Steps that ended while nobody drove are started again."""
    assert "exit 0" in str(caught(tmp_path, "deaf", 12, 0.2, children=False, rest=1.0))


def test_a_driver_that_starts_before_it_records_is_caught(tmp_path: Path) -> None:
    """Steps are started that nobody knows of."""
    assert "not on record" in str(caught(tmp_path, "hasty", 12, 0.1, children=True, rest=0.0))
