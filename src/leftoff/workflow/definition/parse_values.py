"""Nodes as the values that a key takes. What does not fit is noted with its place, and reading goes on."""

from __future__ import annotations

import math

from leftoff.errors import Invalid
from leftoff.model.codec import encode
from leftoff.workflow.definition import durations
from leftoff.workflow.definition.problems import Problems, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from leftoff.workflow.definition.source import Node

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
