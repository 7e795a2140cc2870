"""What a workflow file says, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

Kind = Literal["run", "python", "agent", "approval", "manual", "phase"]
OnFailure = Literal["stop", "continue", "ask"]


# ==== definition/model

APPROVE, REJECT = "approve", "reject"
MAX_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class Requires:
    """What must be there before a run starts, and again before it resumes."""

    tools: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a failed attempt is repeated, and the pause before: backoff, then factor times as long each time."""

    max: int = 0
    backoff: float = 1.0
    factor: float = 2.0
    jitter: bool = True


@dataclass(frozen=True, slots=True)
class Approval:
    """A question to a person (``ask``, a template) and the answers there are."""

    ask: str
    options: tuple[str, ...] = (APPROVE, REJECT)


@dataclass(frozen=True, slots=True)
class Foreach:
    """Where the items come from.

    ========  =======================================================================
    kind      value
    ========  =======================================================================
    list      the items; text among them is a template
    variable  an expression, most often just a variable's name (``Templates.value``)
    glob      a pattern, a template
    lines     a file's path, a template: one item per line
    command   a command, a template for the shell: one item per line of its output
    matrix    lists by name, or expressions that give one: an item is a mapping, one for each combination
    ========  =======================================================================
    """

    kind: Literal["list", "variable", "glob", "lines", "command", "matrix"]
    value: Any
    allow_empty: bool = False  # a pattern that matches nothing is no mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; ``path`` addresses it everywhere. For which fields are templates, see docs/workflows.md."""

    path: str
    id: str
    kind: Kind
    parent: str = ""
    title: str = ""
    label: str = ""
    description: str = ""
    instructions: str = ""  # template
    needs: tuple[str, ...] = ()
    run: str = ""  # template, for the shell
    shell: str | list[str] | None = None
    python: str = ""  # module:function
    args: dict[str, Any] = field(default_factory=dict)  # text in it is a template
    agent: dict[str, Any] | None = None
    approval: Approval | None = None
    foreach: Foreach | None = None
    item_name: str = "item"
    key: str = ""  # what an item is called: a template, or the name of something in it
    when: str = ""  # template or expression; empty: always
    inputs: tuple[str, ...] = ()  # templates
    outputs: tuple[str, ...] = ()  # templates
    cache: bool | None = None  # whether it may be taken from an earlier run; None: as `run` was told
    env: dict[str, str] = field(default_factory=dict)  # templates
    cwd: str = ""  # template; empty: the project's folder
    timeout: float | None = None  # seconds; of an approval: its deadline
    retries: Retries = Retries()
    on_failure: OnFailure = "stop"
    idempotent: bool = True
    checks: tuple[str, ...] = ()  # templates, for the shell
    criteria: dict[str, str] = field(default_factory=dict)  # templates, for the shell
    estimate: float | None = None  # seconds
    save: bool = True
    persist: tuple[str, ...] | None = None
    max_parallel: int | None = None
    steps: tuple[Step, ...] = ()
    line: int = 0
    column: int = 0

    def walk(self) -> Iterator[Step]:
        """This step and all below it, depth first."""
        yield self
        for step in self.steps:
            yield from step.walk()

    def key_facts(self) -> dict[str, Any]:
        """Everything that decides what the step does, as JSON; where it stands in the file does not.

        Two definitions of a step with equal facts are interchangeable: what was done under one counts under the
        other. Steps inside a phase speak for themselves, so a phase only names them.
        """
        facts: dict[str, Any] = {}
        for name in _FACTS:
            value = getattr(self, name)
            if value not in (None, "", (), {}):
                facts[name] = _json(value)
        if self.foreach is not None:
            facts["item_name"] = self.item_name
        if self.steps:
            facts["steps"] = [step.id for step in self.steps]
        return facts


# Not among them: what only describes (title, description, label, estimate), and what is about how a step is tried
# rather than what it does (timeout, retries, on_failure, idempotent, save, max_parallel), so that raising a timeout
# before a resume makes no finished step a doubtful one.
_FACTS = (
    "kind needs run shell python args agent approval foreach key when outputs env cwd checks criteria persist "
    "instructions"
).split()


def _json(value: Any) -> Any:
    """A value of a definition as JSON would have it."""
    slots = getattr(type(value), "__slots__", None)
    if slots is not None:
        return {name: _json(getattr(value, name)) for name in slots}
    return [_json(entry) for entry in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A whole definition, with the text it was read from."""

    name: str
    steps: tuple[Step, ...]
    description: str = ""
    vars: dict[str, Any] = field(default_factory=dict)
    other_vars: bool = False  # whether variables may be given that the file does not name
    secrets: tuple[str, ...] = ()
    requires: Requires = Requires()
    max_parallel: int = MAX_PARALLEL
    path: str = ""
    text: str = ""
    digest: str = ""
    by_path: dict[str, Step] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_path", {step.path: step for step in self.walk()})

    def walk(self) -> Iterator[Step]:
        """All steps, depth first, in the order of the file."""
        for step in self.steps:
            yield from step.walk()

    def leaves(self) -> Iterator[Step]:
        """The steps that do something, in the order of the file; a ``foreach`` counts as one."""
        return (step for step in self.walk() if step.kind != "phase")

    def has(self, kind: Kind) -> bool:
        """Whether any step is of that kind."""
        return any(step.kind == kind for step in self.walk())

    def find(self, path: str) -> Step | None:
        """The step with that path."""
        return self.by_path.get(path)


# ==== definition/graph


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


# ==== definition/changes


class Difference:
    """Steps by what became of them; ``finished``: those that were done, wholly or in part, under another definition.

    ``variables``: those whose value under ``vars`` is another now. The run keeps the values that it has.
    """

    def __init__(self) -> None:
        self.added: list[str] = []
        self.removed: list[str] = []
        self.changed: list[str] = []
        self.finished: list[str] = []
        self.dropped: list[str] = []  # finished, and not in the file any more
        self.variables: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.told())

    @property
    def doubtful(self) -> bool:
        """Whether it is about what was done already."""
        return bool(self.finished or self.dropped)

    def told(self) -> str:
        """In a sentence."""
        parts = [
            f"{word} {', '.join(paths[:5])}{'…' if len(paths) > 5 else ''}"
            for word, paths in (
                ("finished, and changed since:", self.finished),
                ("finished, and removed since:", self.dropped),
                ("changed:", self.changed),
                ("new:", self.added),
                ("removed:", self.removed),
                ("other values under `vars`, where the run keeps those that it has:", self.variables),
            )
            if paths
        ]
        return "; ".join(parts)


def compare(old: Workflow, new: Workflow, done: Collection[str]) -> Difference:
    """What the new text changes for a run of the old one. ``done``: the steps that are finished, or partly so."""
    out = Difference()
    for step in new.walk():
        before = old.find(step.path)
        if before is None:
            out.added.append(step.path)
        elif differs(before, step):
            finished = step.path in done and step.kind != "phase"
            (out.finished if finished else out.changed).append(step.path)
    for step in old.walk():
        if new.find(step.path) is None:
            (out.dropped if step.path in done else out.removed).append(step.path)
    names = {*old.vars, *new.vars}
    out.variables = sorted(name for name in names if old.vars.get(name) != new.vars.get(name))
    return out


def differs(old: Step | None, new: Step | None) -> bool:
    """Whether two definitions of a step do not mean the same."""
    return old is None or new is None or _facts(old) != _facts(new)


def _facts(step: Step) -> dict[str, Any]:
    """What a step does. That it comes after another than before changes nothing of what was done."""
    return {key: value for key, value in step.key_facts().items() if key not in ("needs", "steps")}


def is_gone(path: str, record: dict[str, Any], old: Workflow, new: Workflow) -> bool:
    """Whether a step's record belongs to something that the definition had and has no more."""
    above, parts = "", path.split("/")
    for part in parts:
        above = f"{above}/{part}" if above else part
        if old.find(above) is not None and new.find(above) is None:
            return True
    parent = new.find(path.rpartition("/")[0]) if "item" in record else None
    return parent is not None and parent.foreach is None


# ==== definition/commands

# What a step runs, and what decides how; `foreach` may look for its items with a command.
_RUNS = ("run", "shell", "python", "args", "agent", "foreach", "checks", "criteria", "env", "cwd")


def commands_of(workflow: Workflow) -> list[str]:
    """A line for each thing that each step runs, and one for each further line of it."""
    return [line for step in workflow.leaves() for line in _lines(step.path, step.key_facts())]


def _lines(path: str, facts: dict[str, Any]) -> Iterator[str]:
    for name in _RUNS:
        if name in facts:
            value = facts[name]
            first, *rest = str(value).splitlines() or [""]
            yield f"{path}: {name}: {first}"
            yield from (f"    {line}" for line in rest)
