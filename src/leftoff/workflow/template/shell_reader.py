"""A shell script, read as a shell would, just far enough to know at each place which quotes are open.

Shells differ, and their grammar has corners that nobody enters on purpose. The reader knows when it comes to one: from
that line on it is ``lost``, and whoever relies on it must not. Some scripts are refused outright: one that is wrong for
a shell may still be read on by it, in ways that no quoting survives.
"""

from __future__ import annotations

import re

from leftoff.workflow.template.shell_commands import Word, reads_commands
from leftoff.workflow.template.shell_frames import (
    ANSI,
    ARITH,
    BRACE,
    COMMANDS,
    COMMENT,
    COUNT,
    DOUBLE,
    GROUP,
    SINGLE,
    SUBST,
    TICK,
    TOP,
    Event,
    Frame,
    QuoteError,
    Span,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OPENS_COMMAND = frozenset("if then else elif do while until ! { time".split())
_OPERATORS = tuple("$<>(&|;")
_PARAMETERS = "$!?#@*-0123456789"  # $$, $!, …
_PLAIN_SUBSCRIPT = re.compile(r"\[[A-Za-z0-9_$@*+!^.,:-]*\]", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IN_BRACES = re.compile(r"\{[^{}]*(\?[^{}]*,|,[^{}]*\?)")  # brace expansion, with something unknown in it
_DESCRIPTOR = re.compile(r"\d+|\{\w+\}", re.ASCII)
_NO_WORDS = re.compile(r"\(\s*\)")
_HERE_START = re.compile(
    r"""<<(?P<tabs>-?)[ \t]*(?:(?P<plain>[\w.+:-]+)|'(?P<single>[^'\n]+)'|"(?P<double>[^"\\$`\n]+)\""""
    r"""|\\(?P<escaped>[\w.+:-]+))(?=[\s;&|<>()]|$)"""
)


class Reader:
    """A script with a mark at each value; what stands for a value is for a subclass to say."""

    def __init__(self, text: str, mark: str) -> None:
        self.text = text
        self.mark = mark
        self.at = 0
        self.line = 1
        self.out: list[str] = []
        self.frames = [Frame(TOP, 1)]
        self.spans: dict[int, Span] = {}  # what was closed again, by where its inside began
        self.lost = 0  # the line from which the quotes cannot be followed
        self.broken = 0  # the line that bash would stumble over, to go on with the next one, in quotes or not
        self.trusted = False  # whether a value was inserted whose safety hangs on the quotes
        read_commands = self._commands
        self.readers: dict[str, Callable[[str], None]] = {
            TOP: read_commands, GROUP: read_commands, SUBST: read_commands, DOUBLE: self._double,
            SINGLE: self._single, ANSI: self._ansi, BRACE: self._brace, ARITH: self._arith, COUNT: self._arith,
            TICK: self._tick, COMMENT: self._comment,
        }  # fmt: skip

    def filled(self) -> str:
        """The script with its values in place."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == self.mark:
                self._insert()
            else:
                self.readers[self.frames[-1].kind](char)
        self._end_word()
        for frame in reversed(self.frames):
            self._end_pipeline(frame)
        if self.trusted:
            self._check_end()
        return "".join(self.out)

    def _check_end(self) -> None:
        if self.broken:
            raise QuoteError(
                "a list, name=(…), with more than words in it", self.broken, "Write it as name=(a b c)."
            )
        if len(self.frames) > 1:
            last = self.frames[-1]
            what = f"{last.kind} that opens on line {last.line} never closes"
            raise QuoteError(what, last.line, "So it is not known how to quote the values in it. Close it.")

    def _insert(self) -> None:
        """Put the next value where the mark is, and go past it."""
        raise NotImplementedError

    def _filled_here(self, body: str, quoted: bool) -> str:
        """The body of a here-document with its values."""
        raise NotImplementedError

    def _read(self, source: str, values: list[tuple[int, bool]], redirect: str) -> list[Word]:
        """A word of a command, as far as it is known; a list of values is several."""
        raise NotImplementedError

    def _judge(self, words: list[Word]) -> None:
        """Refuse a simple command that reads one of its values a second time."""
        raise NotImplementedError

    def _judge_list(self, name: str, words: list[Word]) -> None:
        """Refuse values that cannot be entries of this list, name=(…)."""
        raise NotImplementedError

    def _judge_input(self, values: Sequence[int]) -> None:
        """Refuse values that a shell is given as commands."""
        raise NotImplementedError

    # -- reading

    def _take(self, count: int = 1) -> None:
        """Copy what is next."""
        taken = self.text[self.at : self.at + count]
        self.out.append(taken)
        if "\n" in taken:
            self.line += taken.count("\n")
            if any(frame.heres for frame in self.frames[:-1]):
                self._lose()  # inside quotes, before the body of a here-document: shells differ
        self.at += count

    def _peek(self, ahead: int = 1) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def _push(self, kind: str, count: int) -> None:
        self.frames.append(Frame(kind, self.line, self.at + count))
        self._take(count)

    def _pop(self, count: int = 1) -> None:
        fed = self.frames[-1].kind in COMMANDS and self._end_pipeline(self.frames[-1])
        ended = self.frames.pop()
        self.spans[ended.opened] = Span(ended.kind, self.at, ended.events)
        if fed and ended.inner and self.text[ended.opened - 2] == ">":
            self.frames[-1].feeds = True
        if ended.heres:
            self._lose()  # its body comes after the parenthesis
        self._take(count)
        top = self.frames[-1]
        if ended.kind in (GROUP, COUNT) and not ended.inner:  # a command of its own; after f() comes another
            top.command = True
        elif top.kind in COMMANDS and not top.word:
            top.word = "?"  # something that is not known before it is executed

    def _lose(self) -> None:
        self.lost = self.lost or self.line

    def _escape(self) -> None:
        """A backslash and what it takes away."""
        if self._peek() == self.mark:
            hint = "Leave it out: values are quoted as it is."
            raise QuoteError("a backslash right before a value", self.line, hint)
        if self._peek() == "\n" and self.text[self.at - 1 : self.at] in _OPERATORS:
            self._lose()  # $( and << and others are the same with a line's end in the middle
        self._take(2)

    def _dollar(self) -> bool:
        """What a dollar opens; False where it is just a dollar."""
        follows = self._peek()
        if follows == self.mark:
            hint = "Write {{ … }} for a value of the workflow, $NAME for a variable of the shell."
            raise QuoteError("a `$` right before a value: `${{ … }}`", self.line, hint)
        if follows == "(" and self._peek(2) == "(":
            self._push(ARITH, 3)
        elif follows == "(":
            self._push(SUBST, 2)
        elif follows == "{":
            if self._peek(2) in (" ", "\t", "\n", "|"):
                self._lose()  # a command, to some shells
            self._push(BRACE, 2)
        elif follows == "[":  # arithmetic as it was once written
            if self.mark in self.text[self.at : self.text.find("]", self.at)]:
                raise QuoteError("a value in $[…]", self.line, "Write $(( {{ n | int }} )).")
            self._lose()
            self._take(2)
        elif follows and follows in _PARAMETERS:
            if follows == "$" and self._peek(2) in ("'", '"', "(", "{", "[", self.mark):
                self._lose()  # $$ and '…', or $ and $'…': shells differ
            self._take(2)
        else:
            return False
        return True

    def _commands(self, char: str) -> None:
        frame = self.frames[-1]
        if char == "\n":
            fed = self._end_line(frame)
            self._take()
            self._here_bodies(frame, fed)
        elif char in " \t":
            self._end_word()
            self._take()
        elif char == "&" and (self._peek() == ">" or self.text[self.at - 1 : self.at] == "|"):  # &> and |&
            self._end_word()
            frame.command = True
            self._take()
        elif char in ";&|":
            self._end_command(frame, piped=char == "|" and not self._beside("|"))
            self.broken = self.broken or (self.line if frame.array else 0)
            self._take()
        elif char in "()":
            self._parenthesis(frame, char)
        elif char == "#" and not frame.word:
            if self.text[self.at - 1 : self.at] == ")":
                self._lose()  # after (…) it is a comment, after <(…) it is not
            self._push(COMMENT, 1)
        elif char == "<" and self._peek() == "<":
            self._end_word()
            self._here(frame)
        elif char in "<>" and self._peek() == "(":
            self._in_word(frame, char)
        elif char in "<>":
            self._end_word()
            self._redirect(frame)
        else:
            if char == "[" and (frame.array or _NAME.fullmatch(frame.word)):
                self._subscript()
            self._in_word(frame, char)

    def _subscript(self) -> None:
        """``name[…`` may be a pattern, or one word up to its bracket with whatever is between."""
        if not _PLAIN_SUBSCRIPT.match(self.text, self.at):
            self._lose()

    def _redirect(self, frame: Frame) -> None:
        frame.duplicates = self._peek() == "&"
        if frame.array:
            self.broken = self.broken or self.line
        self._aim(frame, self.text[self.at] + "&" * frame.duplicates)
        self._take(2 if frame.duplicates or self._peek() == "|" else 1)

    def _aim(self, frame: Frame, operator: str) -> None:
        """The next word is no argument; neither is a number right before the operator."""
        touches = self.text[self.at - 1 : self.at] not in ("", " ", "\t")
        frame.descriptor = ""
        if frame.words and touches and _DESCRIPTOR.fullmatch(frame.words[-1].text):
            frame.descriptor = frame.words.pop().text
        frame.redirect = operator

    def _in_word(self, frame: Frame, char: str) -> None:
        if frame.start < 0:
            frame.start = self.at
        if char == "\\":
            frame.word += "" if self._peek() == "\n" else "?"
            self._escape()
            return
        kinds = {"'": SINGLE, '"': DOUBLE, "`": TICK}
        if char in kinds:
            frame.word += "?"
            self._push(kinds[char], 1)
        elif char == "$" and self._peek() == "'":
            frame.word += "?"
            self._push(ANSI, 2)
        elif char == "$" and self._dollar():
            frame.word += "?"
        else:
            frame.word += char
            self._take()

    def _end_word(self) -> None:
        frame = self.frames[-1]
        direct = [value for value, nested in frame.values if not nested]
        if frame.start >= 0 or frame.values:
            source = self.text[frame.start : self.at] if frame.start >= 0 else ""
            for read in self._read(source, frame.values, frame.redirect):
                read.place(frame.start, self.at, frame.descriptor if frame.redirect else "")
                frame.words.append(read)
            frame.start, frame.values, frame.redirect = -1, [], ""
        word, frame.word = frame.word, ""
        if direct and _IN_BRACES.search(word):
            hint = "The shell makes several words of it. Write them one by one."
            raise QuoteError("a value in {…,…}", self.line, hint, direct[0])
        if not word:
            return
        if frame.command and not frame.array and word in ("case", "esac"):
            frame.cases = max(0, frame.cases + (1 if word == "case" else -1))
        elif word == "case" and frame.kind != TOP:
            self._lose()  # most likely a word like any other
        frame.duplicates = False
        if word in ("[[", "]]"):
            frame.test = word == "[["
        frame.command = frame.command and word in _OPENS_COMMAND

    def _end_command(self, frame: Frame, piped: bool = False) -> None:
        self._end_word()
        frame.command = True
        if piped:
            frame.members.append(frame.words)
            frame.words = []
        else:
            self._end_pipeline(frame)

    def _end_line(self, frame: Frame) -> bool:
        """Whether what follows as here-documents is read as commands. A line that ends in ``|`` goes on."""
        self._end_word()
        frame.command = True
        return False if frame.members and not frame.words else self._end_pipeline(frame)

    def _end_pipeline(self, frame: Frame) -> bool:
        """Judge its commands; whether one of them is a shell that reads commands."""
        members, frame.members = [*frame.members, frame.words], []
        frame.words = [Word("[[", "[[")] if frame.test else []
        if frame.array:
            self._judge_list(frame.array.rstrip("+="), members[-1])
            self.frames[-2].events.append(Event([members[-1]], list_of=frame.array.rstrip("+=")))
            return False
        frame.events.append(Event(members))
        before: list[int] = []
        fed = feeds = frame.feeds
        frame.feeds = False
        for words in members:
            self._judge(words)
            if reads_commands(words):
                fed = True
                self._judge_input(before)
            closes = bool(words) and words[0].text in ("}", "done", "fi", "esac")
            before += frame.seen if closes else [value for word in words for value, _ in word.values]
        if feeds:
            self._judge_input(before)
        return fed

    def _beside(self, char: str) -> bool:
        return char in (self._peek(), self.text[self.at - 1 : self.at])

    def _parenthesis(self, frame: Frame, char: str) -> None:
        word = frame.word
        if char == "(" and frame.start >= 0 and self.text[self.at - 1] in "<>":
            self._push(GROUP, 1)
            self.frames[-1].inner = True
            return
        self._end_word()
        if frame.test:
            self._lose()  # part of a pattern, maybe
        if char == "(":
            self._open_parenthesis(frame, word)
        elif frame.cases:  # the end of a pattern: case x in a) …
            self._end_command(frame)
            frame.events[-1].pattern = True
            self._take()
        elif frame.kind == TOP:  # one too many; the shell will say so
            self._lose()
            self._take()
        else:
            self._pop()

    def _open_parenthesis(self, frame: Frame, word: str) -> None:
        array = word.endswith("=")
        if not array:
            self._end_pipeline(frame)
            if frame.array:  # zsh: name=(*(N))
                frame.events.append(Event([[]]))
            last = frame.events[-1]
            last.defines = bool(last.members[-1]) and _NO_WORDS.match(self.text, self.at) is not None
        if self._peek() == "(" and not word:
            frame.events[-1].opened = self.at + 2
            self._push(COUNT, 2)
        else:
            if not array:
                frame.events[-1].opened = self.at + 1
            self._push(GROUP, 1)
            self.frames[-1].array = word if array else ""

    def _double(self, char: str) -> None:
        if char == '"':
            self._pop()
        else:
            self._expanding(char)

    def _expanding(self, char: str) -> None:
        """A character where substitutions still happen."""
        if char == "\\":
            self._escape()
        elif char == "`":
            self._push(TICK, 1)
        elif char != "$" or not self._dollar():
            self._take()

    def _single(self, char: str) -> None:
        if char == "'":
            self._pop()
        else:
            self._take()

    def _ansi(self, char: str) -> None:
        if char == "\\":
            if self._peek() == "'":
                self._lose()  # where there are no such quotes, this ends them
            self._escape()
        else:
            self._single(char)

    def _brace(self, char: str) -> None:
        if char == "}":
            self._pop()
        elif char == "'":
            if self.text[self.at - 1] == "$" or any(frame.kind == DOUBLE for frame in self.frames):
                self._lose()  # a quote here, or just a character: shells differ
                self._take()
            else:
                self._push(SINGLE, 1)
        elif char == '"':
            self._push(DOUBLE, 1)
        else:
            self._expanding(char)

    def _arith(self, char: str) -> None:
        frame = self.frames[-1]
        if char == ")":
            if frame.depth:
                frame.depth -= 1
                self._take()
            elif self._peek() == ")":
                self._pop(2)
            else:  # two subshells, after all
                self._lose()
                self._pop()
        elif char == "(":
            frame.depth += 1
            self._take()
        elif char in "'\"":
            self._lose()
            self._take()
        else:
            self._expanding(char)

    def _tick(self, char: str) -> None:
        if char == "`":
            self._pop()
        elif char == "\\":
            self._escape()
        else:
            self._take()

    def _comment(self, char: str) -> None:
        if char == "\n":
            self.frames.pop()  # the line ends as if the comment were not there
        else:
            self._take()

    # -- here-documents

    def _here(self, frame: Frame) -> None:
        if self._peek(2) == "<":
            self._aim(frame, "<<<")
            self._take(3)
            return
        found = _HERE_START.match(self.text, self.at)
        if found is None or self.mark in found.group():
            raise QuoteError("a here-document whose end is no plain word", self.line, "For example: <<'EOF'")
        quoted = found["plain"] is None
        delimiter = found["plain"] or found["single"] or found["double"] or found["escaped"] or ""
        self._aim(frame, "")
        frame.words.append(Word("", "", redirect="<<", expands=not quoted))
        frame.heres.append((delimiter, bool(found["tabs"]), quoted, frame.words[-1]))
        self._take(found.end() - self.at)

    def _here_bodies(self, frame: Frame, fed: bool) -> None:
        heres, frame.heres = frame.heres, []
        for delimiter, tabs, quoted, word in heres:
            before = len(frame.seen)
            start = self.at
            self._here_body(delimiter, tabs, quoted)
            word.place(start, self.at, "")
            if fed:
                self._judge_input(frame.seen[before:])
            elif frame.members:  # the line ended in `|`
                frame.members[-1].append(Word("", "", [(value, False) for value in frame.seen[before:]]))

    def _here_body(self, delimiter: str, tabs: bool, quoted: bool) -> None:
        start, line = self.at, self.line
        end = start
        while end < len(self.text):
            stop = self.text.find("\n", end)
            stop = len(self.text) if stop < 0 else stop
            if bare(self.text[end:stop], tabs) == delimiter:
                break
            end = stop + 1
        body = self.text[start : min(end, len(self.text))]
        if "\\\n" in body and not quoted:
            self._lose()  # two lines are one, and so the end may be elsewhere
        filled = self._filled_here(body, quoted)
        if self.mark in body and delimiter in (bare(part, tabs) for part in filled.split("\n")):
            raise QuoteError(f"a value that would end the here-document at `{delimiter}`", line)
        self.out.append(filled)
        self.line += body.count("\n")
        self.at = start + len(body)
        last = self.text.find("\n", self.at)
        self._take((len(self.text) if last < 0 else last + 1) - self.at)  # the line that ends it


def bare(line: str, tabs: bool) -> str:
    return line.lstrip("\t") if tabs else line
