"""Values put into a shell script, each quoted for the place where it lands.

``echo {{ x }}``, ``echo "{{ x }}"``, ``echo '{{ x }}'`` and ``echo "$(cat {{ x }})"`` need a different quoting of x
each, and authors write all of them. So each value is written for the quotes that are open where it stands, and the
shell reads it as that text and nothing else.

The rule in doubt is to refuse. Where quoting cannot be relied on (backticks, ``${…}``, arithmetic, a comment, a
here-document inside a substitution, a script that the reader cannot follow), only values of plain characters are let
through; anything else is an error, which says to hand the value over in the environment instead.
"""

from __future__ import annotations

import re
from itertools import pairwise

from leftoff.workflow.template.shell_reader import (
    ANSI,
    ARITH,
    BRACE,
    COMMANDS,
    COMMENT,
    COUNT,
    DOUBLE,
    SINGLE,
    TICK,
    QuoteError,
    Reader,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)  # means itself wherever it stands
_WORD = re.compile(r"[A-Za-z0-9_@%+:,./-]+", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
_SUBSCRIPT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?\[[^\]]*", re.ASCII)
# Wherever bash reads a number it executes the $(…) in a subscript.
_EVALUATED = re.compile(r"\[.*[$`]", re.DOTALL)
_DQ = str.maketrans({"\\": "\\\\", '"': '\\"', "$": "\\$", "`": "\\`"})
_HERE = str.maketrans({"\\": "\\\\", "$": "\\$", "`": "\\`"})
_NUMERIC = (ARITH, COUNT)
_UNQUOTABLE = (ANSI, BRACE, ARITH, COUNT, TICK, COMMENT)


def quote(value: str) -> str:
    """One word of a script."""
    return value if _WORD.fullmatch(value) else "'" + value.replace("'", "'\\''") + "'"


class Script(Reader):
    """A script with a mark at each value. ``values``: texts, or lists of them, in the order of the marks."""

    def __init__(self, text: str, mark: str, values: Sequence[str | list[str]]) -> None:
        super().__init__(text, mark)
        self.values = values
        self.used = 0

    def _next(self) -> str | list[str]:
        self.used += 1
        return self.values[self.used - 1]

    def _next_text(self) -> str:
        value = self._next()
        return " ".join(value) if isinstance(value, list) else value

    def _insert(self) -> None:
        """The next value, as the place wants it."""
        kind = self.frames[-1].kind
        value = self._next()
        if kind in COMMANDS and isinstance(value, list):
            text = self._words(value)
        else:
            one = " ".join(value) if isinstance(value, list) else value
            self._check(one, kind)
            text = self._quoted(one, kind)
        if kind in COMMANDS:
            self.frames[-1].word += "?"
        self.out.append(text)
        self.at += 1

    def _words(self, values: list[str]) -> str:
        """A list: each entry a word of its own, so nothing may touch it."""
        before, after = self.text[self.at - 1 : self.at], self._peek()
        if (before and before not in " \t\n(;&|") or (after and after not in " \t\n);&|"):
            hint = "Leave a blank on both sides, or make it one text: {{ names | join(',') }}."
            raise QuoteError("a list that touches other text", self.line, hint)
        for value in values:
            self._check(value, self.frames[-1].kind)
        first = [self._quoted(value, self.frames[-1].kind) for value in values[:1]]
        return " ".join([*first, *map(quote, values[1:])])

    def _check(self, value: str, kind: str) -> None:
        if "\0" in value:
            raise QuoteError("a value with a NUL character in it", self.line, "No command can be given one.")
        if kind in _NUMERIC and not _NUMBER.fullmatch(value):
            raise QuoteError(f"a value that is no whole number, in arithmetic: {_short(value)}", self.line)
        if PLAIN.fullmatch(value):
            return
        if self.lost:
            what = (
                f"a value in a script whose quotes cannot be followed since line {self.lost}: {_short(value)}"
            )
            raise QuoteError(what, self.line)
        for frame in self.frames:
            if frame.kind in _UNQUOTABLE:
                raise QuoteError(
                    f"a value in {frame.kind}, where it cannot be quoted: {_short(value)}", self.line
                )
            if frame.duplicates:  # bash expands it a second time
                raise QuoteError(f"a value after `>&`: {_short(value)}", self.line, "Write `> FILE 2>&1`.")
            subscript = frame.test or _SUBSCRIPT.fullmatch(frame.word)
            if subscript and _EVALUATED.search(value):
                raise QuoteError(f"a value that the shell may execute there: {_short(value)}", self.line)
        self.trusted = True

    def _quoted(self, value: str, kind: str) -> str:
        if kind == DOUBLE:
            return value.translate(_DQ)
        if kind == SINGLE:
            return value.replace("'", "'\\''")
        if kind not in COMMANDS:
            return value
        frame = self.frames[-1]
        bare = (
            _WORD.fullmatch(value)
            and not (frame.command and not frame.word)
            and self._peek() not in ("<", ">")
        )
        return value if bare else "'" + value.replace("'", "'\\''") + "'"

    def _filled_here(self, body: str, quoted: bool) -> str:
        """The body with its values; where nothing in it is expanded they stand as they are."""
        simple = len(self.frames) == 1 and (quoted or not re.search(r"`|\$[({\[]", body)) and not self.lost
        parts = body.split(self.mark)
        out = [parts[0]]
        for before, after in pairwise(parts):
            value = self._next_text()
            if not PLAIN.fullmatch(value) and (not simple or (not quoted and before.endswith(("\\", "$")))):
                raise QuoteError("a value in a here-document", self.line)
            self.trusted = self.trusted or not PLAIN.fullmatch(value)
            out += [value if quoted else value.translate(_HERE), after]
        return "".join(out)


def _short(value: str) -> str:
    shown = repr(value)
    return shown if len(shown) <= 50 else f"{shown[:47]}…'"
