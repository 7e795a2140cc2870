"""Which step waits for which, and the batches that follow from it.

Only leaves do anything, so the graph is one of leaves: a phase in ``needs`` stands for all the leaves in it, and a leaf
waits for whatever the phases around it wait for. A ``foreach`` is one leaf here; its items are made when it starts.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.workflow.definition.model import Step, Workflow


class Graph:
    """The leaves of a workflow, in the order of the file, with what each waits for (``before``) and its ``level``."""

    def __init__(self, workflow: Workflow) -> None:
        self.leaves: list[str] = [step.path for step in workflow.leaves()]
        below = _below(workflow.steps)
        inherited: dict[str, frozenset[str]] = {"": frozenset()}
        self.before: dict[str, set[str]] = {}
        for step in workflow.walk():  # a phase comes before what is in it
            waits = inherited[step.parent].union(*(below[name] for name in step.needs))
            if step.kind == "phase":
                inherited[step.path] = waits
            else:
                self.before[step.path] = set(waits)
        self.level: dict[str, int] = {}
        self._followers: dict[str, set[str]] = {}
        for path in TopologicalSorter(self.before).static_order():
            self.level[path] = 1 + max((self.level[other] for other in self.before[path]), default=-1)

    def batches(self) -> list[list[str]]:
        """The leaves by level: those of one batch wait only for earlier batches."""
        out: list[list[str]] = [[] for _ in range(1 + max(self.level.values(), default=-1))]
        for path in self.leaves:
            out[self.level[path]].append(path)
        return out

    def after(self, path: str) -> set[str]:
        """Every leaf that waits for this one, directly or not."""
        if not self._followers:
            for leaf, waits in self.before.items():
                for other in waits:
                    self._followers.setdefault(other, set()).add(leaf)
        return _reached(path, self._followers)

    def earlier(self, path: str) -> set[str]:
        """Every leaf that this one waits for, directly or not."""
        return _reached(path, self.before)


def _reached(path: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    stack = [path]
    while stack:
        new = edges.get(stack.pop(), set()) - found
        found |= new
        stack.extend(new)
    return found


def _below(steps: Iterable[Step]) -> dict[str, frozenset[str]]:
    """For each step the leaves at or below it."""
    out: dict[str, frozenset[str]] = {}
    for step in steps:
        if step.kind == "phase":
            out.update(_below(step.steps))
            out[step.path] = frozenset().union(*(out[child.path] for child in step.steps))
        else:
            out[step.path] = frozenset((step.path,))
    return out


def cycle(workflow: Workflow) -> list[str]:
    """Steps that wait for each other in a circle, ending with the first again; empty where there is none.

    A phase has two nodes, its beginning and its end: so phases need not be unfolded, and the circle is shown in the
    words of the file.
    """
    waits: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for step in workflow.walk():
        first = ("begin", step.path)
        waits[first] = [("end", name) for name in step.needs]
        if step.parent:
            waits[first].append(("begin", step.parent))
        waits["end", step.path] = [first, *(("end", child.path) for child in step.steps)]
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        return _named(workflow, [path for _, path in reversed(error.args[1])])
    return []


def _named(workflow: Workflow, circle: list[str]) -> list[str]:
    """The circle, each step once in a row, beginning with the one that is first in the file."""
    short = [path for index, path in enumerate(circle) if not index or path != circle[index - 1]]
    ring = short[:-1] if len(short) > 1 else short
    order = {step.path: number for number, step in enumerate(workflow.walk())}
    start = min(range(len(ring)), key=lambda index: order[ring[index]])
    turned = ring[start:] + ring[:start]
    return [*turned, turned[0]]
