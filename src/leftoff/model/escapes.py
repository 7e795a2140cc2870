"""The sequences by which programs colour a terminal, move its cursor and set its title: taken out of their text."""

from __future__ import annotations

import re

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, the cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC and its like: titles, links
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)


def without_escapes(text: str) -> str:
    """What is left is what a person would read."""
    return _SEQUENCES.sub("", text) if "\x1b" in text or "\x9b" in text else text
