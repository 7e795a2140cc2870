"""TOML as people write it: where in a text each table, key, value and comment is.

It is read after ``tomllib`` has read it, so it need not find what is wrong, only where things are. What is told by keys
alone is one thing, however it is written: ``[a.b]`` and ``c = 1``, ``a.b.c = 1``, ``a = { b = { c = 1 } }``.
"""

from __future__ import annotations

import re
import tomllib

Keys = tuple[str, ...]
_BLANK = re.compile(r"[ \t\r\n\ufeff]+")
_SPACE = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\r\n]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")  # a date may have a blank before its time
_STRINGS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}',
        r"'''.*?'{3,5}",
        r'"(?:[^"\\\n]|\\.)*"',
        r"'[^'\n]*'",
    )
)


class Entry:
    """A key and its value: where the key starts, where the value is, what is in it if it is an inline table."""

    def __init__(self, path: Keys, start: int, table: Keys) -> None:
        self.path = path  # from the top
        self.table = table  # of what its key is counted
        self.start = start
        self.at = self.end = start
        self.inner: list[Entry] | None = None
        self.comma: int | None = None  # the one behind it, in an inline table


class Table:
    """A header, and the entries below it. The one without a header has an empty path, and starts at 0."""

    def __init__(self, path: Keys, start: int, *, many: bool = False) -> None:
        self.path = path
        self.start = start
        self.end = start  # of the header
        self.many = many
        self.entries: list[Entry] = []


class Reader:
    """A whole text: its tables in order, and its comments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.comments: list[tuple[int, int]] = []
        self.tables = [Table((), 0)]
        while self._blank():
            if self.text[self.at] == "[":
                self._header()
            else:
                table = self.tables[-1]
                table.entries.append(self._entry(table.path))

    def _blank(self) -> bool:
        """Go to what is neither blank nor a comment; whether there is any."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            if blank is not None:
                self.at = blank.end()
            comment = _COMMENT.match(self.text, self.at)
            if comment is None:
                return self.at < len(self.text)
            self.comments.append(comment.span())
            self.at = comment.end()

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found is not None else self.at

    def _header(self) -> None:
        start, many = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        table = Table(self._keys(), start, many=many)
        self.at += 2 if many else 1
        table.end = self.at
        self.tables.append(table)

    def _keys(self) -> Keys:
        """A key, maybe dotted; what follows it is next."""
        out = []
        while True:
            self._space()
            bare = _BARE.match(self.text, self.at)
            if bare is not None:
                out.append(bare.group())
                self.at = bare.end()
            else:
                start = self.at
                self._string()
                out.append(tomllib.loads(f"k = {self.text[start : self.at]}")["k"])
            self._space()
            if not self.text.startswith(".", self.at):
                return tuple(out)
            self.at += 1

    def _entry(self, table: Keys) -> Entry:
        start = self.at
        made = Entry((*table, *self._keys()), start, table)
        self.at += 1  # the sign between
        self._space()
        made.at = self.at
        self._value(made)
        made.end = self.at
        return made

    def _string(self) -> None:
        found = next(filter(None, (kind.match(self.text, self.at) for kind in _STRINGS)))
        self.at = found.end()

    def _value(self, entry: Entry | None = None) -> None:
        char = self.text[self.at]
        if char in "\"'":
            self._string()
        elif char == "[":
            self.at += 1
            while self._blank() and self.text[self.at] != "]":
                self._value()
                self._comma()
            self.at += 1
        elif char == "{":
            self._inline(entry)
        else:
            found = _WORD.match(self.text, self.at)
            assert found is not None
            self.at = found.end()

    def _inline(self, entry: Entry | None) -> None:
        path = entry.path if entry is not None else ()
        inner: list[Entry] = []
        self.at += 1
        while self._blank() and self.text[self.at] != "}":
            inner.append(self._entry(path))
            inner[-1].comma = self._comma()
        self.at += 1
        if entry is not None:
            entry.inner = inner

    def _comma(self) -> int | None:
        self._blank()
        if not self.text.startswith(",", self.at):
            return None
        self.at += 1
        return self.at - 1
