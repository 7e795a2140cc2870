"""A YAML text with only that changed which another document says: comments, order and layout stay.

Places are taken from PyYAML's nodes. Whatever is too unusual to be edited in place (aliases, several documents, tabs)
gives ``None``; so does a result that would not be read as the document that was wanted.
"""

from __future__ import annotations

import yaml

from leftoff.dialects.core import yaml_text
from leftoff.dialects.core.repairs import Repairs
from leftoff.errors import LeftoffError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 1 << 18  # characters of a text that is edited in place
_INDENT = 2


def edited(text: str, wanted: dict[str, Any], path: str) -> str | None:
    """The text, saying what is wanted; ``None`` where that cannot be done in place."""
    if len(text) > MOST or "\r" in text:
        return None
    try:
        now = yaml_text.parse(text, path, Repairs())
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        edit = _Edit(text)
        edit.value(node, now, wanted, 0)
        done = edit.done()
        return done if yaml_text.parse(done, path, Repairs()) == wanted else None
    except (LeftoffError, yaml.YAMLError, _Unusual):
        return None


class _Unusual(Exception):
    """Something that is not edited in place."""


class _Edit:
    """Changes to one text, from its end to its beginning."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.changes: list[tuple[int, int, str]] = []

    def done(self) -> str:
        out = self.text
        for start, end, new in sorted(self.changes, reverse=True):
            out = out[:start] + new + out[end:]
        return out

    def value(self, node: Any, now: Any, wanted: Any, indent: int) -> None:
        """What a node says is to be another value. ``indent``: of what lies below it."""
        if now == wanted and type(now) is type(wanted):
            return
        block = isinstance(node, yaml.CollectionNode) and not node.flow_style and bool(node.value)
        if block and isinstance(now, dict) and isinstance(wanted, dict) and wanted:
            self._mapping(node, now, wanted)
        elif block and isinstance(now, list) and isinstance(wanted, list) and len(now) <= len(wanted):
            self._sequence(node, now, wanted)
        elif block or (isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")):
            self._replace_block(node, wanted, indent)
        else:
            self._replace(node, wanted, indent)

    def _mapping(self, node: Any, now: dict[str, Any], wanted: dict[str, Any]) -> None:
        if len(node.value) != len(now):
            raise _Unusual  # a key twice
        column = node.start_mark.column
        for number, ((key, value), (name, old)) in enumerate(zip(node.value, now.items(), strict=True)):
            if key.start_mark.column != column:
                raise _Unusual
            if name in wanted:
                self.value(value, old, wanted[name], column + _INDENT)
            else:
                after = node.value[number + 1][0].start_mark.line if number + 1 < len(node.value) else None
                self._drop(key.start_mark.line, self._last(value) + 1 if after is None else after)
        new = {name: value for name, value in wanted.items() if name not in now}
        if new:
            self._insert(self._last(node) + 1, yaml_text.dump(new), column)

    def _sequence(self, node: Any, now: list[Any], wanted: list[Any]) -> None:
        column = node.start_mark.column
        for item, old, new in zip(node.value, now, wanted, strict=False):
            self.value(item, old, new, column + _INDENT)
        if len(wanted) > len(now):
            self._insert(self._last(node) + 1, yaml_text.dump(wanted[len(now) :]), column)

    def _replace(self, node: Any, wanted: Any, indent: int) -> None:
        """A value on its own line, or in the middle of one."""
        start, end = node.start_mark.index, node.end_mark.index
        before = " " if start and self.text[start - 1] not in " \n" else ""
        if isinstance(wanted, (dict, list)) and wanted:
            self.changes.append((start, end, "\n" + _below(yaml_text.dump(wanted), indent).rstrip("\n")))
        else:
            said = yaml_text.dump({"x": wanted})[len("x:") :].strip()
            if "\n" in said:
                raise _Unusual
            self.changes.append((start, end, before + said))

    def _replace_block(self, node: Any, wanted: Any, indent: int) -> None:
        """The lines of a value that stands below its key."""
        key_end = self.text.rfind("\n", 0, node.start_mark.index) if _is_below(self.text, node) else -1
        if (
            key_end < 0
            or (isinstance(wanted, (dict, list)) and not wanted)
            or not isinstance(wanted, (dict, list))
        ):
            raise _Unusual
        first, last = node.start_mark.line, self._last(node) + 1
        self._drop(first, last)
        self._insert(first, yaml_text.dump(wanted), node.start_mark.column)

    def _last(self, node: Any) -> int:
        """The last line that a node has something in."""
        at = (
            len(self.text[: node.end_mark.index].rstrip())
            if node.end_mark.column == 0
            else node.end_mark.index
        )
        lines = self.text[:at].split("\n")
        number = len(lines) - 1
        while number > node.start_mark.line and (
            not lines[number].strip() or lines[number].lstrip()[0] == "#"
        ):
            number -= 1
        return number

    def _line(self, number: int) -> int:
        """Where a line begins."""
        at = 0
        for _ in range(number):
            found = self.text.find("\n", at)
            if found < 0:
                return len(self.text)
            at = found + 1
        return at

    def _drop(self, first: int, last: int) -> None:
        self.changes.append((self._line(first), self._line(last), ""))

    def _insert(self, line: int, block: str, indent: int) -> None:
        at = self._line(line)
        gap = "\n" if at and self.text[at - 1] != "\n" else ""
        self.changes.append((at, at, gap + _below(block, indent)))


def _below(block: str, indent: int) -> str:
    return "".join(" " * indent + line + "\n" for line in block.splitlines())


def _is_below(text: str, node: Any) -> bool:
    """Whether a block begins on a line of its own."""
    start = node.start_mark.index
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()
