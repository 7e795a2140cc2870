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

from leftoff.model.fields import Fields
from leftoff.workflow.template.shell_commands import (
    AS_COMMANDS,
    AS_INPUT,
    AS_NUMBER,
    READS_AGAIN,
    UNKNOWN,
    Word,
    counts,
    evaluated,
    kept,
    literal,
)
from leftoff.workflow.template.shell_flow import PRINTS, READS, Graph, Place
from leftoff.workflow.template.shell_frames import (
    ANSI,
    ARITH,
    BRACE,
    COMMANDS,
    COMMENT,
    COUNT,
    DOUBLE,
    SINGLE,
    TICK,
    USE_ENV,
    QuoteError,
)
from leftoff.workflow.template.shell_names import counted_names, typed_names
from leftoff.workflow.template.shell_parts import VALUE
from leftoff.workflow.template.shell_reach import PLAIN, Reach
from leftoff.workflow.template.shell_reader import Reader
from leftoff.workflow.template.shell_walk import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leftoff.workflow.template.shell_commands import Evaluated

_WORD = re.compile(r"[A-Za-z0-9_@%+:,./-]+", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)
_COUNTS = re.compile(r"\s*([-+]?[0-9][0-9A-Za-z#]*(\.[0-9]+)?)?\s*", re.ASCII)
_SUBSCRIPT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?\[[^\]]*", re.ASCII)
# Wherever bash reads a number it executes the $(…) in a subscript.
_EVALUATED = re.compile(r"\[.*[$`]", re.DOTALL)
_DQ = str.maketrans({"\\": "\\\\", '"': '\\"', "$": "\\$", "`": "\\`"})
_HERE = str.maketrans({"\\": "\\\\", "$": "\\$", "`": "\\`"})
_AGAIN = READS_AGAIN
_NUMERIC = (ARITH, COUNT)
_EXPANDING = (*COMMANDS, DOUBLE, BRACE, ARITH, COUNT)
# ${name:-, and the other ways to say what comes instead; then text follows.
_IN_BRACES = re.compile(r"[A-Za-z0-9_@*]+(\[[^\]]*\])?(:?[-=+?]|[#%/^,])", re.ASCII)
_NAMED = re.compile(r"(\\*)\$([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!-])(?:\\\n)*$", re.ASCII)
_UNQUOTABLE = (ANSI, BRACE, ARITH, COUNT, TICK, COMMENT)


def quote(value: str) -> str:
    """One word of a script."""
    return value if _WORD.fullmatch(value) else "'" + value.replace("'", "'\\''") + "'"


def quoted_words(value: str | list[str]) -> str:
    """A text as a word, a list as words."""
    return " ".join(map(quote, value)) if isinstance(value, list) else quote(value)


class Value(Fields):
    """A value for a script: a text, or a list of them."""

    text: str | list[str]
    quoted: bool = False  # by ``| quote``
    number: bool | None = None  # whether it is sure to be one; None: it is there to be looked at

    @property
    def joined(self) -> str:
        return " ".join(self.text) if isinstance(self.text, list) else self.text

    @property
    def is_number(self) -> bool:
        return bool(_NUMBER.fullmatch(self.joined)) if self.number is None else self.number

    @property
    def may_count(self) -> bool:
        """Whether each of its texts looks like a number."""
        return all(_COUNTS.fullmatch(text) for text in self._texts)

    @property
    def plain(self) -> bool:
        """Whether each of its texts means itself wherever it stands."""
        return all(PLAIN.fullmatch(text) for text in self._texts)

    @property
    def _texts(self) -> list[str]:
        return self.text if isinstance(self.text, list) else [self.text]


def graph_of(script: Reader, *, ksh: bool) -> Graph:
    """Where the values of a script go that was read."""
    graph = Graph(_read_quoted, ksh=ksh)
    walk = Walk(graph, script)
    walk.events(script.frames[0].events, Place("", graph.new(READS), graph.new(PRINTS)))
    graph.finish()
    return graph


def _read_quoted(text: str) -> Reader:
    """A script in quotes, as far as it can be read."""
    script = Script(text, _unused(text), [], follow=False)
    try:
        script.filled()
    except QuoteError:
        pass
    return script


def _unused(text: str) -> str:
    return next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text)


class Script(Reader):
    """A script with a mark at each value, which are given in the order of the marks."""

    def __init__(
        self, text: str, mark: str, values: Sequence[Value], *, ksh: bool = False, follow: bool = True
    ) -> None:
        super().__init__(text, mark)
        self.follow = follow  # values that are handed on, too
        self.graph: Graph | None = None  # where they go
        self.values = values
        self.used = 0
        self.ksh = ksh
        self.typed = typed_names(text)
        self.counted = counted_names(text)

    def filled(self) -> str:
        out = super().filled()
        held = {
            (VALUE, "", str(index)): value for index, value in enumerate(self.values) if not value.is_number
        }
        if self.follow and held:
            self.graph = self.graph or graph_of(self, ksh=self.ksh)
            for found in Reach(self.text, self.graph, held).found():
                index = int(found.value[2])
                raise QuoteError(found.message, self._line_of(index), found.hint, index)
        return out

    def _line_of(self, index: int) -> int:
        """Where a value stands."""
        return 1 + sum(part.count("\n") for part in self.text.split(self.mark, index + 1)[: index + 1])

    def _next(self) -> Value:
        """The next value; all that is open around it has it too."""
        nested = False
        for frame in reversed(self.frames):
            if frame.kind in COMMANDS:
                frame.values.append((self.used, nested))
                frame.seen.append(self.used)
                nested = True
        self.used += 1
        return self.values[self.used - 1]

    def _error(self, message: str, hint: str = USE_ENV) -> QuoteError:
        return QuoteError(message, self.line, hint, self.used - 1)

    def _insert(self) -> None:
        """The next value, as the place wants it."""
        frame = self.frames[-1]
        kind = frame.kind
        if kind in COMMANDS and frame.start < 0:
            frame.start = self.at
        value = self._next()
        self._check_place(value, kind)
        if kind in COMMANDS and isinstance(value.text, list):
            text = self._words(value.text)
        else:
            self._check(value.joined, kind)
            text = self._quoted(value.joined, kind)
        if kind in COMMANDS:
            frame.word += "?"
        self.out.append(text)
        self.at += 1

    def _words(self, values: list[str]) -> str:
        """A list: each entry a word of its own, so nothing may touch it."""
        before, after = self.text[self.at - 1 : self.at], self._peek()
        if (before and before not in " \t\n(;&|") or (after and after not in " \t\n);&|"):
            hint = "Leave a blank on both sides, or make it one text: {{ names | join(',') }}."
            raise self._error("a list that touches other text", hint)
        for value in values:
            self._check(value, self.frames[-1].kind)
        first = [self._quoted(value, self.frames[-1].kind) for value in values[:1]]
        return " ".join([*first, *map(quote, values[1:])])

    def _check_place(self, value: Value, kind: str) -> None:
        """Places where no value may stand, or only a number."""
        if value.quoted and kind in (DOUBLE, SINGLE, ANSI):
            hint = "Leave `| quote` out: a value is quoted for the place where it stands."
            raise self._error("`| quote` inside quotes", hint)
        if kind in _EXPANDING:
            self._check_name(self.text[: self.at])
        inside = self.text[self.frames[-1].opened : self.at]
        if kind == BRACE and not _IN_BRACES.match(inside):
            raise self._error("a value in ${…}, before what is to be put there")
        if kind == TICK and _AGAIN.search(inside):
            raise self._error("a value that is read as commands in `…`", AS_COMMANDS)
        if value.is_number:
            return
        if kind in _NUMERIC:
            raise self._error(f"a value in {kind} that may be no whole number", AS_NUMBER)
        for frame in reversed(self.frames):
            if frame.kind in COMMANDS:
                if _SUBSCRIPT.fullmatch(frame.word):
                    raise self._error("a value in a subscript, name[…]", AS_NUMBER)
                break

    def _check_name(self, before: str) -> None:
        """``$NAME`` right before a value: the value could go on with the name."""
        found = _NAMED.search(before[-200:])
        if found is not None and not len(found[1]) % 2:
            hint = f"Put the name in braces: ${{{found[2]}}}{{{{ … }}}}."
            raise self._error(f"a value right after `${found[2]}`, whose name it could go on with", hint)

    def _check(self, value: str, kind: str) -> None:
        if "\0" in value:
            raise self._error("a value with a NUL character in it", "No command can be given one.")
        if PLAIN.fullmatch(value):
            return
        if self.lost:
            what = (
                f"a value in a script whose quotes cannot be followed since line {self.lost}: {_short(value)}"
            )
            raise self._error(what)
        for frame in self.frames:
            if frame.kind in _UNQUOTABLE:
                raise self._error(f"a value in {frame.kind}, where it cannot be quoted: {_short(value)}")
            if frame.duplicates:  # bash expands it a second time
                raise self._error(f"a value after `>&`: {_short(value)}", "Write `> FILE 2>&1`.")
            subscript = frame.test or _SUBSCRIPT.fullmatch(frame.word)
            if subscript and _EVALUATED.search(value):
                raise self._error(f"a value that the shell may execute there: {_short(value)}")
        self.trusted = True

    # -- commands that read a value a second time

    def _read(self, source: str, values: list[tuple[int, bool]], redirect: str) -> list[Word]:
        if source.replace("\\\n", "") == "" and not values:
            return []
        held = [self.values[index] for index, _ in values]
        if source == self.mark and isinstance(held[0].text, list):
            return [Word(text, UNKNOWN, values, redirect) for text in held[0].text]
        text, shape = (
            literal(source, self.mark, texts) for texts in ([v.joined for v in held], [UNKNOWN for _ in held])
        )
        return [Word(text, shape, values, redirect, counts(source))]

    def _judge(self, words: list[Word]) -> None:
        self._refuse(evaluated(words, ksh=self.ksh, typed=self.typed, counted=self.counted))

    def _judge_list(self, name: str, words: list[Word]) -> None:
        self._refuse(kept({name}, words, self.typed, self.counted))

    def _refuse(self, evaluated: Iterable[Evaluated]) -> None:
        for found in evaluated:
            value = self.values[found.value]
            if not ((found.number and value.is_number) or (found.counted and value.may_count)):
                raise QuoteError(found.message, self.line, found.hint, found.value)

    def _judge_input(self, values: Sequence[int]) -> None:
        if values:
            raise QuoteError("a value that a shell reads as commands", self.line, AS_INPUT, values[0])

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
            found = self._next()
            value = quoted_words(found.text) if found.quoted else found.joined
            if not quoted:
                self._check_name(before)
                if not simple and _AGAIN.search(body):
                    raise self._error("a value that is read as commands in a here-document", AS_COMMANDS)
            if not PLAIN.fullmatch(value) and (not simple or (not quoted and before.endswith(("\\", "$")))):
                raise self._error("a value in a here-document")
            self.trusted = self.trusted or not PLAIN.fullmatch(value)
            out += [value if quoted else value.translate(_HERE), after]
        for frame in self.frames:
            frame.values = []  # they are no words of a command
        return "".join(out)


def _short(value: str) -> str:
    shown = repr(value)
    return shown if len(shown) <= 50 else f"{shown[:47]}…'"
