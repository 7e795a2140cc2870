"""A run's variables as this process sees them: what was read, what was assigned, what waits for the next commit.

A cell holds one variable in whatever form it arrived and turns it into a frozen value when it is first read. Large
lists keep the identity of entries that did not change, so that assigning them again costs only the changes.
"""

from __future__ import annotations

from leftoff.model.changes import NOTHING
from leftoff.model.codec import BLOB, holes, payload
from leftoff.model.frozen import FrozenDict, FrozenList, freeze, freeze_holed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.model.changes import Change, Spread


class Cell:
    """A value that is known, or how to get it."""

    __slots__ = ("_make", "_value")

    def __init__(self, value: Any = NOTHING, make: Callable[[], Any] | None = None) -> None:
        self._value = value
        self._make = make

    def get(self) -> Any:
        if self._value is NOTHING:
            assert self._make is not None
            self._value = self._make()
            self._make = None
        return self._value

    def known(self) -> Any:
        """The frozen value if it has been read already; for recognising entries by identity."""
        return None if self._value is NOTHING else self._value


def from_stored(name: str, stored: bytes) -> Cell:
    """A cell for a record that is one value."""
    return Cell(make=lambda: freeze_holed(payload(stored, name), holes(stored), name))


def from_change(name: str, change: Change, load: Callable[[], Any]) -> Cell:
    """A cell for what was just assigned; ``load`` reads it from the store once it is committed there as a blob."""
    if change.secret is not NOTHING:
        secret = freeze(change.secret)
        return Cell(secret)
    if change.value is not NOTHING:
        return Cell(change.value)
    if change.spread is not None:
        spread = change.spread
        return Cell(make=lambda: _spread_value(name, spread, load))
    if change.stored[:1] == BLOB:
        return Cell(make=load)
    return from_stored(name, change.stored)


def _spread_value(name: str, spread: Spread, load: Callable[[], Any]) -> Any:
    encoded, values = spread.encoded, spread.values
    parts = encoded if isinstance(encoded, list) else encoded.values()
    if any(stored is not None and stored[:1] != b"J" for stored in parts):
        return load()
    if isinstance(encoded, list):
        return FrozenList(
            [v if s is None else freeze(payload(s, name)) for s, v in zip(encoded, values, strict=True)]
        )
    return FrozenDict(
        {k: values[k] if s is None else freeze(payload(s, name)) for k, s in sorted(encoded.items())}
    )


def appended(name: str, before: Cell | None, items: list[bytes], load: Callable[[], Any]) -> Cell:
    """A list that grew. Read before, it grows in memory; otherwise it is read when somebody asks."""
    known = before.known() if before is not None else None
    if before is not None and type(known) is not FrozenList:
        return Cell(make=load)
    if any(stored[:1] != b"J" for stored in items):
        return Cell(make=load)
    start = list(known) if known is not None else []
    return Cell(make=lambda: FrozenList([*start, *(freeze(payload(s, name)) for s in items)]))
