"""Values worth trying: small and odd, around the limits, and large."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.model.encoding import SPREAD, VALUE_MAX, canon

NAMES = ("x", "y", "n", "x0", "a/b", "p%q", "x/", "ü€🐍", "\U0010ffff", "0")
COLLECTIONS = ("knowledge", "note", "message", "file", "extra", "context", "approval")
KEYS = ("a", "b", "a/b", "%2F", "é", "\U0010ffffz")
STEPS = ("a", "b", "a/x", "a/x/1", "a/x/2", "a/y", "b/x/1", "a0", "ü")
# A step with an `approval` record is a person's, and a program cannot report on it: such games end at once.
ADDRESSES = [(name, key) for name in COLLECTIONS for key in KEYS if name != "approval" or key not in STEPS]
ITEMS = ("p", "q", "r/s", "%", "p#2", "ünï")
TRIGGERS = ("manual", "review", "batch_start", "external")

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_scalar = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, -1, 2**63, 2**64, 10**400, -(10**40)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e-7, 5e-324]),
    _text,
    st.sampled_from(["", "\0", "%00", "\u2028", "𝄞", "a\nb", "/"]),
)
small: st.SearchStrategy[Any] = st.recursive(
    _scalar,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_text, inner, max_size=4)),
    max_leaves=6,
)


def _rows(count: int, width: int, seed: int) -> list[Any]:
    return [{"i": i + seed, "t": "é" * width} for i in range(count)]


def _table(count: int, width: int, seed: int) -> dict[str, Any]:
    return {f"k{(i * 7 + seed) % 1000}%/": "w" * width for i in range(count)}


def _near(size: int, shape: str) -> Any:
    """A list or dict whose canonical text has exactly this many bytes."""
    make = {
        "list": lambda n: ["f" * n, 1],
        "one": lambda n: ["f" * n],
        "dict": lambda n: {"k": "f" * n, "": 0},
    }[shape]
    value = make(size - len(canon(make(0))))
    assert size == len(canon(value))
    return value


_near_limit = st.builds(_near, st.integers(SPREAD - 2, SPREAD + 3), st.sampled_from(["list", "one", "dict"]))
_spread = st.one_of(
    st.builds(_rows, st.integers(0, 60), st.sampled_from([1, 40, 300, 1200]), st.integers(0, 3)),
    st.builds(_table, st.integers(0, 60), st.sampled_from([1, 90, 700, 1500]), st.integers(0, 3)),
)
_kilobytes = st.builds(
    lambda n, c: c * n, st.sampled_from([1020, 1021, 1022, 1023, 5000]), st.sampled_from("aβ")
)
_deep = st.builds(lambda n: _nested(n), st.integers(5, 60))


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value, level] if level % 2 else {"d": value}
    return value


values = st.one_of(small, small, _near_limit, _spread, _spread, _kilobytes, _deep)
entries = st.one_of(
    small, small, _kilobytes, st.builds(lambda n: "e" * n, st.sampled_from([100, 2000, 4090]))
)
megabytes = st.builds(
    lambda over, shape, c: {"text": c * (VALUE_MAX + over), "list": [1, c * (VALUE_MAX + over), [2]]}[shape],
    st.sampled_from([-3, -2, -1, 0, 100]),
    st.sampled_from(["text", "list"]),
    st.sampled_from("mn"),
)

# Edits of a list or dict that was read from a run: what is done, where, and with what.
edits = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "insert", "delete", "swap", "cut", "extend", "touch", "same"]),
        st.integers(0, 70),
        entries,
    ),
    max_size=3,
)


def edited(value: Any, changes: list[tuple[str, int, Any]]) -> Any:
    """A changed copy; entries that are not touched stay the very same objects."""
    if isinstance(value, list):
        return _edited_list(list(value), changes)
    if isinstance(value, dict):
        return _edited_dict(dict(value), changes)
    return value


def _edited_list(out: list[Any], changes: list[tuple[str, int, Any]]) -> list[Any]:
    for what, at, entry in changes:
        index = at % len(out) if out else 0
        if what == "insert" or (what == "set" and not out):
            out.insert(index, entry)
        elif what == "set":
            out[index] = entry
        elif what == "delete" and out:
            del out[index]
        elif what == "swap" and out:
            out[0], out[index] = out[index], out[0]
        elif what == "cut":
            del out[index:]
        elif what == "extend":
            out.extend([entry] * (at % 5))
        elif what == "touch" and out and isinstance(out[index], dict):
            out[index] = {**out[index], "touched": at}
    return out


def _edited_dict(out: dict[str, Any], changes: list[tuple[str, int, Any]]) -> dict[str, Any]:
    for what, at, entry in changes:
        key = sorted(out)[at % len(out)] if out else "first"
        if what in ("set", "touch"):
            out[key] = entry
        elif what in ("insert", "extend"):
            out[f"new{at}\0%"] = entry
        elif what == "delete":
            out.pop(key, None)
        elif what == "swap" and out:
            low = min(out)
            out[key], out[low] = out[low], out[key]
        elif what == "cut":
            out = {name: out[name] for name in sorted(out)[: at % 4]}
    return out
