"""Plain text: names made harmless, widths counted in columns, times and sizes as people say them.

Whatever a run carries (a title, a step, a value) may have come from anywhere. Nothing that a terminal would obey is
ever printed as it is: ``clean`` escapes it. Nothing here needs more than the language itself, so that a piped listing
starts as fast as it can.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    Span = tuple[str, str]  # a piece of text and what it is: see ``leftoff.cli.term.STYLES``
    Line = list[Span]

_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_JOINERS = "\u200c\u200d"  # invisible, harmless, and part of how some scripts and emoji are written
ELLIPSIS = "…"
DAY_MS = 86_400_000


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


def crop(text: str, columns: int) -> str:
    """At most so many columns; what was cut leaves an ellipsis."""
    if width(text) <= columns:
        return text
    return _cut(text, max(columns - 1, 0)) + (ELLIPSIS if columns > 0 else "")


def _cut(text: str, columns: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:index]
    return text


def pad(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def fold(text: str, columns: int) -> list[str]:
    """In pieces of at most so many columns, broken at spaces where there are any."""
    pieces: list[str] = []
    while width(text) > columns:
        piece = _cut(text, columns) or text[0]
        at = piece.rfind(" ") if text[len(piece)] != " " else len(piece)
        if at > 0:
            piece = text[:at]
        pieces.append(piece.rstrip())
        text = text[len(piece) :].lstrip(" ")
    return [*pieces, text] if text or not pieces else pieces


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Rows as aligned columns."""
    if not rows:
        return []
    wide = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [gap.join(pad(cell, wide[i]) for i, cell in enumerate(row)).rstrip() for row in rows]


def plain(lines: Iterable[Line]) -> str:
    """Lines without their colours."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


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


# -- times

_AGES = (
    (60_000, 1000, "s", "second"),
    (3_600_000, 60_000, "min", "minute"),
    (2 * DAY_MS, 3_600_000, "h", "hour"),
    (60 * DAY_MS, DAY_MS, "d", "day"),
    (730 * DAY_MS, 30 * DAY_MS, "mo", "month"),
    (1 << 60, 365 * DAY_MS, "y", "year"),
)


def ago(then: int, now: int, *, words: bool = False) -> str:
    """``2 min ago``; in words, ``2 minutes ago``."""
    age = now - then
    if -2000 < age < 1000:
        return "just now"
    amount = lasted(abs(age), words=words)
    return f"{amount} ago" if age > 0 else f"in {amount}"


def lasted(ms: int, *, words: bool = False) -> str:
    """``2 min``; in words, ``2 minutes``."""
    if ms < 1000:
        return "0 seconds" if words else f"{ms} ms"
    for below, unit, short, word in _AGES:
        if ms < below:
            number = ms // unit
            return f"{number} {word}{'' if number == 1 else 's'}" if words else f"{number} {short}"
    return "ages"


def millis(text: Any) -> int | None:
    """Milliseconds since 1970 of a UTC time as records hold it; ``None`` where it is none."""
    if not isinstance(text, str) or len(text) < 19 or text[10] not in "T ":
        return None
    fraction, _, rest = text[19:].partition("Z")
    numbers = [text[0:4], text[5:7], text[8:10], text[11:13], text[14:16], text[17:19]]
    if rest or not all(n.isascii() and n.isdigit() for n in numbers) or not text.endswith("Z"):
        return None
    year, month, day, hour, minute, second = map(int, numbers)
    part = fraction[1:4].ljust(3, "0") if fraction.startswith(".") else "000"
    days = _days(year, month, day)
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + (int(part) if part.isdigit() else 0)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, in the calendar that is in use."""
    year -= month <= 2
    era, of_era = year // 400, year % 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
