"""What a workflow file says, as plain values: nothing here reads a file, runs a command or knows a store.

A definition is a tree of steps. A leaf is done in one of five ways (its ``kind``), a phase holds further steps.
Everything that one step takes over from another is settled when the file is read: ``needs`` are whole paths, and
``defaults`` and what a phase says are already in the step. Texts marked as templates are rendered when the step starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from leftoff.model.ids import ancestors
from leftoff.workflow.durations import ONCE, Retries

Kind = Literal["run", "python", "agent", "approval", "manual", "phase"]
OnFailure = Literal["stop", "continue", "ask"]

APPROVE, REJECT = "approve", "reject"
MAX_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class Requires:
    """What must be there before a run starts, and again before it resumes."""

    tools: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


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
class StepDefinition:
    """One step; ``path`` addresses it everywhere. docs/reference/workflow-file.md says which fields are templates."""

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
    keep: Literal["copy", "hash"] = "copy"  # what is stored of outputs
    cache: bool | None = None  # whether it may be taken from an earlier run; None: as `run` was told
    env: dict[str, str] = field(default_factory=dict)  # templates
    cwd: str = ""  # template; empty: the project's folder
    timeout: float | None = None  # seconds; of an approval: its deadline
    retries: Retries = ONCE
    on_failure: OnFailure = "stop"
    allow_failure: bool = False  # the run can be completed although this step failed
    idempotent: bool = True
    checks: tuple[str, ...] = ()  # templates, for the shell
    criteria: dict[str, str] = field(default_factory=dict)  # templates, for the shell
    estimate: float | None = None  # seconds
    save: bool = True
    persist: tuple[str, ...] | None = None
    max_parallel: int | None = None
    steps: tuple[StepDefinition, ...] = ()
    line: int = 0
    column: int = 0

    def walk(self) -> Iterator[StepDefinition]:
        """Yield this step and all below it, depth first."""
        yield self
        for step in self.steps:
            yield from step.walk()

    def why_skipped(self) -> str:
        """Return why a step is skipped whose condition is false."""
        bare = self.when[2:-2].strip() if self.when[:2] == "{{" and self.when.count("{{") == 1 else self.when
        return f"its condition is false: {bare}"

    def key_facts(self) -> dict[str, Any]:
        """Return everything that decides what the step does, as JSON. Its place in the file does not.

        Two definitions of a step with equal facts are interchangeable: what was done under one counts under the
        other. A phase only names the steps in it, which have facts of their own.
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
    """Return a value of a definition as JSON has it."""
    slots = getattr(type(value), "__slots__", None)
    if slots is not None:
        return {name: _json(getattr(value, name)) for name in slots}
    return [_json(entry) for entry in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A whole definition, with the text it was read from."""

    name: str
    steps: tuple[StepDefinition, ...]
    description: str = ""
    vars: dict[str, Any] = field(default_factory=dict)
    other_vars: bool = False  # whether variables may be given that the file does not name
    secrets: tuple[str, ...] = ()
    requires: Requires = Requires()
    max_parallel: int = MAX_PARALLEL
    path: str = ""
    text: str = ""
    digest: str = ""
    by_path: dict[str, StepDefinition] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_path", {step.path: step for step in self.walk()})

    def walk(self) -> Iterator[StepDefinition]:
        """Yield all steps, depth first, in the order of the file."""
        for step in self.steps:
            yield from step.walk()

    def leaves(self) -> Iterator[StepDefinition]:
        """Return the steps that do something, in the order of the file. A ``foreach`` counts as one."""
        return (step for step in self.walk() if step.kind != "phase")

    def has(self, kind: Kind) -> bool:
        """Return whether any step is of that kind."""
        return any(step.kind == kind for step in self.walk())

    def find(self, path: str) -> StepDefinition | None:
        """Return the step with that path."""
        return self.by_path.get(path)


# -- the graph


class Graph:
    """The leaves of a workflow in the order of the file, what each waits for (``before``), and its ``level``.

    Only leaves do anything: a phase in ``needs`` stands for all the leaves in it, and a leaf waits for whatever the
    phases around it wait for. A ``foreach`` is one leaf here. Its items are made when it starts.
    """

    def __init__(self, workflow: Workflow) -> None:
        self.leaves: list[str] = [step.path for step in workflow.leaves()]
        inside = {
            step.path: frozenset(leaf.path for leaf in step.walk() if leaf.kind != "phase")
            for step in workflow.walk()
        }
        inherited: dict[str, frozenset[str]] = {"": frozenset()}
        self.before: dict[str, set[str]] = {}
        for step in workflow.walk():  # a phase comes before what is in it
            waits = inherited[step.parent].union(*(inside[name] for name in step.needs))
            if step.kind == "phase":
                inherited[step.path] = waits
            else:
                self.before[step.path] = set(waits)
        self.level: dict[str, int] = {}
        self._followers: dict[str, set[str]] = {}
        for path in TopologicalSorter(self.before).static_order():
            self.level[path] = 1 + max((self.level[other] for other in self.before[path]), default=-1)

    def batches(self) -> list[list[str]]:
        """Return the leaves by level: those of one batch wait only for earlier batches."""
        out: list[list[str]] = [[] for _ in range(1 + max(self.level.values(), default=-1))]
        for path in self.leaves:
            out[self.level[path]].append(path)
        return out

    def after(self, path: str) -> set[str]:
        """Return every leaf that waits for this one, directly or not."""
        if not self._followers:
            for leaf, waits in self.before.items():
                for other in waits:
                    self._followers.setdefault(other, set()).add(leaf)
        return _reached(path, self._followers)

    def earlier(self, path: str) -> set[str]:
        """Return every leaf that this one waits for, directly or not."""
        return _reached(path, self.before)


def _reached(path: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    stack = [path]
    while stack:
        new = edges.get(stack.pop(), set()) - found
        found |= new
        stack.extend(new)
    return found


def cycle(workflow: Workflow) -> list[str]:
    """Return steps that wait for each other in a circle, ending with the first again; empty if there is none.

    A phase has two nodes, its beginning and its end, so the circle is shown in the words of the file.
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
        circle = [path for _, path in reversed(error.args[1])]
    else:
        return []
    ring = [path for index, path in enumerate(circle) if not index or path != circle[index - 1]]
    ring = ring[:-1] if len(ring) > 1 else ring
    order = {step.path: number for number, step in enumerate(workflow.walk())}
    start = min(range(len(ring)), key=lambda index: order[ring[index]])
    turned = ring[start:] + ring[:start]  # it begins with the step that is first in the file
    return [*turned, turned[0]]


# -- a definition that changed


@dataclass
class Difference:
    """What a new text changes for a run of an older one: steps by what became of them.

    ``finished``: steps that were done, wholly or in part, under another definition. ``variables``: those with another
    value under ``vars`` now. The run keeps the values that it has.
    """

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # finished, and not in the file any more
    variables: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.told())

    @property
    def doubtful(self) -> bool:
        """Whether it is about what was done already."""
        return bool(self.finished or self.dropped)

    def told(self) -> str:
        """Return it as a sentence."""
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
    """Return what the new text changes. ``done``: the steps that are finished, or partly so."""
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


def differs(old: StepDefinition | None, new: StepDefinition | None) -> bool:
    """Return whether two definitions of a step do not mean the same. A new place in the order changes nothing."""
    if old is None or new is None:
        return True
    before, now = old.key_facts(), new.key_facts()
    return any(before.get(key) != now.get(key) for key in {*before, *now} - {"needs", "steps"})


def is_gone(path: str, record: dict[str, Any], old: Workflow, new: Workflow) -> bool:
    """Return whether a step's record belongs to something that the definition had and no longer has."""
    if any(old.find(step) is not None and new.find(step) is None for step in (*ancestors(path), path)):
        return True
    parent = new.find(path.rpartition("/")[0]) if "item" in record else None
    return parent is not None and parent.foreach is None
