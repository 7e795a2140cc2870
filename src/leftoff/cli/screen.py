"""Pages: lines of styled text, on a terminal with colours and a width, or in a pipe with neither.

A page is a list of lines, each a list of (text, style). ``Screen.show`` paints it with rich on a terminal, and prints
it bare everywhere else, also on a terminal if ``NO_COLOR`` is set. Only painting imports rich.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple, TextIO

from leftoff.cli.text import Line, clean, cut, pad, printable, width
from leftoff.clock import ago, iso

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NARROWEST = 16
GAP = 2  # columns between two columns of a table
ELLIPSIS = "…"

# what a piece of text is: how rich shows it
STYLES = {
    "title": "bold", "head": "bold", "label": "dim", "dim": "dim", "id": "cyan", "good": "green", "bad": "bold red",
    "warn": "yellow", "busy": "bold blue", "added": "green", "removed": "red", "changed": "yellow",
    "graph": "magenta", "rest": "bright_black",
}  # fmt: skip


class Screen:
    """A stream as a page sees it. ``columns`` is 0 if there is no width to keep to."""

    def __init__(self, stream: TextIO, now: int) -> None:
        self.stream = stream
        self.now = now
        colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.fancy = stream.isatty() and colours
        self.columns = terminal_columns(stream) if self.fancy else 0

    def when(self, ms: int) -> str:
        """Return ``2 min ago`` for a person, the exact time for a file."""
        return ago(ms, self.now) if self.fancy else iso(ms)

    def show(self, lines: list[Line]) -> None:
        text = self._painted(lines) if self.fancy else f"{printable(plain(lines))}\n"
        self.stream.write(text)
        self.stream.flush()

    def page(self, lines: list[Line]) -> None:
        """Show lines; on a terminal through $PAGER, by default `less`, if they do not fit."""
        import shlex
        import shutil

        pager = shlex.split(os.environ.get("PAGER", "less"))
        if not self.fancy or len(lines) < rows_of(self.stream) or not pager or shutil.which(pager[0]) is None:
            return self.show(lines)
        import subprocess

        text = f"{self._painted(lines)}\n"
        subprocess.run(pager, input=printable(text).encode(), env={"LESS": "FRX", **os.environ}, check=False)
        return None

    def _painted(self, lines: list[Line]) -> str:
        console = _console(self.columns)
        with console.capture() as captured:
            console.print(_styled(lines), no_wrap=True, overflow="ellipsis", crop=True)
        return captured.get()


def terminal_columns(stream: TextIO) -> int:
    """Return the terminal's width: COLUMNS, else what the terminal reports, else 80."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and 0 < int(given) < 10_000:
        return max(NARROWEST, int(given))
    try:
        return max(NARROWEST, os.get_terminal_size(stream.fileno()).columns or 80)
    except (OSError, ValueError):
        return 80


def rows_of(stream: TextIO) -> int:
    """Return the terminal's height, or 24."""
    try:
        return os.get_terminal_size(stream.fileno()).lines or 24
    except (OSError, ValueError):
        return 24


# -- painting


def _console(columns: int) -> Console:
    from rich.console import Console

    # It paints into a text; the caller writes that in one piece, so that nothing flickers.
    return Console(
        file=StringIO(), width=columns, force_terminal=True, highlight=False, markup=False, emoji=False,
        legacy_windows=False,
    )  # fmt: skip


def _styled(lines: Iterable[Line]) -> Text:
    from rich.text import Text

    page = Text(no_wrap=True, overflow="ellipsis", end="")
    for number, line in enumerate(lines):
        page.append("\n" if number else "")
        for text, style in line:
            page.append(clean(text), STYLES.get(style, ""))
    return page


class Region:
    """The last lines of a terminal, drawn repeatedly; what is printed scrolls above them.

    A drawing is one write, so that nothing flickers and nothing is left half drawn. The cursor is never hidden: a
    process that is killed leaves a usable terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = _console(80)
        self._drawn: list[int] = []  # the widths of the lines that are shown now

    def draw(self, above: list[Line], below: list[Line], columns: int) -> None:
        """Print ``above`` for good, and ``below`` until the next call; it must not be wider than the terminal."""
        # A terminal that became narrower has broken its lines in two.
        rows = sum(max(1, -(-wide // columns)) for wide in self._drawn)
        text = f"\r\x1b[{rows}A\x1b[J" if rows else ""
        self._console.width = columns
        if above or below:
            with self._console.capture() as captured:
                self._console.print(_styled([*above, *below]), soft_wrap=True)
            text += captured.get()
        self._drawn = [line_width(line) for line in below]
        if text:
            self._stream.write(f"\x1b[?2026h{text}\x1b[?2026l")  # terminals that can do it show this at once
            self._stream.flush()


# -- lines


def plain(lines: Iterable[Line]) -> str:
    """Return lines without their colours and padding. A line of one piece, as of a file, keeps its spaces and tabs."""
    out = []
    for line in lines:
        text = "".join(text for text, _ in line)
        text = text if len(line) == 1 else text.rstrip()
        out.append(text if text.isprintable() else "\t".join(map(clean, text.split("\t"))))
    return "\n".join(out)


def line_width(line: Line) -> int:
    return sum(width(text) for text, _ in line)


def crop(text: str, columns: int) -> str:
    """Return at most so many columns of a text; an ellipsis marks the cut."""
    if width(text) <= columns:
        return text
    return cut(text, columns - 1) + ELLIPSIS if columns > 0 else ""


def cropped(line: Line, room: int) -> Line:
    """Return a line within so many columns."""
    out: Line = []
    for text, style in line:
        if width(text) > room:
            return [*out, (crop(text, room), style)] if room > 0 else out
        out.append((text, style))
        room -= width(text)
    return out


def fold(text: str, columns: int, hang: int = 0) -> list[str]:
    """Return pieces of at most so many columns (all but the first: ``hang`` less), broken at spaces if possible."""
    pieces: list[str] = []
    room = columns
    while width(text) > room:
        piece = cut(text, room) or text[0]
        at = len(piece) if text[len(piece) :][:1] in ("", " ") else piece.rfind(" ")
        if piece[: max(at, 0)].strip():  # not inside the indentation
            piece = text[:at]
        pieces.append(piece.rstrip())
        text = text[len(piece) :].lstrip(" ")
        room = columns - hang
    return [*pieces, text] if text or not pieces else pieces


def wrapped(line: Line, room: int, hang: int = 0) -> list[Line]:
    """Return a line as several, all but the first indented by ``hang``. ``room`` 0: there is no width to keep to."""
    if not room or line_width(line) <= room:
        return [line]
    text = "".join(text for text, _ in line)
    out: list[Line] = []
    end = 0
    for piece in fold(text, room, hang):
        start = text.index(piece, end)
        end = start + len(piece)
        part: Line = [(" " * hang, "")] if out and hang else []
        at = 0
        for span, style in line:  # the piece again, in its styles
            if inside := span[max(0, start - at) : max(0, end - at)]:
                part.append((inside, style))
            at += len(span)
        out.append(part)
    return out


def facts(pairs: list[tuple[str, Line]], room: int) -> list[Line]:
    """Return names and what they stand for, aligned; a long one continues under itself (``room`` 0: does not)."""
    wide = max((width(name) for name, _ in pairs), default=0) + GAP
    out: list[Line] = []
    for name, line in pairs:
        for number, piece in enumerate(wrapped(line, max(room - wide, 4)) if room else [line]):
            out.append([(pad("" if number else name, wide), "label"), *piece])
    return out


# -- tables


class Column(NamedTuple):
    """``rank``: the higher, the sooner it is left out (0: never). ``least``: how far it may shrink (0: not at all)."""

    name: str
    rank: int = 0
    least: int = 0
    right: bool = False


def lay_out_table(columns: list[Column], rows: list[list[Line]], room: int) -> list[Line]:
    """Return a table of cells within ``room`` columns, without empty columns.

    The least important columns are left out first, then the widest elastic ones shrink. The rest is cut off.
    """
    wide = [max([width(c.name), *(line_width(row[i]) for row in rows)]) for i, c in enumerate(columns)]
    kept = [i for i in range(len(columns)) if any(line_width(row[i]) for row in rows)]

    def total(wide: list[int]) -> int:
        return sum(wide[i] for i in kept) + GAP * (len(kept) - 1)

    least = [min(c.least or wide[i], wide[i]) for i, c in enumerate(columns)]
    while kept and total(least) > room and columns[gone := max(kept, key=lambda i: columns[i].rank)].rank:
        kept.remove(gone)
    while total(wide) > room:
        elastic = [i for i in kept if columns[i].least and wide[i] > columns[i].least]
        if not elastic:
            break
        wide[max(elastic, key=wide.__getitem__)] -= 1
    heading: list[Line] = [
        [(f"{c.name:{'>' if c.right else '<'}{wide[i]}}", "label")] for i, c in enumerate(columns)
    ]
    lines: list[Line] = []
    for row in [heading, *rows] if kept else []:
        line: Line = []
        for i in kept:
            piece = cropped(row[i], wide[i])
            space = (" " * (wide[i] - line_width(piece)), "")
            line += [*([space, *piece] if columns[i].right else [*piece, space]), (" " * GAP, "")]
        lines.append(cropped(line[:-1], room))
    return lines
