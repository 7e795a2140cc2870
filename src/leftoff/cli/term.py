"""The terminal: colours, and a page that is drawn again and again. The only module that knows rich."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from leftoff.cli.layout import line_width
from leftoff.cli.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from leftoff.cli.text import Line

# What a piece of text is, and how that looks.
STYLES = {
    "": "",
    "title": "bold",
    "head": "bold",
    "label": "dim",
    "dim": "dim",
    "id": "cyan",
    "name": "",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "busy": "bold blue",
    "value": "",
    "added": "green",
    "removed": "red",
    "changed": "yellow",
    "graph": "magenta",
    "rest": "bright_black",
}


def console(stream: TextIO, columns: int) -> Console:
    return Console(
        file=stream,
        width=columns,
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def styled(lines: Iterable[Line]) -> Text:
    """Every line in its colours; lines keep to the width by themselves, and what does not is cut."""
    page = Text(no_wrap=True, overflow="ellipsis", end="")
    for number, line in enumerate(lines):
        if number:
            page.append("\n")
        for text, style in line:
            page.append(clean(text), STYLES[style])
    return page


def paint(lines: Iterable[Line], stream: TextIO, columns: int) -> None:
    painter = console(stream, columns)
    painter.print(styled(lines), no_wrap=True, overflow="ellipsis", crop=True)


class Redrawn:
    """A page that replaces itself."""

    def __init__(self, stream: TextIO, columns: int) -> None:
        self._live = Live(
            console=console(stream, columns), auto_refresh=False, vertical_overflow="crop", transient=False
        )

    def __enter__(self) -> Redrawn:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def draw(self, lines: Iterable[Line], columns: int) -> None:
        self._live.console.width = columns
        self._live.update(styled(lines), refresh=True)


class Region:
    """The last lines of a terminal, drawn over and over; what is printed goes above them.

    A drawing is one write, so that nothing flickers and nothing is left half drawn; the cursor is never hidden: whoever
    is killed leaves a terminal as usable as it was.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = console(StringIO(), 80)  # paints; what it painted is written here
        self._drawn: list[int] = []  # the widths of the lines that stand there

    def draw(self, above: list[Line], below: list[Line], columns: int) -> None:
        """Print ``above`` for good, and ``below`` until the next time; it must not be wider than the terminal."""
        text = self._erase(columns) + self._painted(above, columns) + self._painted(below, columns)
        self._drawn = [line_width(line) for line in below]
        if text:
            # Shown at once, where the terminal can do that.
            self._stream.write(f"\x1b[?2026h{text}\x1b[?2026l")
            self._stream.flush()

    def _erase(self, columns: int) -> str:
        """Back to where the region began; a terminal that became narrower has broken its lines in two."""
        rows = sum(max(1, -(-wide // columns)) for wide in self._drawn)
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""

    def _painted(self, lines: list[Line], columns: int) -> str:
        if not lines:
            return ""
        self._console.width = columns
        with self._console.capture() as captured:
            self._console.print(styled(lines), soft_wrap=True)
        return captured.get()
