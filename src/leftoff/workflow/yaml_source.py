"""Read YAML text as a tree of nodes that know their places, and collect the problems of a file.

PyYAML's own way from text to values loses line and column, which an error needs. It takes ``yes`` and ``010`` as YAML
1.1 did, keeps the last of two equal keys without a word, and cannot cope with a deep or self-repeating document. So the
tree is built here, from libyaml's events: scalars are what YAML 1.2's core schema says, a key counts once, there are no
tags, and depth and size have a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import yaml

from leftoff.errors import BadDefinition

__all__ = ["BadDefinition", "Problems", "nearest"]

MOST = 20  # told at once


class Problems:
    """The problems of one file, each with its place: ``file:line:column: what``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[tuple[int, int, str, str]] = []
        self.doubts: list[tuple[int, int, str, str]] = []

    def add(self, node: Any, message: str, hint: str = "") -> None:
        """Note a problem at a node, or at anything else that has a line and a column."""
        self.place(node.line, node.column, message, hint)

    def at(self, mark: Any, message: str, hint: str = "") -> None:
        """Note a problem at a mark of the YAML parser, which counts from 0."""
        self.place(mark.line + 1, mark.column + 1, message, hint)

    def place(self, line: int, column: int, message: str, hint: str = "") -> None:
        entry = (line, column, message, hint)
        if entry not in self.found:
            self.found.append(entry)

    def doubt(self, line: int, column: int, message: str, hint: str = "") -> None:
        """Note something that may well be right."""
        entry = (line, column, message, hint)
        if entry not in self.doubts:
            self.doubts.append(entry)

    def told(self) -> list[str]:
        """Return the doubts, a line each."""
        return [self._line(entry) for entry in sorted(self.doubts)]

    def _line(self, entry: tuple[int, int, str, str]) -> str:
        line, column, message, hint = entry
        return f"{self.path}:{line}:{column}: {message}" + (f". {hint}" if hint else "")

    def suggests(self, word: str, line: int) -> bool:
        """Return whether the hint of a problem from this line on names that word."""
        return any(found >= line and f"`{word}`" in hint for found, _, _, hint in self.found)

    def fatal(self, line: int, column: int, message: str, hint: str = "") -> BadDefinition:
        """Return the error to raise if reading cannot continue."""
        self.place(line, column, message, hint)
        return self.error()

    def check(self) -> None:
        """Raise the problems that were found."""
        if self.found:
            raise self.error()

    def error(self) -> BadDefinition:
        found = sorted(self.found, key=lambda entry: entry[:2])
        if len(found) == 1:
            line, column, message, hint = found[0]
            return BadDefinition(f"{self.path}:{line}:{column}: {message}", hint=hint)
        told = [self._line(entry) for entry in found[:MOST]]
        if len(found) > MOST:
            told.append(f"{self.path}: and {len(found) - MOST} more")
        return BadDefinition("\n".join(told), hint=f"{len(found)} problems; nothing was started.")


# What other tools call what we call otherwise.
_ELSEWHERE = {
    "needs": "depends_on dependson depends dependencies after requires wait_for",
    "run": "command commands cmd script exec bash sh",
    "when": "if condition only_if unless",
    "on_failure": "continue_on_error allow_failure ignore_errors onerror on_error fail_fast",
    "foreach": "for_each loop with_items matrix items each",
    "cwd": "working_directory workdir working_dir dir directory folder",
    "env": "environment",
    "id": "name",
    "title": "name label",
    "retries": "retry attempts max_attempts",
    "outputs": "artifacts produces creates",
    "steps": "jobs tasks stages",
    "vars": "variables inputs params parameters",
    "max_parallel": "concurrency parallel parallelism max_concurrency jobs",
    "ask": "question message prompt text",
    "with": "args arguments kwargs",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a question that names the known word most like this one; empty if none is."""
    names = list(known)
    plain = word.lower().replace("-", "_")
    for name, others in _ELSEWHERE.items():
        if name in names and plain in others.split():
            return f"Did you mean `{name}`?"
    lower = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), lower, 1, 0.6)
    return f"Did you mean `{lower[near[0]]}`?" if near else ""


MOST_BYTES = 10 * 1024 * 1024
MOST_NODES = 1_000_000  # with every alias counted as often as it is used
DEEPEST = 64

_CORE = "tag:yaml.org,2002:"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII
)
_MERGE = "<<"


class Node:
    """A value and where it stands.

    ``kind`` is one of map, list, text, int, float, bool, null. ``value`` of a map: key → (key node, value node).
    ``text`` of a scalar: as it was written, without its quotes. ``start`` and ``end``: offsets in the source.
    """

    __slots__ = ("column", "end", "kind", "line", "quoted", "size", "start", "text", "value")

    def __init__(self, kind: str, value: Any, mark: Any, *, text: str = "", quoted: bool = False) -> None:
        self.kind = kind
        self.value = value
        self.text = text
        self.quoted = quoted
        self.line: int = mark.line + 1
        self.column: int = mark.column + 1
        self.start: int = mark.index
        self.end: int = mark.index
        self.size = 1

    @property
    def scalar(self) -> bool:
        return self.kind not in ("map", "list")

    def plain(self) -> Any:
        """Return the value as Python has it."""
        if self.kind == "map":
            return {key: value.plain() for key, (_, value) in self.value.items()}
        if self.kind == "list":
            return [entry.plain() for entry in self.value]
        return self.value

    def get(self, key: str) -> Node | None:
        """Return the value of a key of a map."""
        pair = self.value.get(key) if self.kind == "map" else None
        return pair[1] if pair else None


def read_yaml(text: str, problems: Problems) -> Node | None:
    """Return the tree of a text; None if it is empty. Raise ``BadDefinition`` if it is not YAML at all."""
    if text.startswith("\ufeff"):
        text = " " + text[1:]  # a byte order mark is no content; every column stays as it is
    bad = _UNPRINTABLE.search(text)
    if bad:  # found here, since libyaml counts bytes
        hint = r'Inside double quotes, write it as "\xNN" or "\uNNNN".'
        message = f"the character U+{ord(bad.group()):04X} cannot be in YAML"
        raise problems.fatal(*position(text, bad.start()), message, hint)
    tree = Tree(text, problems)
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            tree.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise problems.fatal(line, column, *_syntax(error, text, line)) from None
    return tree.root


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of an offset, from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Tree:
    """Nodes from events. Containers that are still open are on a stack; each remembers a key that waits.

    Protocols read their documents with a subclass that repairs more (`leftoff.protocols.document_yaml`).
    """

    deepest, most_nodes = DEEPEST, MOST_NODES

    def __init__(self, text: str, problems: Problems) -> None:
        self.text = text
        self.problems = problems
        self.root: Node | None = None
        self.documents = 0
        self.open: list[Node] = []
        self.keys: list[Node | None] = []
        self.anchors: dict[str, Node] = {}

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "ScalarEvent":
            self._add(self._anchored(event, self._scalar(event)))
        elif kind == "AliasEvent":
            self._add(self._alias(event))
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            if len(self.open) >= self.deepest:
                raise self._fatal(event.start_mark, "nested too deep", f"{self.deepest} levels are the most.")
            if event.tag not in (None, "!", f"{_CORE}map", f"{_CORE}seq"):
                self._bad_tag(event)
            of_map = kind == "MappingStartEvent"
            empty: Any = {} if of_map else []
            node = self._anchored(event, Node("map" if of_map else "list", empty, event.start_mark))
            node.size = 0  # still open: an alias to it would never end
            self.open.append(node)
            self.keys.append(None)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._finish(event)
        elif kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                hint = "A workflow file has one document."
                raise self._fatal(event.start_mark, "a second document starts here", hint)

    def _fatal(self, mark: Any, message: str, hint: str) -> BadDefinition:
        return self.problems.fatal(mark.line + 1, mark.column + 1, message, hint)

    def _finish(self, event: Any) -> None:
        node = self.open.pop()
        self.keys.pop()
        node.end = event.end_mark.index
        if node.kind == "map":
            children = [value for _, value in node.value.values()]
            node.size = 1 + len(children) + sum(child.size for child in children)
            self._merge(node)
        else:
            node.size = 1 + sum(child.size for child in node.value)
        self._add(node)

    def _add(self, node: Node) -> None:
        if node.size > self.most_nodes:
            message, hint = f"more than {self.most_nodes:,} values", "Aliases count each time they are used."
            raise self.problems.fatal(node.line, node.column, message, hint)
        if not self.open:
            self.root = node
        elif self.open[-1].kind == "list":
            self.open[-1].value.append(node)
        elif self.keys[-1] is None:
            self.keys[-1] = self._key(node)
        else:
            key, self.keys[-1] = self.keys[-1], None
            self._pair(self.open[-1], key, node)

    def _pair(self, node: Node, key: Node, value: Node) -> None:
        there = node.value.get(key.text)
        if there is None:
            node.value[key.text] = (key, value)
        else:
            first = f"The first one is on line {there[0].line}."
            self.problems.add(key, f"the key `{key.text}` is there twice", first)

    def _key(self, node: Node) -> Node:
        if node.scalar:
            return node
        if "{{" in self.text[max(0, node.start - 1) : node.start + 2]:
            raise self.problems.fatal(node.line, node.column - 1, *_NEEDS_QUOTES)
        raise self.problems.fatal(node.line, node.column, "a key must be text", "For example: name: value")

    def _anchored(self, event: Any, node: Node) -> Node:
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            message = f"no anchor `&{event.anchor}` for the alias `*{event.anchor}`"
            hint = "An alias repeats what an anchor (&name) marked further up. Text that starts with * needs quotes."
            raise self._fatal(event.start_mark, message, hint)
        if node.size == 0:
            message = f"`*{event.anchor}` is inside what it repeats"
            raise self._fatal(event.start_mark, message, "It would never end.")
        return node

    def _merge(self, node: Node) -> None:
        """Apply ``<<: *anchor``: take the keys of another mapping that this one does not have."""
        pair = node.value.get(_MERGE)
        if pair is None or pair[0].quoted:
            return
        del node.value[_MERGE]
        for source in pair[1].value if pair[1].kind == "list" else [pair[1]]:
            if source.kind == "map":
                for key, found in source.value.items():
                    node.value.setdefault(key, found)
            else:
                message = "`<<` takes a mapping, or a list of them"
                self.problems.add(source, message, "For example: <<: *common")

    def _scalar(self, event: Any) -> Node:
        if event.tag not in (None, "!"):
            self._bad_tag(event)
        quoted = event.style is not None and event.style != ""
        plain = not quoted and not event.tag and event.implicit[0]
        kind, value = self._core(event, event.value) if plain else ("text", event.value)
        node = Node(kind, value, event.start_mark, text=event.value, quoted=quoted)
        node.end = event.end_mark.index
        return node

    def _core(self, event: Any, text: str) -> tuple[str, Any]:
        """Return the kind and the value of a bare scalar, as YAML 1.2's core schema has them."""
        if text in _NULL:
            return "null", None
        if text in _BOOL:
            return "bool", _BOOL[text]
        if _INT.fullmatch(text):
            if len(text) <= 1000:
                return "int", int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
            message = "a number of over 1,000 digits"
            self.problems.at(event.start_mark, message, "Put it in quotes to have it as text.")
        elif _FLOAT.fullmatch(text):
            return "float", float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return "text", text

    def _bad_tag(self, event: Any) -> None:
        message = f"the tag `{event.tag.replace(_CORE, '!!')}` does not fit here"
        self.problems.at(event.start_mark, message, "Leave it out; nothing here needs tags.")


_NEEDS_QUOTES = (
    "text with {{ in it needs quotes here",
    'In YAML a bare { begins a mapping. Write "{{ … }}".',
)

# libyaml's words, and a cure for the mistakes that people make most.
_CURES = (
    ("mapping values are not allowed", "Text with `: ` in it needs quotes, or a block: `run: |`."),
    ("found character '\\t'", "YAML is indented with spaces, not tabs."),
    (
        "that cannot start any token",
        "Text that starts with @, ` or % needs quotes. Indent with spaces, not tabs.",
    ),
    ("unexpected end of stream", "A quote that begins further up never ends."),
    ("unknown escape character", r'In "double quotes" write \\ for a backslash, or use single quotes.'),
)


def _syntax(error: Any, text: str, line: int) -> tuple[str, str]:
    """Return what is wrong with the syntax, and a hint."""
    lines = dict(enumerate(text.splitlines(), 1))
    before, here = lines.get(line - 1, ""), lines.get(line, "")
    if re.search(r"(:|-)\s+\{\{", here) or re.search(r":\s+\{\{", before) or "{{" in here:
        return _NEEDS_QUOTES
    problem = str(error.problem or error.context or "not YAML")
    mark = error.context_mark
    since = f" (it begins on line {mark.line + 1})" if mark and mark.line + 1 != line else ""
    hint = next((cure for words, cure in _CURES if words in problem), "")
    return f"not YAML: {problem}{since}", hint or "Check the indentation and the quotes around it."
