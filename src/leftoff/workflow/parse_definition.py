"""Read a workflow file as a definition. What is wrong with it is reported all at once, each with line and column.

Also: the definition of a run, as it was when the run was last driven, and as its file is now.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from leftoff.engine.redactor import MASK
from leftoff.errors import BadDefinition, CannotResume, LeftoffError, NotFound, StoreUnavailable, Usage
from leftoff.model.codec import sha256
from leftoff.model.ids import as_word
from leftoff.workflow.definition import MAX_PARALLEL, Graph, Requires, StepDefinition, Workflow, cycle
from leftoff.workflow.parse_steps import (
    ENV_NAME,
    ENV_NAMES,
    STAND_IN,
    Readers,
    StepDraft,
    StepReader,
    ValueReader,
    short_line,
)
from leftoff.workflow.template_check import check_templates, mentioned_anywhere
from leftoff.workflow.templates import RESERVED, Site
from leftoff.workflow.yaml_source import MOST_BYTES, Node, Problems, nearest, position, read_yaml

_TOP: Readers = {
    "name": ("name", "text", {"default": "?"}),
    "description": ("description", "text", {}),
    "max_parallel": ("max_parallel", "whole", {"least": 1, "default": MAX_PARALLEL}),
    "other_vars": ("other_vars", "flag", {"default": False}),
}
KEYS = tuple("name description vars other_vars secrets requires defaults max_parallel steps".split())


def load_definition(path: str, *, given: Collection[str] = ()) -> Workflow:
    """Return the definition in a file. ``given``: variables that are set from outside, as with ``--var``."""
    return parse_definition(_read_file(path), path, given=given)


def parse_definition(text: str, path: str, *, given: Collection[str] = ()) -> Workflow:
    """Return the definition in a text; ``path`` is only named."""
    problems = Problems(path)
    workflow = _parse(text, path, problems, given)
    problems.check()
    return workflow


def review(path: str, *, given: Collection[str] = ()) -> tuple[Workflow, list[str]]:
    """Return the definition in a file, and what in it is likely to be wrong though it need not be."""
    problems = Problems(path)
    workflow = _parse(_read_file(path), path, problems, given)
    problems.check()
    check_given(workflow, given)
    return workflow, problems.told()


def digest_of(text: str) -> str:
    """Return what identifies a definition."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def check_given(workflow: Workflow, given: Collection[str], known: Collection[str] = ()) -> None:
    """Refuse variables that nothing in the file names: they are misspelt. ``known``: those of the run.

    In a file without ``vars``, only a name much like another is refused.
    """
    if workflow.other_vars or not set(given) - set(workflow.vars) - set(known):
        return
    names = {*workflow.vars, *known, *mentioned_anywhere(workflow)}
    for name in given:
        hint = "" if name in names else nearest(name, names)
        if name not in names and (hint or workflow.vars):
            more = (
                "A step that asks for it by itself needs it under `vars`, or `other_vars: true` at the top."
            )
            raise Usage(f"--var {name}: {workflow.path} has no such variable.", hint=f"{hint} {more}".strip())


def _read_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        what = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        hint = "Give the path of a workflow file, like flow.yaml."
        raise NotFound(f"The file {path} {what}.", hint=hint) from None
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
        message = f"{path}:{line}:{column}: not UTF-8 text"
        raise BadDefinition(message, hint="Save the file as UTF-8.") from None


def _parse(text: str, path: str, problems: Problems, given: Collection[str]) -> Workflow:
    root = read_yaml(text, problems)
    if root is None or root.kind != "map":
        empty = root is None or root.kind == "null"
        what = "nothing is in it" if empty else "a workflow is a mapping of keys to values"
        line, column = (root.line, root.column) if root else (1, 1)
        raise problems.fatal(line, column, what, "It begins with `name: …` and `steps:`.")
    values = ValueReader(problems)
    top = values.mapping(root, "", KEYS)
    fields = _top(top, values, path)
    steps, drafts = StepReader(values), list[StepDraft]()
    if "steps" in top:
        drafts = steps.all(top["steps"], steps.defaults(top.get("defaults")))
    else:
        values.unsure = True
        if not problems.suggests("steps", 1):  # unless it was merely misspelt
            example = "For example: steps: [{id: hello, run: echo hello}]"
            problems.add(root, "a workflow without `steps`", example)
    needs = _Needs(values, drafts)
    workflow = Workflow(**fields, steps=needs.steps(drafts), path=path, text=text, digest=digest_of(text))
    circle = cycle(workflow)
    if circle:
        said = (needs.places.get(pair) for pair in pairwise(circle))
        place = next((node for node in said if node is not None), workflow.by_path[circle[0]])
        told = " -> ".join(step.partition(STAND_IN)[0] or "?" for step in circle)
        hint = "Each waits for the next. Take one of these out of the other's `needs`."
        problems.add(place, f"steps wait for each other: {told}", hint)
    graph = None if circle or values.unsure else Graph(workflow)
    check_templates(workflow, list(_sites(drafts)), graph, problems, given)
    return workflow


def _top(top: dict[str, Node], values: ValueReader, path: str) -> dict[str, Any]:
    """Read what is said once, for the whole workflow."""
    fields: dict[str, Any] = {"name": os.path.splitext(os.path.basename(path))[0] or "workflow"}
    fields.update(values.fields(top, _TOP))
    if "vars" in top:
        fields["vars"] = _vars(top["vars"], values)
    if "secrets" in top:
        fields["secrets"] = _env_names(top["secrets"], "secrets", values)
    if "requires" in top:
        given = values.mapping(top["requires"], "requires", ("tools", "env", "paths"))
        found = {name: values.texts(node, name) for name, node in given.items() if name != "env"}
        if "env" in given:
            found["env"] = _env_names(given["env"], "env", values)
        fields["requires"] = Requires(**found)
    return fields


def _vars(node: Node, values: ValueReader) -> dict[str, Any]:
    if node.kind != "map":
        values.wrong(node, "vars", "a mapping of names to values", "For example: vars: {topic: whales}")
        values.unsure = True
        return {}
    out = {}
    for name, (key, value) in node.value.items():
        if name in RESERVED:
            message = f"`{name}` is a name that templates have already"
            values.problems.add(key, message, "Choose another name.")
        out[name] = values.json(value, name)
    return out


def _env_names(node: Node, what: str, values: ValueReader) -> tuple[str, ...]:
    """Read names of environment variables."""
    found = values.texts(node, what)
    for entry, name in zip(values.entries(node, what), found, strict=True):
        if name and not ENV_NAME.fullmatch(name):
            hint = "A secret is named here, never written: its value comes from the environment."
            hint = hint if what == "secrets" else ENV_NAMES
            name = f"{name.partition('=')[0]}=…" if "=" in name else name  # what follows may be the secret
            values.problems.add(entry, f"`{short_line(name)}` cannot name an environment variable", hint)
    return found


def _sites(drafts: list[StepDraft]) -> Iterator[Site]:
    """Yield all templates. What a phase hands down is checked in the steps that it contains."""
    for draft in drafts:
        phase = draft.fields["kind"] == "phase"
        yield from (site for site in draft.sites if not (phase and site.key in ("env", "cwd")))
        yield from _sites(draft.children)


class _Needs:
    """Turns drafts into steps: looks up what each waits for.

    A name is a sibling's id, else a whole path, else an id that only one step has. A step that says nothing waits for
    the one before it in the same list.
    """

    def __init__(self, values: ValueReader, drafts: list[StepDraft]) -> None:
        self.values = values
        self.paths: dict[str, None] = {}
        self.ids: dict[str, list[str]] = {}
        self.places: dict[tuple[str, str], Node] = {}  # where a step says that it waits for another
        self._collect(drafts)

    def _collect(self, drafts: list[StepDraft]) -> None:
        for draft in drafts:
            if STAND_IN not in draft.path:
                self.paths[draft.path] = None
                self.ids.setdefault(draft.id, []).append(draft.path)
            self._collect(draft.children)

    def steps(self, drafts: list[StepDraft]) -> tuple[StepDefinition, ...]:
        """Return the steps of one list."""
        out: list[StepDefinition] = []
        siblings = {draft.id: draft.path for draft in drafts if STAND_IN not in draft.path}
        for index, draft in enumerate(drafts):
            needs = [drafts[index - 1].path] if index else []
            if draft.needs is not None:
                needs = []
                for entry in self.values.entries(draft.needs, "needs"):
                    path = self._path(draft, entry, siblings)
                    if path:
                        self.places[draft.path, path] = entry
                        needs.append(path)
            steps = self.steps(draft.children)
            out.append(StepDefinition(**draft.fields, needs=tuple(dict.fromkeys(needs)), steps=steps))
        return tuple(out)

    def _path(self, draft: StepDraft, node: Node, siblings: dict[str, str]) -> str:
        """Return the path of what a step waits for; empty if it is wrong."""
        name, wrong = self.values.text(node, "needs"), self.values.problems.add
        if not name:
            return ""
        found = self.ids.get(name, [])
        if name in siblings:
            found = [siblings[name]]
        elif name in self.paths:
            found = [name]
        if len(found) > 1:
            wrong(node, f"several steps are called `{name}`", f"Say which one: {', '.join(found)}.")
        elif not found:
            known = f"The steps are {', '.join([*self.paths][:12])}{' …' if len(self.paths) > 12 else ''}."
            hint = nearest(name, [*siblings, *self.paths, *self.ids]) or known
            wrong(node, f"`needs` names a step that is not there: `{short_line(name)}`", hint)
        else:
            return found[0]
        return ""


class Definitions:
    """The definition of a run: ``new`` as it is now, None if there is a ``problem`` with it; ``old`` as the run has it.

    ``old`` is None if it differs and is not known: a text with a secret in it is not stored, and another version of
    leftoff may not understand it.
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
        """``given``: the variables that the run has, and those that it is about to get. ``workflow``: the file that the
        user named. ``strange``: an imported run names a file outside of the project, which is not read."""
        self.path = str(known.get("path") or "")
        self.gone = ""  # why the run's own copy is used instead of the file
        self.problem: LeftoffError | None = None
        self.old: Workflow | None = None
        self.new: Workflow | None = None
        self.is_named = workflow is not None
        text = known.get("text")
        copy = str(text or "")
        try:
            if text is not None and digest_of(copy) != known.get("digest"):
                if MASK not in copy:  # else a secret in it was not stored, and there is no copy
                    raise CannotResume(
                        f"The run's own copy of {self.path} is not what its digest says.",
                        hint=f"Nothing of it is executed. `leftoff run {as_word(self.path)}` starts from the "
                        "beginning; `leftoff fsck` checks the store.",
                    )
                copy = ""
            self.new = workflow or self._now(os.path.join(project, self.path), copy, given, strange)
            self.old = self.new if known.get("digest") == self.new.digest else self._before(copy, given)
        except LeftoffError as error:
            self.problem = error

    @property
    def changed(self) -> bool:
        return self.new is not self.old

    def _now(self, path: str, copy: str, given: Collection[str], strange: bool) -> Workflow:
        if not strange and os.path.isfile(path):
            return load_definition(path, given=given)
        if not copy:
            raise CannotResume(
                f"{self.path} is gone, and the run has no copy of it: there was a secret in it.",
                hint="Put the file back, or start another one.",
            )
        self.gone = "is outside of the project, and not looked at" if strange else "is gone"
        return parse_definition(copy, path, given=given)

    def _before(self, copy: str, given: Collection[str]) -> Workflow | None:
        assert self.new is not None
        try:
            return parse_definition(copy, self.new.path, given=given)
        except BadDefinition:
            return None
