"""Which steps may start now: a plain state machine, without I/O and without a clock of its own.

It is fed with what happened (a step was expanded into items, ended, will be tried again later) and asked what is due.
A unit is a leaf of the graph, or one item of a `foreach`; a unit that is due is taken: it holds its places until it
ended or was put back. Places are limited by scope: the workflow, a phase, a `foreach`. A `foreach` with a limit of its
own is one unit to the scopes above it, whatever number of items it runs; a limit that the person at the command gave
holds for everything that runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush

from leftoff.model.ids import ancestors
from leftoff.workflow.definition import Graph, StepDefinition, Workflow

DONE = ("completed", "skipped")
TRIED = 64  # retries whose place is taken that are passed over in one turn
ROOT, ALL = "", "*"  # scopes: the workflow, and every single unit


class Fan:
    """The items of one `foreach`."""

    __slots__ = ("failed", "left", "queue", "stuck")

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self.queue = deque(path for path, status in items if status not in DONE)
        self.left = len(self.queue)  # that have not ended
        self.failed = 0
        self.stuck = 0  # of those left: they wait for a person, and do not run


class Scheduler:
    """The state of every leaf of a workflow, and what follows from it."""

    def __init__(self, workflow: Workflow, graph: Graph, most: int | None = None) -> None:
        self.workflow = workflow
        self.graph = graph
        self.steps: dict[str, StepDefinition] = {step.path: step for step in workflow.walk()}
        self.status = {path: "pending" for path in graph.leaves}
        self.asked: set[str] = set()  # leaves that began to wait for a person; some do no longer
        self.halted: str | None = None  # the step whose failure stops everything
        self.only: frozenset[str] | None = None  # the leaves that may begin, where not all may
        self.taken: dict[str, str] = {}  # units that hold places, and the leaf they belong to
        self._place = {path: index for index, path in enumerate(graph.leaves)}
        self._left = {path: set(graph.before[path]) for path in graph.leaves}
        self._after: dict[str, list[str]] = {path: [] for path in graph.leaves}
        for path in graph.leaves:
            for needed in graph.before[path]:
                self._after[needed].append(path)
        self._limits = {ROOT: most or workflow.max_parallel, **({ALL: most} if most else {})}
        for step in workflow.walk():
            if step.max_parallel and (step.steps or step.foreach):
                self._limits[step.path] = min(step.max_parallel, most) if most else step.max_parallel
        self._used = dict.fromkeys(self._limits, 0)
        self._places: dict[str, list[str]] = {}  # the scopes in which each unit holds a place
        self._ready: list[tuple[int, str]] = []  # leaves, in document order
        self._fans: dict[str, Fan] = {}
        self._delayed: list[tuple[float, str, str]] = []  # when, unit, leaf
        self._again: deque[tuple[str, str]] = deque()  # units whose time has come
        self.batches = graph.batches()
        self._open = [len(batch) for batch in self.batches]  # leaves of each that have not ended
        self._offered: set[str] = set()
        self._phases: dict[str, list[str]] = {}
        for path in graph.leaves:
            for phase in ancestors(path):
                self._phases.setdefault(phase, []).append(path)
        self._phase_open = {phase: len(inside) for phase, inside in self._phases.items()}

    # -- what is known from before

    def restore(self, statuses: dict[str, str]) -> list[tuple[str, str]]:
        """Take in how leaves ended before. Failed ones are done again. Return the phases that ended."""
        self._wait_beyond(statuses)
        ended: list[tuple[str, str]] = []
        for path in self.graph.leaves:
            status = statuses.get(path, "pending")
            if status in DONE:
                ended += self._end(path, status)
            elif status in ("waiting", "blocked"):
                self.status[path] = status
                self.asked.add(path)
                self._offered.add(path)
        self._offer(self.graph.leaves)
        return ended

    def _wait_beyond(self, statuses: dict[str, str]) -> None:
        """Let what is done once more go before everything that needs it, whatever between them is done already."""
        passed: dict[str, frozenset[str]] = {}  # what each leaf that is done would wait for, were it not
        will_run = {  # now, without a person
            path
            for path in self.graph.leaves
            if (self.only is None or path in self.only)
            and statuses.get(path, "pending") not in (*DONE, "waiting", "blocked")
        }
        for path in sorted(self.graph.leaves, key=self.graph.level.__getitem__):
            before = self.graph.before[path]
            beyond = frozenset().union(*{passed[other] for other in before if passed.get(other)})
            if statuses.get(path) in DONE:
                passed[path] = beyond.union(before & will_run)
            else:
                self._left[path] |= beyond
                for other in beyond:
                    self._after[other].append(path)

    def expand(self, path: str, items: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Take in the items of a `foreach`, each with its status. Return what ended thereby, as ``ended`` does."""
        fan = self._fans[path] = Fan(items)
        if path in self._limits:  # its places in the scopes above are taken while its items run
            self.taken.pop(path, None)
            if ALL in self._places.get(path, ()):
                self._places[path].remove(ALL)
                self._used[ALL] -= 1
        else:
            self._free(path)
        return self._fan_ended(path, fan) if fan.left == 0 else []

    # -- asking

    def due(self, now: float) -> list[str]:
        """Return the units to begin now. They hold their places from now on."""
        while self._delayed and self._delayed[0][0] <= now:
            _, unit, leaf = heappop(self._delayed)
            self._again.append((unit, leaf))
        if self.halted is not None:
            return []
        return [*self._take_again(), *self._take_leaves(), *self._take_items()]

    def next_time(self) -> float | None:
        """Return when the next delayed unit is due."""
        return self._delayed[0][0] if self._delayed and self.halted is None else None

    @property
    def over(self) -> bool:
        """Return whether nothing runs, and nothing can start before a person or another driver does something."""
        if self.taken:
            return False
        if self.halted is not None:
            return True
        items = any(fan.queue for fan in self._fans.values())
        leaves = any(self.status[leaf] == "pending" for _, leaf in self._ready)
        return not (leaves or items or self._again or self._delayed)

    def of(self, status: str) -> list[str]:
        """Return the leaves of a status, in the order of the file. Those that wait for a person are asked for often."""
        if status not in ("waiting", "blocked"):
            return [path for path in self.graph.leaves if self.status[path] == status]
        found = [path for path in self.asked if self.status[path] == status]
        return sorted(found, key=self._place.__getitem__)

    def batch_is_complete(self, number: int) -> bool:
        return self._open[number] == 0

    # -- telling

    def wait(self, leaf: str) -> None:
        """Let a leaf wait for a person. It holds no place meanwhile."""
        self.status[leaf] = "waiting"
        self.asked.add(leaf)
        self._free(leaf)

    def later(self, unit: str, leaf: str, at: float) -> None:
        """Try a unit again at that time."""
        self._free(unit)
        heappush(self._delayed, (at, unit, leaf))

    def put_back(self, unit: str, leaf: str) -> None:
        """Leave a unit that did not end to a later driver."""
        self._free(unit)
        if unit == leaf:
            self.status[leaf] = "pending"

    def block(self, unit: str, leaf: str) -> None:
        """Note that a unit cannot continue without a person."""
        self._free(unit)
        if unit == leaf:
            self.status[leaf] = "blocked"
            self.asked.add(leaf)
        else:
            self._fans[leaf].stuck += 1
            self._let_go(leaf)

    def ended(self, unit: str, leaf: str, status: str) -> list[tuple[str, str]]:
        """Take in the end of a unit. Return what else ended thereby: a `foreach`, then phases, from the inside out."""
        self._free(unit)
        policy = self.steps[leaf].on_failure
        if status == "failed" and policy == "stop":
            self.halted = self.halted or unit
        if unit != leaf:
            fan = self._fans[leaf]
            fan.failed += status == "failed"
            if status == "failed" and policy != "continue":
                fan.stuck += 1
            else:
                fan.left -= 1
            if fan.left == 0:
                return self._fan_ended(leaf, fan)
            self._let_go(leaf)
            return []
        if status == "failed" and policy != "continue":
            self.status[leaf] = "failed"
            return []
        return self._end(leaf, status)

    # -- places

    def _holders(self, unit: str, leaf: str) -> list[str]:
        """Return the scopes in which a unit takes a place."""
        everything = [ALL] if ALL in self._limits else []
        if unit != leaf and leaf in self._limits:
            return [leaf, *everything]
        return [ROOT, *(phase for phase in ancestors(leaf) if phase in self._limits), *everything]

    def _take(self, unit: str, leaf: str) -> bool:
        scopes = self._holders(unit, leaf)
        if not self._full(*scopes):
            self._hold(unit, leaf, scopes)
            return True
        return False

    def _full(self, *scopes: str) -> bool:
        return any(self._used.get(scope, 0) >= self._limits.get(scope, 1) for scope in scopes)

    def _hold(self, unit: str, leaf: str, scopes: list[str]) -> None:
        for scope in scopes:
            self._used[scope] += 1
        self._places[unit] = scopes
        self.taken[unit] = leaf

    def _free(self, unit: str) -> None:
        self.taken.pop(unit, None)
        for scope in self._places.pop(unit, ()):
            self._used[scope] -= 1

    def _let_go(self, leaf: str) -> None:
        """Free the place of a `foreach` of which nothing can run any more, though it did not end."""
        fan = self._fans[leaf]
        if fan.left == fan.stuck:
            self._free(leaf)

    def claim(self, unit: str, leaf: str) -> None:
        """Take in a unit that runs already, under an earlier driver. It holds its places whatever the limits."""
        self._hold(unit, leaf, self._holders(unit, leaf))
        fan = self._fans.get(leaf)
        if fan is not None and unit != leaf:
            fan.queue.remove(unit)
        elif unit == leaf:
            self._offered.add(leaf)
            self.status[leaf] = "running"

    def _take_again(self) -> list[str]:
        out, kept = [], []
        while self._again:
            unit, leaf = self._again.popleft()
            if self._take(unit, leaf):
                out.append(unit)
            else:
                kept.append((unit, leaf))
                if self._full(ROOT, ALL) or len(kept) > TRIED:
                    break
        self._again.extendleft(reversed(kept))
        return out

    def _take_leaves(self) -> list[str]:
        out, kept = [], []
        while self._ready:
            place, leaf = heappop(self._ready)
            if self.status[leaf] != "pending":
                continue  # it was skipped, or ran already
            if self._take(leaf, leaf):
                self.status[leaf] = "running"
                out.append(leaf)
            else:
                kept.append((place, leaf))
                if self._full(ROOT, ALL):
                    break
        for entry in kept:
            heappush(self._ready, entry)
        return out

    def _take_items(self) -> list[str]:
        out = []
        for leaf, fan in self._fans.items():
            while fan.queue and self._take(fan.queue[0], leaf):
                out.append(fan.queue.popleft())
        return out

    # -- what follows

    def _offer(self, leaves: Iterable[str]) -> None:
        for path in leaves:
            if self.only is not None and path not in self.only:
                continue
            if not self._left[path] and self.status[path] == "pending" and path not in self._offered:
                self._offered.add(path)
                heappush(self._ready, (self._place[path], path))

    def _end(self, leaf: str, status: str) -> list[tuple[str, str]]:
        """End a leaf. What needed it comes nearer. Return the phases that ended with it, from the inside out."""
        self.status[leaf] = status
        self._offered.add(leaf)
        self._open[self.graph.level[leaf]] -= 1
        for path in self._after[leaf]:
            self._left[path].discard(leaf)
        self._offer(self._after[leaf])
        ended = []
        for phase in reversed(ancestors(leaf)):
            self._phase_open[phase] -= 1
            if self._phase_open[phase] == 0:
                inside = {self.status[path] for path in self._phases[phase]}
                together = "failed" if "failed" in inside else "completed"
                ended.append((phase, "skipped" if inside == {"skipped"} else together))
        return ended

    def _fan_ended(self, leaf: str, fan: Fan) -> list[tuple[str, str]]:
        self._free(leaf)
        status = "failed" if fan.failed else "completed"
        return [(leaf, status), *self._end(leaf, status)]
