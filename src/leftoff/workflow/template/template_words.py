"""Split templates into words with their places, and locate each template in its workflow file.

minijinja reports which names a template uses, but not where. Messages need the place, so the expressions of a template
are split into words here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leftoff.workflow.definition.source import Node

# The names that every template knows besides the variables.
RESERVED = ("outputs", "results", "failed", "completed", "skipped", "status", "choice", "run", "env")
OF_STEPS = ("outputs", "results")  # outputs.research, outputs['sign-off']
ASKS_STEP = ("failed", "completed", "skipped", "status", "choice")  # failed('convert')
GLOBALS = frozenset(
    "range dict namespace debug cycler joiner loop caller self super true false none True False None".split()
)
FILTERS = frozenset(
    "abs attr basename batch bool capitalize chain count d default dictsort dirname e escape ext filesizeformat first "
    "float format groupby indent int items join last length lines list lower map max min pluralize pprint quote raw "
    "reject rejectattr replace reverse round safe select selectattr slice sort split stem string striptags sum title "
    "tojson trim truncate unique upper urlencode wordwrap zip".split()
)
TESTS = frozenset(
    "boolean defined divisibleby endingwith eq equalto escaped even false filter float ge greaterthan gt in "
    "integer int iterable le lessthan lower lt mapping ne none number odd safe sameas sequence startingwith string "
    "test true undefined upper".split()
)
_KEYWORDS = frozenset(
    "and or not in is if else true false none True False None recursive with as import".split()
)

_OPEN = re.compile(r"\{\{[-+]?|\{%[-+]?")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<close>[-+]?(?:\}\}|%\}))|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<sign>==|!=|<=|>=|//|\*\*|.)""",
    re.DOTALL,
)


@dataclass(slots=True)
class Word:
    """A word of an expression. ``kind`` is name, text, number or sign; ``start`` is its offset in the template."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(slots=True)
class Expression:
    """The words between two braces. ``start`` and ``end`` include the braces. ``block``: it is ``{% … %}``."""

    start: int
    end: int
    words: list[Word]
    block: bool

    @property
    def last_filter(self) -> str:
        """The name of the filter at the end, if it has no arguments."""
        last = [word.text for word in self.words[-2:]]
        return last[1] if last[:1] == ["|"] else ""


def is_template(text: str) -> bool:
    """Return whether there is anything to render in a text."""
    return "{{" in text or "{%" in text


def expressions(text: str) -> Iterator[Expression]:
    """Yield the expressions of a template in their order, except those in ``{% raw %}``."""
    at = 0
    while found := _OPEN.search(text, at):
        raw = _RAW.match(text, found.start())
        if raw is not None:
            at = raw.end()
            continue
        words, at = _words(text, found.end())
        yield Expression(found.start(), at, words, found.group().startswith("{%"))


def _words(text: str, at: int) -> tuple[list[Word], int]:
    """Return the words up to the closing braces, and the offset after those."""
    words: list[Word] = []
    braces = 0  # of a mapping inside the expression
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        kind, piece = str(found.lastgroup), found.group()
        if kind == "close" and braces and piece.endswith("}}"):
            kind, piece = "sign", "}"
        if kind == "close":
            return words, at + len(piece)
        if piece in ("{", "}"):
            braces += 1 if piece == "{" else -1
        if kind != "space":
            words.append(Word(kind, piece, at))
        at += len(piece)
    return words, at


def whole_expression(text: str) -> str | None:
    """Return the expression of a text that is nothing but one ``{{ … }}``."""
    bare = text.strip()
    first = next(expressions(bare), None) if bare.startswith("{{") else None
    if first is None or first.start != 0 or first.end != len(bare) or not bare.endswith("}}"):
        return None
    inner = bare[2:-2]
    inner = inner[1:] if inner[:1] in ("-", "+") else inner  # {{- … -}} removes the blanks around it
    inner = inner[:-1] if inner[-1:] in ("-", "+") else inner
    return inner.strip()


def value_names(expression: Expression) -> Iterator[tuple[int, Word]]:
    """Yield the words that name values, with their index. Attributes, filters, tests and keywords do not."""
    words = expression.words
    for index, word in enumerate(words):
        if word.kind != "name" or word.text in _KEYWORDS or (expression.block and index == 0):
            continue
        before = words[index - 1].text if index else ""
        after = words[index + 1].text if index + 1 < len(words) else ""
        if before in (".", "|", "is") or (before == "not" and index > 1 and words[index - 2].text == "is"):
            continue
        if after == "=" and before in ("(", ","):
            continue
        yield index, word


def member(words: list[Word], index: int) -> tuple[Word, str] | None:
    """Return the word and the text of the member in ``name.member`` or ``name['member']``."""
    if len(words) < index + 3:
        return None
    sign, found = words[index + 1 : index + 3]
    if sign.text == "." and found.kind == "name":
        return found, found.text
    if sign.text == "[" and found.kind == "text":
        return found, unquoted(found.text)
    return None


def unquoted(word: str) -> str:
    """Return the text of a literal."""
    return re.sub(r"\\(.)", r"\1", word[1:-1])


def marked(text: str) -> tuple[str, str, list[Expression]]:
    """Return a script with a mark at each value, the mark, and the values. Values with ``| raw`` are left out."""
    mark = unused_character(text)
    values: list[Expression] = []
    pieces, at = [], 0
    for expression in expressions(text):
        pieces.append(text[at : expression.start])
        at = expression.end
        if not expression.block and expression.last_filter != "raw":
            values.append(expression)
            pieces.append(mark)
    return "".join([*pieces, text[at:]]), mark, values


def unused_character(text: str) -> str:
    """Return a character for private use that is not in a text."""
    return next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)


# How a template is used: as text, as a script, as a condition, as one expression.
TEXT, SHELL, TEST, EXPRESSION = "text", "shell", "test", "expression"


@dataclass(slots=True)
class Site:
    """A template, its step, and the key of the step that holds it. ``name`` is for messages, like ``env.SITE``.

    ``item``: the item of a ``foreach`` is known in it.
    """

    step: str
    key: str
    name: str
    node: Node
    text: str
    mode: str
    item: bool = True

    def within(self, step: str) -> Site:
        """Return the same template for a step that inherits it."""
        return replace(self, step=step)

    def offset(self, start: int, snippet: str, source: str) -> int:
        """Return where in the source a piece of the template begins.

        The source may have quotes, escapes and indentation that the template does not have. But a piece that is written
        as it is occurs equally often in both before its place.
        """
        span = source[self.node.start : self.node.end]
        at, found = self.text.find(snippet), span.find(snippet)
        while 0 <= at < start and found >= 0:
            at, found = self.text.find(snippet, at + 1), span.find(snippet, found + 1)
        return self.node.start + max(found, 0)
