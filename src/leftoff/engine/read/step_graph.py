"""The steps of a run as a graph: which waits for which, by levels; what has many items is one node with their counts.

A run of a workflow file knows its graph. Any other run is told in the order of its steps, each behind the one before.
"""

from __future__ import annotations

from leftoff.engine.read.state import Reader
from leftoff.engine.read.step_page import StepsWanted, step_page
from leftoff.model.fields import Fields
from leftoff.model.ids import shown_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.read.find import Target
    from leftoff.store.base import Store, View

MOST = 200  # nodes


class Node(Fields):
    """A step in the graph. ``before``: the steps it waits for. ``counts``: of its items by status, where it has any."""

    step: str
    title: str
    level: int
    before: list[str]
    status: str
    counts: dict[str, int] = {}


class StepGraph(Fields):
    """The nodes by level and order. ``left_out``: how many more there are."""

    nodes: list[Node]
    left_out: int = 0


def step_graph(store: Store, target: Target) -> StepGraph:
    """The graph of a run as it is now."""
    return store.read(lambda view: _known(store, view, target) or _in_a_row(store, view, target))


def _known(store: Store, view: View, target: Target) -> StepGraph | None:
    row = target.row
    reader = Reader(store, view, row.run, row.run_id)
    found = reader.value("context", "graph")
    graph = found.plain if found is not None else None
    if not isinstance(graph, dict) or not isinstance(graph.get("batches"), list):
        return None
    needs = graph.get("needs")
    before = needs if isinstance(needs, dict) else {}
    paths = [(str(path), level) for level, batch in enumerate(graph["batches"]) for path in batch]
    nodes = []
    for path, level in paths[:MOST]:
        below = view.leaf_counts(row.run, path) if view.has_below(row.run, path) else {}
        nodes.append(_node(reader, path, level, [str(each) for each in before.get(path) or []], below))
    return StepGraph(nodes, max(0, len(paths) - MOST))


def _node(reader: Reader, path: str, level: int, before: list[str], counts: dict[str, int]) -> Node:
    found = reader.value("step", path)
    record: dict[str, Any] = dict(found.plain) if found is not None else {}
    title = record.get("title")
    name = title if isinstance(title, str) and title else shown_step(path)
    return Node(path, name, level, before, str(record.get("status") or "pending"), counts)


def _in_a_row(store: Store, view: View, target: Target) -> StepGraph:
    page = step_page(store, target.but(version=None), StepsWanted(limit=MOST))
    nodes: list[Node] = []
    for level, record in enumerate(page.steps):
        title = record.get("title") or shown_step(record["step"])
        before = [nodes[-1].step] if nodes else []
        nodes.append(Node(record["step"], str(title), level, before, str(record.get("status"))))
    return StepGraph(nodes, max(0, sum(page.counts.values()) - len(nodes)))
