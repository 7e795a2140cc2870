"""JSON as people write it, with comments and trailing commas: where in a text each value, comma and comment is."""

from __future__ import annotations

import json
import re
from typing import Any

from leftoff.errors import Invalid

OBJECT, ARRAY, VALUE = "object", "array", "value"
_BLANK = re.compile(r"[\s\ufeff]+")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WORD = re.compile(r"[^\s,\]}:/]+")


class Node:
    """A value: where it is, and what is in it. ``start`` is that of the member, its key included."""

    def __init__(self, kind: str, at: int, key: str | None, start: int) -> None:
        self.kind = kind
        self.key = key
        self.start = start if key is not None else at
        self.at = at  # where the value itself starts
        self.end = at
        self.comma: int | None = None  # the one behind it
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
        self.at = 0
        self.comments: list[tuple[int, int]] = []

    def wrong(self, what: str) -> Invalid:
        return wrong_at(self.text, self.path, self.at, what)

    def blank(self) -> str:
        """Go to whatever comes next that is neither blank nor a comment; its first character."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            if blank is not None:
                self.at = blank.end()
            char = self.text[self.at : self.at + 1]
            comment = _COMMENT.match(self.text, self.at) if char == "/" else None
            if comment is None:
                return char
            self.comments.append(comment.span())
            self.at = comment.end()

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self.wrong("a text in quotes is expected here")
        read = found.group()[1:-1]
        if "\\" in read:
            try:
                read = str(json.loads(found.group(), strict=False))
            except ValueError:
                raise self.wrong("this is not JSON text") from None
        self.at = found.end()
        return read

    def node(self, depth: int = 0, key: str | None = None, start: int = 0) -> Node:
        char = self.blank()
        if depth > 100:
            raise self.wrong("this is nested too deeply")
        if char in ("{", "["):
            return self._container(OBJECT if char == "{" else ARRAY, depth, key, start)
        made = Node(VALUE, self.at, key, start)
        if char == '"':
            made.value = self.string()
        else:
            found = _WORD.match(self.text, self.at)
            if found is None:
                raise self.wrong("a value is expected here")
            try:
                made.value = json.loads(found.group())
            except ValueError:
                raise self.wrong(f"{found.group()[:40]} is not a JSON value") from None
            self.at = found.end()
        made.end = self.at
        return made

    def _container(self, kind: str, depth: int, key: str | None, start: int) -> Node:
        made = Node(kind, self.at, key, start)
        close = "}" if kind == OBJECT else "]"
        self.at += 1
        while self.blank() != close:
            begin, name = self.at, None
            if kind == OBJECT:
                name = self.string()
                if self.blank() != ":":
                    raise self.wrong("a colon is expected here")
                self.at += 1
            item = self.node(depth + 1, name, begin)
            made.items.append(item)
            char = self.blank()
            if char == ",":
                item.comma = self.at
                self.at += 1
            elif char != close:
                raise self.wrong(f"a comma or {close} is expected here")
        self.at += 1
        made.end = self.at
        return made


def wrong_at(text: str, path: str, at: int, what: str) -> Invalid:
    """What is wrong, with the line and the column."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return wrong(f"{path}:{line}:{column}", what)


def wrong(where: str, what: str) -> Invalid:
    return Invalid(f"{where}: {what}.", hint="Nothing was changed. Correct the file first.")


def parse(text: str, path: str) -> tuple[Node, list[tuple[int, int]]]:
    """The object that a text holds, and its comments; ``Invalid`` says where it holds none."""
    parser = _Parser(text, path)
    root = parser.node()
    if parser.blank():
        raise parser.wrong("there is more after the end")
    if root.kind != OBJECT:
        raise wrong_at(text, path, root.at, "an object in braces is expected here")
    return root, parser.comments


def comments_of(blank: str) -> list[str]:
    """The comments of a text that holds nothing else."""
    return _COMMENT.findall(blank)
