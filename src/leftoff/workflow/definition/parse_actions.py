"""What a step does, and for which items: ``run``, ``python``, ``agent``, ``approval`` and ``foreach``."""

from __future__ import annotations

import re

from leftoff.workflow.definition.drafts import Draft
from leftoff.workflow.definition.model import APPROVE, REJECT, Approval, Foreach
from leftoff.workflow.definition.parse_values import Values, shown
from leftoff.workflow.template.template_words import EXPRESSION, RESERVED, SHELL, TEXT, Site, is_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.workflow.definition.source import Node

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
