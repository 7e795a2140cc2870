"""Steps of a file."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

from leftoff.errors import Invalid
from leftoff.model.codec import encode
from leftoff.model.fields import Fields
from leftoff.model.ids import check_step
from leftoff.workflow.definition import durations
from leftoff.workflow.definition.model import APPROVE, REJECT, Approval, Foreach, Retries
from leftoff.workflow.definition.source import Node, Problems, nearest
from leftoff.workflow.template.templates import EXPRESSION, RESERVED, SHELL, TEST, TEXT, Site, is_template

# ==== definition/parse_values

_CALLED = {
    "map": "a mapping",
    "list": "a list",
    "text": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


_LISTS = {
    "secrets": "Only names, as in [GITHUB_TOKEN]: the values come from the environment.",
    "outputs": "For example: [out/index.html]",
    "checks": 'For example: ["test -s out/index.html"]',
    "needs": "For example: [build, test], or [] for nothing.",
}


def called(node: Node) -> str:
    """What a node is, in words."""
    return f"`{shown(node.text)}`" if node.scalar and node.text else _CALLED[node.kind]


def shown(text: str) -> str:
    """Text as a message can hold it: one line, not endless."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}…"


class Values:
    """Readers for every type of value. Each gives a value of that type, whatever it finds."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.unsure = False  # something is missing that variables or steps may hang on

    def wrong(self, node: Node, what: str, form: str, hint: str = "") -> None:
        self.problems.add(node, f"`{what}` must be {form}, not {called(node)}", hint)

    def mapping(self, node: Node, what: str, known: Collection[str], hint: str = "") -> dict[str, Node]:
        """The values of a mapping by key; a key that is not known is an error that names the nearest one."""
        if node.kind != "map":
            self.wrong(node, what, "a mapping", hint or f"Its keys are {', '.join(known)}.")
            return {}
        out = {}
        for name, (key, value) in node.value.items():
            if name in known:
                out[name] = value
            else:
                self.problems.add(
                    key,
                    f"unknown key `{shown(name)}`" + (f" in `{what}`" if what else ""),
                    nearest(name, known) or f"Its keys are {', '.join(known)}.",
                )
        return out

    def text(self, node: Node, what: str, *, default: str = "") -> str:
        """Text, and a number or truth value as it was written."""
        if not node.scalar:
            several = "Several commands are a block, `run: |`, a line each."
            self.wrong(node, what, "text", several if what == "run" and node.kind == "list" else "")
        elif node.kind == "null" or not node.text.strip():
            self.problems.add(node, f"`{what}` is empty", "Give it a value, or leave the key out.")
        else:
            return node.text
        return default

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """A list of texts, or a single one."""
        return tuple(self.text(entry, what) for entry in self.entries(node, what))

    def entries(self, node: Node, what: str) -> list[Node]:
        """The entries of a list; a single text is a list of one."""
        if node.kind == "list":
            return list(node.value)
        if node.kind in ("map", "null"):
            self.wrong(node, what, "a list", _LISTS.get(what, ""))
            return []
        return [node]

    def text_map(self, node: Node, what: str) -> dict[str, str]:
        """A mapping from names to texts, of which each may be empty."""
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
        self.wrong(
            node,
            what,
            f"a whole number from {least} on"
            if node.kind != "int" or node.value < least
            else f"at most {most:,}",
        )
        return default

    def number(self, node: Node, what: str, *, least: float, default: float) -> float:
        if node.kind in ("int", "float") and least <= node.value < math.inf:
            return float(node.value)
        self.wrong(node, what, f"a number from {least:g} on")
        return default

    def duration(self, node: Node, what: str, *, zero: bool = False) -> float | None:
        """Seconds, or None where it is wrong."""
        if not node.scalar or node.kind in ("null", "bool"):
            self.wrong(node, what, "a duration", durations.FORM)
            return None
        try:
            length = durations.seconds(node.text)
        except ValueError as error:
            near = durations.meant(node.text)
            self.problems.add(node, f"{what}: {error}", f"Did you mean `{near}`?" if near else durations.FORM)
            return None
        if length == 0 and not zero:
            self.problems.add(node, f"`{what}` cannot be 0", "Leave it out for none.")
            return None
        return length

    def choice(self, node: Node, what: str, known: Collection[str], default: str) -> str:
        if node.scalar and node.text in known:
            return node.text
        hint = nearest(node.text, known) if node.scalar else ""
        self.wrong(node, what, f"one of {', '.join(known)}", hint)
        return default

    def json(self, node: Node, what: str) -> Any:
        """Any value that can be kept."""
        value = node.plain()
        try:
            encode(value, f"`{what}`")
        except Invalid as error:
            self.problems.add(node, error.message.rstrip("."), error.hint)
            return None
        return value


# ==== definition/drafts

# In an id that cannot be used: the file is wrong, and reading goes on for the sake of other errors.
STAND_IN = "\0"


class Draft:
    """What was read of a step so far."""

    def __init__(self, node: Node, path: str, kind: str) -> None:
        self.node = node
        self.path = path
        self.fields: dict[str, Any] = {"path": path, "kind": kind, "line": node.line, "column": node.column}
        self.needs: Node | None = None
        self.children: list[Draft] = []
        self.sites: list[Site] = []

    @property
    def id(self) -> str:
        return str(self.fields["id"])


class Inherited(Fields):
    """What a step has unless it says otherwise: from ``defaults``, then from each phase around it."""

    fields: dict[str, Any]
    sites: dict[str, list[Site]]

    def below(self, draft: Draft) -> Inherited:
        """The same for what is inside a phase."""
        names = ["on_failure", "env", "cwd"]
        passed = {name: draft.fields[name] for name in names if name in draft.fields}
        own: dict[str, list[Site]] = {}
        for site in draft.sites:
            if site.key in ("env", "cwd"):
                own.setdefault(site.key, []).append(site)
        return Inherited({**self.fields, **passed}, {**self.sites, **own})


# ==== definition/parse_actions

AGENT = ("agents", "prompt", "prompt_file", "model", "turns", "budget", "permissions", "tools")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_A_MATRIX = "For example: matrix: {system: [linux, mac], python: ['3.11', '3.12']}"
_NAME = re.compile(r"[^\W\d]\w*")


class Actions:
    """Reads into drafts, and notes every template on the way."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.problems = values.problems

    def foreach(self, draft: Draft, given: dict[str, Node]) -> None:
        fields = draft.fields
        if "matrix" in given:
            self._matrix(draft, given)
        elif "foreach" not in given:
            for name in ("as", "key", "max_parallel"):
                if name in given:
                    key = draft.node.value[name][0]
                    hint = "It is for a `foreach` or a phase. For the whole workflow, it stands at the top."
                    self.problems.add(
                        key, f"`{name}` without `foreach`", hint if name == "max_parallel" else ""
                    )
            return
        else:
            fields["foreach"] = self._items(draft, given["foreach"])
        if "key" in given:
            fields["key"] = self.values.text(given["key"], "key")
            if is_template(fields["key"]):
                draft.sites.append(Site(draft.path, "key", "key", given["key"], fields["key"], TEXT))
        if "as" in given:
            fields["item_name"] = self._item_name(given["as"])
        self.limit(draft, given)

    def _matrix(self, draft: Draft, given: dict[str, Node]) -> None:
        """Lists by name; the item is called `matrix`."""
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
                self.problems.add(key, f"`{shown(name)}` cannot name a variable", "Letters, digits and _.")
            if (value.kind == "list" and value.value) or value.kind == "text":
                axes[name] = self._items(draft, value).value
            else:
                self.values.wrong(value, name, "a list", _A_MATRIX)
        draft.fields["foreach"] = Foreach("matrix", axes)

    def limit(self, draft: Draft, given: dict[str, Node]) -> None:
        """How many may run at once: of the items of a `foreach`, of the steps in a phase."""
        if "max_parallel" in given:
            draft.fields["max_parallel"] = self.values.whole(
                given["max_parallel"], "max_parallel", least=1, default=1
            )

    def _item_name(self, node: Node) -> str:
        name = self.values.text(node, "as", default="item")
        if not _NAME.fullmatch(name):
            self.problems.add(
                node, f"`{shown(name)}` cannot name a variable", "Letters, digits and _, like `as: pdf`."
            )
        elif name in RESERVED:
            self.problems.add(node, f"`{name}` is a name that templates have already", "Choose another name.")
        return name

    def _items(self, draft: Draft, node: Node) -> Foreach:
        if node.kind == "list":
            for entry in node.value:
                if entry.kind == "text":
                    draft.sites.append(
                        Site(draft.path, "foreach", "foreach", entry, entry.text, TEXT, item=False)
                    )
            return Foreach("list", self.values.json(node, "foreach"))
        if node.kind == "map":
            return self._source(draft, node)
        text = self.values.text(node, "foreach")
        draft.sites.append(Site(draft.path, "foreach", "foreach", node, text, EXPRESSION, item=False))
        return Foreach("variable", text)

    def _source(self, draft: Draft, node: Node) -> Foreach:
        kinds = {"glob": TEXT, "lines": TEXT, "command": SHELL, "list": TEXT, "variable": EXPRESSION}
        given = self.values.mapping(node, "foreach", (*kinds, "allow_empty"))
        flag = given.pop("allow_empty", None)
        allow_empty = flag is not None and self.values.flag(flag, "allow_empty", default=False)
        if len(given) != 1:
            if given or not node.value:
                self.problems.add(
                    node, "`foreach` takes its items from one place", "One of glob, lines, command."
                )
            return Foreach("list", [])
        ((kind, value),) = given.items()
        if kind == "list":
            return self._items(draft, value)
        text = self.values.text(value, kind)
        draft.sites.append(
            Site(draft.path, "foreach", f"foreach.{kind}", value, text, kinds[kind], item=False)
        )
        return Foreach(kind, text, allow_empty)  # type: ignore[arg-type]  # one of its kinds

    def action(self, draft: Draft, given: dict[str, Node], kind: str) -> None:
        if kind == "run" and "run" in given:
            draft.fields["run"] = self.template(draft, given["run"], "run", SHELL)
        elif kind == "python" and "python" in given:
            self._python(draft, given)
        elif kind == "agent":
            self._agent(draft, given)
        elif kind == "approval" and "approval" in given:
            draft.fields["approval"] = self._approval(draft, given["approval"])

    def _python(self, draft: Draft, given: dict[str, Node]) -> None:
        node = given["python"]
        name = self.values.text(node, "python")
        if name and not _MODULE.fullmatch(name):
            self.problems.add(
                node,
                f"`{shown(name)}` does not name a function",
                "Write module:function, like tools.index:build.",
            )
        draft.fields["python"] = name
        if "with" not in given:
            return
        if given["with"].kind != "map":
            self.values.wrong(
                given["with"], "with", "a mapping of arguments", "For example: with: {folder: out}"
            )
            return
        draft.fields["args"] = self.values.json(given["with"], "with") or {}
        self._inside(draft, given["with"], "with")

    def _agent(self, draft: Draft, given: dict[str, Node]) -> None:
        names = [name for name in ("agent", *AGENT) if name in given]
        draft.fields["agent"] = {name: self.values.json(given[name], name) for name in names}
        if not names or (names == ["agents"] and "agents" not in given):
            return  # it was misspelt, which is told
        if "agent" not in given and "agents" not in given:
            self.problems.add(draft.node, "a prompt without an agent", "Say whose it is: `agent: claude`.")
        prompted = "prompt" in given or "prompt_file" in given
        if not prompted and not self.problems.suggests("prompt", draft.node.line):
            self.problems.add(
                draft.node, "an agent without a prompt", "Give it a `prompt`, or a `prompt_file`."
            )
        for name in ("prompt", "prompt_file"):
            if name in given:
                self.template(draft, given[name], name, TEXT)
        for one, other in (("agent", "agents"), ("prompt", "prompt_file")):
            if one in given and other in given:
                key = draft.node.value[other][0]
                self.problems.add(key, f"`{one}` and `{other}` at once", "Keep one of them.")
        self._agents(given)
        self._limits(given)

    def _agents(self, given: dict[str, Node]) -> None:
        """Names, of which the agents layer knows what they stand for."""
        if "agent" in given:
            several = "Several are `agents: [claude, codex]`." if given["agent"].kind == "list" else ""
            if several:
                self.values.wrong(given["agent"], "agent", "text", several)
            else:
                self.values.text(given["agent"], "agent")
        if "agents" in given:
            node = given["agents"]
            if node.kind == "list" and not node.value:
                self.problems.add(node, "`agents` is empty", "For example: [claude, codex]")
            for entry in self.values.entries(node, "agents"):
                self.values.text(entry, "agents")

    def _limits(self, given: dict[str, Node]) -> None:
        if "turns" in given:
            self.values.whole(given["turns"], "turns", least=1, default=1)
        if "budget" in given and self.values.number(given["budget"], "budget", least=0, default=1) == 0:
            self.problems.add(given["budget"], "`budget` cannot be 0", "Leave it out for none.")
        for name in ("model", "permissions"):  # for all agents, or for each its own
            if name in given and given[name].kind == "map":
                for agent, (_, value) in given[name].value.items():
                    self.values.text(value, f"{name}.{agent}")
            elif name in given:
                self.values.text(given[name], name)
        if "tools" in given:
            self.values.texts(given["tools"], "tools")

    def _inside(self, draft: Draft, node: Node, name: str) -> None:
        """Every text in a value is a template."""
        if node.kind == "map":
            for key, (_, value) in node.value.items():
                self._inside(draft, value, f"{name}.{key}")
        elif node.kind == "list":
            for entry in node.value:
                self._inside(draft, entry, name)
        elif node.kind == "text":
            draft.sites.append(Site(draft.path, "with", name, node, node.text, TEXT))

    def _approval(self, draft: Draft, node: Node) -> Approval:
        if node.kind != "map":
            return Approval(self.template(draft, node, "approval", TEXT))
        given = self.values.mapping(node, "approval", ("ask", "options"))
        ask = self.template(draft, given["ask"], "ask", TEXT) if "ask" in given else ""
        if "ask" not in given and not self.problems.suggests("ask", node.line):
            self.problems.add(
                node, "an approval without a question: `ask` is missing", "For example: {ask: Publish it?}"
            )
        if "options" not in given:
            return Approval(ask)
        options = self.values.texts(given["options"], "options")
        if len(set(options)) != len(options):
            self.problems.add(given["options"], "an option is there twice", "")
        elif not [option for option in options if option != REJECT]:
            self.problems.add(
                given["options"], "there is no way to say yes", f"For example: [{APPROVE}, {REJECT}]"
            )
        return Approval(ask, options)

    def template(self, draft: Draft, node: Node, key: str, mode: str) -> str:
        text = self.values.text(node, key)
        draft.sites.append(Site(draft.path, key, key, node, text, mode))
        return text

    def templates(self, draft: Draft, node: Node, key: str, mode: str) -> tuple[str, ...]:
        return tuple(self.template(draft, entry, key, mode) for entry in self.values.entries(node, key))


# ==== definition/parse_step

ACTIONS = ("run", "python", "agent", "approval", "steps")
_ABOUT = ("id", "step", "type", "title", "description", "instructions", "needs", "when", "on_failure")
_PLACE = ("env", "cwd")
_END = ("estimate", "checkpoint")
_WORK = (
    *(
        "inputs",
        "outputs",
        "cache",
        "checks",
        "criteria",
        "shell",
        *_PLACE,
        "foreach",
        "matrix",
        "key",
        "as",
        "max_parallel",
    ),
    *("timeout", "retries", "idempotent", *_END),
)
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
_A = {"approval": "an approval", "manual": "a manual step", "phase": "a phase", "agent": "an agent step"}
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Steps:
    """Reads steps; the drafts are in the order of the file."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.problems = values.problems
        self.actions = Actions(values)

    def defaults(self, node: Node | None) -> Inherited:
        if node is None:
            return Inherited({}, {})
        draft = Draft(node, "", "run")
        given = self.values.mapping(node, "defaults", DEFAULTS)
        self._common(draft, given, Inherited({}, {}))
        self._work(draft, given)
        for name in ("path", "kind", "line", "column"):
            del draft.fields[name]
        sites: dict[str, list[Site]] = {}
        for site in draft.sites:
            sites.setdefault(site.key, []).append(site)
        return Inherited(draft.fields, sites)

    def all(self, node: Node, inherited: Inherited, parent: str = "") -> list[Draft]:
        """The steps of a list, and those inside them."""
        if node.kind != "list":
            self.values.wrong(node, "steps", "a list of steps", _A_STEP)
            self.values.unsure = True
            return []
        if not node.value:
            self.problems.add(node, "`steps` is empty", "A workflow, and a phase, has at least one step.")
        drafts: list[Draft] = []
        seen: dict[str, Node] = {}
        for entry in node.value:
            if entry.kind == "map":
                drafts.append(self.one(entry, inherited, parent, seen))
            else:
                self.values.wrong(entry, "steps", "a list of mappings", _A_STEP)
                self.values.unsure = True
        return drafts

    def one(self, node: Node, inherited: Inherited, parent: str, seen: dict[str, Node]) -> Draft:
        kind = self._kind(node)
        name = self._unique(node, self._id(node), seen)
        draft = Draft(node, f"{parent}/{name}" if parent else name, kind)
        draft.fields.update(id=name, parent=parent)
        given = self._given(node, kind)
        self._about(draft, given)
        self._common(draft, given, inherited)
        if kind in _WORKING:
            self._inherit(draft, inherited, ("retries", "timeout", "idempotent"))
            self.actions.foreach(draft, given)
        self._work(draft, given)
        if kind == "phase":
            self.actions.limit(draft, given)
            if "steps" in given:
                draft.children = self.all(given["steps"], inherited.below(draft), draft.path)
        else:
            self._leaf(draft, given)
            self.actions.action(draft, given, kind)
        return draft

    def _unique(self, node: Node, name: str, seen: dict[str, Node]) -> str:
        """The id; where it cannot be used, a stand-in that no message shows, so that reading can go on."""
        if seen.setdefault(name, node) is node:
            return name
        first = f"The first one is on line {seen[name].line}."
        self.problems.add(_id_node(node) or node, f"the id `{name}` is there twice", first)
        return f"{name}{STAND_IN}{node.line}:{node.column}"

    def _kind(self, node: Node) -> str:
        found = [action for action in (*ACTIONS, "agents") if action in node.value]
        if "agent" in found and "agents" in found:
            found.remove("agents")
        if len(found) > 1:
            key = node.value[found[1]][0]
            named = " and ".join(f"`{name}`" for name in found)
            self.problems.add(key, f"a step does one thing, and this has {named}", "Make it two steps.")
        if not found:
            agent = "prompt" in node.value or "prompt_file" in node.value
            found = ["agent"] if agent else [*self._misspelt(node), "manual"]
        return {"steps": "phase", "agents": "agent"}.get(found[0], found[0])

    def _misspelt(self, node: Node) -> list[str]:
        """What a step was meant to do, so that one wrong word is one problem."""
        near = (
            nearest(key, ACTIONS).partition("`")[2].partition("`")[0] for key in node.value if key not in ALL
        )
        return [action for action in near if action]

    def _id(self, node: Node) -> str:
        found = _id_node(node)
        if found is None:
            # Unless it was misspelt.
            if not any(nearest(key, ("id",)) for key in node.value if key not in ALL):
                self.problems.add(node, "a step without an `id`", "Every step has one: `- id: build`.")
            return f"{STAND_IN}{node.line}:{node.column}"
        if "id" in node.value and "step" in node.value:
            key = node.value["step"][0]
            self.problems.add(key, "`step` and `id` are two words for one thing", "Keep `id`.")
        stand_in = f"{STAND_IN}{node.line}:{node.column}"
        name = self.values.text(found, "id", default=stand_in)
        if name == stand_in:
            return name
        if "/" in name or not name.isprintable() or name != name.strip():
            what = "a slash" if "/" in name else "a character that cannot be seen, or a blank at an end"
            self.problems.add(
                found, f"the id `{shown(name)}` has {what} in it", "For example: build, or task-001."
            )
            return name.replace("/", "-")
        try:
            return check_step(name)
        except Invalid as error:
            self.problems.add(found, error.message.rstrip("."), error.hint)
            return name[:100]

    def _given(self, node: Node, kind: str) -> dict[str, Node]:
        """The keys that this kind of step may have; others are wrong here, or everywhere."""
        out = {}
        for name, (key, value) in node.value.items():
            if name in KEYS[kind]:
                out[name] = value
            elif name in ALL:
                if name not in ACTIONS:
                    self.problems.add(
                        key, f"`{name}` does not go with {_A.get(kind, f'`{kind}`')}", _belongs(name)
                    )
            else:
                keys = ALL if kind == "manual" else KEYS[kind]
                others = [known for known in keys if known not in node.value]
                hint = nearest(name, others) or nearest(name, ALL) or f"Its keys are {', '.join(keys)}."
                self.problems.add(key, f"unknown key `{shown(name)}`", hint)
        return out

    def _about(self, draft: Draft, given: dict[str, Node]) -> None:
        values, fields = self.values, draft.fields
        for key, name in (("title", "title"), ("type", "label"), ("description", "description")):
            if key in given:
                fields[name] = values.text(given[key], key)
        if "instructions" in given:
            fields["instructions"] = self.actions.template(draft, given["instructions"], "instructions", TEXT)
        draft.needs = given.get("needs")
        if "when" in given:
            text = self.actions.template(draft, given["when"], "when", TEST)
            fields["when"] = text if is_template(text) else f"{{{{ {text} }}}}"

    def _common(self, draft: Draft, given: dict[str, Node], inherited: Inherited) -> None:
        """What a phase hands down."""
        fields = draft.fields
        self._inherit(draft, inherited, ("on_failure", "env", "cwd", "shell", "save", "persist"))
        if "on_failure" in given:
            fields["on_failure"] = self.values.choice(given["on_failure"], "on_failure", ON_FAILURE, "stop")
        if "env" in given:
            fields["env"] = {**fields.get("env", {}), **self._env(draft, given["env"])}
        if "cwd" in given:
            draft.sites = [site for site in draft.sites if site.key != "cwd"]
            fields["cwd"] = self.actions.template(draft, given["cwd"], "cwd", TEXT)
        if "shell" in given:
            node = given["shell"]
            fields["shell"] = (
                list(self.values.texts(node, "shell"))
                if node.kind == "list"
                else self.values.text(node, "shell")
            )
        if "checkpoint" in given:
            self._checkpoint(fields, given["checkpoint"])

    def _inherit(self, draft: Draft, inherited: Inherited, names: tuple[str, ...]) -> None:
        for name in names:
            if name in inherited.fields and not (
                draft.fields["kind"] == "phase" and name in ("save", "persist", "shell")
            ):
                draft.fields[name] = inherited.fields[name]
                draft.sites += [site.within(draft.path) for site in inherited.sites.get(name, ())]

    def _env(self, draft: Draft, node: Node) -> dict[str, str]:
        env = self.values.text_map(node, "env")
        for name in env:
            key, value = node.value[name]
            if not _ENV.fullmatch(name):
                self.problems.add(key, f"`{shown(name)}` cannot name an environment variable", _ENV_NAMES)
            elif name.startswith("LEFTOFF_"):
                self.problems.add(key, f"`{name}` is set by leftoff itself", "Choose another name.")
            draft.sites = [site for site in draft.sites if site.name != f"env.{name}"]
            draft.sites.append(Site(draft.path, "env", f"env.{name}", value, env[name], TEXT))
        return env

    def _checkpoint(self, fields: dict[str, Any], node: Node) -> None:
        if node.kind == "bool":
            fields["save"] = bool(node.value)
            return
        given = self.values.mapping(
            node, "checkpoint", ("save", "variables_to_persist"), "It is true, false, or a mapping."
        )
        if "save" in given:
            fields["save"] = self.values.flag(given["save"], "save", default=True)
        if "variables_to_persist" in given:
            fields["persist"] = self.values.texts(given["variables_to_persist"], "variables_to_persist")

    def _work(self, draft: Draft, given: dict[str, Node]) -> None:
        fields, values = draft.fields, self.values
        if "timeout" in given:
            fields["timeout"] = values.duration(given["timeout"], "timeout")
        if "retries" in given:
            fields["retries"] = self._retries(given["retries"])
        if "idempotent" in given:
            fields["idempotent"] = values.flag(given["idempotent"], "idempotent", default=True)

    def _retries(self, node: Node) -> Retries:
        values = self.values
        if node.kind != "map":
            return Retries(values.whole(node, "retries", least=0, default=0))
        given = values.mapping(node, "retries", ("max", "backoff", "factor", "jitter"))
        if "max" not in given:
            self.problems.add(
                node,
                "`retries` does not say how many: `max` is missing",
                "For example: {max: 3, backoff: 2s}",
            )
        found: dict[str, Any] = {}
        if "max" in given:
            found["max"] = values.whole(given["max"], "max", least=0, default=0)
        if "backoff" in given:
            found["backoff"] = values.duration(given["backoff"], "backoff", zero=True) or 0.0
        if "factor" in given:
            found["factor"] = values.number(given["factor"], "factor", least=1, default=1)
        if "jitter" in given:
            found["jitter"] = values.flag(given["jitter"], "jitter", default=True)
        return Retries(**found)

    def _leaf(self, draft: Draft, given: dict[str, Node]) -> None:
        fields, values = draft.fields, self.values
        if "estimate" in given:
            fields["estimate"] = values.duration(given["estimate"], "estimate", zero=True)
        if "inputs" in given:
            fields["inputs"] = self.actions.templates(draft, given["inputs"], "inputs", TEXT)
        if "cache" in given:
            fields["cache"] = values.flag(given["cache"], "cache", default=False)
        if "outputs" in given:
            fields["outputs"] = self.actions.templates(draft, given["outputs"], "outputs", TEXT)
        if "checks" in given:
            fields["checks"] = self.actions.templates(draft, given["checks"], "checks", SHELL)
        if "criteria" in given:
            fields["criteria"] = values.text_map(given["criteria"], "criteria")
            for name, text in fields["criteria"].items():
                value = given["criteria"].value[name][1]
                draft.sites.append(Site(draft.path, "criteria", f"criteria.{name}", value, text, SHELL))


_A_STEP = "Each entry of the list is a step: `- id: build`, and below it `run: make`."
_ENV_NAMES = "Letters, digits and _, not starting with a digit."


def _id_node(node: Node) -> Node | None:
    return node.get("id") or node.get("step") if node.kind == "map" else None


def _belongs(name: str) -> str:
    """What a key goes with."""
    homes = [_A.get(kind, f"`{kind}`") for kind, keys in KEYS.items() if name in keys]
    return f"It goes with {' or '.join(homes)}."
