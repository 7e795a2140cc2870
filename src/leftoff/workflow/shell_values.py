"""Hand values to a shell script by reference.

A value never becomes part of a script's text. ``echo {{ x }}`` becomes ``echo "${LEFTOFF_1?}"``, and the value is put
into the environment of the step. Inside quotes the reference is written so that it fits them. The ``?`` makes the shell
stop if something (``sudo``, ``docker``, ``env -i``) dropped the variable. Numbers, true, false and null are written as
they are.

To know which quotes are open, ``ShellScript`` reads the script once. It refuses a value where a reference would not be
expanded, or not to the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_PREFIX = "LEFTOFF_"
OWN_NAME = re.compile(r"LEFTOFF_[0-9]+")  # a variable that holds a value
_MOST_BYTES = 100_000  # of one value: Linux takes at most 131,072 bytes as one string
_MOST_TOGETHER = 1_000_000
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "busybox"))
# Languages that expand variables or code inside "…": a JSON text is not a literal in them.
_EXPANDING = frozenset(
    "fish csh tcsh perl ruby php pwsh powershell elixir julia groovy tclsh raku crystal ssh".split()
)

_CODE, _SUBSHELL, _SUBSTITUTION = "a script", "(…)", "$(…)"
_DOUBLE, _SINGLE, _HERE = '"…"', "'…'", "a here-document"
_ANSI, _TICK, _BRACE, _QUOTED_HERE = "$'…'", "`…`", "${…}", "a here-document whose end is quoted"
_ARITHMETIC, _PARENTHESIS = "$((…))", "(…) in $((…))"
_COMMANDS = (_CODE, _SUBSHELL, _SUBSTITUTION)
_NO_VALUES = (_ANSI, _TICK, _BRACE, _QUOTED_HERE)

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_END_WORD = re.compile(r"""(?:\\.|'[^'\n]*'|"[^"\n]*"|[^\s;&|<>()'"\\])+""")
_STARTS_COMMAND = re.compile(r"(?:^|[\n;&|(]|(?:^|\s)(?:then|do|else|elif|if|while|until|time|!|\{))\s*$")
_DUPLICATES = re.compile(r"[<>]&[ \t]*[^\s;&|()]*$")
_SPECIAL = {
    **dict.fromkeys(_COMMANDS, r"""[\\'"`$()<>#\n]|(?<!\w)case(?=\s)"""),
    _DOUBLE: r"""[\\"`$]""",
    _HERE: r"""[\\`$]""",
    _BRACE: r"""[\\'"`$}]""",
    _ARITHMETIC: r"""[\\'"`$()]""",
    _PARENTHESIS: r"""[\\'"`$()]""",
    _SINGLE: "'",
    _ANSI: r"[\\']",
    _TICK: r"[\\`]",
    _QUOTED_HERE: r"(?!)",
}

_USE_ENV = 'Hand it over in `env:`, as in env: {NAME: "{{ … }}"}, and write "$NAME" in the script.'
_USE_JOIN = (
    "Leave a blank on both sides to get one word per item, or make it one text: {{ names | join(',') }}."
)


class ScriptValue(NamedTuple):
    """A value for a script: a text, or a list of values.

    ``literal``: a number, true, false or null. ``quoted``: the text that ``| quote`` made. ``known`` is False before
    the run, when only the place of the value can be checked.
    """

    text: str
    literal: bool = False
    items: Sequence[ScriptValue] | None = None
    quoted: str | None = None
    known: bool = True


class RefusedValue(Exception):
    """A value cannot stand at its place. ``value`` is its index, ``line`` counts from 1."""

    def __init__(self, message: str, hint: str, value: int, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.value = value
        self.line = line


def is_shell(shell: str | Sequence[str] | None) -> bool:
    """Return whether ``shell:`` names a supported shell, possibly started by another program such as ``sudo``."""
    return shell is None or not _SHELLS.isdisjoint(_program_names(shell))


def takes_json(shell: str | Sequence[str] | None) -> bool:
    """Return whether ``| tojson`` writes a literal in the language of a ``shell:`` that is not a shell."""
    return _EXPANDING.isdisjoint(word.rstrip("0123456789.-") for word in _program_names(shell))


def only_shells(shell: str | Sequence[str] | None) -> tuple[str, str]:
    """Return the error and the hint for a value in a script that is not for a shell."""
    name = shell if isinstance(shell, str) else " ".join(shell or ())
    if takes_json(shell):
        hint = "Hand it over in `env:`, write {{ x | tojson }} for a literal, or {{ x | raw }} for the bare text."
    else:
        hint = "Hand it over in `env:` and read that variable in the script."
    return f"leftoff hands values to shells only, not to `{name}`", hint


def _program_names(shell: str | Sequence[str] | None) -> list[str]:
    words = [] if shell is None else shell.split() if isinstance(shell, str) else list(shell)
    return [os.path.basename(word) for word in words]


def shell_quote(text: str) -> str:
    """Return a text as one word of a script."""
    bare = re.fullmatch(r"[A-Za-z0-9_@%+:,./-]+", text)
    return text if bare else "'" + text.replace("'", "'\\''") + "'"


@dataclass
class _Frame:
    kind: str
    start: int  # its offset in the script
    used: int  # how many values come before it


class ShellScript:
    """A script with ``mark`` in the place of each value. The values are given in the order of the marks."""

    def __init__(self, text: str, mark: str, values: Sequence[ScriptValue]) -> None:
        self.environment: dict[str, str] = {}  # filled by `referenced`
        self._text = text
        self._mark = mark
        self._values = values
        self._special = {
            kind: re.compile(f"{special}|{re.escape(mark)}") for kind, special in _SPECIAL.items()
        }
        self._at = 0
        self._out: list[str] = []
        self._frames = [_Frame(_CODE, 0, 0)]
        self._used = 0  # values so far
        self._fresh = True  # whether a word begins here
        self._name_end = -1  # where the last `$NAME` ended
        self._case = False  # whether `case` was in a $(…), whose end cannot be told since
        self._documents: list[
            tuple[str, bool, bool]
        ] = []  # that begin after this line: end, quoted, tabs removed
        self._names: dict[str, str] = {}  # variables by their text
        self._bytes = 0

    def referenced(self) -> str:
        """Return the script with a reference in the place of each value, or raise ``RefusedValue``."""
        self._scan(len(self._text))
        self._check_closed(1)
        return "".join(self._out)

    # -- reading

    def _scan(self, end: int) -> None:
        while self._at < end:
            kind = self._frames[-1].kind
            found = self._special[kind].search(self._text, self._at, end)
            stop = found.start() if found else end
            if stop > self._at:
                self._take(stop)
                self._fresh = self._text[stop - 1] in " \t;&|"
            if found is None:
                continue
            char = found.group()
            if char == self._mark:
                self._insert()
            elif char == "\\":
                self._escape()
            elif char in "'\"`":
                self._quote(char, kind)
            elif char == "$":
                self._dollar(kind)
            elif kind in _COMMANDS:
                self._command_sign(char, end)
            else:
                self._close(kind)

    def _take(self, stop: int) -> None:
        """Copy the script up to a place."""
        self._out.append(self._text[self._at : stop])
        self._at = stop

    def _push(self, kind: str, length: int) -> None:
        self._frames.append(_Frame(kind, self._at, self._used))
        self._take(self._at + length)
        self._fresh = kind in _COMMANDS

    def _pop(self, length: int, *, fresh: bool = False) -> None:
        self._frames.pop()
        self._take(self._at + length)
        self._fresh = fresh

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == self._mark:
            raise self._refused("a backslash right before a value", "Leave the backslash out, or write two.")
        self._take(self._at + 2)
        self._fresh = self._fresh and following == "\n"

    def _quote(self, char: str, kind: str) -> None:
        opened = {'"': _DOUBLE, "'": _SINGLE, "`": _TICK}[char]
        if kind == opened or (kind == _ANSI and char == "'"):
            self._pop(1)
        elif char == "'" and self._is_quoted():
            self._take(self._at + 1)  # "${x:-it's}": only a character
        else:
            self._push(opened, 1)

    def _is_quoted(self) -> bool:
        """Return whether double quotes are open around this, or a here-document."""
        inner = next(frame for frame in reversed(self._frames) if frame.kind in (*_COMMANDS, _DOUBLE, _HERE))
        return inner.kind in (_DOUBLE, _HERE)

    def _dollar(self, kind: str) -> None:
        following = self._text[self._at + 1 : self._at + 3]
        if following[:1] == self._mark:
            hint = "Write {{ … }} for a value of the workflow, and \\$ for a dollar sign."
            raise self._refused("a `$` right before a value", hint)
        if following == "((" and self._is_arithmetic(self._at + 1):
            self._push(_ARITHMETIC, 3)
        elif following[:1] == "(":
            self._push(_SUBSTITUTION, 2)
        elif following[:1] == "{":
            self._push(_BRACE, 2)
        elif following[:1] == "'" and kind in _COMMANDS:
            self._push(_ANSI, 2)
        else:
            found = _VARIABLE.match(self._text, self._at)
            self._take(found.end() if found else self._at + 1)
            self._name_end = self._at if found else -1
            self._fresh = False

    def _command_sign(self, char: str, end: int) -> None:
        """Read a sign that means something between commands."""
        text, at = self._text, self._at
        if char == "(":
            arithmetic = text.startswith("((", at) and self._fresh and self._is_arithmetic(at)
            self._push(_ARITHMETIC if arithmetic else _SUBSHELL, 2 if arithmetic else 1)
        elif char == ")":
            kind = self._frames[-1].kind
            if kind == _CODE:  # it ends a pattern of `case`
                self._take(at + 1)
                self._fresh = True
            else:
                self._pop(1, fresh=kind == _SUBSHELL)
        elif char in "<>" and text.startswith("(", at + 1):
            self._push(_SUBSTITUTION, 2)
        elif char == "<" and text.startswith("<<", at) and not text.startswith("<<<", at):
            self._here_document()
        elif char in "<>":
            self._take(at + (3 if text.startswith("<<<", at) else 1))
            self._fresh = True
        elif char == "#" and self._fresh:
            stop = text.find("\n", at, end)
            comment = text[at : stop if stop >= 0 else end]
            self._used += comment.count(self._mark)
            self._out.append(comment.replace(self._mark, "..."))
            self._at += len(comment)
        elif char == "\n":
            self._take(at + 1)
            self._fresh = True
            documents, self._documents = self._documents, []
            for document in documents:
                self._body(*document, end)
        else:
            inside = any(frame.kind == _SUBSTITUTION for frame in self._frames)
            if char == "case" and inside and _STARTS_COMMAND.search(text[max(0, at - 100) : at]):
                self._case = True
            self._take(at + len(char))
            self._fresh = False

    def _close(self, kind: str) -> None:
        """Read a bracket inside ``${…}`` or ``$((…))``."""
        char = self._text[self._at]
        if char == "(":
            self._push(_PARENTHESIS, 1)
        elif kind == _ARITHMETIC and not self._text.startswith("))", self._at):
            self._take(self._at + 1)
        else:
            self._pop(2 if kind == _ARITHMETIC else 1)

    def _is_arithmetic(self, at: int) -> bool:
        """Return whether ``((`` is closed by ``))``; otherwise it is a subshell inside another one."""
        depth = 0
        for index in range(at, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[index], 0)
            if depth == 1 and index > at:
                return self._text.startswith(")", index + 1)
        return False

    def _here_document(self) -> None:
        """Read ``<<END``. Its body begins on the next line."""
        tabs = self._text.startswith("-", self._at + 2)
        self._take(self._at + 2 + tabs)
        while self._text.startswith((" ", "\t"), self._at):
            self._take(self._at + 1)
        found = _END_WORD.match(self._text, self._at)
        if found is None:
            return
        if self._mark in found.group():
            raise self._refused("a here-document whose end is a value", "Write a plain word: <<EOF.")
        end = re.sub(r"""\\(.)|['"]""", r"\1", found.group())
        self._documents.append((end, end != found.group(), tabs))
        self._take(found.end())
        self._fresh = False

    def _body(self, end_word: str, quoted: bool, tabs: bool, end: int) -> None:
        """Read the body of a here-document, and the line that ends it."""
        stop, continued = self._at, False
        while stop < end:
            newline = self._text.find("\n", stop, end)
            line = self._text[stop : newline if newline >= 0 else end]
            if not continued and (line.lstrip("\t") if tabs else line) == end_word:
                break
            continued = not quoted and (len(line) - len(line.rstrip("\\"))) % 2 == 1
            stop = newline + 1 if newline >= 0 else end
        self._frames.append(_Frame(_QUOTED_HERE if quoted else _HERE, self._at, self._used))
        depth = len(self._frames)
        self._scan(stop)
        self._check_closed(depth)
        del self._frames[depth - 1 :]
        newline = self._text.find("\n", stop, end)
        self._take(newline + 1 if newline >= 0 else end)
        self._fresh = True

    def _check_closed(self, depth: int) -> None:
        """Refuse the values after a quote that stays open: which quotes they are in cannot be told."""
        for frame in self._frames[depth:]:
            if frame.kind != _SUBSHELL and frame.used < len(self._values):
                line = self._line(frame.start)
                message = f"{frame.kind} that opens on line {line} of the script never closes"
                raise RefusedValue(message, "Close it, or write \\ before it.", frame.used, line)

    # -- writing

    def _insert(self) -> None:
        value = self._values[self._used]
        self._out.append(self._written(value, self._frames[-1].kind))
        self._used += 1
        self._at += 1
        self._fresh = False

    def _written(self, value: ScriptValue, kind: str) -> str:
        """Return what is written into the script for the next value."""
        following = self._text[self._at + 1 : self._at + 2]
        misread = self._name_end == self._at or (kind in _COMMANDS and following in ("<", ">"))
        if value.literal and not misread:  # $NAME3 would be another variable, and 3>FILE a file descriptor
            return value.text
        if kind in (_ARITHMETIC, _PARENTHESIS):
            if value.known and not _INTEGER.fullmatch(value.text):
                hint = "Write {{ x | int }}: the shell may execute what it takes for a number."
                raise self._refused("a value in $((…)) that is not a whole number", hint)
            return self._reference(value.text)
        for frame in self._frames:
            if frame.kind in _NO_VALUES:
                raise self._refused(f"a value in {frame.kind}", _USE_ENV)
        if self._case:
            raise self._refused("a value after `case` in $(…)", _USE_ENV)
        quotes = 1 if kind in (_DOUBLE, _SINGLE) else 0
        if kind != _HERE and _DUPLICATES.search(self._text[max(0, self._at - 100) : self._at - quotes]):
            # bash expands the word after `>&` twice.
            raise self._refused("a value right after `>&`", "Write `> FILE 2>&1`.")
        if kind not in _COMMANDS and value.quoted is not None:
            value = ScriptValue(value.quoted)
        if value.items is not None:
            return self._words(value.items, kind)
        reference = self._reference(value.text)
        return {_DOUBLE: reference, _HERE: reference, _SINGLE: f"'\"{reference}\"'"}.get(
            kind, f'"{reference}"'
        )

    def _words(self, items: Sequence[ScriptValue], kind: str) -> str:
        """Return a list as words. Nothing may touch it."""
        if kind not in _COMMANDS:
            raise self._refused(f"a list in {kind}", _USE_JOIN)
        before, after = self._text[max(0, self._at - 1) : self._at], self._text[self._at + 1 : self._at + 2]
        if not self._fresh or (before and before not in " \t\n(;&|") or (after and after not in " \t\n);&|"):
            raise self._refused("a list that touches other text", _USE_JOIN)
        return " ".join(item.text if item.literal else f'"{self._reference(item.text)}"' for item in items)

    def _reference(self, text: str) -> str:
        """Put a text into the environment, and return its reference."""
        if "\0" in text:
            raise self._refused("a value with a NUL character in it", "A command cannot be given one.")
        if text not in self._names:
            name = f"{_PREFIX}{len(self._names) + 1}"
            size = len(text.encode("utf-8", "surrogateescape"))
            self._bytes += size + len(name) + 2
            what = f"a value of {size:,} bytes" if size > _MOST_BYTES else "values of more than 1 MB together"
            if size > _MOST_BYTES or self._bytes > _MOST_TOGETHER:
                hint = "Read it in the script instead: `leftoff get NAME` prints a variable."
                raise self._refused(f"{what}: too large for the environment of a command", hint)
            self._names[text] = name
            self.environment[name] = text
        return f"${{{self._names[text]}?}}"

    def _line(self, offset: int) -> int:
        return self._text.count("\n", 0, offset) + 1

    def _refused(self, message: str, hint: str) -> RefusedValue:
        return RefusedValue(message, hint, self._used, self._line(self._at))
