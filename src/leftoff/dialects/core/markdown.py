"""What a run says, put into a page or a line-based file that people and other programs read.

A title or an id may have come from anybody. It stays on its line, and none of it is taken for markup: no second line,
no cell of its own, no code, no HTML, no comment that hides what follows.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MARKUP = str.maketrans({"\\": "\\\\", "`": "\\`", "<": "&lt;", ">": "&gt;"})


def one_line(value: Any) -> str:
    """Without line breaks, control characters and overridden directions; runs of blanks are one."""
    text = str(value)
    return " ".join((text if text.isprintable() else _printable(text)).split())


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def inline(value: Any) -> str:
    """Text in a paragraph, a heading or an entry of a list."""
    return one_line(value).translate(_MARKUP)


def cell(value: Any) -> str:
    """Text as one cell of a table."""
    return inline(value).replace("|", "\\|")
