"""Secrets that this process redacted and still has: the store has the mark in their place, this process the value.

For each record two values are kept: as the store has it, and as it was set. While what is read is still the one, the
process sees the other, whatever it has forgotten or read again meanwhile.
"""

from __future__ import annotations

from leftoff.api.cells import grown
from leftoff.engine.read.state import Lost
from leftoff.model.changes import APPEND, NOTHING
from leftoff.model.codec import BLOB, payload
from leftoff.model.frozen import marks, thaw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.engine.read.state import Value
    from leftoff.model.changes import Change


class Secrets:
    """By collection and key."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[Any, Any]] = {}

    def of(self, name: str) -> bool:
        """Whether any are kept of a variable."""
        return ("variable", name) in self._kept

    def keep(self, change: Change) -> None:
        """Remember what is redacted in a change, and forget what was in an earlier one."""
        if change.secret is not NOTHING:
            clean = change.spread.values if change.spread is not None else payload(change.stored, change.key)
            self._kept[change.collection, change.key] = (clean, change.secret)
        elif self._kept:
            self._kept.pop((change.collection, change.key), None)

    def begin(self, name: str, before: Any) -> None:
        """Something secret is about to be appended to a list."""
        self._kept.setdefault(("variable", name), (thaw(before), before))

    def grow(self, assigned: dict[str, Change | None]) -> None:
        """Appended entries are durable: the lists that have secrets have them too."""
        for name, change in assigned.items() if self._kept else ():
            clean, secret = self._kept.get(("variable", name), (None, None))
            if change is not None and change.kind == APPEND and isinstance(clean, list):
                clean = [*clean, *(payload(s, name) if s[:1] != BLOB else None for s in change.items)]
                self._kept["variable", name] = (clean, grown(name, secret, change))

    def held(
        self, collection: str, key: str, plain: Any, holes: list[list[Any]]
    ) -> tuple[Any, list[list[Any]]]:
        """A value as it was read, or as this process has it."""
        clean, secret = self._kept.get((collection, key), (NOTHING, None)) if holes else (NOTHING, None)
        return (secret, marks(secret)) if clean == plain else (plain, holes)

    def show(self, collection: str, values: dict[str, Value]) -> dict[str, Value]:
        """The same for a whole collection."""
        for key, value in values.items() if self._kept else ():
            if not isinstance(value, Lost):
                value.plain, value.holes = self.held(collection, key, value.plain, value.holes)
        return values
