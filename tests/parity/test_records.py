"""The comparison sees what differs, and only that."""

from __future__ import annotations

from pathlib import Path

import leftoff
from tests.parity.records import IS_THERE, NOT_THERE, differences, told


def play(folder: Path, *, last: str = "b", **variables: int) -> dict[str, object]:
    """A run of two steps; all that is compared of it."""
    with leftoff.open(folder / ".leftoff") as store, store.start("flow", variables=variables) as run:
        for step in ("b", "a") if last == "a" else ("a", last):
            run.do(step, lambda: {"at": f"{folder}/{run.id}"})
        run.note("done")
        run.commit()
        return told(folder, run.id)


def test_two_runs_of_the_same_are_the_same(tmp_path: Path) -> None:
    """Ids, times and the folder are no differences, though all of them differ."""
    first, second = play(tmp_path / "one"), play(tmp_path / "two")
    assert {} == differences(first, second)
    assert (
        {"at": "PROJECT/RUN"}
        == first["step/a.result"]
        == first["checkpoint step_complete of a #1:step/a.result"]
    )


def test_a_value_that_differs_is_told_wherever_it_is(tmp_path: Path) -> None:
    """Now, and at each checkpoint."""
    found = differences(play(tmp_path / "one", n=1), play(tmp_path / "two", n=2))
    places = ["", "checkpoint step_complete of a #1:", "checkpoint step_complete of b #1:"]
    assert {f"{place}variable/n": ([1], [2]) for place in places} == found


def test_of_a_record_that_one_has_alone_it_is_told_that(tmp_path: Path) -> None:
    """Not each of its fields."""
    found = differences(play(tmp_path / "one", n=1), play(tmp_path / "two"))
    assert {(IS_THERE, NOT_THERE)} == set(found.values())
    assert "variable/n" in found


def test_a_checkpoint_that_one_has_alone_is_told_as_a_whole(tmp_path: Path) -> None:
    """And so is the step that it is of."""
    found = differences(play(tmp_path / "one"), play(tmp_path / "two", last="c"))
    assert {
        "checkpoint step_complete of b #1": (IS_THERE, NOT_THERE),
        "checkpoint step_complete of c #1": (NOT_THERE, IS_THERE),
        "step/b": (IS_THERE, NOT_THERE),
        "step/c": (NOT_THERE, IS_THERE),
    } == found


def test_the_order_of_checkpoints_counts(tmp_path: Path) -> None:
    """The same ones in another order are no parity."""
    found = differences(play(tmp_path / "one"), play(tmp_path / "two", last="a"))
    assert "order of checkpoints" in found
