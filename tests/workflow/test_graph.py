"""The graph: who waits for whom, level by level."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leftoff.workflow.definition import Graph, cycle
from leftoff.workflow.parse_definition import parse_definition


def graph(text: str) -> Graph:
    return Graph(parse_definition(text, "f"))


def test_one_after_the_other() -> None:
    """Steps that say nothing go in the order of the file, each a batch of its own."""
    found = graph("steps: [{id: a, run: x}, {id: b, run: x}, {id: c, run: x}]")
    assert [["a"], ["b"], ["c"]] == found.batches()
    assert {"a": set(), "b": {"a"}, "c": {"b"}} == found.before
    assert {"a": 0, "b": 1, "c": 2} == found.level


def test_at_once() -> None:
    """What needs nothing is in the first batch; a batch is in the order of the file."""
    text = "steps: [{id: z, run: x}, {id: a, needs: [], run: x}, {id: m, needs: [a, z], run: x}]"
    assert [["z", "a"], ["m"]] == graph(text).batches()


def test_a_phase_stands_for_its_leaves() -> None:
    """Whoever needs a phase waits for all that is in it; whatever is in it waits for what the phase needs."""
    text = """
steps:
  - {id: first, run: x}
  - id: phase
    steps:
      - {id: a, run: x}
      - {id: b, needs: [], run: x}
      - id: inner
        needs: [a]
        steps:
          - {id: c, run: x}
          - {id: d, run: x}
  - {id: last, needs: [phase], run: x}
"""
    found = graph(text)
    assert ["first", "phase/a", "phase/b", "phase/inner/c", "phase/inner/d", "last"] == found.leaves
    assert {
        "first": set(),
        "phase/a": {"first"},
        "phase/b": {"first"},
        "phase/inner/c": {"first", "phase/a"},
        "phase/inner/d": {"first", "phase/a", "phase/inner/c"},
        "last": {"phase/a", "phase/b", "phase/inner/c", "phase/inner/d"},
    } == found.before
    assert [
        ["first"],
        ["phase/a", "phase/b"],
        ["phase/inner/c"],
        ["phase/inner/d"],
        ["last"],
    ] == found.batches()


def test_a_foreach_is_one_leaf() -> None:
    """However many items it will have."""
    assert [["a"]] == graph("steps: [{id: a, run: x, foreach: [1, 2, 3]}]").batches()


def test_earlier_and_after() -> None:
    """Everything that must be over before, and everything that waits, however far."""
    text = "steps: [{id: a, run: x}, {id: b, run: x}, {id: c, run: x}, {id: d, needs: [], run: x}]"
    found = graph(text)
    assert ({"a", "b"}, set(), {"b", "c"}, set()) == (
        found.earlier("c"),
        found.earlier("d"),
        found.after("a"),
        found.after("c"),
    )


def test_a_long_chain() -> None:
    """Two thousand steps in a row are no deeper for Python than three."""
    text = "steps:\n" + "".join(f"- {{id: s{n}, run: x}}\n" for n in range(2_000))
    found = graph(text)
    assert 1_999 == found.level["s1999"] and 2_000 == len(found.batches())
    assert 1_999 == len(found.after("s0"))


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=10))
def test_any_order_that_is_one(wanted: list[list[int]]) -> None:
    """Every leaf is in one batch, after all that it waits for and not later than it must be."""
    size = len(wanted)
    steps = [
        f"- {{id: s{n}, needs: [{', '.join(sorted({f's{m}' for m in needs if m < size and m > n}))}], run: x}}"
        for n, needs in enumerate(wanted)
    ]
    workflow = parse_definition("steps:\n" + "\n".join(steps), "f")
    found = Graph(workflow)
    assert [] == cycle(workflow)
    assert sorted(found.leaves) == sorted(path for batch in found.batches() for path in batch)
    for path, before in found.before.items():
        assert found.level[path] == max((found.level[other] + 1 for other in before), default=0)
