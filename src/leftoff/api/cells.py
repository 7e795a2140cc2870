"""A run's variables as this process sees them: what was read, what was assigned, what waits for the next commit.

A cell holds one variable in whatever form it arrived and turns it into a frozen value when it is first read. Large
lists keep the identity of entries that did not change, so that assigning them again costs only the changes.
"""

from __future__ import annotations

from leftoff.api.values import restored
from leftoff.engine.read.state import Value
from leftoff.errors import Invalid
from leftoff.model.changes import DELETE, NOTHING
from leftoff.model.codec import BLOB, JSON, holes, payload
from leftoff.model.frozen import FrozenDict, FrozenList, freeze, freeze_holed, guard, marks
from leftoff.model.values import blob_about, is_typed
from leftoff.store.base import VALUE_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.model.changes import Change, Spread


class Cell:
    """A value that is known as JSON, or how to get it."""

    __slots__ = ("_listed", "_make", "_typed", "_value")

    def __init__(
        self, value: Any = NOTHING, make: Callable[[], Any] | None = None, *, listed: bool = False
    ) -> None:
        self._value = value
        self._make = make
        self._listed = listed
        self._typed: bool | None = None

    def get(self, name: str) -> Any:
        """The value: frozen JSON, or what that stands for, made anew each time so that nobody changes it here."""
        json = self.json()
        if self._typed is None:
            self._typed = isinstance(json, (dict, list)) and is_typed(json)
        return restored(json, name) if self._typed else json

    def json(self) -> Any:
        if self._value is NOTHING:
            assert self._make is not None
            self._value = self._make()
            self._make = None
        return self._value

    def is_list(self) -> bool:
        """Whether it can be appended to; a long list is not read for that."""
        return self._listed or isinstance(self.json(), list)

    def known(self) -> Any:
        """The frozen JSON if it has been read already; for recognising entries by identity."""
        return None if self._value is NOTHING else self._value


def from_stored(name: str, stored: bytes) -> Cell:
    """A cell for a record that is one value."""
    return Cell(make=lambda: freeze_holed(payload(stored, name), holes(stored), name))


def grown(name: str, before: Any, change: Change) -> Any:
    """A list as JSON, with what waits to be appended to it."""
    if not isinstance(before, list):  # somebody else made it something else
        raise Invalid(
            f"{name} is no longer a list; what was waiting to be appended has nowhere to go.",
            hint="Assign it again: that replaces what was waiting.",
        )
    items = [change.kept.get(i, NOTHING) for i in range(len(change.items))]
    parts = zip(items, change.items, strict=True)
    return guard(
        [*list.__iter__(before), *(payload(s, name) if kept is NOTHING else kept for kept, s in parts)], name
    )


def overlay(
    values: dict[str, Value], changes: dict[tuple[str, str], Change], collection: str
) -> dict[str, Value]:
    """The records of a collection with the changes that are not durable yet, in key order."""
    out = dict(values)
    for (of, key), change in changes.items():
        if of == collection and change.kind == DELETE:
            out.pop(key, None)
        elif of == collection:
            out[key] = _waiting(change)
    return {key: out[key] for key in sorted(out)}


def _waiting(change: Change) -> Value:
    if change.secret is not NOTHING:
        return Value(change.secret, marks(change.secret), 0)
    where = f"{change.collection}/{change.key}"
    if change.stored[:1] == BLOB:
        return Value(blob_about(change.stored, where), [], 0)
    return Value(payload(change.stored, where), holes(change.stored), 0)


def from_change(name: str, change: Change, load: Callable[[], Any]) -> Cell:
    """A cell for what was just assigned; ``load`` reads it from the store once it is committed there as a blob."""
    if change.secret is not NOTHING:
        return Cell(make=lambda: guard(change.secret, name))
    if change.value is not NOTHING:
        return Cell(change.value)
    if change.spread is not None:
        spread = change.spread
        return Cell(make=lambda: _spread_value(name, spread, load), listed=isinstance(spread.encoded, list))
    if change.stored[:1] == BLOB:
        return Cell(make=load)
    return from_stored(name, change.stored)


def committed(name: str, change: Change, load: Callable[[str], Any]) -> Change | Cell:
    """What is kept of an assignment that is durable: all of it, or, where that is large, how to read it again."""
    if len(change.stored) <= VALUE_MAX:
        return change
    if change.secret is NOTHING and change.value is NOTHING:
        return Cell(make=lambda: load(name))
    return from_change(name, change, lambda: load(name))


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


def _is_plain(stored: bytes) -> bool:
    return stored[:1] == JSON and len(stored) <= VALUE_MAX


def appended(name: str, before: Cell | None, items: list[bytes], load: Callable[[], Any]) -> Cell:
    """A list that grew. Read before, it grows in memory; otherwise it is read when somebody asks."""
    known = before.known() if before is not None else None
    if (before is not None and type(known) is not FrozenList) or not all(map(_is_plain, items)):
        return Cell(make=load, listed=True)
    start = known if known is not None else ()
    return Cell(make=lambda: FrozenList([*start, *(freeze(payload(s, name)) for s in items)]), listed=True)
