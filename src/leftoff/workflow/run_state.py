"""The records of a run as last seen, what templates may see of them, and the items of a `foreach`.

Items are looked up once, when the step is reached, and recorded: a resumed run has the items it began with, whatever
the pattern would match by now.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.redactor import Redactor
from leftoff.engine.run_reader import Reader
from leftoff.engine.settings import CALLER
from leftoff.errors import BadDefinition, BadTemplate, Invalid
from leftoff.model.changes import NOTHING
from leftoff.model.codec import Mark, marks
from leftoff.model.ids import quote_part, shown_step
from leftoff.model.typed import readable
from leftoff.store.base import SqlStore, View
from leftoff.workflow.definition import Graph, StepDefinition, Workflow
from leftoff.workflow.templates import Templates, is_template, value_text

_NAMES = ("id", "name", "key", "path", "title")  # what an item that is a mapping may be called by
_LONGEST = 200  # characters of an item's name


class RunState:
    """A run's records at its head, or at version ``seq``. Variables are read again after others changed them."""

    def __init__(
        self,
        workflow: Workflow,
        project: str,
        store: SqlStore,
        run: int = -1,
        run_id: str = "",
        seq: int | None = None,
    ) -> None:
        self.workflow = workflow
        self.graph = Graph(workflow)
        self.templates = Templates()
        self.project = project
        self.store = store
        self.run = run
        self.run_id = run_id
        self.seq = seq
        self.steps: dict[str, dict[str, Any]] = {}
        self.facts: dict[str, Any] = {}
        # Values given to this process, secrets among them, which are not stored.
        self.overlay: dict[str, Any] = {}
        self._variables: dict[str, Any] | None = None
        self._below: dict[str, list[str]] = {}  # the items of each `foreach`, in their order
        self._items: dict[str, Any] = {}  # their values; in the records, secrets in them are redacted
        self._outputs = StepLookup(self, self._outputs_of)
        self._results = StepLookup(self, self._result_of)
        # Secrets go to the processes of steps only: a template would put them on a command line.
        self._env = {key: value for key, value in CALLER.environment().items() if key not in workflow.secrets}

    def reader(self, view: View) -> Reader:
        return Reader(self.store, view, self.run, self.run_id, self.seq)

    def read(self, collection: str) -> dict[str, Any]:
        """Return the records of a collection as plain values."""
        return self.store.read(lambda view: self.reader(view).plain(collection))

    def step_now(self, path: str) -> dict[str, Any]:
        """Return the record of a step from the store; empty if there is none."""
        found = self.store.read(lambda view: self.reader(view).value("step", path))
        return {} if found is None else dict(found.plain)

    def load(self) -> None:
        """Read everything."""
        self.steps = self.read("step")
        self.facts = self.read("run")
        self._variables, self._below = None, {}
        for path, record in self.steps.items():
            if "item" in record:
                self._below.setdefault(path.rpartition("/")[0], []).append(path)
        for below in self._below.values():
            below.sort(key=lambda path: item_order(self.steps[path]))

    def look_again(self, path: str) -> None:
        """Read a step's record again, since others may have changed it."""
        found = self.step_now(path)
        if found and found.get("status") != self.status(path):
            self.steps[path] = found

    def status(self, path: str) -> str:
        record = self.steps.get(path)
        return str(record["status"]) if record is not None else "pending"

    def outcome(self, path: str) -> str:
        """Return a step's status as others depend on it: a failure that is allowed counts as completed."""
        return "completed" if self.steps.get(path, {}).get("allowed") else self.status(path)

    def allowed(self) -> int:
        """Return how many steps failed, which their definitions allow."""
        return sum(bool(record.get("allowed")) for record in self.steps.values())

    def named(self, name: str) -> str:
        """Return the path of a step, given its path or an id that only one step has."""
        if self.workflow.find(name) is not None or name in self.steps:
            return name
        found = [step.path for step in self.workflow.walk() if step.id == name]
        if len(found) == 1:
            return found[0]
        if found:
            several = f"Several steps are called {name}: {', '.join(map(shown_step, found))}."
            raise Invalid(several, hint="Give the whole path.")
        known = ", ".join(step.path for step in self.workflow.walk())
        raise Invalid(f"There is no step {name}.", hint=f"Its steps: {known}.")

    def at_or_below(self, path: str) -> Iterator[str]:
        """Yield the leaf steps at or below a path; for a `foreach`, its items."""
        step = self.workflow.find(path)
        if step is None or path in self._below:
            yield from self._below.get(path, [path])
            return
        for inner in step.walk():
            if inner.kind != "phase":
                yield from self._below.get(inner.path, [inner.path])

    # -- variables

    @property
    def variables(self) -> dict[str, Any]:
        """Return the variables by name. A redacted one is missing unless this process was given its value."""
        if self._variables is None:
            found = self.store.read(lambda view: self.reader(view).values("variable"))
            self._variables = {
                name: readable(value.plain) for name, value in found.items() if not value.holes
            }
            redacted = (name for name, value in found.items() if value.holes)
            self._variables.update({name: self.overlay[name] for name in redacted if name in self.overlay})
        return self._variables

    def set_variables(self, values: dict[str, Any]) -> None:
        """Remember variables that are committed now."""
        if self._variables is not None:
            self._variables.update(values)

    def suppose(self, variables: dict[str, Any]) -> None:
        """Set the variables of a run that is only planned."""
        self._variables = variables

    def forget_variables(self) -> None:
        self._variables = None

    # -- what templates see

    def values(self, step: StepDefinition, item: Any = NOTHING) -> dict[str, Any]:
        """Return the values by name for the templates of a step, or of one item of it."""
        out = dict(self.variables)
        if item is not NOTHING:
            out[step.item_name] = item
        facts = {name: self.facts.get(name) for name in ("branch", "title", "issue")}
        out["run"] = {"id": self.run_id, "workflow": self.workflow.name, **facts}
        out.update(outputs=self._outputs, results=self._results, env=self._env)
        out.update({status: self._counter(status) for status in ("failed", "completed", "skipped")})
        out.update(status=lambda name: self.status(self.named(name)), choice=self._choice)
        return out

    def _counter(self, status: str) -> Callable[[str], int]:
        def count(name: str) -> int:
            return sum(self.status(path) == status for path in self.at_or_below(self.named(name)))

        return count

    def _choice(self, name: str) -> Any:
        result = self.steps.get(self.named(name), {}).get("result")
        return result.get("choice") if isinstance(result, dict) else None

    def _outputs_of(self, path: str) -> list[str]:
        """Return ``outputs.research``: the files that a step wrote, or all steps of a phase or a `foreach`."""
        return [o for p in self.at_or_below(path) for o in self.steps.get(p, {}).get("outputs") or ()]

    def _result_of(self, path: str) -> Any:
        """Return ``results.count``: what a step returned; for a `foreach`, a list."""
        items = self.items(path)
        found = [_known(self.steps.get(each, {}).get("result")) for each in items or [path]]
        return found if items else found[0]

    # -- the items of a `foreach`

    def items(self, path: str) -> list[str]:
        """Return the paths of the items, in their order."""
        return self._below.get(path, [])

    def set_items(self, path: str, named: list[tuple[str, Any]]) -> None:
        self._below[path] = [below for below, _ in named]
        self._items.update(named)

    def item(self, path: str) -> Any:
        """Return the value of an item."""
        return self._items[path] if path in self._items else self.steps[path]["item"]

    def find_items(self, step: StepDefinition, given: dict[str, Any] | None = None) -> list[Any] | None:
        """Return the items of a step; None if a command must run to know them. ``given``: all that templates see."""
        foreach = step.foreach
        assert foreach is not None
        where = f"{step.path}: foreach"
        if foreach.kind == "command":
            return None
        values = self.values(step) if given is None else given
        if foreach.kind == "matrix":  # one item for each combination, the last name changing fastest
            lists = [self._listed(axis, values, where) for axis in foreach.value.values()]
            return [dict(zip(foreach.value, chosen, strict=True)) for chosen in product(*lists)]
        if foreach.kind in ("list", "variable"):
            return self._listed(foreach.value, values, where)
        text = self.templates.render(foreach.value, values, where)
        if foreach.kind == "lines":
            return lines_of(os.path.join(self.project, text), text, where)
        found = sorted(glob.glob(text, root_dir=self.project, recursive=True))
        if not found and not foreach.allow_empty:
            raise Invalid(
                f"{where}: nothing matches {text}.",
                hint="The pattern is relative to the project's folder. "
                "If none is fine: {glob: …, allow_empty: true}.",
            )
        return found

    def _listed(self, given: Any, values: dict[str, Any], where: str) -> list[Any]:
        """Return a list: of templates and other values, or what an expression gives."""
        if isinstance(given, list):
            return [self.templates.render(e, values, where) if isinstance(e, str) else e for e in given]
        value = self.templates.value(given, values, where)
        if isinstance(value, dict):
            return [{"key": key, "value": entry} for key, entry in value.items()]
        if isinstance(value, (list, tuple)):
            return list(value)
        raise Invalid(
            f"{where}: a list is needed, and there is {type(value).__name__} {str(value)[:60]!r}.",
            hint="Give a list, the name of a list variable, {glob: …}, {lines: FILE} or {command: …}.",
        )

    def name_items(
        self, step: StepDefinition, items: Iterable[Any], redactor: Redactor
    ) -> list[tuple[str, Any]]:
        """Return the path of each item's step, and the item.

        An item is named by its key, by what it is, or by what it is called; else, or if that is secret, by its place.
        """
        values = self.values(step)
        taken: set[str] = set()
        out = []
        for index, item in enumerate(items):
            called = self._key(step, item, values) if step.key else _called(item, step)
            if called and redactor.mask(called) is not called:
                called = ""
            part = quote_part(called or str(index + 1))
            below, number = f"{step.path}/{part}", 2
            if below in taken and step.key:
                message = f"{step.path}: two items have the key {called!r}."
                raise Invalid(message, hint="Choose a `key` that tells them apart.")
            while below in taken:
                below, number = f"{step.path}/{part}#{number}", number + 1
            taken.add(below)
            _check_item(below, item)
            out.append((below, item))
        return out

    def _key(self, step: StepDefinition, item: Any, values: dict[str, Any]) -> str:
        """Return what an item is called by its `key`: a template, or the name of something in it."""
        text = step.key if is_template(step.key) else f"{{{{ {step.item_name}.{step.key} }}}}"
        called = self.templates.render(text, {**values, step.item_name: item}, f"{step.path}: key").strip()
        if not called or len(called) > _LONGEST:
            raise Invalid(f"{step.path}: the key of an item is empty or too long.", hint=f"It is {step.key}.")
        return called


def _called(item: Any, step: StepDefinition) -> str:
    if step.foreach is not None and step.foreach.kind == "matrix":
        item = "-".join(value_text(value) for value in item.values())
    if isinstance(item, dict):
        item = next((item[word] for word in _NAMES if isinstance(item.get(word), (str, int))), "")
    if isinstance(item, bool) or not isinstance(item, (str, int, float)):
        return ""
    text = str(item)
    return text if len(text) <= _LONGEST else ""


def _check_item(below: str, item: Any) -> None:
    """Raise ``Invalid`` if an item cannot be recorded."""
    try:
        below.encode()
        if not isinstance(item, str):
            lifecycle.check(below, {"status": "pending", "item": item})
    except (UnicodeEncodeError, Invalid) as error:
        why = error.message if isinstance(error, Invalid) else "it is not UTF-8 text."
        raise Invalid(
            f"{below.partition('/')[0]}: the item {ascii(item)[:200]} cannot be recorded: {why}",
            hint="Rename it, or leave it out.",
        ) from None


def lines_of(path: str, shown: str, where: str) -> list[str]:
    """Return the lines of a file that are not empty."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return [line.strip("\r\n") for line in file if line.strip()]
    except UnicodeDecodeError:
        raise Invalid(f"{where}: {shown} is not UTF-8 text.", hint="One item per line, as text.") from None
    except OSError as error:
        raise Invalid(
            f"{where}: {shown} cannot be read: {error.strerror}.",
            hint="The path is relative to the project's folder.",
        ) from None


def item_order(record: Mapping[str, Any]) -> int:
    """Return the place of an item in its `foreach`."""
    order = record.get("order")
    return order if isinstance(order, int) else 1 << 40


class StepLookup:
    """A property of every step, which ``get`` looks up by the step's path when a template asks for it."""

    def __init__(self, state: RunState, get: Callable[[str], Any]) -> None:
        self._state = state
        self._get = get

    def __getitem__(self, name: str) -> Any:
        return self._get(self._state.named(name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


def _known(value: Any) -> Any:
    """Return a value without its redacted parts, so that a template that needs them fails."""
    if not marks(value):
        return value
    if isinstance(value, Mark):
        return None
    if isinstance(value, dict):
        return {key: _known(entry) for key, entry in value.items() if not isinstance(entry, Mark)}
    return [_known(entry) for entry in value]


# -- before a run starts


def missing(workflow: Workflow, project: str) -> list[str]:
    """Return what the definition requires and is missing, in words."""
    wanted = workflow.requires
    tools = [f"the tool {name} is not on PATH" for name in wanted.tools if shutil.which(name) is None]
    env = [f"the environment has no {name}" for name in wanted.env if not CALLER.has(name)]
    absent = [path for path in wanted.paths if not os.path.exists(os.path.join(project, path))]
    return [*tools, *env, *(f"there is no {path}" for path in absent)]


def check_first(store: SqlStore, workflow: Workflow, variables: dict[str, Any], project: str) -> None:
    """Look for the inputs of the steps that wait for nothing, before anything is started."""
    state = RunState(workflow, project, store)
    for step in workflow.leaves():
        if state.graph.before[step.path] or step.when:
            continue
        try:
            if step.foreach is not None and step.foreach.kind == "glob":
                state.find_items(step, variables)
            for text in step.inputs if step.foreach is None else ():
                pattern = state.templates.render(text, variables, f"{step.path}: inputs")
                input_files(project, pattern, step.path)
        except BadTemplate:
            pass  # it needs to know more than the variables
        except Invalid as error:
            place = f"{workflow.path}:{step.line}:{step.column}"
            raise BadDefinition(f"{place}: {error.message}", hint=error.hint) from None


def input_files(project: str, pattern: str, step: str) -> list[str]:
    """Return the files that an input stands for. Raise ``Invalid`` if there are none."""
    found = [pattern]
    if not os.path.lexists(os.path.join(project, pattern)):
        found = sorted(glob.glob(pattern, root_dir=project, recursive=True))
    if not found:
        hint = "It is a path or a pattern, relative to the project's folder."
        raise Invalid(f"{step}: nothing is there for the input {pattern}.", hint=hint)
    files = list(found)
    for path in found:
        if os.path.isdir(os.path.join(project, path)):
            files += sorted(glob.glob(f"{glob.escape(path)}/**", root_dir=project, recursive=True))
    return [path for path in files if os.path.isfile(os.path.join(project, path))]
