"""What a piece of a shell script is made of when the shell has expanded it: values, variables, the output of commands.

The reader has found where quotes, braces and substitutions open and close; here a word is taken apart by that.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from leftoff.model.fields import Fields
from leftoff.workflow.template.shell_commands import UNKNOWN
from leftoff.workflow.template.shell_frames import ARITH, BRACE, COUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leftoff.workflow.template.shell_frames import Span

# What a part is: a value (by its index), a variable (its name), an argument (1, 2, @), the output of commands (where
# they begin). And what the shell does with others: counts, takes them for a name, puts them into a variable (${n:=…}).
VALUE, NAME, ARGUMENT, OUTPUT = "value", "name", "argument", "output"
COUNTS, NAMES, SETS = "counts", "names", "sets"

DEEP = 30  # no script is, but one that was made to be

_PIECE = re.compile(
    r"""\\.|\$'(?:\\.|[^'\\])*'|'[^']*'|"|\$\{|[$<>]\(|`|\$\[|\$(?P<name>[A-Za-z_]\w*|[0-9@*])|\$.""",
    re.ASCII | re.DOTALL,
)
_IN_BRACES = re.compile(
    r"(?P<flags>\([^)]*\))?(?P<sign>[!#^=~]*)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*])?(?P<list>\[)?", re.ASCII
)
_NO_DIGITS = re.compile(r"//\[[!^]0-9\]/?")  # ${n//[!0-9]/}: what is left is a number
_OFFSET = re.compile(r":\s*[^-=+?}\s]")
_SETS = re.compile(r":?=")
_NAMED = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*|[0-9@*])", re.ASCII)
_OR_NAME = re.compile(r"\$[({]|[A-Za-z_]\w*", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SET = re.compile(r"\+?=")
_ELEMENT = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)


class Part(Fields):
    """A part of a word; ``quoted``: its blanks make no words of it."""

    kind: str
    key: str | int
    quoted: bool = False
    inside: Sequence[Part] = ()


class Parts:
    """The parts of any piece of one script."""

    def __init__(self, text: str, mark: str, spans: dict[int, Span]) -> None:
        self.text = text
        self.mark = mark
        self.spans = spans
        self.depth = 0  # of braces in braces
        self.marks = [at for at, char in enumerate(text) if char == mark]
        self.piece = re.compile(f"{_PIECE.pattern}|{re.escape(mark)}", re.ASCII | re.DOTALL)

    def of(self, start: int, end: int, quoted: bool = False) -> Iterator[Part]:
        """What stands between two places."""
        at = start
        while found := self.piece.search(self.text, at, end):
            at, piece = found.end(), found.group()
            if piece == self.mark:
                yield Part(VALUE, bisect_left(self.marks, found.start()), True)
            elif found["name"]:
                yield _variable(found["name"], quoted)
            elif piece == '"':
                quoted = not quoted
            elif piece[0] == "'" and quoted:
                at = found.start() + 1  # just a character
            elif piece == "$[":
                yield Part(COUNTS, "", inside=list(self.loose(at, end)))
            elif piece in ("${", "$(", "<(", ">(", "`"):
                opened, at = self._opened(at, end)
                yield from self._inside(opened, at, quoted)

    def script(self, start: int, end: int) -> str:
        """A word without its quotes, for whoever reads it again; what is not known yet is UNKNOWN in it."""
        out: list[str] = []
        at, quoted = start, False
        while found := self.piece.search(self.text, at, end):
            out.append(self.text[at : found.start()])
            at, piece = found.end(), found.group()
            if piece[0] == "'" and quoted:
                at = found.start() + 1
                out.append("'")
            elif piece == '"':
                quoted = not quoted
            elif piece[0] == "\\":
                out.append(piece if quoted and piece[1] not in '$`"\\' else piece[1].replace("\n", ""))
            elif "'" in piece:
                out.append(piece.lstrip("$")[1:-1])
            else:
                out.append(UNKNOWN)
                if piece in ("${", "$(", "<(", ">(", "`"):
                    at = min(self._opened(at, end)[1] + 1, end)
        return "".join([*out, self.text[at:end]])

    def loose(self, start: int, end: int) -> Iterator[Part]:
        """Every value and variable that is named between two places, quoted or not."""
        for at in self.marks[bisect_left(self.marks, start) : bisect_left(self.marks, end)]:
            yield Part(VALUE, bisect_left(self.marks, at))
        for found in _NAMED.finditer(self.text, start, end):
            yield _variable(found[1], False)

    def words(self, start: int, end: int) -> list[Part]:
        """What is counted with between two places: names need no `$` there."""
        return [*self.of(start, end, True), *self._bare(start, end)]

    def _bare(self, start: int, end: int) -> Iterator[Part]:
        """The names that stand there, but in substitutions."""
        at = start
        while found := _OR_NAME.search(self.text, at, end):
            at = found.end()
            if found.group()[0] == "$":
                at = max(at, self.spans[at].end) if at in self.spans else at
            else:
                yield _variable(found.group(), True)

    def element(self, start: int, end: int) -> Iterator[Part]:
        """The subscript of an assignment, ``name[…]=``."""
        found = _ELEMENT.match(self.text, start, end)
        close = self.text.find("]", found.end(), end) if found else -1
        if found and close >= 0 and _SET.match(self.text, close + 1, end):
            name = found.group()[:-1]
            yield Part(COUNTS, name, inside=self.words(found.end(), close))

    def _opened(self, at: int, end: int) -> tuple[int, int]:
        """Where the inside of what opens here begins, and where it ends."""
        for opened in (at + 1, at) if self.text[at : at + 1] == "(" else (at,):
            span = self.spans.get(opened)
            if span is not None and span.end <= end:
                return opened, span.end
        return -at, end

    def _inside(self, opened: int, end: int, quoted: bool) -> Iterator[Part]:
        if opened <= 0:  # not known how far it goes
            yield from self.loose(-opened, end)
        elif self.spans[opened].kind in (ARITH, COUNT):
            yield Part(COUNTS, "", inside=self.words(opened, end))
        elif self.spans[opened].kind == BRACE:
            yield from self._braces(opened, end, quoted) if self.depth < DEEP else self.loose(opened, end)
        else:
            yield Part(OUTPUT, opened, quoted)

    def _braces(self, start: int, end: int, quoted: bool) -> Iterator[Part]:
        """``${…}``"""
        found = _IN_BRACES.match(self.text, start, end)
        assert found is not None
        name, sign, at = found["name"] or "", found["sign"] or "", found.end()
        of = [_variable(name, quoted)] if name else []
        if found["list"]:
            close = self.text.find("]", at, end)
            close = end if close < 0 else close
            if self.text[at:close] not in ("@", "*"):
                yield Part(COUNTS, name, inside=self.words(at, close))
            elif sign == "!":
                return  # the subscripts that there are
            at = min(close + 1, end)
        rest = self.text[at:end]
        if sign.startswith("#") and not rest:
            return  # a length
        if (sign == "!" and rest not in ("@", "*")) or rest.startswith("@P") or _evaluates(found["flags"]):
            yield Part(NAMES, name, inside=of)
        if not _NO_DIGITS.fullmatch(rest):
            yield from of
        self.depth += 1
        inside = [*self.of(at, end, quoted)]
        self.depth -= 1
        yield from inside
        if _OFFSET.match(rest):
            yield Part(COUNTS, "", inside=[*inside, *self._bare(at, end)])
        if _SETS.match(rest):
            yield Part(SETS, name, inside=inside)


def _variable(name: str, quoted: bool) -> Part:
    return Part(NAME if _WORD.fullmatch(name) else ARGUMENT, name, quoted)


def _evaluates(flags: str | None) -> bool:
    """``${(e)n}`` and ``${(P)n}`` of zsh."""
    return flags is not None and any(letter in flags for letter in "eP")
