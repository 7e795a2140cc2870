"""What is read from a run: real lists and dicts that refuse to be changed, with redacted entries guarded."""

from __future__ import annotations

import copy
import json
import pickle
import pprint
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from leftoff.errors import Frozen, Redacted
from leftoff.model.codec import MARK, FrozenDict, FrozenList, freeze, freeze_holed, guard, mark, marks, thaw

VALUE = {"a": [3, 1, {"b": None}], "c": {"d": "x"}, "e": 1.5}

LIST_MUTATORS: dict[str, Callable[[Any], Any]] = {
    "append": lambda x: x.append(1),
    "extend": lambda x: x.extend([1]),
    "insert": lambda x: x.insert(0, 1),
    "remove": lambda x: x.remove(1),
    "pop": lambda x: x.pop(),
    "clear": lambda x: x.clear(),
    "sort": lambda x: x.sort(),
    "reverse": lambda x: x.reverse(),
    "setitem": lambda x: x.__setitem__(0, 1),
    "set slice": lambda x: x.__setitem__(slice(0, 1), [1]),
    "delitem": lambda x: x.__delitem__(0),
    "iadd": lambda x: x.__iadd__([1]),
    "imul": lambda x: x.__imul__(2),
}
DICT_MUTATORS: dict[str, Callable[[Any], Any]] = {
    "setitem": lambda x: x.__setitem__("k", 1),
    "delitem": lambda x: x.__delitem__("a"),
    "pop": lambda x: x.pop("a"),
    "popitem": lambda x: x.popitem(),
    "clear": lambda x: x.clear(),
    "update": lambda x: x.update(k=1),
    "setdefault": lambda x: x.setdefault("k", 1),
    "ior": lambda x: x.__ior__({"k": 1}),
}


@pytest.mark.parametrize("mutate", LIST_MUTATORS.values(), ids=LIST_MUTATORS)
def test_list_mutators_raise(mutate: Callable[[Any], Any]) -> None:
    """Every way to change a list in place fails, and says what to do instead."""
    value = freeze(VALUE)["a"]
    with pytest.raises(Frozen, match="list") as caught:
        mutate(value)
    assert VALUE["a"] == value
    assert "copy" in caught.value.hint and 'run.variables["x"] = x' in caught.value.hint
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("mutate", DICT_MUTATORS.values(), ids=DICT_MUTATORS)
def test_dict_mutators_raise(mutate: Callable[[Any], Any]) -> None:
    """Every way to change a dict in place fails, and says what to do instead."""
    value = freeze(VALUE)
    with pytest.raises(Frozen, match="dict") as caught:
        mutate(value)
    assert VALUE == value
    assert "copy" in caught.value.hint


def test_no_mutator_is_forgotten() -> None:
    """Each method that list and dict have either leaves them alone or is refused."""
    harmless = {"copy", "count", "index", "fromkeys", "get", "items", "keys", "values"}
    for base, frozen in ((list, FrozenList), (dict, FrozenDict)):
        methods = {name for name in dir(base) if not name.startswith("_")} - harmless
        assert [] == [name for name in methods if getattr(frozen, name) is getattr(base, name)]


def test_frozen_at_every_depth() -> None:
    """What is inside is frozen too."""
    value = freeze(VALUE)
    for change in (
        lambda: value["a"].append(1),
        lambda: value["a"][2].update(b=1),
        lambda: value["c"].clear(),
    ):
        with pytest.raises(Frozen):
            change()


def test_they_are_lists_and_dicts() -> None:
    """`==`, `isinstance`, `json.dumps`, `len`, `in`, slices and `|` work as ever."""
    value = freeze(VALUE)
    assert VALUE == value and value == VALUE
    assert isinstance(value, dict) and isinstance(value["a"], list)
    assert json.dumps(VALUE) == json.dumps(value)
    assert json.dumps(VALUE, indent=2, sort_keys=True) == json.dumps(value, indent=2, sort_keys=True)
    assert [3, 1] == value["a"][:2] and 3 in value["a"] and 3 == len(value)
    assert {**VALUE, "z": 1} == value | {"z": 1}
    assert [*VALUE["a"], 9] == value["a"] + [9]  # type: ignore[misc]


@pytest.mark.parametrize("twice", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), thaw])
def test_copies_are_ordinary(twice: Callable[[Any], Any]) -> None:
    """A copy is a plain dict or list, to be changed and assigned again."""
    made = twice(freeze(VALUE))
    assert VALUE == made and type(made) is dict
    made["new"] = 1
    items = twice(freeze(VALUE)["a"])
    assert VALUE["a"] == items and type(items) is list
    items.append(1)


@pytest.mark.parametrize("twice", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), thaw])
def test_deep_copies_are_ordinary_at_every_depth(twice: Callable[[Any], Any]) -> None:
    """A deep copy can be changed inside."""
    made = twice(freeze(VALUE))
    made["a"][2]["b"] = 1
    made["c"]["d"] = "y"


def test_freezing_again_changes_nothing() -> None:
    """What is frozen is recognised by identity."""
    value = freeze(VALUE)
    assert value is freeze(value)
    assert value["a"] is freeze({"x": value["a"]})["x"]


# -- redacted entries

HOLED = {
    "host": "db",
    "login": {"user": "bob", "password": {"redacted": True}},
    "keys": [1, {"redacted": True}],
}
HOLES: list[list[Any]] = [["login", "password"], ["keys", 1]]


def holed() -> Any:
    return freeze_holed(mark(copy.deepcopy(HOLED), HOLES), HOLES, "cfg")


def test_reading_a_redacted_entry_raises() -> None:
    """Reading it names the entry and how to give it again; all others are there."""
    value = holed()
    assert ("db", "bob", 1) == (value["host"], value["login"]["user"], value["keys"][0])
    for read in (lambda: value["login"]["password"], lambda: value["login"].get("password")):
        with pytest.raises(Redacted, match=r"cfg\.login\.password") as caught:
            read()
    assert "cfg.login.password" == caught.value.name
    assert "run.variables" in caught.value.hint and "leftoff.toml" in caught.value.hint
    for place in (1, -1):
        with pytest.raises(Redacted, match=r"cfg\.keys"):
            value["keys"][place]


def test_looking_at_the_rest_does_not_raise() -> None:
    """repr, keys, len, `in` and a missing key's default work; repr shows what is redacted."""
    value = holed()
    assert ["host", "login", "keys"] == list(value) == list(value.keys())
    assert "password" in value["login"] and "pin" not in value["login"]
    assert 7 == value["login"].get("pin", 7)
    assert 2 == len(value["keys"]) == len(value["login"]) and [1] == value["keys"][:1]
    assert ("host", "db") == next(iter(value.items())) and "bob" == copy.copy(value)["login"]["user"]
    expected = "{'host': 'db', 'login': {'user': 'bob', 'password': <redacted>}, 'keys': [1, <redacted>]}"
    assert expected == repr(value) == pprint.pformat(value, width=200)


def _named(**named: Any) -> Any:
    return named


OF_BOTH: dict[str, Callable[[Any], Any]] = {
    "json": json.dumps,
    "json with an indent": lambda x: json.dumps(x, indent=2),
    "json, sorted": lambda x: json.dumps(x, sort_keys=True),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "DataFrame": lambda x: pd.DataFrame([x]),
}
OF_A_DICT: dict[str, Callable[[Any], Any]] = {
    **OF_BOTH,
    "[]": lambda x: x["password"],
    "get": lambda x: x.get("password"),
    "items": lambda x: x.items(),
    "values": lambda x: x.values(),
    "dict": dict,
    "**": lambda x: _named(**x),
    "display": lambda x: {**x},
    "update": lambda x: {}.update(x),
    "copy method": lambda x: x.copy(),
    "|": lambda x: x | {},
    "reversed |": lambda x: {} | x,
    "==": lambda x: x == {"user": "bob", "password": "x"},
    "format_map": lambda x: "{password}".format_map(x),
}
OF_A_LIST: dict[str, Callable[[Any], Any]] = {
    **OF_BOTH,
    "[]": lambda x: x[1],
    "from the end": lambda x: x[-1],
    "slice": lambda x: x[1:],
    "loop": lambda x: [item for item in x],
    "list": list,
    "tuple": tuple,
    "*": lambda x: [*x],
    "reversed": lambda x: list(reversed(x)),
    "sorted": sorted,
    "extend": lambda x: [].extend(x),
    "copy method": lambda x: x.copy(),
    "+": lambda x: x + ["y"],  # noqa: RUF005
    "reversed +": lambda x: ["y"] + x,  # noqa: RUF005
    "times": lambda x: x * 2,
    "in": lambda x: 5 in x,
    "index": lambda x: x.index(5),
    "==": lambda x: x == [1, 2],
    "numpy": lambda x: np.array(x),
    "Series": lambda x: pd.Series(x),
}


@pytest.mark.parametrize("read", OF_A_DICT.values(), ids=OF_A_DICT)
def test_every_way_to_read_a_redacted_entry_of_a_dict_raises(read: Callable[[Any], Any]) -> None:
    """No mark is handed out as if it were the value, whichever way C code takes."""
    with pytest.raises(Redacted, match=r"cfg\.login\.password"):
        read(holed()["login"])


@pytest.mark.parametrize("read", OF_A_LIST.values(), ids=OF_A_LIST)
def test_every_way_to_read_a_redacted_entry_of_a_list_raises(read: Callable[[Any], Any]) -> None:
    with pytest.raises(Redacted, match=r"cfg\.keys\[1\]"):
        read(holed()["keys"])


@pytest.mark.parametrize("read", [json.dumps, copy.deepcopy, pickle.dumps])
def test_what_reads_at_every_depth_raises(read: Callable[[Any], Any]) -> None:
    with pytest.raises(Redacted, match=r"cfg\.login\.password"):
        read(holed())


def test_redacted_as_a_whole() -> None:
    """A value of which nothing is left raises when it is asked for."""
    with pytest.raises(Redacted, match="password was redacted"):
        freeze_holed(MARK, [[]], "password")


def test_holed_values_are_frozen() -> None:
    """They refuse changes like all others."""
    with pytest.raises(Frozen):
        holed()["login"]["password"] = "again"
    with pytest.raises(Frozen):
        holed()["keys"].append(1)


def test_plain_data_keeps_the_marks() -> None:
    """leftoff itself makes plain data of it, with marks that are known by their type."""
    made = thaw(holed())
    assert HOLED == made and sorted(HOLES, key=str) == sorted(marks(made), key=str)
    with pytest.raises(Redacted):
        guard(made, "cfg")["login"]["password"]


def test_what_only_looks_like_the_mark_is_a_value() -> None:
    """{"redacted": True} that somebody stores is a dict like any other."""
    assert [] == marks([{"redacted": True}])
    assert {"redacted": True} == guard({"x": {"redacted": True}}, "v")["x"]
