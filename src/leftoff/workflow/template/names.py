"""The words of templates: what they always know, and what a text uses of it, with places.

minijinja says which names a template uses, but not where; a message needs the place. So the expressions of a template
are split into words here, which is enough to find a name, a filter, or a step that is named in quotes.
"""

from __future__ import annotations

import re

from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What every template sees besides the variables.
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

_OPEN = re.compile(r"\{\{[-+]?|\{%[-+]?")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<close>[-+]?(?:\}\}|%\}))|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<sign>==|!=|<=|>=|//|\*\*|.)""",
    re.DOTALL,
)


class Word:
    """A word of an expression: ``kind`` is name, text, number or sign; ``start`` its offset in the template."""

    __slots__ = ("end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = start + len(text)


class Expression(Fields):
    """What is between two braces: its words, and where it begins and ends, braces included."""

    start: int
    end: int
    words: list[Word]
    block: bool  # {% … %}


def expressions(text: str) -> Iterator[Expression]:
    """The expressions of a template, in order."""
    at = 0
    while True:
        found = _OPEN.search(text, at)
        if found is None:
            return
        raw = _RAW.match(text, found.start())
        if raw is not None:
            at = raw.end()
            continue
        words, at = _words(text, found.end())
        yield Expression(found.start(), at, words, block=found.group().startswith("{%"))


def _words(text: str, at: int) -> tuple[list[Word], int]:
    """The words up to the closing braces."""
    words: list[Word] = []
    braces = 0  # of a mapping inside the expression
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        kind = str(found.lastgroup)
        if kind == "close" and braces and found.group().endswith("}}"):
            kind, piece = "sign", "}"
        else:
            piece = found.group()
        at += len(piece)
        if kind == "close":
            break
        if piece in "{}" and piece:
            braces += 1 if piece == "{" else -1
        if kind != "space":
            words.append(Word(kind, piece, at - len(piece)))
    return words, at


def whole(text: str) -> str | None:
    """The expression of a text that is nothing but one ``{{ … }}``."""
    bare = text.strip()
    if not bare.startswith("{{"):
        return None
    first = next(expressions(bare), None)
    if first is None or first.block or first.start != 0 or first.end != len(bare) or not bare.endswith("}}"):
        return None
    inner = bare[2:-2]
    inner = inner[1:] if inner[:1] in ("-", "+") else inner  # {{- … -}} takes away blanks around it
    inner = inner[:-1] if inner[-1:] in ("-", "+") else inner
    return inner.strip()


def is_template(text: str) -> bool:
    """Whether there is anything to render in a text."""
    return "{{" in text or "{%" in text


def names(expression: Expression) -> Iterator[tuple[int, Word]]:
    """The words that name values, with their index: no attributes, keywords, filters, tests, names of arguments."""
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


_KEYWORDS = frozenset(
    "and or not in is if else true false none True False None recursive with as import".split()
)


def unquoted(word: str) -> str:
    """The text of a literal."""
    return re.sub(r"\\(.)", r"\1", word[1:-1])
