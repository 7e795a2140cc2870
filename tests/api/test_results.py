"""What a step returns comes back as it was, whatever it is; and a function over many items."""

from __future__ import annotations

import asyncio
import collections
import datetime as dt
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import leftoff
from leftoff.model.codec import text
from leftoff.python.values import decode_value, encode_value

VALUES: list[Any] = [
    (1, "a"),
    {1, 2},
    float("inf"),
    collections.Counter(a=2, b=1),
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.deque([1, (2,)]),
    {"when": dt.date(2026, 1, 2), "$type": "mine"},
    np.float32(1.5),
    np.int64(7),
]


def test_do_gives_back_what_it_was(run: leftoff.Run) -> None:
    """The first time, and whenever it is asked for again."""
    for number, value in enumerate(VALUES):
        first = run.do(f"s{number}", lambda value=value: value)
        again: Any = run.do(f"s{number}", lambda: pytest.fail("it is done"))
        assert (value, value) == (first, again) and type(value) is type(first) is type(again)


def test_not_a_number(run: leftoff.Run) -> None:
    assert math.isnan(run.do("a", lambda: [math.nan, 1.0])[0])


def back(value: Any) -> Any:
    """Through a record and back."""
    made = encode_value(value, "value")
    text(made)
    return decode_value(made, "value")


def test_a_default_dict_makes_entries_again() -> None:
    found = back(collections.defaultdict(list, a=[1]))
    assert {"a": [1]} == found and [] == found["new"]


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3), np.array([True, False]), np.array(["a", "bc"]), np.array([1, None])]
)
def test_an_array(array: Any) -> None:
    found = back(array)
    assert (array.dtype, array.shape) == (found.dtype, found.shape) and array.tolist() == found.tolist()


def test_a_large_array_is_kept_as_a_file(run: leftoff.Run) -> None:
    large = np.arange(300_000)
    assert (large == run.do("a", lambda: large)).all()


def test_a_table() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2],
            "x": [0.5, math.nan],
            "s": ["a", None],
            "t": pd.to_datetime(["2026-01-01", "2026-01-02"]),
        },
        index=pd.Index(["r1", "r2"], name="row"),
    )
    pd.testing.assert_frame_equal(frame, back(frame))
    pd.testing.assert_series_equal(frame["x"], back(frame["x"]))


def test_a_result_that_cannot_be_kept_is_not_lost(run: leftoff.Run) -> None:
    """Its text is beside the error."""

    class Odd:
        def __repr__(self) -> str:
            return "<an hour of work>"

    with pytest.raises(leftoff.Invalid, match="which cannot be recorded"):
        run.do("a", Odd)
    assert "<an hour of work>" == run.steps["a"]["error"]["result"]


# -- map


def test_map_gives_results_in_order(run: leftoff.Run) -> None:
    together = threading.Barrier(3, timeout=30)

    def square(number: int) -> int:
        together.wait()
        return number * number

    assert [9, 1, 4] == run.map(square, [3, 1, 2], max_parallel=3)
    assert "completed" == run.steps["square"]["status"]


def test_map_keeps_going(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What failed is summed up, the run is failed; started again, only that is done."""
    done: list[int] = []
    broken = {2}

    def work(number: int) -> int:
        if number in broken:
            raise ValueError("no")
        done.append(number)
        return number * 10

    with leftoff.open(tmp_path) as store:
        with store.run("w") as run:
            found = run.map(work, [1, 2, 3], keep_going=True)
            assert [10, None, 30] == found and ["2"] == list(found.failures)
        assert "1 of 3 items of work failed: 2." in capsys.readouterr().err
        assert "failed" == store.get(run.id).status
        broken.clear()
        with store.run("w") as run:
            assert [10, 20, 30] == run.map(work, [1, 2, 3], keep_going=True)
        assert "completed" == store.get(run.id).status
    assert [1, 3, 2] == done


def test_map_stops_at_the_first_failure(run: leftoff.Run) -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        raise ValueError(f"{number} is torn")

    with pytest.raises(ValueError, match="1 is torn"):
        run.map(work, [1, 2, 3])
    assert [1] == begun and "failed" == run.steps["work"]["status"]


def test_map_of_a_coroutine_function(run: leftoff.Run) -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    assert [2, 3] == asyncio.run(run.map(work, [1, 2], max_parallel=2))


def test_a_run_with_every_step_done_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with leftoff.open(tmp_path) as store:
        store.run("nightly").do("fetch", lambda: 1)
    with leftoff.open(tmp_path) as store, store.run("nightly") as run:
        assert 1 == run.do("fetch", lambda: 2)
    err = capsys.readouterr().err
    assert f"leftoff: continuing {run.id}, last active just now, 1 of 1 steps done." in err
