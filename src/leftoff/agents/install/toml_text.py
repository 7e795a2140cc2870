"""Changing a TOML text in place: put a table in, change a value, and take it all out again, byte for byte.

What is put in stands on lines of its own, or, where its table is an inline one, behind what is in that. A table goes to
the end of the text, with an empty line before it; where the text ends without a line end, so does the table, and that
is how it is known afterwards. Comments are never ours: one that stands inside of what is taken out stays.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from leftoff.agents.install.jsonc import wrong, wrong_at
from leftoff.agents.install.tomlc import Entry, Keys, Reader, Table

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE = re.compile(r"[^\n]*(?:\n|$)")


class TomlText:
    """A TOML text that is being changed."""

    def __init__(self, text: str, path: str, empty: dict[str, str] | None = None) -> None:
        self.path = path
        self.text = text
        self.empty = dict(empty or {})
        self.plain()
        self._eol = "\r\n" if text.endswith("\r\n") or ("\r\n" in text and not text.endswith("\n")) else "\n"

    @property
    def nothing_left(self) -> bool:
        return not self.text.strip("\ufeff \t\r\n")

    def plain(self) -> Any:
        """What the text says; ``Invalid`` says where it says nothing."""
        try:
            return tomllib.loads(self.text.removeprefix("\ufeff"))
        except tomllib.TOMLDecodeError as error:
            told = str(error)
            place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", told)
            line, column = place.groups() if place is not None else (None, None)
            if line is None:
                line, column = str(self.text.count("\n") + 1), "1"
            what = (told[: place.start()] if place is not None else told).rstrip(".")
            raise wrong(f"{self.path}:{line}:{column}", f"this is not TOML: {what}") from None
        except RecursionError:
            raise wrong(f"{self.path}:1:1", "this is nested too deeply") from None

    def value(self, path: Keys) -> Any:
        found = self.plain()
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def has(self, path: Keys) -> bool:
        return self.value(path) is not None

    def wrong(self, path: Keys, what: str) -> Exception:
        """What is wrong with what is at a path, or with what is nearest above it."""
        places: list[tuple[Keys, int]] = []
        for table in Reader(self.text).tables:
            places += [(table.path, table.start), *((e.path, e.start) for e in _all(table.entries))]
        near = [start for found, start in places if _within(found, path)]
        near += [start for found, start in reversed(places) if found and _within(path, found)]
        return wrong_at(self.text, self.path, near[0] if near else 0, what)

    def _find(self, path: Keys) -> Entry | None:
        for table in Reader(self.text).tables:
            for entry in _all(table.entries):
                if entry.path == path and not table.many:
                    return entry
        return None

    # -- changing a value

    def set(self, path: Keys, value: Any) -> str:
        """Another value in the same place; what was written there."""
        entry = self._find(path)
        if entry is None:
            raise self.wrong(path, f"{'.'.join(path)} is not a plain value")
        was = self.text[entry.at : entry.end]
        self.put_back(path, written(value))
        return was

    def put_back(self, path: Keys, value: str) -> None:
        entry = self._find(path)
        if entry is not None:
            self.text = self.text[: entry.at] + value + self.text[entry.end :]

    # -- putting in

    def add(self, path: Keys, value: Any) -> None:
        """A value that is not there yet, as the table that it belongs to is written."""
        above = path[:-1]
        tables = Reader(self.text).tables
        inline = self._find(above)
        own = next((table for table in tables[1:] if table.path == above and not table.many), None)
        near = [entry for table in tables for entry in _all(table.entries) if _within(entry.path, above)]
        near = [entry for entry in near if len(entry.table) < len(above) < len(entry.path)]
        if inline is not None:
            self._into_inline(inline, path[-1:], value)
        elif isinstance(value, dict):
            self._table(path, value)
        elif own is not None:
            self._line_behind(own.entries[-1] if own.entries else own, path[-1:], value)
        elif near:
            self._beside(near[-1], path, value)
        else:  # there are only tables below it
            self.empty[_header(above)] = ""
            self._table(above, {path[-1]: value})

    def _beside(self, entry: Entry, path: Keys, value: Any) -> None:
        """A dotted key beside another of the same table."""
        keys = path[len(entry.table) :]
        holder = self._find(entry.table)
        if holder is not None and entry.start > holder.at:
            self._into_inline(holder, keys, value)
        else:
            self._line_behind(entry, keys, value)

    def _into_inline(self, entry: Entry, keys: Keys, value: Any) -> None:
        if entry.inner is None:
            raise self.wrong(entry.path, f"{_dotted(entry.path)} is not a table")
        new = f"{_dotted(keys)} = {written(value)}"
        if not entry.inner:
            self.empty["/".join(entry.path)] = self.text[entry.at + 1 : entry.end - 1]
            self.text = f"{self.text[: entry.at]}{{ {new} }}{self.text[entry.end :]}"
            return
        last = entry.inner[-1]
        at = last.end if last.comma is None else last.comma + 1
        new = f", {new}" if last.comma is None else f" {new},"
        self.text = self.text[:at] + new + self.text[at:]

    def _line_behind(self, before: Entry | Table, keys: Keys, value: Any) -> None:
        """A line of its own, behind that of a header or another key."""
        found = _LINE.match(self.text, before.end)
        at = found.end() if found is not None else len(self.text)
        line_end = self.text[_before_eol(self.text, at) : at]
        start = self.text.rfind("\n", 0, before.start) + 1
        indent = self.text[start : before.start] if not self.text[start : before.start].strip() else ""
        new = f"{indent}{_dotted(keys)} = {written(value)}"
        new = new + line_end if line_end else self._eol + new
        self.text = self.text[:at] + new + self.text[at:]

    def _table(self, path: Keys, value: dict[str, Any]) -> None:
        lines = [
            f"[{_dotted(path)}]",
            *(f"{_dotted((key,))} = {written(inner)}" for key, inner in value.items()),
        ]
        new = self._eol.join(lines)
        if not self.text.strip("\ufeff"):
            self.text += new + self._eol
        elif self.text.endswith("\n"):
            self.text += self._eol + new + self._eol
        else:
            self.text += self._eol * 2 + new

    # -- taking out

    def take_out(self, path: Keys) -> None:
        """A value or a table, however it is written, with all that is below it."""
        while True:
            reader = Reader(self.text)
            for table in reversed(reader.tables):
                if _within(table.path, path):
                    self._remove_table(reader, table)
                    break
                found = [entry for entry in _all(table.entries) if _within(entry.path, path)]
                if found:
                    self._remove_entry(reader, table, found[0])
                    break
            else:
                return

    def _remove_table(self, reader: Reader, table: Table) -> None:
        """A header and its entries, and the empty line above."""
        for entry in reversed(table.entries):
            self._remove_lines(reader, entry.start, entry.end)
        above = self._empty_line_above(table.start)
        if above is not None:
            self.text = self.text[: above[0]] + self.text[above[1] :]
        place, reader = reader.tables.index(table), Reader(self.text)
        self._remove_lines(reader, reader.tables[place].start, reader.tables[place].end)

    def _empty_line_above(self, at: int) -> tuple[int, int] | None:
        """The empty line that parts a header, and the comments right above it, from the rest."""
        end = self.text.rfind("\n", 0, at) + 1
        while end:
            start = self.text.rfind("\n", 0, end - 1) + 1
            line = self.text[start:end].strip()
            if not line:
                return start, end
            if not line.startswith("#"):
                return None
            end = start
        return None

    def _remove_entry(self, reader: Reader, table: Table, entry: Entry) -> None:
        top = next(e for e in table.entries if entry in _all([e]))
        if top is not entry:
            self._remove_member(reader, top, entry)
            return
        self._remove_lines(reader, entry.start, entry.end)
        if _header(table.path) in self.empty and len(table.entries) == 1:
            table.entries.clear()
            self._remove_table(reader, table)

    def _remove_member(self, reader: Reader, top: Entry, entry: Entry) -> None:
        """One of an inline table; comments in it go before the line."""
        holder = next(e for e in _all([top]) if entry in (e.inner or ()))
        assert holder.inner is not None
        was = self.empty.get("/".join(holder.path))
        place = holder.inner.index(entry)
        start, end, new = entry.start, entry.end, ""
        if len(holder.inner) == 1:
            start, end = (holder.at + 1, holder.end - 1) if was is not None else (start, end)
            new = was or ""
        elif entry.comma is not None:
            start = len(self.text[:start].rstrip(" \t")) if place else start
            end = entry.comma + 1 if place else holder.inner[1].start
        else:
            start = holder.inner[place - 1].end
        kept = [self.text[a:b] for a, b in reader.comments if start <= a and b <= end]
        self.text = self.text[:start] + new + self.text[end:]
        line = self.text.rfind("\n", 0, top.start) + 1
        self.text = self.text[:line] + "".join(c + self._eol for c in kept) + self.text[line:]

    def _remove_lines(self, reader: Reader, start: int, end: int) -> None:
        """The lines of a statement; its comments stay, on lines of their own."""
        first = self.text.rfind("\n", 0, start) + 1
        found = _LINE.match(self.text, end)
        last = found.end() if found is not None else len(self.text)
        line_end = self.text[_before_eol(self.text, last) : last]
        inside = [self.text[a:b] for a, b in reader.comments if start <= a and b <= last]
        kept = (line_end or self._eol).join(self.text[first:start] + comment for comment in inside)
        if kept:
            kept += line_end
        elif not line_end:  # the text ends without one, and so it shall
            first = _before_eol(self.text, first)
        self.text = self.text[:first] + kept + self.text[last:]


def _within(path: Keys, outer: Keys) -> bool:
    return path[: len(outer)] == outer


def _header(path: Keys) -> str:
    return f"[{'/'.join(path)}]"


def _all(entries: list[Entry]) -> list[Entry]:
    """These, and those in inline tables."""
    out = []
    for entry in entries:
        out.append(entry)
        out += _all(entry.inner or [])
    return out


def _before_eol(text: str, at: int) -> int:
    """Where the line end before this place starts."""
    return at - (2 if text[:at].endswith("\r\n") else 1 if text[:at].endswith("\n") else 0)


def _dotted(keys: Keys) -> str:
    return ".".join(key if _BARE.fullmatch(key) else written(key) for key in keys)


def written(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_dotted((key,))} = {written(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
