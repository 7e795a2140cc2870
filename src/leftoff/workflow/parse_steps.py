"""Read the steps of a workflow file: their own words, and what they take over from `defaults` and their phases.

Whatever does not fit is noted with its place, and reading continues, so that one look at a file shows all of it. A step
is a ``StepDraft`` until every step is known, since only then can its ``needs`` be looked up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

from leftoff.errors import Invalid
from leftoff.model.codec import encode
from leftoff.model.ids import check_step
from leftoff.workflow import durations
from leftoff.workflow.definition import APPROVE, REJECT, Approval, Foreach
from leftoff.workflow.templates import EXPRESSION, RESERVED, SHELL, TEST, TEXT, Site, is_template
from leftoff.workflow.yaml_source import Node, Problems, nearest

# In an id that cannot be used: the file is wrong, and reading continues for the sake of other errors.
STAND_IN = "\0"

ACTIONS = ("run", "python", "agent", "approval", "steps")
AGENT = ("agents", "prompt", "prompt_file", "model", "turns", "budget", "permissions", "tools")
_ABOUT = ("id", "step", "type", "title", "description", "instructions", "needs", "when", "on_failure")
_PLACE = ("env", "cwd")
_END = ("estimate", "checkpoint")
_FOREACH = ("foreach", "matrix", "key", "as", "max_parallel")
_FILES = ("inputs", "outputs", "keep", "cache", "checks", "criteria", "shell")
_WORK = (*_FILES, *_PLACE, *_FOREACH, "timeout", "retries", "idempotent", "allow_failure", *_END)
# What each kind of step may say.
KEYS: dict[str, tuple[str, ...]] = {
    "run": (*_ABOUT, "run", *_WORK),
    "python": (*_ABOUT, "python", "with", *_WORK),
    "agent": (*_ABOUT, "agent", *AGENT, *_WORK),
    "approval": (*_ABOUT, "approval", "timeout", *_END),
    "manual": (*_ABOUT, *_END),
    "phase": (*_ABOUT, *_PLACE, "max_parallel", "steps"),
}
ALL = tuple(dict.fromkeys(key for keys in KEYS.values() for key in keys))
DEFAULTS = ("retries", "timeout", "on_failure", "shell", "env", "cwd", "checkpoint", "idempotent")
ON_FAILURE = ("stop", "continue", "ask")
_WORKING = ("run", "python", "agent")
_HANDED_DOWN = ("on_failure", "env", "cwd", "shell", "save", "persist")

# How a key is read: the field of the step, the reader in ``ValueReader``, its options.
Readers = dict[str, tuple[str, str, dict[str, Any]]]
_PLAIN: Readers = {
    "title": ("title", "text", {}),
    "type": ("label", "text", {}),
    "description": ("description", "text", {}),
    "on_failure": ("on_failure", "choice", {"known": ON_FAILURE, "default": "stop"}),
    "timeout": ("timeout", "duration", {}),
    "estimate": ("estimate", "duration", {"zero": True}),
    "idempotent": ("idempotent", "flag", {"default": True}),
    "allow_failure": ("allow_failure", "flag", {"default": False}),
    "cache": ("cache", "flag", {"default": False}),
    "keep": ("keep", "choice", {"known": ("copy", "hash"), "default": "copy"}),
}
_RETRIES: Readers = {
    "max": ("max", "whole", {"least": 0, "default": 0}),
    "backoff": ("backoff", "duration", {"zero": True}),
    "factor": ("factor", "number", {"least": 1, "default": 1}),
    "jitter": ("jitter", "flag", {"default": True}),
}
_CHECKPOINT: Readers = {
    "save": ("save", "flag", {"default": True}),
    "variables_to_persist": ("persist", "texts", {}),
}
_AGENT: Readers = {
    "agents": ("agents", "texts", {}),
    "turns": ("turns", "whole", {"least": 1, "default": 1}),
    "budget": ("budget", "number", {"least": 0, "default": 1}),
    "tools": ("tools", "texts", {}),
}
_TEMPLATES = {"instructions": TEXT, "cwd": TEXT, "run": SHELL}
_LISTS_OF_TEMPLATES = {"inputs": TEXT, "outputs": TEXT, "checks": SHELL}
_OWN_READER = ("when", "env", "shell", "checkpoint", "retries", "criteria", "python", "with", "approval")

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
ENV_NAMES = "Letters, digits and _, not starting with a digit."
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_NAME = re.compile(r"[^\W\d]\w*")
_A = {"approval": "an approval", "manual": "a manual step", "phase": "a phase", "agent": "an agent step"}
_A_STEP = "Each entry of the list is a step: `- id: build`, and below it `run: make`."
_A_MATRIX = "For example: matrix: {system: [linux, mac], python: ['3.11', '3.12']}"
_A_LIST = {
    "secrets": "Only names, as in [GITHUB_TOKEN]: the values come from the environment.",
    "outputs": "For example: [out/index.html]",
    "checks": 'For example: ["test -s out/index.html"]',
    "needs": "For example: [build, test], or [] for nothing.",
}
_CALLED = {
    "map": "a mapping",
    "list": "a list",
    "text": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


def short_line(text: str) -> str:
    """Return a text as a message can hold it: one line, not endless."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}…"


class ValueReader:
    """Readers for every type of value. Each returns a value of that type, whatever it finds."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.unsure = False  # something is missing that variables or steps may depend on

    def wrong(self, node: Node, what: str, form: str, hint: str = "") -> None:
        there = f"`{short_line(node.text)}`" if node.scalar and node.text else _CALLED[node.kind]
        self.problems.add(node, f"`{what}` must be {form}, not {there}", hint)

    def mapping(self, node: Node, what: str, known: Collection[str], hint: str = "") -> dict[str, Node]:
        """Return the values of a mapping by key. An unknown key is an error that names the nearest one."""
        if node.kind != "map":
            self.wrong(node, what, "a mapping", hint or f"Its keys are {', '.join(known)}.")
            return {}
        out = {}
        for name, (key, value) in node.value.items():
            if name in known:
                out[name] = value
            else:
                message = f"unknown key `{short_line(name)}`" + (f" in `{what}`" if what else "")
                self.problems.add(key, message, nearest(name, known) or f"Its keys are {', '.join(known)}.")
        return out

    def fields(self, given: dict[str, Node], readers: Readers) -> dict[str, Any]:
        """Return the fields that the values of a mapping give, each read by its reader."""
        found = {}
        for key, (field, reader, options) in readers.items():
            if key in given:
                found[field] = getattr(self, reader)(given[key], key, **options)
        return found

    def text(self, node: Node, what: str, *, default: str = "") -> str:
        """Return text; a number or truth value as it was written."""
        if not node.scalar:
            several = "Several commands are a block, `run: |`, a line each."
            self.wrong(node, what, "text", several if what == "run" and node.kind == "list" else "")
        elif node.kind == "null" or not node.text.strip():
            self.problems.add(node, f"`{what}` is empty", "Give it a value, or leave the key out.")
        else:
            return node.text
        return default

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """Return a list of texts, or a single one, as a tuple."""
        return tuple(self.text(entry, what) for entry in self.entries(node, what))

    def entries(self, node: Node, what: str) -> list[Node]:
        """Return the entries of a list. A single text is a list of one."""
        if node.kind == "list":
            return list(node.value)
        if node.kind in ("map", "null"):
            self.wrong(node, what, "a list", _A_LIST.get(what, ""))
            return []
        return [node]

    def text_map(self, node: Node, what: str) -> dict[str, str]:
        """Return a mapping from names to texts, of which each may be empty."""
        if node.kind != "map":
            self.wrong(node, what, "a mapping of names to text")
            return {}
        out = {}
        for name, (_, value) in node.value.items():
            if value.scalar:
                out[name] = value.text
            else:
                self.wrong(value, f"{what}.{name}", "text")
        return out

    def flag(self, node: Node, what: str, *, default: bool) -> bool:
        if node.kind == "bool":
            return bool(node.value)
        words = {"yes": "true", "on": "true", "no": "false", "off": "false"}
        meant = words.get(node.text.lower()) if node.kind == "text" and not node.quoted else None
        self.wrong(node, what, "true or false", f"Write {meant}." if meant else "")
        return default

    def whole(self, node: Node, what: str, *, least: int, default: int, most: int = 1_000_000) -> int:
        if node.kind == "int" and least <= node.value <= most:
            return int(node.value)
        small = node.kind != "int" or node.value < least
        self.wrong(node, what, f"a whole number from {least} on" if small else f"at most {most:,}")
        return default

    def number(self, node: Node, what: str, *, least: float, default: float) -> float:
        if node.kind in ("int", "float") and least <= node.value < math.inf:
            return float(node.value)
        self.wrong(node, what, f"a number from {least:g} on")
        return default

    def duration(self, node: Node, what: str, *, zero: bool = False) -> float | None:
        """Return seconds, or None if it is wrong."""
        if not node.scalar or node.kind in ("null", "bool"):
            self.wrong(node, what, "a duration", durations.FORM)
            return None
        try:
            length = durations.seconds(node.text)
        except ValueError as error:
            self.problems.add(node, f"{what}: {error}", durations.FORM)
            return None
        if length == 0 and not zero:
            self.problems.add(node, f"`{what}` cannot be 0", "Leave it out for none.")
            return None
        return length

    def choice(self, node: Node, what: str, *, known: Collection[str], default: str) -> str:
        if node.scalar and node.text in known:
            return node.text
        hint = nearest(node.text, known) if node.scalar else ""
        self.wrong(node, what, f"one of {', '.join(known)}", hint)
        return default

    def json(self, node: Node, what: str) -> Any:
        """Return any value that can be stored."""
        value = node.plain()
        try:
            encode(value, f"`{what}`")
        except Invalid as error:
            self.problems.add(node, error.message.rstrip("."), error.hint)
            return None
        return value


class StepDraft:
    """What was read of a step so far: the fields of the ``Step``, and its templates (``sites``)."""

    def __init__(self, node: Node, path: str, kind: str) -> None:
        self.node = node
        self.path = path
        self.fields: dict[str, Any] = {"path": path, "kind": kind, "line": node.line, "column": node.column}
        self.needs: Node | None = None
        self.children: list[StepDraft] = []
        self.sites: list[Site] = []

    @property
    def id(self) -> str:
        return str(self.fields["id"])

    def site(self, key: str, name: str, node: Node, text: str, mode: str, *, item: bool = True) -> None:
        """Note a template."""
        self.sites.append(Site(self.path, key, name, node, text, mode, item))

    def drop_site(self, name: str) -> None:
        """Forget a template that was inherited, since the step has its own."""
        self.sites = [site for site in self.sites if site.name != name]

    def sites_of(self, *keys: str) -> dict[str, list[Site]]:
        """Return the templates by key; only some keys, if any are given."""
        found: dict[str, list[Site]] = {}
        for site in self.sites:
            if not keys or site.key in keys:
                found.setdefault(site.key, []).append(site)
        return found


class Inherited(NamedTuple):
    """What a step has unless it says otherwise: from ``defaults``, then from each phase around it."""

    fields: dict[str, Any]
    sites: dict[str, list[Site]]

    def below(self, draft: StepDraft) -> Inherited:
        """Return the same for what is inside a phase."""
        passed = {name: draft.fields[name] for name in ("on_failure", *_PLACE) if name in draft.fields}
        return Inherited({**self.fields, **passed}, {**self.sites, **draft.sites_of(*_PLACE)})


class StepReader:
    """Reads steps. The drafts are in the order of the file."""

    def __init__(self, values: ValueReader) -> None:
        self.values = values
        self.problems = values.problems

    def defaults(self, node: Node | None) -> Inherited:
        if node is None:
            return Inherited({}, {})
        draft = StepDraft(node, "", "run")
        self._read(draft, self.values.mapping(node, "defaults", DEFAULTS))
        for name in ("path", "kind", "line", "column"):
            del draft.fields[name]
        return Inherited(draft.fields, draft.sites_of())

    def all(self, node: Node, inherited: Inherited, parent: str = "") -> list[StepDraft]:
        """Return the steps of a list, and those inside them."""
        if node.kind != "list":
            self.values.wrong(node, "steps", "a list of steps", _A_STEP)
            self.values.unsure = True
            return []
        if not node.value:
            self.problems.add(node, "`steps` is empty", "A workflow, and a phase, has at least one step.")
        drafts: list[StepDraft] = []
        seen: dict[str, Node] = {}
        for entry in node.value:
            if entry.kind == "map":
                drafts.append(self._one(entry, inherited, parent, seen))
            else:
                self.values.wrong(entry, "steps", "a list of mappings", _A_STEP)
                self.values.unsure = True
        return drafts

    def _one(self, node: Node, inherited: Inherited, parent: str, seen: dict[str, Node]) -> StepDraft:
        kind = self._kind(node)
        name = self._id(node, seen)
        draft = StepDraft(node, f"{parent}/{name}" if parent else name, kind)
        draft.fields.update(id=name, parent=parent)
        given = self._given(node, kind)
        names = _HANDED_DOWN if kind != "phase" else ("on_failure", *_PLACE)
        for field in (*names, *(("retries", "timeout", "idempotent") if kind in _WORKING else ())):
            if field in inherited.fields:
                draft.fields[field] = inherited.fields[field]
                draft.sites += [replace(site, step=draft.path) for site in inherited.sites.get(field, ())]
        draft.needs = given.get("needs")
        self._read(draft, given)
        if kind in _WORKING:
            self._foreach(draft, given)
        if kind == "agent":
            self._agent(draft, given)
        if kind == "phase":
            self._limit(draft, given)
            if "steps" in given:
                draft.children = self.all(given["steps"], inherited.below(draft), draft.path)
        return draft

    # -- which step it is, and of which kind

    def _kind(self, node: Node) -> str:
        found = [action for action in (*ACTIONS, "agents") if action in node.value]
        if "agent" in found and "agents" in found:
            found.remove("agents")
        if len(found) > 1:
            key = node.value[found[1]][0]
            named = " and ".join(f"`{name}`" for name in found)
            self.problems.add(key, f"a step does one thing, and this has {named}", "Make it two steps.")
        if not found and ("prompt" in node.value or "prompt_file" in node.value):
            found = ["agent"]
        if not found:  # an action that was misspelt is one problem, not several
            near = [nearest(key, ACTIONS).split("`") for key in node.value if key not in ALL]
            found = [*(words[1] for words in near if len(words) > 1), "manual"]
        return {"steps": "phase", "agents": "agent"}.get(found[0], found[0])

    def _id(self, node: Node, seen: dict[str, Node]) -> str:
        """Return the id, or a stand-in that no message shows if it cannot be used, so that reading can continue."""
        there = node.get("id") or node.get("step")
        name = self._id_of(node, there)
        if seen.setdefault(name, node) is node:
            return name
        first = f"The first one is on line {seen[name].line}."
        self.problems.add(there or node, f"the id `{name}` is there twice", first)
        return f"{name}{STAND_IN}{node.line}:{node.column}"

    def _id_of(self, node: Node, there: Node | None) -> str:
        stand_in = f"{STAND_IN}{node.line}:{node.column}"
        if there is None:
            if not any(nearest(key, ("id",)) for key in node.value if key not in ALL):  # else it was misspelt
                self.problems.add(node, "a step without an `id`", "Every step has one: `- id: build`.")
            return stand_in
        if "id" in node.value and "step" in node.value:
            key = node.value["step"][0]
            self.problems.add(key, "`step` and `id` are two words for one thing", "Keep `id`.")
        name = self.values.text(there, "id", default=stand_in)
        if name == stand_in:
            return name
        if "/" in name or not name.isprintable() or name != name.strip():
            what = "a slash" if "/" in name else "a character that cannot be seen, or a blank at an end"
            message = f"the id `{short_line(name)}` has {what} in it"
            self.problems.add(there, message, "For example: build, or task-001.")
            return name.replace("/", "-")
        try:
            return check_step(name)
        except Invalid as error:
            self.problems.add(there, error.message.rstrip("."), error.hint)
            return name[:100]

    def _given(self, node: Node, kind: str) -> dict[str, Node]:
        """Return the keys that this kind of step may have. Others are wrong here, or everywhere."""
        out = {}
        for name, (key, value) in node.value.items():
            if name in KEYS[kind]:
                out[name] = value
            elif name in ACTIONS:
                pass  # a second action, which is reported
            elif name in ALL:
                homes = [_A.get(home, f"`{home}`") for home, keys in KEYS.items() if name in keys]
                message = f"`{name}` does not go with {_A.get(kind, f'`{kind}`')}"
                self.problems.add(key, message, f"It goes with {' or '.join(homes)}.")
            else:
                known = ALL if kind == "manual" else KEYS[kind]
                others = [word for word in known if word not in node.value]
                hint = nearest(name, others) or nearest(name, ALL) or f"Its keys are {', '.join(known)}."
                self.problems.add(key, f"unknown key `{short_line(name)}`", hint)
        return out

    # -- keys

    def _read(self, draft: StepDraft, given: dict[str, Node]) -> None:
        """Read the keys that mean the same in every kind of step."""
        for key, node in given.items():
            if key in _PLAIN:
                field, reader, options = _PLAIN[key]
                draft.fields[field] = getattr(self.values, reader)(node, key, **options)
            elif key in _TEMPLATES:
                draft.drop_site(key)
                draft.fields[key] = self._template(draft, node, key, _TEMPLATES[key])
            elif key in _LISTS_OF_TEMPLATES:
                mode, entries = _LISTS_OF_TEMPLATES[key], self.values.entries(node, key)
                draft.fields[key] = tuple(self._template(draft, entry, key, mode) for entry in entries)
            elif key in _OWN_READER:
                getattr(self, f"_{key}")(draft, node)

    def _template(self, draft: StepDraft, node: Node, key: str, mode: str) -> str:
        text = self.values.text(node, key)
        draft.site(key, key, node, text, mode)
        return text

    def _when(self, draft: StepDraft, node: Node) -> None:
        text = self._template(draft, node, "when", TEST)
        draft.fields["when"] = text if is_template(text) else f"{{{{ {text} }}}}"

    def _env(self, draft: StepDraft, node: Node) -> None:
        env = self.values.text_map(node, "env")
        for name in env:
            key, value = node.value[name]
            if not ENV_NAME.fullmatch(name):
                self.problems.add(key, f"`{short_line(name)}` cannot name an environment variable", ENV_NAMES)
            elif name.startswith("LEFTOFF_"):
                self.problems.add(key, f"`{name}` is set by leftoff itself", "Choose another name.")
            draft.drop_site(f"env.{name}")
            draft.site("env", f"env.{name}", value, env[name], TEXT)
        draft.fields["env"] = {**draft.fields.get("env", {}), **env}

    def _shell(self, draft: StepDraft, node: Node) -> None:
        read = self.values.texts if node.kind == "list" else self.values.text
        found = read(node, "shell")
        draft.fields["shell"] = list(found) if node.kind == "list" else found

    def _checkpoint(self, draft: StepDraft, node: Node) -> None:
        if node.kind == "bool":
            draft.fields["save"] = bool(node.value)
            return
        hint = "It is true, false, or a mapping."
        given = self.values.mapping(node, "checkpoint", tuple(_CHECKPOINT), hint)
        draft.fields.update(self.values.fields(given, _CHECKPOINT))

    def _retries(self, draft: StepDraft, node: Node) -> None:
        values = self.values
        if node.kind != "map":
            draft.fields["retries"] = durations.Retries(values.whole(node, "retries", least=0, default=0))
            return
        given = values.mapping(node, "retries", tuple(_RETRIES))
        if "max" not in given:
            message = "`retries` does not say how many: `max` is missing"
            self.problems.add(node, message, "For example: {max: 3, backoff: 2s}")
        draft.fields["retries"] = durations.Retries(**values.fields(given, _RETRIES))

    def _criteria(self, draft: StepDraft, node: Node) -> None:
        draft.fields["criteria"] = self.values.text_map(node, "criteria")
        for name, text in draft.fields["criteria"].items():
            draft.site("criteria", f"criteria.{name}", node.value[name][1], text, SHELL)

    # -- items

    def _foreach(self, draft: StepDraft, given: dict[str, Node]) -> None:
        fields = draft.fields
        if "matrix" in given:
            self._matrix(draft, given)
        elif "foreach" in given:
            fields["foreach"] = self._items(draft, given["foreach"])
        else:
            for name in ("as", "key", "max_parallel"):
                if name in given:
                    hint = "It is for a `foreach` or a phase. For the whole workflow, put it at the top."
                    key = draft.node.value[name][0]
                    self.problems.add(
                        key, f"`{name}` without `foreach`", hint if name == "max_parallel" else ""
                    )
            return
        if "key" in given:
            fields["key"] = self.values.text(given["key"], "key")
            if is_template(fields["key"]):
                draft.site("key", "key", given["key"], fields["key"], TEXT)
        if "as" in given:
            fields["item_name"] = name = self.values.text(given["as"], "as", default="item")
            if not _NAME.fullmatch(name):
                message = f"`{short_line(name)}` cannot name a variable"
                self.problems.add(given["as"], message, "Letters, digits and _, like `as: pdf`.")
            elif name in RESERVED:
                message = f"`{name}` is a name that templates have already"
                self.problems.add(given["as"], message, "Choose another name.")
        self._limit(draft, given)

    def _limit(self, draft: StepDraft, given: dict[str, Node]) -> None:
        """Read how many may run at once: of the items of a `foreach`, of the steps in a phase."""
        if "max_parallel" in given:
            limit = self.values.whole(given["max_parallel"], "max_parallel", least=1, default=1)
            draft.fields["max_parallel"] = limit

    def _matrix(self, draft: StepDraft, given: dict[str, Node]) -> None:
        """Read lists by name. The item is called `matrix`."""
        node = given["matrix"]
        if "foreach" in given:
            key = draft.node.value["foreach"][0]
            self.problems.add(key, "`foreach` and `matrix` at once", "Keep one of them.")
        draft.fields.update(foreach=Foreach("matrix", {}), item_name="matrix")
        if node.kind != "map" or not node.value:
            self.values.wrong(node, "matrix", "a mapping of names to lists", _A_MATRIX)
            return
        axes: dict[str, Any] = {}
        for name, (key, value) in node.value.items():
            if not _NAME.fullmatch(name):
                self.problems.add(
                    key, f"`{short_line(name)}` cannot name a variable", "Letters, digits and _."
                )
            if (value.kind == "list" and value.value) or value.kind == "text":
                axes[name] = self._items(draft, value).value
            else:
                self.values.wrong(value, name, "a list", _A_MATRIX)
        draft.fields["foreach"] = Foreach("matrix", axes)

    def _items(self, draft: StepDraft, node: Node) -> Foreach:
        if node.kind == "list":
            for entry in node.value:
                if entry.kind == "text":
                    draft.site("foreach", "foreach", entry, entry.text, TEXT, item=False)
            return Foreach("list", self.values.json(node, "foreach"))
        if node.kind in ("int", "float", "bool"):
            self.problems.add(node, f"`foreach: {node.text}` is not a list", "Write foreach: [1, 2, 3]")
            return Foreach("list", [])
        if node.kind != "map":
            text = self.values.text(node, "foreach")
            if not is_template(text) and ("*" in text or "?" in text):
                quoted = f'"{short_line(text)}"'
                self.problems.add(
                    node, f"`foreach: {quoted}` is a pattern", f"Write foreach: {{glob: {quoted}}}"
                )
                return Foreach("list", [])
            draft.site("foreach", "foreach", node, text, EXPRESSION, item=False)
            return Foreach("variable", text)
        kinds = {"glob": TEXT, "lines": TEXT, "command": SHELL, "list": TEXT, "variable": EXPRESSION}
        given = self.values.mapping(node, "foreach", (*kinds, "allow_empty"))
        flag = given.pop("allow_empty", None)
        allow_empty = flag is not None and self.values.flag(flag, "allow_empty", default=False)
        if len(given) != 1:
            if given or not node.value:
                message = "`foreach` takes its items from one place"
                self.problems.add(node, message, "One of glob, lines, command.")
            return Foreach("list", [])
        ((kind, value),) = given.items()
        if kind == "list":
            return self._items(draft, value)
        text = self.values.text(value, kind)
        draft.site("foreach", f"foreach.{kind}", value, text, kinds[kind], item=False)
        return Foreach(kind, text, allow_empty)  # type: ignore[arg-type]  # one of its kinds

    # -- actions

    def _python(self, draft: StepDraft, node: Node) -> None:
        name = draft.fields["python"] = self.values.text(node, "python")
        if name and not _FUNCTION.fullmatch(name):
            message = f"`{short_line(name)}` does not name a function"
            self.problems.add(node, message, "Write module:function, like tools.index:build.")

    def _with(self, draft: StepDraft, node: Node) -> None:
        if node.kind != "map":
            example = "For example: with: {folder: out}"
            self.values.wrong(node, "with", "a mapping of arguments", example)
            return
        draft.fields["args"] = self.values.json(node, "with") or {}
        self._arguments(draft, node, "with")

    def _arguments(self, draft: StepDraft, node: Node, name: str) -> None:
        """Note every text in the arguments of a function as a template."""
        if node.kind == "map":
            for key, (_, value) in node.value.items():
                self._arguments(draft, value, f"{name}.{key}")
        elif node.kind == "list":
            for entry in node.value:
                self._arguments(draft, entry, name)
        elif node.kind == "text":
            draft.site("with", name, node, node.text, TEXT)

    def _agent(self, draft: StepDraft, given: dict[str, Node]) -> None:
        values, problems = self.values, self.problems
        names = [name for name in ("agent", *AGENT) if name in given]
        draft.fields["agent"] = {name: values.json(given[name], name) for name in names}
        if not names:
            return  # it was misspelt, which is reported
        if "agent" not in given and "agents" not in given:
            problems.add(draft.node, "a prompt without an agent", "Say whose it is: `agent: claude`.")
        prompted = "prompt" in given or "prompt_file" in given
        if not prompted and not problems.suggests("prompt", draft.node.line):
            problems.add(draft.node, "an agent without a prompt", "Give it a `prompt`, or a `prompt_file`.")
        for name in ("prompt", "prompt_file"):
            if name in given:
                self._template(draft, given[name], name, TEXT)
        for one, other in (("agent", "agents"), ("prompt", "prompt_file")):
            if one in given and other in given:
                key = draft.node.value[other][0]
                problems.add(key, f"`{one}` and `{other}` at once", "Keep one of them.")
        if "agent" in given and given["agent"].kind == "list":
            values.wrong(given["agent"], "agent", "text", "Several are `agents: [claude, codex]`.")
        elif "agent" in given:
            values.text(given["agent"], "agent")
        if "agents" in given and given["agents"].kind == "list" and not given["agents"].value:
            problems.add(given["agents"], "`agents` is empty", "For example: [claude, codex]")
        if values.fields(given, _AGENT).get("budget") == 0:
            problems.add(given["budget"], "`budget` cannot be 0", "Leave it out for none.")
        for name in ("model", "permissions"):  # for all agents, or for each its own
            if name in given and given[name].kind == "map":
                for agent, (_, value) in given[name].value.items():
                    values.text(value, f"{name}.{agent}")
            elif name in given:
                values.text(given[name], name)

    def _approval(self, draft: StepDraft, node: Node) -> None:
        if node.kind != "map":
            draft.fields["approval"] = Approval(self._template(draft, node, "approval", TEXT))
            return
        given = self.values.mapping(node, "approval", ("ask", "options"))
        ask = self._template(draft, given["ask"], "ask", TEXT) if "ask" in given else ""
        if "ask" not in given and not self.problems.suggests("ask", node.line):
            message = "an approval without a question: `ask` is missing"
            self.problems.add(node, message, "For example: {ask: Publish it?}")
        draft.fields["approval"] = Approval(ask)
        if "options" not in given:
            return
        options = self.values.texts(given["options"], "options")
        if len(set(options)) != len(options):
            self.problems.add(given["options"], "an option is there twice", "")
        elif not [option for option in options if option != REJECT]:
            message = "no option approves"
            self.problems.add(given["options"], message, f"For example: [{APPROVE}, {REJECT}]")
        draft.fields["approval"] = Approval(ask, options)
