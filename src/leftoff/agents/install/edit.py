"""Changing a JSON text in place: put something into an object or a list, and take it out again, byte for byte.

What is put in stands behind what is there, comma first; so taking it out leaves the bytes that were there, whatever was
added behind it meanwhile. Objects and lists that are made on the way are taken out when nothing is left in them.
"""

from __future__ import annotations

import json
from typing import Any

from leftoff.agents.install.jsonc import ARRAY, OBJECT, Node, parse
from leftoff.errors import Invalid


class Editor:
    """A JSON text that is being changed."""

    def __init__(self, text: str, path: str, before: Editor | None = None) -> None:
        self.text = text
        self.path = path
        self.before = before  # the text as it was without us, where that is known
        self._eol = "\r\n" if "\r\n" in text else "\n"
        self._unit = self._indent_of(self.root.items[0].start) if self.root.items else ""
        self._unit = self._unit or "  "

    @property
    def root(self) -> Node:
        return parse(self.text, self.path)

    def find(self, keys: tuple[str, ...]) -> Node | None:
        """The value at a path of keys."""
        node: Node | None = self.root
        for key in keys:
            node = node.get(key) if node is not None and node.kind == OBJECT else None
        return node

    # -- putting in

    def put(self, keys: tuple[str, ...], value: Any) -> None:
        """A member at a path of keys, and the objects around it; what is there already is replaced."""
        there = self.find(keys)
        if there is not None:
            self.replace(there, value, len(keys))
            return
        above = self._deepest(keys)
        for key in reversed(keys[len(above) + 1 :]):
            value = {key: value}
        self._into(above, json.dumps(keys[len(above)]) + ": ", value)

    def append(self, keys: tuple[str, ...], value: Any) -> None:
        """An entry of the list at a path of keys."""
        there = self.find(keys)
        if there is None:
            self.put(keys, [value])
        elif there.kind != ARRAY:
            raise Invalid(f"{self.path}: {'.'.join(keys)} is no list.", hint="Nothing was changed.")
        else:
            self._into(keys, "", value)

    def replace(self, node: Node, value: Any, depth: int) -> None:
        """Another value in the same place."""
        if node.plain() != value:
            head = f"{json.dumps(node.key)}: " if node.key is not None else ""
            new = head + self._written(value, self._unit * depth)
            self.text = self.text[: node.start] + new + self.text[node.end :]

    def _deepest(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The longest part of the path, short of its end, that is there."""
        for number in range(len(keys) - 1, -1, -1):
            node = self.find(keys[:number])
            if node is not None:
                if node.kind != OBJECT:
                    raise Invalid(
                        f"{self.path}: {'.'.join(keys[:number])} is no object.", hint="Nothing was changed."
                    )
                return keys[:number]
        raise AssertionError("the root is always there")

    def _into(self, keys: tuple[str, ...], head: str, value: Any) -> None:
        node = self.find(keys)
        assert node is not None
        indent = self._unit * (len(keys) + 1)
        if node.items:
            last = node.items[-1]
            indent = self._indent_of(node.items[0].start) or indent
            new = f",{self._eol}{indent}{head}{self._written(value, indent)}"
            self.text = self.text[: last.end] + new + self.text[last.end :]
            return
        inner = self._inner(node)
        before = self._unit * len(keys)
        new = f"{self._eol}{indent}{head}{self._written(value, indent)}{self._eol}{before}"
        comment = inner.rstrip() if inner.strip() else ""
        opened = self.text.index("{" if node.kind == OBJECT else "[", self._value_start(node)) + 1
        self.text = self.text[:opened] + comment + new + self.text[node.end - 1 :]

    def _value_start(self, node: Node) -> int:
        """Where the value itself starts, behind its key."""
        if node.key is None:
            return node.start
        return self.text.index(":", node.start + len(json.dumps(node.key)) - 1)

    def _inner(self, node: Node) -> str:
        opened = self.text.index("{" if node.kind == OBJECT else "[", self._value_start(node))
        return self.text[opened + 1 : node.end - 1]

    def _indent_of(self, at: int) -> str:
        """What stands before this place on its line, if that is blank."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return before if not before.strip() and "\n" in self.text[:at] else ""

    def _written(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self._unit, ensure_ascii=False).split("\n")
        return f"{self._eol}{indent}".join(lines)

    # -- taking out

    def take_out(self, keys: tuple[str, ...], index: int | None = None) -> None:
        """A member, or the entry of a list; then whatever was made only to hold it."""
        holder = self.find(keys if index is not None else keys[:-1])
        assert holder is not None
        node = holder.items[index] if index is not None else holder.get(keys[-1])
        assert node is not None
        place = holder.items.index(node)
        if len(holder.items) == 1:
            self._empty_out(keys if index is not None else keys[:-1], holder)
        else:
            self.cut(holder, place)

    def cut(self, holder: Node, place: int) -> None:
        """One of several entries of a list."""
        node = holder.items[place]
        if place > 0:
            self.text = self.text[: holder.items[place - 1].end] + self.text[node.end :]
        else:
            self.text = self.text[: node.start] + self.text[holder.items[1].start :]

    def _empty_out(self, keys: tuple[str, ...], holder: Node) -> None:
        """The last thing goes, and so does what held it, unless it was there before; the outermost object stays."""
        there = self.before.find(keys) if self.before is not None else None
        if keys and (there is None or there.items or there.kind != holder.kind):
            self.take_out(keys)
            return
        inner = self.before._inner(there) if self.before is not None and there is not None else ""
        opened = self.text.index("{" if holder.kind == OBJECT else "[", self._value_start(holder)) + 1
        self.text = (
            self.text[:opened] + (inner if not (there and there.items) else "") + self.text[holder.end - 1 :]
        )
