"""The terminal: colours, and a page that is drawn again and again. The only module that knows rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

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
            page.append(text, STYLES[style])
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
