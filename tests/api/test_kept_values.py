"""One codec for what steps return and for variables: before and after a second start, and for whoever only looks."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import pathlib
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pandas as pd
import pydantic
import pytest

import leftoff
from leftoff.model.typed import readable
from tests.cli.command import succeed


@dataclasses.dataclass
class Page:
    url: str
    links: list[str]
    when: dt.date = dt.date(2026, 1, 2)


@attrs.define
class Point:
    y: int
    x: tuple[int, ...] = (1,)


class Model(pydantic.BaseModel):
    zeta: int
    alpha: str = "x"


class Bunch(dict[str, Any]):
    """A dict of its own class, with an attribute."""


class Colour(enum.Enum):
    RED = 1


def bunch() -> Bunch:
    made = Bunch(b=(1, 2), a=None)
    made.note = "n"  # type: ignore[attr-defined]
    return made


# Each with the JSON that people and scripts see.
KEPT: dict[str, tuple[Any, Any]] = {
    "tuple": ((1, ("a",)), [1, ["a"]]),
    "set": ({2, 1}, [1, 2]),
    "nan": ([math.inf, {"a": math.nan}], ["inf", {"a": "nan"}]),
    "bytes": (b"abc", "b'abc'"),
    "bytearray": (bytearray(200), "200 bytes"),
    "complex": (1 + 2j, "(1+2j)"),
    "range": (range(3), "range(0, 3, 1)"),
    "date": ({"when": [dt.date(2026, 1, 2)]}, {"when": ["2026-01-02"]}),
    "length": (dt.timedelta(days=1, seconds=5), "1 day, 0:00:05"),
    "decimal": (decimal.Decimal("1.10"), "1.10"),
    "path": (pathlib.Path("a/b"), "a/b"),
    "keys": ({1: "a", (2, 3): "b"}, {"1": "a", "[2,3]": "b"}),
    "counter": (collections.Counter("aab"), {"a": 2, "b": 1}),
    "ordered": (collections.OrderedDict(z=1, a=2), {"z": 1, "a": 2}),
    "default": (collections.defaultdict(list, k=[1]), {"k": [1]}),
    "dataclass": (Page("u", ["a"]), {"links": ["a"], "url": "u", "when": "2026-01-02"}),
    "attrs": (Point(3), {"x": [1], "y": 3}),
    "pydantic": (Model(zeta=1), {"alpha": "x", "zeta": 1}),
    "enum": (Colour.RED, "RED"),
    "own dict": (bunch(), {"b": [1, 2], "a": None}),
    "own key": ({"$type": "tuple", "value": [1]}, {"$type": "tuple", "value": [1]}),
    "scalar": (np.float32(1.5), 1.5),
    "array": (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
    "times": (np.array(["2026-01-01"], dtype="M8[D]"), ["2026-01-01T00:00:00"]),
    "complexes": (np.array([1 + 2j]), ["(1+2j)"]),
    "large array": (np.arange(200_000.0), "array of 200000 entries, <f8"),
    "table": (pd.DataFrame({"n": [1, 2], "s": ["a", None]}), {"n": [1, 2], "s": ["a", None]}),
    "long table": (pd.DataFrame({"n": range(500)}), "table of 500 rows: n"),
    "levels": (pd.Series([1, 2], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])), [1, 2]),
    "categories": (pd.Series(pd.Categorical(["lo", "hi"], ["lo", "hi"], ordered=True)), ["lo", "hi"]),
    "no time": (pd.NaT, "NaT"),
    "length of time": (pd.Timedelta("1D"), "P1DT0H0M0S"),
    "period": (pd.Period("2026-01"), "2026-01"),
    "many": ([(i, "x" * 20) for i in range(300)], [[i, "x" * 20] for i in range(300)]),
}

FEW = ["tuple", "pydantic", "own dict", "large array", "table"]


def assert_same(expected: Any, found: Any) -> None:
    """Of the same type, and equal; NaN equals itself here."""
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(expected, found)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(expected, found)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(expected, found)
        assert expected.dtype == found.dtype
    else:
        assert repr(expected) == repr(found) and isinstance(found, type(expected))
        assert vars(expected) == vars(found) if isinstance(expected, Bunch) else True


def test_everything_beside_each_other(store_path: Path) -> None:
    """Variables and results, in the process that made them, in the next one, and for who only looks."""

    def look(run: Any) -> None:
        for name, (value, _) in KEPT.items():
            assert_same(value, run.variables[name])

    with leftoff.open(store_path) as store, store.start("w", run_id="r") as run:
        run.variables.update({name: value for name, (value, _) in KEPT.items()})
        look(run)
        run.commit()
        look(run)
        run.do("all", lambda: [value for value, _ in KEPT.values()])
        found = run.map(lambda name: KEPT[name][0], FEW, name="map")
        run.pause()
    with leftoff.open(store_path) as store:
        look(store.get("r"))
        run = store.resume("r")
        look(run)
        kept: list[Any] = run.do("all", pytest.fail)
        for (value, _), found_again in zip(KEPT.values(), kept, strict=True):
            assert_same(value, found_again)
        again = run.map(lambda name: pytest.fail(name), FEW, name="map")
        for one, other, name in zip(found, again, FEW, strict=True):
            assert_same(KEPT[name][0], one)
            assert_same(KEPT[name][0], other)
        assert [] == store.fsck().problems


def test_the_command_shows_the_nearest_json(project: Path) -> None:
    """`get`, `show`, `diff` and `brief`: as one would write it; nobody needs the class, numpy or pandas."""
    with leftoff.open(".leftoff") as store, store.start("w", run_id="r") as run:
        run.checkpoint()
        run.variables.update({name: value for name, (value, _) in KEPT.items()})
        run.do("result", lambda: KEPT["dataclass"][0])
        run.pause()
    expected = {name: json for name, (_, json) in KEPT.items()}
    document = succeed("show", "r", "--json", cwd=project).json
    assert expected == document["variables"]
    assert [expected["dataclass"]] == [step["result"] for step in document["step_records"]]
    assert expected == succeed("diff", "r~1", "r", "--json", cwd=project).json["variables"]["added"]
    for name in ("tuple", "dataclass", "table"):
        assert expected[name] == json.loads(succeed("get", name, cwd=project).out)
    assert "1.10" == succeed("get", "decimal", cwd=project).out.strip()
    assert expected["dataclass"] == succeed("get", "step/result", "--json", cwd=project).json["result"]
    assert '- decimal = "1.10"' in succeed("brief", cwd=project).out


def test_what_a_command_sets_is_never_taken_for_something_else(project: Path) -> None:
    """JSON with the key `$type` is that JSON, for every reader, and imports nothing."""
    given = {"a": [{"$type": "antigravity:Page", "value": {}}], "$type": 1}
    succeed("start", "w", "--run-id", "r", cwd=project)
    succeed("set", f"v:={json.dumps(given)}", cwd=project)
    assert given == succeed("get", "v", "--json", cwd=project).json
    with leftoff.open(".leftoff") as store:
        assert given == store.get("r").variables["v"]


def test_a_list_that_became_a_tuple_has_changed(run: leftoff.Run) -> None:
    run.variables["v"] = [1]
    first = run.checkpoint()
    run.variables["v"] = (1,)
    changed = run.diff(first).variables.changed["v"]
    assert [1] == changed.old and {"$type": "tuple", "value": [1]} == changed.new


def test_what_is_read_is_a_copy(run: leftoff.Run) -> None:
    """Changing it changes nothing in the run, before a restart as after it; lists around it are frozen."""
    run.variables["v"] = {"seen": [{1}]}
    with pytest.raises(leftoff.Frozen):
        run.variables["v"]["seen"].append(1)
    run.variables["v"]["seen"][0].add(2)
    assert {"seen": [{1}]} == run.variables["v"]
    run.commit()
    run.variables["v"]["seen"][0].add(2)
    assert {"seen": [{1}]} == run.variables["v"]


def test_appending_and_comparing(store: leftoff.Store, run: leftoff.Run) -> None:
    run.append("log", (1, 2))
    run.commit()
    run.append("log", {"at": dt.date(2026, 1, 2)})
    expected = [(1, 2), {"at": dt.date(2026, 1, 2)}]
    assert expected == run.variables["log"]
    run.commit()
    assert expected == run.variables["log"] == store.get(run.id).variables["log"]
    run.variables["v"] = (1,)
    run.commit()
    run.compare_and_set("v", (1,), {2})
    with pytest.raises(leftoff.Conflict):
        run.compare_and_set("v", (1,), {3})
    assert {2} == run.variables["v"]


def test_a_secret_inside(store: leftoff.Store, run: leftoff.Run) -> None:
    """It is not stored; this process still has it, and who reads it elsewhere is told."""
    run.variables["v"] = {"at": dt.date(2026, 1, 2), "password": "hunter22"}
    run.commit()
    assert "hunter22" == run.variables["v"]["password"]
    there = store.get(run.id).variables["v"]
    assert dt.date(2026, 1, 2) == there["at"]
    with pytest.raises(leftoff.Redacted):
        there["password"]


def test_variables_of_a_new_run(store: leftoff.Store) -> None:
    run = store.start("w", variables={"v": (1, 2)})
    other = run.fork(branch="b", w={3})
    assert (1, 2) == run.variables["v"] == other.variables["v"] and {3} == other.variables["w"]


def test_pydantic_writes_its_fields_in_their_order(store: leftoff.Store, run: leftoff.Run) -> None:
    run.variables["v"] = Model(zeta=1)
    run.commit()
    assert '{"zeta":1,"alpha":"x"}' == store.get(run.id).variables["v"].model_dump_json()


class Odd:
    def __repr__(self) -> str:
        return "<an hour of work>"


def test_a_durable_function_loses_nothing_either(store: leftoff.Store) -> None:
    """What it returned is kept as text beside the error, with where it was."""

    @leftoff.step
    def work() -> Any:
        return Odd()

    @leftoff.workflow
    def flow() -> None:
        work()

    with pytest.raises(leftoff.Invalid, match="which cannot be recorded"):
        flow.run(store=store, run_id="f")
    assert "<an hour of work>" == store.get("f").steps["1-work"]["error"]["result"]


@pytest.mark.parametrize(
    "word", ["tuple", "bytes", "numpy.ndarray", "pandas.DataFrame", "numpy.scalar", "dict"]
)
def test_what_only_looks_like_ours_is_shown_as_it_is(word: str) -> None:
    """Records of an older leftoff, or of somebody else: no reader stumbles."""
    assert {"$type": word, "value": 7} == readable({"$type": word, "value": 7})
