"""Steps of a file, as drafts: their own words, and what they take over from ``defaults`` and the phases around them."""

from __future__ import annotations

import re

from leftoff.errors import Invalid
from leftoff.model.ids import check_step
from leftoff.workflow.definition.drafts import STAND_IN, Draft, Inherited
from leftoff.workflow.definition.model import Retries
from leftoff.workflow.definition.parse_actions import AGENT, Actions
from leftoff.workflow.definition.parse_values import Values, shown
from leftoff.workflow.definition.problems import nearest
from leftoff.workflow.template.template_words import SHELL, TEST, TEXT, Site, is_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.workflow.definition.source import Node

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
