"""Markdown as blocks of parts, which a template puts into elements: no HTML of the text's own, no links.

Only what agents write in notes and reports: headings, lists, quotes, code, tables, emphasis. Anything else is text.
"""

from __future__ import annotations

import re

from leftoff.model.fields import Fields

Parts = list[tuple[str, str]]  # what each part of a line is (empty, code, strong or em), and its text

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|(?<!\w)[*_]([^*_\s][^*_]*)[*_](?!\w)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
_RULE = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*$")


class Block(Fields):
    """``kind``: heading, paragraph, item, quote, code or row. ``level`` of a heading; ``cells`` of a row."""

    kind: str
    parts: Parts = []
    level: int = 0
    text: str = ""
    cells: list[Parts] = []


def inline(text: str) -> Parts:
    """The parts of a line."""
    out: Parts = []
    at = 0
    for found in _INLINE.finditer(text):
        if found.start() > at:
            out.append(("", text[at : found.start()]))
        code, strong, em = found.groups()
        out.append(("code", code) if code else ("strong", strong) if strong else ("em", em))
        at = found.end()
    return [*out, ("", text[at:])] if at < len(text) else out


def blocks(text: str) -> list[Block]:
    """The blocks of a text, in order."""
    out: list[Block] = []
    code: list[str] | None = None
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            if code is None:
                code = []
            else:
                out.append(Block("code", text="\n".join(code)))
                code = None
        elif code is not None:
            code.append(line)
        else:
            _line(out, line)
    if code is not None:
        out.append(Block("code", text="\n".join(code)))
    return [block for block in out if block.kind != "end"]


def _line(out: list[Block], line: str) -> None:
    if not line.strip():
        out.append(Block("end"))
    elif found := _HEADING.match(line):
        out.append(Block("heading", inline(found[2]), len(found[1])))
    elif line.lstrip().startswith("|"):
        if not _RULE.match(line):
            cells = line.strip().strip("|").split("|")
            out.append(Block("row", cells=[inline(cell.strip()) for cell in cells]))
    elif found := _ITEM.match(line):
        out.append(Block("item", inline(found[1])))
    elif line.startswith(">"):
        out.append(Block("quote", inline(line.lstrip("> "))))
    elif out and out[-1].kind in ("paragraph", "item", "quote"):
        out[-1].parts = [*out[-1].parts, ("", " "), *inline(line.strip())]
    else:
        out.append(Block("paragraph", inline(line.strip())))
