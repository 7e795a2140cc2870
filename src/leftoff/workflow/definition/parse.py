"""A workflow file as a definition."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from leftoff.engine.redaction.credentials import MASK
from leftoff.errors import BadDefinition, CannotResume, LeftoffError, NotFound, StoreUnavailable, Usage
from leftoff.model.codec import sha256
from leftoff.workflow.definition.model import MAX_PARALLEL, Graph, Requires, Step, Workflow, cycle
from leftoff.workflow.definition.parse_steps import STAND_IN, Draft, Steps, Values, shown
from leftoff.workflow.definition.source import MOST_BYTES, Node, Problems, nearest, position, read
from leftoff.workflow.template.template_check import check_templates, mentioned_anywhere
from leftoff.workflow.template.templates import RESERVED, Site

# ==== definition/needs


class Needs:
    """Turns drafts into steps."""

    def __init__(self, values: Values, drafts: list[Draft]) -> None:
        self.values = values
        self.paths: dict[str, Draft] = {}
        self.ids: dict[str, list[str]] = {}
        self.places: dict[tuple[str, str], Node] = {}  # where a step says that it waits for another
        stack = list(reversed(drafts))
        while stack:
            draft = stack.pop()
            if STAND_IN not in draft.path:
                self.paths[draft.path] = draft
                self.ids.setdefault(draft.id, []).append(draft.path)
            stack.extend(reversed(draft.children))

    def steps(self, drafts: list[Draft]) -> tuple[Step, ...]:
        """The steps of one list."""
        out: list[Step] = []
        siblings = {draft.id: draft.path for draft in drafts if STAND_IN not in draft.path}
        for index, draft in enumerate(drafts):
            needs: tuple[str, ...] = (drafts[index - 1].path,) if index else ()
            if draft.needs is not None:
                needs = self._all(draft, draft.needs, siblings)
            out.append(Step(**draft.fields, needs=needs, steps=self.steps(draft.children)))
        return tuple(out)

    def _all(self, draft: Draft, node: Node, siblings: dict[str, str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for entry in self.values.entries(node, "needs"):
            path = self._one(draft, entry, siblings)
            if path:
                found[path] = None
                self.places[draft.path, path] = entry
        return tuple(found)

    def _one(self, draft: Draft, node: Node, siblings: dict[str, str]) -> str:
        name = self.values.text(node, "needs")
        if not name:
            return ""
        path = self._find(name, node, siblings)
        if path == draft.path:
            self._wrong(node, f"`{name}` waits for itself", "Leave it out of its own `needs`.")
        elif path and draft.path.startswith(f"{path}/"):
            self._wrong(
                node, f"`{name}` is the phase that this step is in", "It cannot end before its steps do."
            )
        elif path and path.startswith(f"{draft.path}/"):
            self._wrong(node, f"`{name}` is inside this phase", "A phase cannot wait for its own steps.")
        else:
            return path
        return ""

    def _find(self, name: str, node: Node, siblings: dict[str, str]) -> str:
        if name in siblings:
            return siblings[name]
        if name in self.paths:
            return name
        found = self.ids.get(name, [])
        if len(found) > 1:
            self._wrong(node, f"several steps are called `{name}`", f"Say which one: {', '.join(found)}.")
        elif not found:
            hint = nearest(name, [*siblings, *self.paths, *self.ids]) or self._known()
            self._wrong(node, f"`needs` names a step that is not there: `{shown(name)}`", hint)
        return found[0] if len(found) == 1 else ""

    def _known(self) -> str:
        names = list(self.paths)
        return f"The steps are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."

    def _wrong(self, node: Node, message: str, hint: str) -> None:
        self.values.problems.add(node, message, hint)


# ==== definition/parse

KEYS = (
    "name",
    "description",
    "vars",
    "other_vars",
    "secrets",
    "requires",
    "defaults",
    "max_parallel",
    "steps",
)
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def load(path: str, *, given: Collection[str] = ()) -> Workflow:
    """The definition in a file. ``given``: variables that are set from outside, as with ``--var``."""
    return parse(_read(path), path, given=given)


def digest_of(text: str) -> str:
    """What a definition is known by."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def parse(text: str, path: str, *, given: Collection[str] = ()) -> Workflow:
    """The definition in a text; ``path`` is only named."""
    problems = Problems(path)
    workflow = _parse(text, path, problems, given)
    problems.check()
    return workflow


def review(path: str, *, given: Collection[str] = ()) -> tuple[Workflow, list[str]]:
    """The definition in a file, and what in it is likely to be wrong though it need not be."""
    problems = Problems(path)
    workflow = _parse(_read(path), path, problems, given)
    problems.check()
    check_given(workflow, given)
    return workflow, problems.told()


def check_given(workflow: Workflow, given: Collection[str], known: Collection[str] = ()) -> None:
    """Refuse variables of which nothing in the file has ever heard: they are misspelt. ``known``: those of the run.

    A file without ``vars`` says nothing of what there is: there, only a name much like another is refused.
    """
    if workflow.other_vars or not set(given) - set(workflow.vars) - set(known):
        return
    names = {*workflow.vars, *known, *mentioned_anywhere(workflow)}
    for name in given:
        if name not in names:
            hint = nearest(name, names)
            if not hint and not workflow.vars:
                continue
            more = (
                "A step that asks for it by itself needs it under `vars`, or `other_vars: true` at the top."
            )
            raise Usage(f"--var {name}: {workflow.path} has no such variable.", hint=f"{hint} {more}".strip())


def _root(text: str, problems: Problems) -> Node:
    """The mapping that a definition is."""
    root = read(text, problems)
    if root is not None and root.kind == "map":
        return root
    empty = root is None or root.kind == "null"
    what = "nothing is in it" if empty else "a workflow is a mapping of keys to values"
    line, column = (root.line, root.column) if root else (1, 1)
    raise problems.fatal(line, column, what, "It begins with `name: …` and `steps:`.")


def _parse(text: str, path: str, problems: Problems, given: Collection[str]) -> Workflow:
    root = _root(text, problems)
    values = Values(problems)
    top = values.mapping(root, "", KEYS)
    fields = _top(top, values, path)
    steps = Steps(values)
    drafts: list[Draft] = []
    if "steps" in top:
        drafts = steps.all(top["steps"], steps.defaults(top.get("defaults")))
    else:
        values.unsure = True
        if not problems.suggests("steps", 1):  # unless it was merely misspelt
            problems.add(
                root, "a workflow without `steps`", "For example: steps: [{id: hello, run: echo hello}]"
            )
    needs = Needs(values, drafts)
    workflow = Workflow(
        **fields,
        steps=needs.steps(drafts),
        path=path,
        text=text,
        digest=digest_of(text),
    )
    circular = _circular(workflow, needs, problems)
    graph = None if circular or values.unsure else Graph(workflow)
    check_templates(workflow, list(_sites(drafts)), graph, problems, given)
    return workflow


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        what = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        raise NotFound(
            f"The file {path} {what}.", hint="Give the path of a workflow file, like flow.yaml."
        ) from None
    except OSError as error:
        hint = "Nothing was changed. Check its permissions."
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}.", hint=hint) from None
    if len(data) > MOST_BYTES:
        hint = f"{MOST_BYTES // 2**20} MB are the most. Many items go in a file: foreach: {{lines: FILE}}."
        raise BadDefinition(f"{path}: too large for a workflow file", hint=hint)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, column = position(before, len(before))
        raise BadDefinition(
            f"{path}:{line}:{column}: not UTF-8 text", hint="Save the file as UTF-8."
        ) from None


def _top(top: dict[str, Node], values: Values, path: str) -> dict[str, Any]:
    """What is said once, for the whole workflow."""
    fields: dict[str, Any] = {
        "name": os.path.splitext(os.path.basename(path))[0] or "workflow",
        "max_parallel": MAX_PARALLEL,
    }
    if "name" in top:
        fields["name"] = values.text(top["name"], "name", default="?")
    if "description" in top:
        fields["description"] = values.text(top["description"], "description")
    if "max_parallel" in top:
        fields["max_parallel"] = values.whole(
            top["max_parallel"], "max_parallel", least=1, default=MAX_PARALLEL
        )
    if "other_vars" in top:
        fields["other_vars"] = values.flag(top["other_vars"], "other_vars", default=False)
    if "vars" in top:
        fields["vars"] = _vars(top["vars"], values)
    if "secrets" in top:
        fields["secrets"] = _names(top["secrets"], "secrets", values)
    if "requires" in top:
        fields["requires"] = _requires(top["requires"], values)
    return fields


def _vars(node: Node, values: Values) -> dict[str, Any]:
    if node.kind != "map":
        values.wrong(node, "vars", "a mapping of names to values", "For example: vars: {topic: whales}")
        values.unsure = True
        return {}
    out = {}
    for name, (key, value) in node.value.items():
        if name in RESERVED:
            values.problems.add(
                key, f"`{name}` is a name that templates have already", "Choose another name."
            )
        out[name] = values.json(value, name)
    return out


def _names(node: Node, what: str, values: Values) -> tuple[str, ...]:
    """Names of environment variables."""
    found = values.texts(node, what)
    for entry, name in zip(values.entries(node, what), found, strict=True):
        if name and not _ENV.fullmatch(name):
            hint = "A secret is named here, never written: its value comes from the environment."
            hint = hint if what == "secrets" else "Letters, digits and _, not starting with a digit."
            name = f"{name.partition('=')[0]}=…" if "=" in name else name  # what follows may be the secret
            values.problems.add(entry, f"`{shown(name)}` cannot name an environment variable", hint)
    return found


def _requires(node: Node, values: Values) -> Requires:
    given = values.mapping(node, "requires", ("tools", "env", "paths"))
    found: dict[str, tuple[str, ...]] = {}
    for name in ("tools", "paths"):
        if name in given:
            found[name] = values.texts(given[name], name)
    if "env" in given:
        found["env"] = _names(given["env"], "env", values)
    return Requires(**found)


def _circular(workflow: Workflow, needs: Needs, problems: Problems) -> bool:
    circle = cycle(workflow)
    if not circle:
        return False
    said = (needs.places.get(pair) for pair in pairwise(circle))
    place = next((node for node in said if node is not None), workflow.by_path[circle[0]])
    told = " -> ".join(path.partition(STAND_IN)[0] or "?" for path in circle)
    hint = "Each waits for the next. Take one of these out of the other's `needs`."
    problems.add(place, f"steps wait for each other: {told}", hint)
    return True


def _walk(drafts: list[Draft]) -> Iterator[Draft]:
    for draft in drafts:
        yield draft
        yield from _walk(draft.children)


def _sites(drafts: list[Draft]) -> Iterator[Site]:
    for draft in _walk(drafts):
        if draft.fields["kind"] != "phase":
            yield from draft.sites
        else:
            yield from (site for site in draft.sites if site.key not in ("env", "cwd"))


# ==== definition/of_run


class Definitions:
    """``new``: as it is now, ``None`` where there is a ``problem`` with it. ``old``: as the run knows it.

    ``old`` is ``None`` where it is another than now and nobody knows what it was: a text with a secret in it is not
    stored, and one of another version of leftoff may not be understood.
    """

    def __init__(
        self,
        known: dict[str, Any],
        project: str,
        given: Collection[str],
        workflow: Workflow | None = None,
        *,
        strange: bool = False,
    ) -> None:
        """``given``: the variables that the run has, and those that it is about to get. ``strange``: the run came from
        elsewhere, and names a file outside of the project: that is none of its own."""
        self.path = str(known.get("path") or "")
        self.gone = ""  # the file, and how: the run's own copy is used
        self._is_strange = strange
        self.problem: LeftoffError | None = None
        self.old: Workflow | None = None
        self.new: Workflow | None = workflow
        self.is_named = workflow is not None  # whoever goes on named the file
        self._known = known
        try:
            self._check_text()
            self.new = workflow or self._read(project, given)
        except LeftoffError as error:
            self.problem = error
        if self.new is not None:
            self.old = self._earlier(self.new, given)

    @property
    def changed(self) -> bool:
        return self.new is not self.old

    def _check_text(self) -> None:
        """A text that is not the one of its digest was put there by somebody else than whoever drove the run; unless
        there is a hole in it, where a secret was not stored: then there is no copy."""
        text = self._known.get("text")
        if text is not None and digest_of(str(text)) != self._known.get("digest"):
            self._known = {**self._known, "text": None}
            if MASK in str(text):
                return
            self.new = None
            raise CannotResume(
                f"The run's own copy of {self.path} is not what its digest says.",
                hint="Nothing of it is executed. `leftoff run FILE` starts afresh; `leftoff fsck` checks the store.",
            )

    def _read(self, project: str, given: Collection[str]) -> Workflow:
        """As its file is now; the run's own copy where that is gone."""
        path = os.path.join(project, self.path)
        if not self._is_strange and os.path.isfile(path):
            return load(path, given=given)
        text = self._known.get("text")
        if not text:
            raise CannotResume(
                f"{self.path} is gone, and the run has no copy of it: there was a secret in it.",
                hint="Put the file back, or start afresh with another one.",
            )
        self.gone = "is outside of the project, and not looked at" if self._is_strange else "is gone"
        return parse(str(text), path, given=given)

    def _earlier(self, now: Workflow, given: Collection[str]) -> Workflow | None:
        if self._known.get("digest") == now.digest:
            return now
        try:
            return parse(str(self._known.get("text") or ""), now.path, given=given)
        except BadDefinition:
            return None
