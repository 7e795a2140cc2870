"""Changing a JSON text in place: put something in, change a value, and take it all out again, byte for byte.

What is put in stands on lines of its own behind what is there, with the comma and the comment of the entry before it
left where they are. So taking it out leaves the bytes that were there, and whatever was written around it meanwhile.
We write no comments: one that stands inside of what is taken out is somebody else's, and stays in its place. Objects
and lists that were made on the way go when nothing is left in them; those that were there and empty are remembered
(``empty``), as they cannot be told from ours afterwards.
"""

from __future__ import annotations

import json
import re
from typing import Any

from leftoff.agents.install.jsonc import ARRAY, OBJECT, Node, comments_of, parse, wrong_at

Path = tuple["str | int", ...]
_REST_OF_LINE = re.compile(r"(?:[ \t]*(?:/\*(?:[^*\r\n]|\*(?!/))*\*/|//[^\r\n]*))*")


class JsonText:
    """A JSON text that is being changed."""

    def __init__(self, text: str, path: str, empty: dict[str, str] | None = None) -> None:
        self.path = path
        self.empty = dict(empty or {})
        self._known = ""
        self._root, self._comments = parse(text, path)
        self.text = self._known = text
        self._eol = "\r\n" if "\r\n" in text else "\n"
        self._unit = (self._indent_of(self.root.items[0].start) if self.root.items else "") or "  "

    @property
    def root(self) -> Node:
        if self._known != self.text:
            self._root, self._comments = parse(self.text, self.path)
            self._known = self.text
        return self._root

    @property
    def nothing_left(self) -> bool:
        """Whether it says nothing: no entry, no comment."""
        return not self.root.items and not self._comments

    def plain(self) -> Any:
        return self.root.plain()

    def find(self, path: Path) -> Node | None:
        """The value at a path of keys, and of places in lists."""
        node: Node | None = self.root
        for key in path:
            if node is None:
                return None
            if isinstance(key, int):
                node = node.items[key] if node.kind == ARRAY and key < len(node.items) else None
            else:
                node = node.get(key) if node.kind == OBJECT else None
        return node

    def value(self, path: Path) -> Any:
        """What is there, plain; ``None`` where nothing is."""
        node = self.find(path)
        return node.plain() if node is not None else None

    def has(self, path: Path) -> bool:
        return self.find(path) is not None

    def wrong(self, path: Path, what: str) -> Exception:
        """What is wrong with what is at a path."""
        node = self.find(path) or self.root
        return wrong_at(self.text, self.path, node.at, what)

    # -- changing a value

    def set(self, path: Path, value: Any) -> str:
        """Another value in the same place; what was written there."""
        node = self.find(path)
        assert node is not None
        was = self.text[node.at : node.end]
        self.put_back(path, self._written(value, self._indent_of(node.start)))
        return was

    def put_back(self, path: Path, written: str) -> None:
        """A value as it was written."""
        node = self.find(path)
        if node is not None:
            self.text = self.text[: node.at] + written + self.text[node.end :]

    # -- putting in

    def add(self, path: Path, value: Any) -> None:
        """A member that is not there yet, and the objects around it."""
        above = self._deepest(path)
        for key in reversed(path[len(above) + 1 :]):
            value = {key: value}
        self._insert(above, json.dumps(path[len(above)], ensure_ascii=False) + ": ", value)

    def append(self, path: Path, value: Any) -> None:
        """An entry of the list at a path."""
        there = self.find(path)
        if there is None:
            self.add(path, [value])
        elif there.kind != ARRAY:
            raise self.wrong(path, f"{path[-1]} is not a list")
        else:
            self._insert(path, "", value)

    def _deepest(self, path: Path) -> Path:
        """The longest part of the path, short of its end, that is there."""
        for number in range(len(path) - 1, 0, -1):
            node = self.find(path[:number])
            if node is not None:
                if node.kind != OBJECT:
                    raise self.wrong(path[:number], f"{path[number - 1]} is not an object")
                return path[:number]
        return ()

    def _insert(self, path: Path, head: str, value: Any) -> None:
        node = self.find(path)
        assert node is not None
        if not node.items:
            self._insert_first(path, node, head, value)
            return
        last = node.items[-1]
        indent = self._indent_of(node.items[0].start) or self._unit * (len(path) + 1)
        new = f"{self._eol}{indent}{head}{self._written(value, indent)}"
        if last.comma is None:
            self.text = f"{self.text[: last.end]},{self.text[last.end :]}"
            behind = last.end + 1
        else:
            behind, new = last.comma + 1, f"{new},"
        rest = _REST_OF_LINE.match(self.text, behind)
        at = rest.end() if rest is not None else behind
        self.text = self.text[:at] + new + self.text[at:]

    def _insert_first(self, path: Path, node: Node, head: str, value: Any) -> None:
        """Into what is empty, behind the comments in it."""
        close = node.end - 1
        self.empty[_name(path)] = self.text[node.at + 1 : close]
        at = max([end for _, end in self._comments if node.at < end <= close], default=node.at + 1)
        outer = self._indent_of(node.start) if path else ""
        new = f"{self._eol}{outer}{self._unit}{head}{self._written(value, outer + self._unit)}"
        rest = self.text[at:close] if "\n" in self.text[at:close] else f"{self._eol}{outer}"
        self.text = self.text[:at] + new + rest + self.text[close:]

    def _indent_of(self, at: int) -> str:
        """What stands before this place on its line, if that is blank."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return before if not before.strip() and "\n" in self.text[:at] else ""

    def _written(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, indent=self._unit, ensure_ascii=False).split("\n")
        return f"{self._eol}{indent}".join(lines)

    # -- taking out

    def take_out(self, path: Path) -> None:
        """A member, or the entry of a list; then whatever was made only to hold it."""
        holder, node = self.find(path[:-1]), self.find(path)
        assert holder is not None and node is not None
        above = path[:-1]
        if len(holder.items) > 1:
            self._remove(holder, node)
        elif above and _name(above) not in self.empty:
            self.take_out(above)
        else:
            self._empty_out(above, holder, node)

    def _empty_out(self, path: Path, holder: Node, node: Node) -> None:
        """What was there and empty is as it was, unless somebody wrote a comment into it."""
        inside = (holder.at + 1, holder.end - 1)
        was = self.empty.get(_name(path), "")
        if comments_of(was) == [self.text[slice(*span)] for span in self._within(*inside)]:
            self.text = self.text[: inside[0]] + was + self.text[inside[1] :]
        else:
            self._remove(holder, node)

    def _within(self, start: int, end: int) -> list[tuple[int, int]]:
        return [span for span in self._comments if start <= span[0] and span[1] <= end]

    def _remove(self, holder: Node, node: Node) -> None:
        """One entry and its comma; comments in it stay, and so does everything around it."""
        place = holder.items.index(node)
        start, end = node.start, node.end
        comma = node.comma
        if comma is not None and not self.text[end:comma].strip():
            end, comma = comma + 1, None
        elif comma is None and place:
            comma = holder.items[place - 1].comma
        rest = self.text[end:].lstrip(" \t")
        alone = rest.startswith(("\n", "\r"))
        indent, line = self._indent_of(start), self._line_start(start)
        if line is None:  # something stands before it on its line
            if node.comma is None:
                start -= len(self.text[:start]) - len(self.text[:start].rstrip(" \t"))
            else:
                end = len(self.text) - len(rest)
        elif alone or not self._in_line_comment(line):
            start = line
        else:
            end = len(self.text) - len(rest)
        kept = "".join(self._eol + indent + self.text[slice(*span)] for span in self._within(start, end))
        if kept and not alone:
            kept += self._eol + indent
        edits = [(start, end, kept)] + ([(comma, comma + 1, "")] if comma is not None else [])
        for first, last, new in sorted(edits, reverse=True):
            self.text = self.text[:first] + new + self.text[last:]

    def _line_start(self, at: int) -> int | None:
        """Where the line before this place ends, if nothing but blanks stands between."""
        before = self.text[:at].rstrip(" \t")
        if not before.endswith("\n"):
            return None
        return len(before) - (2 if before.endswith("\r\n") else 1)

    def _in_line_comment(self, at: int) -> bool:
        return any(end == at and self.text.startswith("//", start) for start, end in self._comments)

    # -- what was there once too often

    def cut(self, path: Path) -> str:
        """An entry of a list that has others, and what parts it from them: as it was written."""
        holder, place = self.find(path[:-1]), path[-1]
        assert holder is not None and isinstance(place, int)
        start, end = holder.items[place].start, holder.items[place].end
        if place:
            start = holder.items[place - 1].end
        else:
            end = holder.items[1].start
        was = self.text[start:end]
        self.text = self.text[:start] + self.text[end:]
        return was

    def paste(self, path: Path, written: str) -> bool:
        """What was cut out, in its place again; whether there still is such a place."""
        holder, place = self.find(path[:-1]), path[-1]
        assert isinstance(place, int)
        if holder is None or holder.kind != ARRAY or not holder.items:
            return False
        place = min(place, len(holder.items))
        at = holder.items[place - 1].end if place else holder.items[0].start
        self.text = self.text[:at] + written + self.text[at:]
        return True


def _name(path: Path) -> str:
    return "/".join(map(str, path))
