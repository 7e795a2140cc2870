"""Pages of Markdown that tell of a state in lines such as `Phase: 2 of 5`: read as a document, and written by the line.

A page is its person's. Only the lines of some sections are ours, by the name before their colon; everything else stays
as it is, also how such a line is written (`**Phase:** 2`, `- Phase: 2`).
"""

from __future__ import annotations

import re

from leftoff.dialects.core.markdown import one_line
from leftoff.dialects.core.repairs import Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: pages that are read, by the name of their file: the sections that tell of a state
PAGES = {"STATE.md": ("Current Position", "Session Continuity")}
_HEADING = re.compile(r"##\s+(.*?)\s*#*\s*\Z")
_LINE = re.compile(
    r"(\s*(?:[-*]\s+)?(?:\*\*|__)?)([A-Za-z][\w /-]{0,40}?)((?:\*\*|__)?:(?:\*\*|__)?)(\s*)(.*?)\s*\Z"
)


def is_page(path: str) -> bool:
    return path.rpartition("/")[2] in PAGES


def parse(text: str, path: str) -> dict[str, Any]:
    """What the sections say: by section, by the name before the colon."""
    out: dict[str, Any] = {}
    for section, _, match in _lines(text.split("\n"), PAGES[path.rpartition("/")[2]]):
        out.setdefault(section, {}).setdefault(match[2], match[5])
    if not out:
        raise Rejected(f"{path} is a page for people, not a checkpoint.")
    return out


def edited(text: str, document: dict[str, Any], path: str) -> str:
    """The page, with what the document says; of a line, only what is behind its colon. What is new follows behind."""
    lines = text.split("\n")
    end = "\r" if lines[0].endswith("\r") else ""
    said = parse(text, path) if _lines(lines, PAGES[path.rpartition("/")[2]]) else {}
    gone: list[int] = []
    for section, number, match in _lines(lines, tuple(document)):
        own = document[section]
        if match[2] not in own:
            gone += [number] if match[2] in said.get(section, {}) else []
        elif str(own[match[2]]) != match[5]:
            new = one_line(own[match[2]])
            lines[number] = f"{match[1]}{match[2]}{match[3]}{match[4] or ' '}{new}{end}"
    for number in reversed(gone):
        del lines[number]
    for section, own in document.items():
        _add(lines, section, {key: own[key] for key in own if key not in said.get(section, {})}, end)
    return "\n".join(lines)


def _add(lines: list[str], section: str, new: dict[str, Any], end: str) -> None:
    """Lines behind the last one of their section that is ours, or below its title; added where there is none."""
    if not new:
        return
    there = [number for found, number, _ in _lines(lines, (section,))]
    titles = [number for number, line in enumerate(lines) if _title(line) == section]
    if not titles:
        while lines and not lines[-1].strip():
            lines.pop()
        lines += [*([end] if lines else []), f"## {section}{end}", end, ""]
        titles = [len(lines) - 3]
    place = there[-1] + 1 if there else min(titles[0] + 2, len(lines))
    lines[place:place] = [f"{key}: {one_line(value)}{end}" for key, value in new.items()]


def _lines(lines: list[str], sections: tuple[str, ...]) -> list[tuple[str, int, re.Match[str]]]:
    """The lines with a name and a colon in these sections, each name once."""
    out: list[tuple[str, int, re.Match[str]]] = []
    section, seen = "", set()
    for number, line in enumerate(lines):
        if line.startswith("#"):
            section = _title(line) or ""
        match = _LINE.match(line.rstrip("\r")) if section in sections else None
        if match is not None and (section, match[2]) not in seen:
            seen.add((section, match[2]))
            out.append((section, number, match))
    return out


def _title(line: str) -> str | None:
    match = _HEADING.match(line.rstrip("\r"))
    return match[1] if match is not None else None


def dump(document: dict[str, Any], title: str = "Project State") -> str:
    """A page of its own."""
    return edited(f"# {title}\n", document, next(iter(PAGES)))
