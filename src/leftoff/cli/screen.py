"""Where a verb's page goes: a terminal, with colours and a width, or a pipe, with neither.

A page is a list of lines, each a list of (text, style); the same one is painted by ``leftoff.cli.term`` on a
terminal and printed bare everywhere else, also on a terminal where ``NO_COLOR`` is set.
"""

from __future__ import annotations

import os
import sys

from leftoff.cli.text import plain
from leftoff.clock import ago, iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from leftoff.cli.text import Line

NARROWEST = 16


class Screen:
    """One stream as a page sees it. ``columns`` is 0 where there is no width to keep to."""

    def __init__(self, stream: TextIO, now: int) -> None:
        self.stream = stream
        self.now = now
        self.fancy = is_fancy(stream)
        self.columns = max(NARROWEST, columns_of(stream)) if self.fancy else 0

    def when(self, ms: int) -> str:
        """``2 min ago`` for a person, the exact time for a file."""
        return ago(ms, self.now) if self.fancy else iso(ms)

    def show(self, lines: list[Line]) -> None:
        if self.fancy:
            from leftoff.cli.term import paint

            paint(lines, self.stream, self.columns)
        else:
            from leftoff.cli.text import printable

            self.stream.write(printable(plain(lines)) + "\n")
            self.stream.flush()

    def page(self, lines: list[Line]) -> None:
        """A page that may be long: through a pager, where a person reads it and it does not fit."""
        if not (
            self.fancy and len(lines) >= rows_of(self.stream) and sys.stdin.isatty() and self._paged(lines)
        ):
            self.show(lines)

    def _paged(self, lines: list[Line]) -> bool:
        """Whether there is a pager, and it was left when it had shown all."""
        import shlex
        import shutil
        import subprocess
        from io import StringIO

        words = shlex.split(os.environ.get("PAGER") or "less")
        if not words or words == ["cat"] or shutil.which(words[0]) is None:
            return False
        from leftoff.cli.term import paint

        text = StringIO()
        paint(lines, text, self.columns)
        done = subprocess.run(words, input=text.getvalue(), text=True, env={**os.environ, "LESS": "FRX"})
        return done.returncode == 0


def is_fancy(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns_of(stream: TextIO) -> int:
    """The terminal's width: COLUMNS, else what it says of itself, else 80."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and 0 < int(given) < 10_000:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def rows_of(stream: TextIO) -> int:
    """The terminal's height, or 24."""
    try:
        return os.get_terminal_size(stream.fileno()).lines or 24
    except (OSError, ValueError):
        return 24
