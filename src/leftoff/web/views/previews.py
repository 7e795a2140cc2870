"""A file as a page shows it: text, Markdown, JSON, a table, a picture; never executed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from leftoff.web.files import kind_of
from leftoff.web.views.markdown import blocks

MOST = 100_000  # bytes that are shown
ROWS, COLUMNS = 200, 30


class Content(Protocol):
    """A file whose content can be read in pieces."""

    def chunks(self) -> Iterable[bytes]: ...


def preview(path: str, file: Content, mask: Callable[[str], str]) -> dict[str, Any]:
    """``kind`` (text, markdown, json, table, picture, none) and what is shown of it; ``cut``: there is more."""
    data, cut = beginning(file)
    if kind_of(data).startswith("image/"):
        return {"kind": "picture"}
    try:
        text = data.decode() if not cut else data.decode(errors="ignore")
    except UnicodeDecodeError:
        return {"kind": "none", "why": "It is no text."}
    if "\0" in text:
        return {"kind": "none", "why": "It is no text."}
    return {"cut": cut, **_as(path.lower().rpartition(".")[2], mask(text))}


def _as(ending: str, text: str) -> dict[str, Any]:
    if ending in ("md", "markdown"):
        return {"kind": "markdown", "blocks": blocks(text)}
    if ending == "json":
        try:
            return {"kind": "text", "text": json.dumps(json.loads(text), indent=2, ensure_ascii=False)}
        except (ValueError, RecursionError):
            pass
    if ending in ("csv", "tsv"):
        rows = csv.reader(text.splitlines()[:ROWS], delimiter="\t" if ending == "tsv" else ",")
        try:
            return {"kind": "table", "rows": [row[:COLUMNS] for row in rows]}
        except csv.Error:
            pass
    return {"kind": "text", "text": text}


def beginning(file: Content) -> tuple[bytes, bool]:
    """The first bytes, and whether there are more."""
    data = b""
    for chunk in file.chunks():
        data += chunk
        if len(data) > MOST:
            return data[:MOST], True
    return data, False
