"""Values as trees for a page: each entry a line, no more of them than anybody reads; and two of them compared."""

from __future__ import annotations

from typing import Any

from leftoff.model.fields import Fields
from leftoff.web.views.words import short

MOST = 500  # lines
DEEPEST = 8


class Line(Fields):
    """An entry: its name, its value where it has nothing below it, how deep it is. ``mark``: whether it was added,
    removed or changed (then ``old`` is what it was)."""

    depth: int
    name: str
    value: str
    mark: str = ""
    old: str = ""


def tree(value: Any) -> list[Line]:
    """The lines of a value, from its first entries on; the last line says how many are left out."""
    out: list[Line] = []
    left = _add(out, value, 0)
    if left:
        out.append(Line(0, "…", f"{left} more"))
    return out


def _entries(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(str(key), each) for key, each in value.items()]
    return [(str(number), each) for number, each in enumerate(value)] if isinstance(value, list) else []


def _add(out: list[Line], value: Any, depth: int) -> int:
    """How many entries found no place."""
    entries, left = _entries(value), 0
    for name, each in entries:
        if len(out) >= MOST:
            left += 1
            continue
        below = _entries(each) if depth < DEEPEST else []
        out.append(Line(depth, name, "" if below else short(each)))
        if below:
            left += _add(out, each, depth + 1)
    return left


_NOTHING = object()


def compared(old: Any, new: Any) -> list[Line]:
    """The lines of what differs, each below the names that lead to it."""
    out: list[Line] = []
    _compare(out, old, new, 0)
    return out[:MOST]


def _compare(out: list[Line], old: Any, new: Any, depth: int) -> None:
    before, after = dict(_entries(old)), dict(_entries(new))
    for name in [*before, *(name for name in after if name not in before)]:
        left, right = before.get(name, _NOTHING), after.get(name, _NOTHING)
        if left == right and type(left) is type(right):
            continue
        if _entries(left) and _entries(right) and type(left) is type(right) and depth < DEEPEST:
            out.append(Line(depth, name, ""))
            _compare(out, left, right, depth + 1)
        elif left is _NOTHING:
            out.append(Line(depth, name, short(right), "added"))
        elif right is _NOTHING:
            out.append(Line(depth, name, short(left), "removed"))
        else:
            out.append(Line(depth, name, short(right), "changed", short(left)))
