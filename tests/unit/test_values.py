"""How a value becomes records, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leftoff.errors import Corrupt
from leftoff.model.changes import (
    DICT_HEAD,
    LIST_HEAD,
    after,
    blob_about,
    blob_of,
    blob_stored,
    entry_key,
    entry_name,
    gather,
    index_key,
    item_prefix,
    spread,
)
from leftoff.model.codec import DICT, LIST, MARK, marks, sha256, store

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = TEXT.filter(lambda name: name and "\0" not in name)
ODD_KEYS = [
    "",
    "a",
    "a/b",
    "/",
    "100%",
    "%2F",
    "%00",
    "%25",
    "\0",
    "a\0b",
    "%\0%",
    "caf\u00e9",
    "\U0010ffff",
    " ",
]


def gathered(name: str, value: Any) -> Any:
    """A value put together again from its items, which come in the order of their keys."""
    items = sorted(spread(name, value).items())
    return gather(name, LIST if isinstance(value, list) else DICT, items)


def test_item_keys_are_fixed() -> None:
    """These keys are on people's disks, so they never change."""
    assert "messages/" == item_prefix("messages")
    assert "a%2Fb%25c/" == item_prefix("a/b%c")
    assert "messages/0000000042" == index_key("messages/", 42)
    assert "cfg/a/b" == entry_key("cfg/", "a/b")
    assert "cfg/100%25%00" == entry_key("cfg/", "100%\0")
    assert (LIST_HEAD, DICT_HEAD) == (sha256(b"L").digest(), sha256(b"D").digest())


@given(TEXT)
def test_entry_keys_come_back(key: str) -> None:
    """Whatever a dict's key is, its item key holds no NUL and says which it was."""
    stored = entry_key("cfg/", key)
    assert "\0" not in stored
    assert key == entry_name("cfg/", stored)


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_entry_keys(key: str) -> None:
    """Percent signs, slashes and NULs in keys survive."""
    assert ({key: 1, "other": [2]}, []) == gathered("cfg", {key: 1, "other": [2]})


def test_odd_keys_together() -> None:
    """No two keys share an item key."""
    value = {key: index for index, key in enumerate(ODD_KEYS)}
    assert len(ODD_KEYS) == len(spread("cfg", value))
    assert (value, []) == gathered("cfg", value)


@given(NAMES, NAMES, TEXT, TEXT)
def test_variables_keep_apart(one: str, other: str, key: str, other_key: str) -> None:
    """An item of one variable never lies in the range of another's."""
    prefix, item = item_prefix(one), entry_key(item_prefix(other), other_key)
    assert (one == other) == (prefix <= item < after(prefix))
    assert prefix <= entry_key(prefix, key) < after(prefix)


@given(st.lists(st.integers(), max_size=30))
def test_lists_come_back(value: list[int]) -> None:
    """A list is put together in its order."""
    assert (value, []) == gathered("x", value)


def test_long_lists_stay_in_order() -> None:
    """Index keys sort like numbers."""
    keys = [index_key("x/", index) for index in (0, 9, 10, 99, 100, 99_999, 100_000, 10**9)]
    assert sorted(keys) == keys


@given(st.dictionaries(TEXT, st.integers(), max_size=30))
def test_dicts_come_back_sorted(value: dict[str, int]) -> None:
    """A dict comes back with its keys in order."""
    back, _ = gathered("x", value)
    assert value == back
    assert sorted(value) == list(back)


def test_redacted_entries_say_where_they_are() -> None:
    """The holes of the entries are the holes of the value, each with its place in front."""
    back, paths = gathered("x", ["a", {"password": MARK, "n": 1}, MARK])
    assert ["a", {"password": {"redacted": True}, "n": 1}, {"redacted": True}] == back
    assert [[1, "password"], [2]] == paths == marks(back)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_list_with_a_gap_is_corrupt(missing: int) -> None:
    """An entry that is not there is reported, and never closed over."""
    items = sorted(spread("x", ["a", "b", "c", "d"]).items())
    del items[missing]
    with pytest.raises(Corrupt, match=f"x has no entry {missing}"):
        gather("x", LIST, items)


def test_redacted_bytes_are_fixed() -> None:
    """A redacted value: its paths in order, then itself with the mark in each place."""
    expected = b'R{"paths":[["a"],["z",0]],"value":{"a":{"redacted":true},"n":1,"z":[{"redacted":true}]}}'
    assert expected == store({"z": [MARK], "n": 1, "a": MARK})
    assert b'R{"paths":[[]],"value":{"redacted":true}}' == store(MARK)
    assert b'J{"redacted":true}' == store({"redacted": True})


def test_blob_references() -> None:
    """A record that refers to a blob: its hash, then what is known of it; nothing where the blob is the value."""
    hash = sha256(b"content").digest()
    about = {"path": "a.md", "size": 7}
    assert b"B" + hash + b'{"path":"a.md","size":7}' == blob_stored(hash, about)
    assert b"B" + hash == blob_stored(hash)
    assert (hash, about) == (blob_of(blob_stored(hash, about)), blob_about(blob_stored(hash, about), "x"))
    assert blob_about(blob_stored(hash), "x") is None
    assert blob_of(b"J1") is None


@pytest.mark.parametrize("stored", [b"B", b"B" + b"\0" * 31, b"B" + b"\0" * 32 + b"nope"])
def test_broken_blob_references(stored: bytes) -> None:
    """Bytes that refer to no blob are Corrupt, naming the record."""
    with pytest.raises(Corrupt, match=r"artifact/a\.md"):
        blob_about(stored, "artifact/a.md")
