"""A line that a step printed, made harmless on a terminal."""

from __future__ import annotations

from leftoff.cli.render.text import clean

_TAB = "    "


def tidy(line: str) -> str:
    """One line as a terminal may have it: no colours, no cursor movements, of a redrawn line what it was last."""
    if line.isprintable():
        return line
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\x1b" in line or "\x9b" in line:
        from leftoff.model.escapes import without_escapes

        line = without_escapes(line)
    if "\b" in line:
        line = line.replace("\b", "")
    return clean(line.replace("\t", _TAB))
