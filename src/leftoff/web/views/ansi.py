"""What a terminal would have coloured, as parts of text with classes; all else that a terminal obeys is left out."""

from __future__ import annotations

import re

_CODE = re.compile(r"\x1b\[([0-9;]{0,40})m")
_OTHER = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]"
)
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def parts(text: str) -> list[tuple[str, str]]:
    """The classes and the text of each part."""
    out: list[tuple[str, str]] = []
    colour, bold, at = "", False, 0
    for found in [*_CODE.finditer(text), None]:
        piece = _plain(text[at : found.start() if found is not None else len(text)])
        if piece:
            names = [f"ansi-{colour}" if colour else "", "ansi-bold" if bold else ""]
            out.append((" ".join(name for name in names if name), piece))
        if found is not None:
            colour, bold = _after(found[1], colour, bold)
            at = found.end()
    return out


def _plain(text: str) -> str:
    """Without what is no colour. A line that was written over is what it was in the end."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _OTHER.sub("", "\n".join(lines))


def _after(codes: str, colour: str, bold: bool) -> tuple[str, bool]:
    numbers = [int(code) for code in codes.split(";") if code] or [0]
    if numbers[0] in (38, 48):  # one of 256, or any: as it is
        return colour, bold
    for number in numbers:
        if number == 0:
            colour, bold = "", False
        elif number == 1:
            bold = True
        elif number == 22:
            bold = False
        elif number == 39:
            colour = ""
        elif 30 <= number <= 37 or 90 <= number <= 97:
            colour = _NAMES[number % 10]
    return colour, bold
