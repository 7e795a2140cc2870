"""YAML text as a tree of nodes that know their places, and the problems that are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from leftoff.errors import BadDefinition

# ==== definition/problems

__all__ = ["BadDefinition", "Problems", "nearest"]

MOST = 20  # told at once


class Problems:
    """The problems of one file, each with its place: ``file:line:column: what``."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[tuple[int, int, str, str]] = []
        self.doubts: list[tuple[int, int, str, str]] = []

    def add(self, node: Any, message: str, hint: str = "") -> None:
        """At a node (or whatever has a line and a column)."""
        self.place(node.line, node.column, message, hint)

    def at(self, mark: Any, message: str, hint: str = "") -> None:
        """At a mark of the YAML parser, which counts from 0."""
        self.place(mark.line + 1, mark.column + 1, message, hint)

    def place(self, line: int, column: int, message: str, hint: str = "") -> None:
        entry = (line, column, message, hint)
        if entry not in self.found:
            self.found.append(entry)

    def doubt(self, line: int, column: int, message: str, hint: str = "") -> None:
        """Something that may well be right."""
        entry = (line, column, message, hint)
        if entry not in self.doubts:
            self.doubts.append(entry)

    def told(self) -> list[str]:
        """The doubts, a line each."""
        return [self._line(entry) for entry in sorted(self.doubts)]

    def _line(self, entry: tuple[int, int, str, str]) -> str:
        line, column, message, hint = entry
        return f"{self.path}:{line}:{column}: {message}" + (f". {hint}" if hint else "")

    def suggests(self, word: str, line: int) -> bool:
        """Whether a problem from this line on was told with that word as the right one."""
        return any(found >= line and f"`{word}`" in hint for found, _, _, hint in self.found)

    def fatal(self, line: int, column: int, message: str, hint: str = "") -> BadDefinition:
        """The error to raise where reading cannot go on."""
        self.place(line, column, message, hint)
        return self.error()

    def check(self) -> None:
        """Raise what was found."""
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
    """A question that names the known word most like this one; empty where none is."""
    from difflib import get_close_matches

    names = list(known)
    plain = word.lower().replace("-", "_")
    for name, others in _ELSEWHERE.items():
        if name in names and plain in others.split():
            return f"Did you mean `{name}`?"
    lower = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), lower, 1, 0.6)
    return f"Did you mean `{lower[near[0]]}`?" if near else ""


# ==== definition/source

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
        """The value as Python has it."""
        if self.kind == "map":
            return {key: value.plain() for key, (_, value) in self.value.items()}
        if self.kind == "list":
            return [entry.plain() for entry in self.value]
        return self.value

    def get(self, key: str) -> Node | None:
        """The value of a key of a map."""
        pair = self.value.get(key) if self.kind == "map" else None
        return pair[1] if pair else None


def read(text: str, problems: Problems) -> Node | None:
    """The tree of a text; None where it is empty. A text that is no YAML at all raises."""
    if text.startswith("\ufeff"):
        text = " " + text[1:]  # a byte order mark is no content; every column stays as it is
    tree = Tree(text, problems)
    try:
        for event in _events(text):
            tree.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise problems.fatal(line, column, *_syntax(error, text, line)) from None
    except yaml.reader.ReaderError as error:
        line, column = position(text, error.position if isinstance(error.position, int) else 0)
        raise problems.fatal(line, column, *_unreadable(error)) from None
    return tree.root


def position(text: str, offset: int) -> tuple[int, int]:
    """The line and column, from 1, of an offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _events(text: str) -> Iterator[Any]:
    bad = _UNPRINTABLE.search(text)
    if bad:  # found here, since libyaml counts bytes
        raise yaml.reader.ReaderError("", bad.start(), ord(bad.group()), "unicode", "")
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    yield from yaml.parse(text, Loader=loader)


_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Tree:
    """Nodes from events. Containers that are still open are on a stack; each remembers a key that waits.

    Protocols read their documents with a subclass that repairs more (`leftoff.dialects.document_yaml`).
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
            self._start(event, "map" if kind == "MappingStartEvent" else "list")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._finish(event)
        elif kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                raise self._fatal(
                    event.start_mark, "a second document starts here", "A workflow file has one document."
                )

    def _fatal(self, mark: Any, message: str, hint: str) -> BadDefinition:
        return self.problems.fatal(mark.line + 1, mark.column + 1, message, hint)

    def _start(self, event: Any, kind: str) -> None:
        if len(self.open) >= self.deepest:
            raise self._fatal(event.start_mark, "nested too deep", f"{self.deepest} levels are the most.")
        if event.tag and event.tag != _CORE + ("map" if kind == "map" else "seq"):
            self._bad_tag(event)
        node = self._anchored(event, Node(kind, {} if kind == "map" else [], event.start_mark))
        node.size = 0  # still open: an alias to it would never end
        self.open.append(node)
        self.keys.append(None)

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
            raise self.problems.fatal(
                node.line,
                node.column,
                f"more than {self.most_nodes:,} values",
                "Aliases count each time they are used.",
            )
        if not self.open:
            self.root = node
        elif self.open[-1].kind == "list":
            self.open[-1].value.append(node)
        elif self.keys[-1] is None:
            self.keys[-1] = self._key(node)
        else:
            key, self.keys[-1] = self.keys[-1], None
            self._pair(self.open[-1], key, node)

    def _key(self, node: Node) -> Node:
        if node.scalar:
            return node
        start = self.text[max(0, node.start - 1) : node.start + 2]
        template = "{{" in start
        raise self.problems.fatal(
            node.line,
            node.column - (1 if template else 0),
            "text that starts with {{ needs quotes" if template else "a key must be text",
            'In YAML a bare { begins a mapping. Write "{{ … }}".' if template else "For example: name: value",
        )

    def _pair(self, node: Node, key: Node, value: Node) -> None:
        there = node.value.get(key.text)
        if there is not None:
            self.problems.add(
                key, f"the key `{key.text}` is there twice", f"The first one is on line {there[0].line}."
            )
        else:
            node.value[key.text] = (key, value)

    def _anchored(self, event: Any, node: Node) -> Node:
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            hint = "An alias repeats what an anchor (&name) marked further up. Text that starts with * needs quotes."
            raise self._fatal(
                event.start_mark, f"no anchor `&{event.anchor}` for the alias `*{event.anchor}`", hint
            )
        if node.size == 0:
            raise self._fatal(
                event.start_mark, f"`*{event.anchor}` is inside what it repeats", "It would never end."
            )
        return node

    def _merge(self, node: Node) -> None:
        """``<<: *anchor``: the keys of another mapping, where this one has none of that name."""
        pair = node.value.get(_MERGE)
        if pair is None or pair[0].quoted:
            return
        del node.value[_MERGE]
        sources = pair[1].value if pair[1].kind == "list" else [pair[1]]
        for source in sources:
            if source.kind != "map":
                self.problems.add(
                    source, "`<<` takes a mapping, or a list of them", "For example: <<: *common"
                )
                continue
            for key, found in source.value.items():
                node.value.setdefault(key, found)

    def _scalar(self, event: Any) -> Node:
        quoted = event.style is not None and event.style != ""
        kind, value = "text", event.value
        if event.tag and event.tag != "!":
            kind, value = self._tagged(event)
        elif not quoted and event.implicit[0]:
            kind, value = self._core(event, event.value)
        node = Node(kind, value, event.start_mark, text=event.value, quoted=quoted)
        node.end = event.end_mark.index
        return node

    def _core(self, event: Any, text: str) -> tuple[str, Any]:
        if text in _NULL:
            return "null", None
        if text in _BOOL:
            return "bool", _BOOL[text]
        if _INT.fullmatch(text):
            if len(text) > 1000:
                self.problems.at(
                    event.start_mark, "a number of over 1,000 digits", "Put it in quotes to have it as text."
                )
                return "text", text
            return "int", int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if _FLOAT.fullmatch(text):
            return "float", float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return "text", text

    def _tagged(self, event: Any) -> tuple[str, Any]:
        tag = event.tag.removeprefix(_CORE)
        if tag == "str":
            return "text", event.value
        kind, value = self._core(event, event.value)
        if tag == "float" and kind == "int":
            return "float", float(value)
        if tag == kind:
            return kind, value
        self._bad_tag(event)
        return "text", event.value

    def _bad_tag(self, event: Any) -> None:
        shown = event.tag.replace(_CORE, "!!")
        self.problems.at(
            event.start_mark, f"the tag `{shown}` does not fit here", "Leave it out; nothing here needs tags."
        )


def _unreadable(error: Any) -> tuple[str, str]:
    code = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or "\0")
    return (
        f"the character U+{code:04X} cannot be in YAML",
        r'Inside double quotes, write it as "\xNN" or "\uNNNN".',
    )


# libyaml's words, and ours.
_SYNTAX = (
    ("mapping values are not allowed",
     "a `:` where no key can be",
     "Text with `: ` in it needs quotes, or a block: `run: |`."),
    ("found character '\\t'",
     "a tab",
     "YAML is indented with spaces."),
    ("that cannot start any token",
     "a character that cannot start a value",
     "Text that starts with @, ` or % needs quotes."),
    ("unexpected end of stream",
     "a quote that never ends",
     "It begins further up, in the same value."),
    ("did not find expected ',' or",
     "a bracket that never ends, or a missing comma",
     "Lists are [a, b], mappings {a: 1, b: 2}."),
    ("did not find expected <document start>",
     "text after the end of the document",
     "Every key of a mapping is indented alike."),
    ("did not find expected key",
     "this does not fit into the mapping it is in",
     "Every key of a mapping is indented alike; text with quotes or braces in it needs quotes around all of it."),
    ("did not find expected '-' indicator",
     "this does not fit into the list it is in",
     "Every entry of a list starts with `- `, all indented alike."),
    ("could not find expected ':'",
     "a key without its `:`",
     "A line of a mapping is `key: value`; text of several lines is a block: `run: |`."),
    ("unknown escape character",
     "an unknown escape in double quotes",
     r'In "double quotes" write \\ for a backslash, or use single quotes.'),
)  # fmt: skip


def _syntax(error: Any, text: str, line: int) -> tuple[str, str]:
    """libyaml's words, in ours where they are known."""
    problem = str(error.problem or error.context or "not YAML")
    lines = dict(enumerate(re.split("\r\n|[\r\n\x85\u2028\u2029]", text), 1))  # as libyaml counts them
    before, here = lines.get(line - 1, ""), lines.get(line, "")
    if re.search(r"(:|-)\s+\{\{", here) or re.search(r":\s+\{\{", before):
        return "text that starts with {{ needs quotes", 'In YAML a bare { begins a mapping. Write "{{ … }}".'
    if "did not find expected ','" in problem and "{{" in here:
        return (
            "text with {{ in it, inside [ ] or { }, needs quotes",
            'Write ["… {{ x }} …"], or one entry per line.',
        )
    if "that cannot start any token" in problem and here[: error.problem_mark.column + 1].endswith("\t"):
        return "a tab", "YAML is indented with spaces."
    for words, message, hint in _SYNTAX:
        if words in problem:
            mark = error.context_mark
            since = f" (it begins on line {mark.line + 1})" if mark and mark.line + 1 != line else ""
            return message + since, hint
    return f"not YAML: {problem}", "Check the indentation and the quotes around it."
