"""Tables that fit: the least important columns go first, then the elastic ones shrink; a narrow terminal gets cards."""

from __future__ import annotations

from leftoff.cli.text import crop, fold, pad, width
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.cli.text import Line, Span

GAP = 2
CARDS_BELOW = 44  # columns
# A cell that may fold does so only beyond this, as long as another column can be left out instead.
FOLD_OVER = 30


class Column(Fields):
    """``rank``: the higher, the sooner it is left out (0: never). ``least``: how far it may shrink (0: not at all)."""

    name: str
    rank: int = 0
    least: int = 0
    folds: bool = False
    right: bool = False


def table(columns: list[Column], rows: list[list[Line]], room: int) -> list[Line]:
    """A table of cells (each a line of its own) within ``room`` columns."""
    if room < CARDS_BELOW:
        return cards(columns, rows, room)
    natural = [
        max([width(c.name), *(line_width(row[i]) for row in rows)], default=0) for i, c in enumerate(columns)
    ]
    kept = [i for i in range(len(columns)) if any(line_width(row[i]) for row in rows)]
    if not kept:
        return []
    while _least(columns, natural, kept) > room:
        gone = max(kept, key=lambda i: columns[i].rank)
        if columns[gone].rank == 0:
            break
        kept.remove(gone)
    wide = _shrunk(columns, natural, kept, room)
    if sum(wide.values()) + GAP * (len(kept) - 1) > room:
        return cards(columns, rows, room)
    lines: list[Line] = [_heading(columns, kept, wide)]
    for row in rows:
        lines += _row(columns, row, kept, wide)
    return lines


def cards(columns: list[Column], rows: list[list[Line]], room: int) -> list[Line]:
    """Each row as a few short lines: its first cell, then the others below it."""
    lines: list[Line] = []
    for row in rows:
        for i, cell in enumerate(row):
            if not line_width(cell):
                continue
            indent = 0 if i == 0 else 2
            lines += [[(" " * indent, ""), *piece] for piece in wrapped(cell, room - indent)]
    return lines


def _least(columns: list[Column], natural: list[int], kept: list[int]) -> int:
    """What is needed so that these columns are good to read."""
    total = 0
    for i in kept:
        least = FOLD_OVER if columns[i].folds else columns[i].least
        total += min(natural[i], least) if least else natural[i]
    return total + GAP * (len(kept) - 1)


def _shrunk(columns: list[Column], natural: list[int], kept: list[int], room: int) -> dict[int, int]:
    """Widths of the columns that stay: the widest elastic one gives way first."""
    wide = {i: natural[i] for i in kept}
    over = sum(wide.values()) + GAP * (len(kept) - 1) - room
    while over > 0:
        elastic = [i for i in kept if columns[i].least and wide[i] > columns[i].least]
        if not elastic:
            break
        # What folds stays readable in full, so it gives way only after what is cropped.
        widest = max(elastic, key=lambda i: (not columns[i].folds, wide[i]))
        wide[widest] -= 1
        over -= 1
    return wide


def _heading(columns: list[Column], kept: list[int], wide: dict[int, int]) -> Line:
    line: Line = []
    for i in kept:
        name = crop(columns[i].name, wide[i])
        space = " " * (wide[i] - width(name))
        line.append((space + name if columns[i].right else name + space, "label"))
        line.append((" " * GAP, ""))
    return line[:-1]


def _row(columns: list[Column], row: list[Line], kept: list[int], wide: dict[int, int]) -> list[Line]:
    cells = {i: (wrapped(row[i], wide[i]) if columns[i].folds else [cropped(row[i], wide[i])]) for i in kept}
    lines: list[Line] = []
    for number in range(max(len(cell) for cell in cells.values())):
        line: Line = []
        for i in kept:
            piece = cells[i][number] if number < len(cells[i]) else []
            space: Span = (" " * (wide[i] - line_width(piece)), "")
            line += [space, *piece] if columns[i].right else [*piece, space]
            line.append((" " * GAP, ""))
        lines.append(line[:-1])
    return lines


def line_width(line: Line) -> int:
    return sum(width(text) for text, _ in line)


def cropped(line: Line, room: int) -> Line:
    """A line within so many columns."""
    out: Line = []
    for text, style in line:
        wide = width(text)
        if wide > room:
            out.append((crop(text, room), style))
            break
        out.append((text, style))
        room -= wide
    return out


def wrapped(line: Line, room: int, hang: int = 0) -> list[Line]:
    """A line as several, broken at spaces where there are any; all but the first begin ``hang`` columns further in.

    ``room`` 0: there is no width to keep to.
    """
    if not room or line_width(line) <= room:
        return [line]
    text = "".join(text for text, _ in line)
    out: list[Line] = []
    end = 0
    for piece in fold(text, room, hang):
        start = text.index(piece, end)
        end = start + len(piece)
        out.append([*([(" " * hang, "")] if out and hang else []), *_between(line, start, end)])
    return out


def _between(line: Line, start: int, end: int) -> Line:
    """The part of a line from one character to another, in its styles."""
    out: Line = []
    at = 0
    for text, style in line:
        part = text[max(0, start - at) : max(0, end - at)]
        if part:
            out.append((part, style))
        at += len(text)
    return out


def facts(pairs: list[tuple[str, Line]], room: int) -> list[Line]:
    """Names and what they stand for, one below the other; a long one goes on under itself (``room`` 0: does not)."""
    wide = max((width(name) for name, _ in pairs), default=0) + GAP
    if room and room < wide + 16:
        lines: list[Line] = []
        for name, line in pairs:
            lines.append([(name, "label")])
            lines += [[("  ", ""), *piece] for piece in wrapped(line, room - 2)]
        return lines
    out: list[Line] = []
    for name, line in pairs:
        pieces = wrapped(line, room - wide) if room else [line]
        out += [
            [(pad(name if number == 0 else "", wide), "label"), *piece] for number, piece in enumerate(pieces)
        ]
    return out


def shared(line: Line, room: int) -> Line:
    """A line within so many columns, its longest pieces cut so that each keeps a part of itself."""
    wide = [min(width(text), room) for text, _ in line]
    over = sum(wide) - room
    while over > 0:
        longest = max(range(len(wide)), key=lambda i: wide[i])
        if wide[longest] <= 3:
            return cropped(line, room)
        wide[longest] -= 1
        over -= 1
    return [(crop(text, columns), style) for (text, style), columns in zip(line, wide, strict=True)]
