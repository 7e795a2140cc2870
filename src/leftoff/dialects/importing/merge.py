"""Two sides that changed the same run: what the file's side changed is taken in, record by record.

All three (the version the file was written from, the store's present, the file) are compared as documents say them, so
what a protocol has no place for is never taken for a deletion. Where both sides changed the same field, the store's
value stays, and the contradiction is told.
"""

from __future__ import annotations

from leftoff.dialects.core.residue import is_residue, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.draft import Records

GONE: Any = object()  # there is no such record, or field


class Contradiction:
    """A record, or one field of it, that both sides changed."""

    def __init__(self, address: tuple[str, str], field: str | None, ours: Any, theirs: Any) -> None:
        self.collection, self.key = address
        self.field = field
        self.ours = None if ours is GONE else ours
        self.theirs = None if theirs is GONE else theirs

    @property
    def name(self) -> str:
        name = f"{self.collection}/{self.key}"
        return f"{name}.{self.field}" if self.field is not None else name


class Edits:
    """What to change: whole records, fields of records, and what contradicts."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Any] = {}  # GONE: to be deleted
        self.fields: dict[tuple[str, str], dict[str, Any]] = {}
        self.contradictions: list[Contradiction] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.fields or self.contradictions)

    def apply(self, address: tuple[str, str], stored: Any) -> Any:
        """A stored record after the edits of its fields."""
        out = dict(stored) if isinstance(stored, dict) else {}
        for field, value in self.fields[address].items():
            if value is GONE:
                out.pop(field, None)
            else:
                out[field] = value
        return out


def merge(base: Records, ours: Records, theirs: Records) -> Edits:
    edits = Edits()
    for address in sorted({*base, *theirs}):
        before, after = base.get(address, GONE), theirs.get(address, GONE)
        mine = ours.get(address, GONE)
        if _same(before, after) or _same(mine, after):
            continue
        quiet = address[0] == "extra" and is_residue(address[1])
        if all(isinstance(value, dict) for value in (before, after, mine)) and not quiet:
            _fields(edits, address, before, mine, after)
        elif _same(before, mine) or quiet:
            edits.records[address] = after
        else:
            edits.contradictions.append(Contradiction(address, None, mine, after))
    return edits


def _fields(edits: Edits, address: tuple[str, str], before: Any, mine: Any, after: Any) -> None:
    changed: dict[str, Any] = {}
    for field in sorted({*before, *after}):
        old, new, own = before.get(field, GONE), after.get(field, GONE), mine.get(field, GONE)
        if _same(old, new) or _same(own, new):
            continue
        if _same(old, own):
            changed[field] = new
        else:
            edits.contradictions.append(Contradiction(address, field, own, new))
    if changed:
        edits.fields[address] = changed


def _same(left: Any, right: Any) -> bool:
    if left is GONE or right is GONE:
        return left is right
    return same(left, right)
