"""Documents as a protocol's agents might write them: the examples, with anything anywhere."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from tests.protocols.examples import EXAMPLES

KEYS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
TEXTS = st.one_of(
    KEYS,
    st.sampled_from(
        [
            "",
            "✅ done",
            "in progress",
            "~98%",
            "12:18",
            "2026-07-15 11:40 UTC",
            "2026-07-15",
            "a/b",
            "100%",
            "1",
            "--",
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(-5, 40), st.sampled_from([1_760_394_631, 10**12, 10**30, 1.5, 2.0, -0.0, 1e22]), st.booleans()
)
VALUES = st.recursive(
    st.one_of(st.none(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something could be changed."""
    out = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        out += places(item, (*path, key))
    return out


@st.composite
def documents(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """One of a protocol's examples after a few changes: values swapped, keys dropped and added."""
    found: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(list(EXAMPLES[name][1].values()))))
    for _ in range(draw(st.integers(0, 6))):
        there = places(found)
        path = draw(st.sampled_from(there)) if there else ()
        inside: Any = found
        for key in path[:-1]:
            inside = inside[key]
        action = draw(st.sampled_from(["swap", "drop", "add"]))
        if action == "swap" and path:
            inside[path[-1]] = draw(VALUES)
        elif action == "drop" and path:
            del inside[path[-1]]
        elif isinstance(inside, dict):
            inside[draw(KEYS)] = draw(VALUES)
        else:
            inside.append(draw(VALUES))
    return found
