"""A change set: values are checked, redacted and encoded when they are put in."""

from __future__ import annotations

from typing import Any

import pytest

from leftoff.engine.redaction.redactor import Redactor
from leftoff.errors import Invalid
from leftoff.model.changes import APPEND, DELETE, NOTHING, PUT, Change, ChangeSet, step_facts
from leftoff.model.codec import encode, sha256
from leftoff.model.frozen import MARK
from leftoff.model.values import SPREAD_OVER


def change_for(value: Any, name: str = "x", *, redactor: Redactor | None = None) -> Change:
    return ChangeSet(redactor or Redactor()).put("variable", name, value)


def sized(bytes_: int, kind: type) -> Any:
    """A list or dict whose canonical JSON has exactly so many bytes."""
    value: Any = ["", "x"] if kind is list else {"a": "", "b": "x"}
    fill = "y" * (bytes_ - len(encode(value)))
    value[0 if kind is list else "a"] = fill
    assert bytes_ == len(encode(value))
    return value


def test_a_later_change_replaces_an_earlier_one() -> None:
    """What counts is the last word on each record."""
    changes = ChangeSet()
    changes.put("variable", "a", 1)
    changes.put("note", "a", "n")
    changes.put("variable", "a", 2)
    assert [("variable", "a"), ("note", "a")] == list(changes.changes)
    assert b"J2" == changes.changes["variable", "a"].stored
    changes.delete("variable", "a")
    assert [DELETE, PUT] == [change.kind for change in changes.changes.values()]
    assert 2 == len(changes)


def test_what_is_done_to_the_object_later_changes_nothing() -> None:
    """A value is taken as it is when it is put in, also where something of it is secret."""
    value = {"n": [1], "password": "hunter2"}
    change = change_for(value)
    stored = change.stored
    value["n"].append(2)  # type: ignore[attr-defined]
    assert stored == change.stored
    assert {"n": [1], "password": "hunter2"} == change.secret


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("entries", ["few", "many"])
def test_the_limit_is_by_size_alone(kind: type, entries: str) -> None:
    """Up to 4 KiB of JSON a container is one record, over that one per entry, however many there are."""

    def value(size: int) -> Any:
        if entries == "few":
            return sized(size, kind)
        rest: Any = [1] * 20 if kind is list else {f"k{i:02d}": 1 for i in range(20)}
        inner = sized(size - len(encode(rest)), kind)
        made: Any = [*rest, *inner] if kind is list else {**rest, **inner}
        while len(encode(made)) > size:  # brackets of two became those of one
            made[20 if kind is list else "a"] = made[20 if kind is list else "a"][:-1]
        while len(encode(made)) < size:
            made[20 if kind is list else "a"] += "y"
        return made

    whole, over = change_for(value(SPREAD_OVER)), change_for(value(SPREAD_OVER + 1))
    assert whole.spread is None and b"J" == whole.stored[:1] and SPREAD_OVER + 1 == len(whole.stored)
    assert over.spread is not None and (b"L" if kind is list else b"D") == over.stored


def test_a_long_text_is_one_record() -> None:
    """Only lists and dicts are spread."""
    assert change_for("x" * 10_000).spread is None


def test_only_variables_are_spread() -> None:
    """Any other record is one record, however long."""
    change = ChangeSet().put("knowledge", "k", ["x" * 100] * 100)
    assert change.spread is None


def test_order_of_keys_does_not_matter() -> None:
    """Equal values have equal bytes, with secrets in them too."""
    one = {"b": 1, "token": "s3cret-one", "a": [2], "password": "hunter2"}
    other = dict(sorted(one.items()))
    assert change_for(one).stored == change_for(other).stored


@pytest.mark.parametrize("name", ["", "a\0b", 1, None, "\ud800"])
def test_bad_names(name: Any) -> None:
    """A variable's name is text without NUL."""
    with pytest.raises(Invalid):
        ChangeSet().put("variable", name, 1)


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.put("nonsense", "k", 1),
        lambda c: c.delete("nonsense", "k"),
        lambda c: c.put_stored("nonsense", "k", b"J1"),
        lambda c: c.put("note", "", 1),
        lambda c: c.put("step", "a//b", {"status": "pending"}),
        lambda c: c.put("step", "a", {"status": "nonsense"}),
        lambda c: c.put("step", "a", "pending"),
        lambda c: c.put("run", "status", "nonsense"),
    ],
)
def test_bad_addresses_and_words(act: Any) -> None:
    """Unknown collections, empty keys, broken paths and unknown status words are refused; the set stays as it was."""
    changes = ChangeSet()
    with pytest.raises(Invalid):
        act(changes)
    assert 0 == len(changes)


@pytest.mark.parametrize("act", [lambda c: c.put("item", "x/0", 1), lambda c: c.delete("item", "x/0")])
def test_entries_belong_to_their_variable(act: Any) -> None:
    """Items are not written behind a variable's back."""
    with pytest.raises(Invalid, match="entries of a variable"):
        act(ChangeSet())


def test_a_bad_value_fails_at_once() -> None:
    """The error names the variable and the place in it, and the set stays as it was."""
    changes = ChangeSet(Redactor())
    changes.put("variable", "plan", 1)
    for value, path in (
        ({"due": {1}}, "plan.due"),
        ([1] * 20 + [b"x"], "plan[20]"),
        ({**{f"k{i}": i for i in range(20)}, "bad": (1,)}, "plan.bad"),
        ({"password": "x", "text": ["a\ud800"]}, "plan.text[0]"),
        ([{"password": "x"}] * 20 + ["a\ud800"], "plan[20]"),
    ):
        with pytest.raises(Invalid) as caught:
            changes.put("variable", "plan", value)
        assert path == caught.value.path
    assert b"J1" == changes.changes["variable", "plan"].stored


def test_secrets_are_not_in_the_bytes() -> None:
    """What is redacted is kept beside the bytes, for the process that set it, and nowhere in them."""
    for value in (
        "hunter2-secret",
        {"password": "hunter2-secret", "n": 1},
        {**{f"k{i}": i for i in range(20)}, "password": "hunter2-secret"},
        [{"i": i, "text": "x" * 400, "password": "hunter2-secret"} for i in range(20)],
    ):
        change = change_for(value, "password" if isinstance(value, str) else "cfg")
        encoded = change.spread.encoded if change.spread is not None else []
        assert b"hunter2" not in b"".join([change.stored, *encoded])
        assert value == change.secret


def test_nothing_secret_nothing_kept() -> None:
    """A value without secrets has none to keep."""
    assert change_for({"n": 1}).secret is NOTHING


def test_a_mark_that_comes_back_stays_one() -> None:
    """Assigning what was read with something redacted in it keeps it redacted, in one record or many."""
    assert b'R{"paths":[["password"]],"value":{"n":2,"password":{"redacted":true}}}' == (
        change_for({"password": MARK, "n": 2}).stored
    )
    change = change_for([{"text": "x" * 500}] * 20 + [{"password": MARK}])
    assert change.spread is not None
    assert b'R{"paths":[["password"]],"value":{"password":{"redacted":true}}}' == change.spread.encoded[20]


def test_append_collects() -> None:
    """Several entries for one list wait in one change; each is checked when it comes."""
    changes = ChangeSet(Redactor())
    changes.append("log", {"n": 1})
    changes.append("log", "two")
    (change,) = changes.changes.values()
    assert (APPEND, [b'J{"n":1}', b'J"two"']) == (change.kind, change.items)
    with pytest.raises(Invalid, match="tuple"):
        changes.append("log", (1,))
    changes.put("variable", "list", [1])
    with pytest.raises(Invalid, match="commit"):
        changes.append("list", 2)


def test_step_facts() -> None:
    """Status and order are kept beside a step; one without an order comes last."""
    assert ("pending", 3) == step_facts("a", {"status": "pending", "order": 3})
    last = step_facts("a", {"status": "pending"})[1]
    for order in ("x", -1, 10**12, None):
        assert ("pending", last) == step_facts("a", {"status": "pending", "order": order})


def test_expectations_are_encoded_like_values() -> None:
    """Compare-and-set compares what would be stored: `None` is that nothing is there."""
    changes = ChangeSet(Redactor())
    assert b'J"old"' == changes.put("variable", "a", 1, expect="old").expect.stored
    assert changes.put("variable", "a", 1, expect=None).expect is None
    assert changes.put("variable", "a", 1).expect is NOTHING
    with pytest.raises(Invalid, match="set"):
        changes.put("variable", "a", 1, expect={1})


HUGE = "y" * 3000


@pytest.mark.parametrize("value", [HUGE, ["a", HUGE, "b" * 2000], {"a": "b" * 2000, "c": HUGE}])
def test_large_records_in_another_form(value: Any) -> None:
    """A change can be had with its large records replaced; the change itself keeps their bytes."""
    changes = ChangeSet()
    change = changes.put("variable", "v", value)
    before = (change.stored, change.spread and [change.spread.encoded.copy(), change.spread.hashes.copy()])
    assert change.is_large(2500) and not change.is_large(3100)
    small = change.shrunk(2500, lambda stored: b"B" + stored[2:5])
    assert not small.is_large(2500) and change.is_large(2500)
    assert before == (change.stored, change.spread and [change.spread.encoded, change.spread.hashes])
    if small.spread is not None:
        key = 1 if isinstance(value, list) else "c"
        assert (b"Byyy", sha256(b"Byyy").digest()) == (small.spread.encoded[key], small.spread.hashes[key])


def test_large_entries_in_another_form() -> None:
    """The same for what is appended, each entry by itself."""
    changes = ChangeSet()
    changes.append("v", 1)
    changes.append("v", HUGE)
    change = changes.changes["variable", "v"]
    small = change.shrunk(2500, lambda stored: b"B")
    assert ([b"J1", b"B"], 3003) == (small.items, len(change.items[1]))
