"""Plain text: names made harmless, widths counted in columns, sizes as people write them.

Names and values of a run may come from anywhere, so nothing that a terminal would obey is printed as it is: ``clean``
escapes it. Verbs print through ``out``, ``say`` or a page (``leftoff.cli.screen``), which escape all text. A verb
cleans text itself only if it measures it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

Span = tuple[str, str]  # a piece of text and what it is: see ``leftoff.cli.screen.STYLES``
Line = list[Span]

_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_JOINERS = "\u200c\u200d"  # invisible, harmless, and part of how some scripts and emoji are written


def clean(text: str) -> str:
    """Text on one line, with everything escaped that a terminal would obey or hide."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if char.isspace() and code > 0x9F and code not in (0x2028, 0x2029):
        return " "  # a space, however wide
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def step_name(path: str) -> str:
    """A step as people read it, on one line."""
    from leftoff.model.ids import shown_step

    return clean(shown_step(path))


def clean_lines(text: str) -> str:
    """The same for text that may have several lines."""
    return text if text.isprintable() else "\n".join(map(clean, text.split("\n")))


def visible(text: str) -> str:
    """The same for a value that is shown bare. Its tabs also stay."""
    return "\t".join(map(clean_lines, text.split("\t")))


def safe_json(text: str, encoding: str = "utf-8") -> str:
    """The same JSON, with what a terminal would obey or hide written as ``\\uXXXX``: it can only be inside strings.

    For a stream that is not UTF-8, all other characters than ASCII are written so.
    """
    if encoding != "utf-8":
        return "".join(c if c.isascii() and c.isprintable() else _utf16(c) for c in text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else _utf16(c) for c in text)


def _utf16(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def width(text: str) -> int:
    """How many columns a terminal gives it."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if char in _JOINERS or category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Return as much of a text as fits into so many columns."""
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:index]
    return text


def pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Rows as aligned columns."""
    if not rows:
        return []
    wide = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [gap.join(pad(cell, wide[i]) for i, cell in enumerate(row)).rstrip() for row in rows]


# -- values


def value(thing: Any) -> str:
    """A JSON value on one line."""
    from leftoff.model.codec import text

    if thing == {"redacted": True}:
        return "[redacted]"
    return clean(text(thing))


def size(number: Any) -> str:
    """Bytes as people say them."""
    if not isinstance(number, (int, float)):
        return ""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return ""


def printable(text: str) -> str:
    """Text as it can be written: what came in as invalid UTF-8 is shown escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def out(text: str) -> None:
    """A result on stdout: as it is for a program, harmless on a terminal."""
    sys.stdout.write(printable(visible(text) if sys.stdout.isatty() else text) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Talk on stderr, for people: harmless, wherever it goes."""
    sys.stderr.write(printable(clean_lines(text)))
    sys.stderr.flush()


def discard(fd: int) -> None:
    """Discard what Python still has for a stream that takes nothing any more, so that it does not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


_TAB = "    "


def tidy(line: str) -> str:
    """One line as a terminal may have it: no colours, no cursor movements, of a redrawn line what it was last."""
    if line.isprintable():
        return line
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\x1b" in line or "\x9b" in line:
        from leftoff.engine.quoting import without_escapes

        line = without_escapes(line)
    if "\b" in line:
        line = line.replace("\b", "")
    return clean(line.replace("\t", _TAB))
