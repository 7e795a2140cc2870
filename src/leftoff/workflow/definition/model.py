"""What a workflow file says, as plain values: nothing here reads a file, runs a command or knows a store.

A definition is a tree of steps. A leaf is done in one of five ways (its ``kind``), a phase holds further steps.
Everything that one step takes over from another is settled when the file is read: ``needs`` are whole paths, and
``defaults`` and what a phase says are already in the step, so that whoever executes a step looks at that step only.
Texts marked as templates are rendered when the step starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

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
