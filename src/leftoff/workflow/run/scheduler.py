"""Which steps may start now: a plain state machine, without I/O and without a clock of its own.

It is fed with what happened (a step was expanded into items, ended, will be tried again later) and asked what is due.
A unit is a leaf of the graph, or one item of a `foreach`; a unit that is due is taken: it holds its places until it
ended or was put back. Places are limited by scope: the workflow, a phase, a `foreach`. A `foreach` with a limit of its
own is one unit to the scopes above it, whatever number of items it runs; a limit that the person at the command gave
holds for everything that runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from leftoff.model.ids import ancestors
from leftoff.workflow.definition.model import Graph, Step, Workflow

DONE = ("completed", "skipped")
TRIED = 64  # retries whose place is taken that are passed over in one turn
ROOT, ALL = "", "*"  # scopes: the workflow, and every single unit


class Fan:
    """The items of one `foreach`."""

    __slots__ = ("failed", "left", "queue", "stuck", "total")

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        known = list(items)
        self.total = len(known)
        self.queue = deque(path for path, status in known if status not in ("completed", "skipped"))
        self.left = len(self.queue)
        self.failed = 0
        self.stuck = 0  # wait for a person: they are left, and do not run


class Scheduler:
    """The state of every leaf of a workflow, and what follows from it."""

    def __init__(self, workflow: Workflow, graph: Graph, most: int | None = None) -> None:
        self.workflow = workflow
        self.graph = graph
        self.steps: dict[str, Step] = {step.path: step for step in workflow.walk()}
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
        self._limits = self._scopes(most)
        self._used = dict.fromkeys(self._limits, 0)
        self._places: dict[
            str, list[str]
        ] = {}  # where each unit holds a place; an expanded `foreach` is not taken
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

    def _scopes(self, most: int | None) -> dict[str, int]:
        limits = {ROOT: most or self.workflow.max_parallel, **({ALL: most} if most else {})}
        for step in self.workflow.walk():
            if step.max_parallel and (step.steps or step.foreach):
                limits[step.path] = min(step.max_parallel, most) if most else step.max_parallel
        return limits

    # -- what is known from before

    def restore(self, statuses: dict[str, str]) -> list[tuple[str, str]]:
        """Leaves that ended in an earlier life of the run; failed ones are to be done again. The phases that ended."""
        self._wait_beyond(statuses)
        ended: list[tuple[str, str]] = []
        for path in self.graph.leaves:
            status = statuses.get(path, "pending")
            if status in ("completed", "skipped"):
                ended += self._end(path, status)
            elif status in ("waiting", "blocked"):
                self.status[path] = status
                self.asked.add(path)
                self._offered.add(path)
        self._offer(self.graph.leaves)
        return ended

    def _wait_beyond(self, statuses: dict[str, str]) -> None:
        """What is to be done once more goes before everything that needs it, whatever between them is done already."""
        passed: dict[str, frozenset[str]] = {}  # what each leaf that is done would wait for, were it not
        for path in sorted(self.graph.leaves, key=self.graph.level.__getitem__):
            before = self.graph.before[path]
            beyond = frozenset().union(*{passed[other] for other in before if passed.get(other)})
            if statuses.get(path) in DONE:
                passed[path] = beyond.union(other for other in before if self._will_run(other, statuses))
            else:
                self._left[path] |= beyond
                for other in beyond:
                    self._after[other].append(path)

    def _will_run(self, path: str, statuses: dict[str, str]) -> bool:
        """Whether it is to be done now, without a person."""
        asked = self.only is None or path in self.only
        return asked and statuses.get(path, "pending") not in (*DONE, "waiting", "blocked")

    def expand(self, path: str, items: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The items of a `foreach`, each with its status. What ended thereby, as ``ended`` gives it."""
        fan = self._fans[path] = Fan(items)
        if path in self._limits:  # its places in other scopes are taken while its items run
            self.taken.pop(path, None)
            self._leave(path, ALL)
        else:
            self._free(path)
        if fan.left == 0:
            return self._fan_ended(path, fan)
        return []

    # -- asking

    def due(self, now: float) -> list[str]:
        """Units to begin now; they hold their places from now on."""
        while self._delayed and self._delayed[0][0] <= now:
            _, unit, leaf = heappop(self._delayed)
            self._again.append((unit, leaf))
        if self.halted is not None:
            return []
        return [*self._take_again(), *self._take_leaves(), *self._take_items()]

    def next_time(self) -> float | None:
        """When the next delayed unit is due."""
        return self._delayed[0][0] if self._delayed and self.halted is None else None

    @property
    def over(self) -> bool:
        """Nothing runs, and nothing can start before a person or another life of the run does something."""
        if self.taken:
            return False
        if self.halted is not None:
            return True
        items = any(fan.queue for fan in self._fans.values())
        leaves = any(self.status[leaf] == "pending" for _, leaf in self._ready)
        return not (leaves or items or self._again or self._delayed)

    def of(self, status: str) -> list[str]:
        """The leaves of a status, in the order of the file. Those that wait for a person are asked for all the time."""
        if status not in ("waiting", "blocked"):
            return [path for path in self.graph.leaves if self.status[path] == status]
        found = [path for path in self.asked if self.status[path] == status]
        return sorted(found, key=self._place.__getitem__)

    def batch_is_complete(self, number: int) -> bool:
        return self._open[number] == 0

    # -- telling

    def wait(self, leaf: str) -> None:
        """It waits for a person, and holds no place meanwhile."""
        self.status[leaf] = "waiting"
        self.asked.add(leaf)
        self._free(leaf)

    def later(self, unit: str, leaf: str, at: float) -> None:
        """It will be tried again."""
        self._free(unit)
        heappush(self._delayed, (at, unit, leaf))

    def put_back(self, unit: str, leaf: str) -> None:
        """It did not end, and is to be done by a later life of the run."""
        self._free(unit)
        if unit == leaf:
            self.status[leaf] = "pending"

    def block(self, unit: str, leaf: str) -> None:
        """It cannot go on without a person."""
        self._free(unit)
        if unit == leaf:
            self.status[leaf] = "blocked"
            self.asked.add(leaf)
        else:
            self._stick(leaf)

    def ended(self, unit: str, leaf: str, status: str) -> list[tuple[str, str]]:
        """A unit ended. What else ended thereby: a `foreach`, then phases, from the inside out."""
        self._free(unit)
        policy = self.steps[leaf].on_failure
        if status == "failed" and policy == "stop":
            self.halted = self.halted or unit
        if unit != leaf:
            fan = self._fans[leaf]
            fan.failed += status == "failed"
            if status == "failed" and policy != "continue":
                self._stick(leaf)
                return []
            fan.left -= 1
            return self._fan_ended(leaf, fan) if fan.left == 0 else self._let_go(leaf, fan)
        if status == "failed" and policy != "continue":
            self.status[leaf] = "failed"
            return []
        return self._end(leaf, status)

    # -- places

    def _holders(self, unit: str, leaf: str) -> list[str]:
        """The scopes in which a unit takes a place."""
        everything = [ALL] if ALL in self._limits else []
        if unit != leaf and leaf in self._limits:
            return [leaf, *everything]
        return [ROOT, *(phase for phase in ancestors(leaf) if phase in self._limits), *everything]

    def _take(self, unit: str, leaf: str) -> bool:
        scopes = self._holders(unit, leaf)
        if self._full(*scopes):
            return False
        self._hold(unit, leaf, scopes)
        return True

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

    def _leave(self, unit: str, scope: str) -> None:
        """One of its places."""
        if scope in self._places.get(unit, ()):
            self._places[unit].remove(scope)
            self._used[scope] -= 1

    def _stick(self, leaf: str) -> None:
        """An item waits for a person: the whole does not end."""
        fan = self._fans[leaf]
        fan.stuck += 1
        self._let_go(leaf, fan)

    def _let_go(self, leaf: str, fan: Fan) -> list[tuple[str, str]]:
        """A `foreach` of which nothing can run any more needs no place; nothing ended."""
        if fan.left == fan.stuck:
            self._free(leaf)
        return []

    def claim(self, unit: str, leaf: str) -> None:
        """A unit that runs already, from an earlier life of the run: it holds its places whatever the limits."""
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
        """A leaf ended: what needed it comes nearer, and what contains it may have ended too."""
        self.status[leaf] = status
        self._offered.add(leaf)
        self._open[self.graph.level[leaf]] -= 1
        for path in self._after[leaf]:
            self._left[path].discard(leaf)
        self._offer(self._after[leaf])
        return list(self._phases_ended(leaf))

    def _phases_ended(self, leaf: str) -> Iterator[tuple[str, str]]:
        for phase in reversed(ancestors(leaf)):
            self._phase_open[phase] -= 1
            if self._phase_open[phase] == 0:
                yield phase, _together([self.status[path] for path in self._phases[phase]])

    def _fan_ended(self, leaf: str, fan: Fan) -> list[tuple[str, str]]:
        self._free(leaf)
        status = "failed" if fan.failed else "completed"
        return [(leaf, status), *self._end(leaf, status)]


def _together(statuses: list[str]) -> str:
    """What several steps amount to."""
    if "failed" in statuses:
        return "failed"
    return "skipped" if all(status == "skipped" for status in statuses) else "completed"
