"""JSON as people write it, with comments and trailing commas: where in a text each value is."""

from __future__ import annotations

import json
import re
from typing import Any

from leftoff.errors import Invalid

OBJECT, ARRAY, VALUE = "object", "array", "value"
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD = re.compile(r"[^\s,\]}:/]+")


class Node:
    """A value: where it starts and ends, and what is in it."""

    __slots__ = ("end", "items", "key", "kind", "start", "value")

    def __init__(self, kind: str, start: int, key: str | None, at: int) -> None:
        self.kind = kind
        self.key = key
        self.start = at if key is not None else start  # of the member, its key included
        self.end = start
        self.items: list[Node] = []
        self.value: Any = None

    def get(self, key: str) -> Node | None:
        """The member of that name; the last one, as readers of JSON have it."""
        return next((node for node in reversed(self.items) if node.key == key), None)

    def plain(self) -> Any:
        """The value itself."""
        if self.kind == OBJECT:
            return {node.key: node.plain() for node in self.items}
        return [node.plain() for node in self.items] if self.kind == ARRAY else self.value


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.at = 1 if text.startswith("\ufeff") else 0

    def wrong(self, what: str) -> Invalid:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - self.text.rfind("\n", 0, self.at)
        return Invalid(
            f"{self.path}:{line}:{column}: {what}.", hint="Nothing was changed. Mend the file first."
        )

    def blank(self) -> str:
        found = _BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.text[self.at : self.at + 1]

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self.wrong("a text in quotes is expected here")
        self.at = found.end()
        try:
            return str(json.loads(found.group(), strict=False))
        except ValueError:
            raise self.wrong("this is no JSON text") from None

    def node(self, depth: int = 0, key: str | None = None, at: int = 0) -> Node:
        char = self.blank()
        if depth > 100:
            raise self.wrong("this is nested too deeply")
        if char in ("{", "["):
            return self._container(OBJECT if char == "{" else ARRAY, depth, key, at)
        made = Node(VALUE, self.at, key, at)
        if char == '"':
            made.value = self.string()
        else:
            found = _WORD.match(self.text, self.at)
            if found is None:
                raise self.wrong("a value is expected here")
            try:
                made.value = json.loads(found.group())
            except ValueError:
                raise self.wrong(f"{found.group()[:40]} is no JSON value") from None
            self.at = found.end()
        made.end = self.at
        return made

    def _container(self, kind: str, depth: int, key: str | None, at: int) -> Node:
        made = Node(kind, self.at, key, at)
        close = "}" if kind == OBJECT else "]"
        self.at += 1
        while self.blank() != close:
            start, name = self.at, None
            if kind == OBJECT:
                name = self.string()
                if self.blank() != ":":
                    raise self.wrong("a colon is expected here")
                self.at += 1
            made.items.append(self.node(depth + 1, name, start))
            char = self.blank()
            if char == ",":
                self.at += 1
            elif char != close:
                raise self.wrong(f"a comma or {close} is expected here")
        self.at += 1
        made.end = self.at
        return made


def parse(text: str, path: str) -> Node:
    """The object that a text holds; ``Invalid`` says where it holds none."""
    parser = _Parser(text, path)
    root = parser.node()
    if parser.blank():
        raise parser.wrong("there is more after the end")
    if root.kind != OBJECT:
        raise Invalid(f"{path} is no JSON object.", hint="Nothing was changed. Mend the file first.")
    return root
