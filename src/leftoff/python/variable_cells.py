"""The values of a driven run as its process sees them: variables that were read or assigned, and redacted secrets.

A cell holds one variable in the form in which it arrived, and makes a frozen value of it when it is first read. Large
lists keep the identity of entries that did not change, so that assigning them again costs only the changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from leftoff.engine.run_reader import Lost, Value
from leftoff.errors import Invalid
from leftoff.model.changes import APPEND, DELETE, NOTHING, Change, ChangeSet, Spread, blob_about, is_typed
from leftoff.model.codec import (
    BLOB,
    JSON,
    FrozenDict,
    FrozenList,
    freeze,
    freeze_holed,
    guard,
    holes,
    marks,
    payload,
    thaw,
)
from leftoff.python.values import restored
from leftoff.store.base import VALUE_MAX


class Cell:
    """A variable as JSON, or the function that makes or reads it."""

    __slots__ = ("_listed", "_make", "_typed", "_value")

    def __init__(
        self, value: Any = NOTHING, make: Callable[[], Any] | None = None, *, listed: bool = False
    ) -> None:
        self._value = value
        self._make = make
        self._listed = listed
        self._typed: bool | None = None

    def get(self, name: str) -> Any:
        """Return the value: frozen JSON, or a new copy of the Python object that the JSON stands for."""
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
        """Return whether it can be appended to. A long list is not read for that."""
        return self._listed or isinstance(self.json(), list)

    def known(self) -> Any:
        """Return the frozen JSON if it was read already, to recognise entries by identity."""
        return None if self._value is NOTHING else self._value


def cell_of_bytes(name: str, stored: bytes) -> Cell:
    """Return a cell for a variable that is one record."""
    return Cell(make=lambda: freeze_holed(payload(stored, name), holes(stored), name))


def cell_of_change(name: str, change: Change, load: Callable[[], Any]) -> Cell:
    """Return a cell for an assignment. ``load`` reads it from the store if it is in a blob there."""
    if change.secret is not NOTHING:
        return Cell(make=partial(guard, change.secret, name))
    if change.value is not NOTHING:
        return Cell(change.value)
    if change.spread is not None:
        is_list = isinstance(change.spread.encoded, list)
        return Cell(make=partial(_spread_value, name, change.spread, load), listed=is_list)
    if change.stored[:1] == BLOB:
        return Cell(make=load)
    return cell_of_bytes(name, change.stored)


def _spread_value(name: str, spread: Spread, load: Callable[[], Any]) -> Any:
    encoded, values = spread.encoded, spread.values
    parts = encoded if isinstance(encoded, list) else encoded.values()
    if any(stored is not None and stored[:1] != JSON for stored in parts):
        return load()
    if isinstance(encoded, list):
        return FrozenList(
            [v if s is None else freeze(payload(s, name)) for s, v in zip(encoded, values, strict=True)]
        )
    return FrozenDict(
        {k: values[k] if s is None else freeze(payload(s, name)) for k, s in sorted(encoded.items())}
    )


def after_commit(name: str, change: Change, load: Callable[[], Any]) -> Change | Cell:
    """Return what is remembered of a durable assignment: the change, or how to read it again if it is large."""
    if len(change.stored) <= VALUE_MAX:
        return change
    if change.secret is NOTHING and change.value is NOTHING:
        return Cell(make=load)
    return cell_of_change(name, change, load)


def after_append(name: str, before: Cell | None, items: list[bytes], load: Callable[[], Any]) -> Cell:
    """Return a cell for a list that grew. If it was read before, it grows in memory; else it is read on demand."""
    known = before.known() if before is not None else None
    plain = all(stored[:1] == JSON and len(stored) <= VALUE_MAX for stored in items)
    if (before is not None and type(known) is not FrozenList) or not plain:
        return Cell(make=load, listed=True)
    start = known if known is not None else ()

    def longer() -> Any:
        return FrozenList([*start, *(freeze(payload(stored, name)) for stored in items)])

    return Cell(make=longer, listed=True)


def with_appended(name: str, before: Any, change: Change) -> Any:
    """Return a list as JSON, with the entries that a change appends."""
    if not isinstance(before, list):  # another process replaced it
        raise Invalid(
            f"{name} is no longer a list; what was waiting to be appended has nowhere to go.",
            hint="Assign it again: that replaces what was waiting.",
        )
    added = [
        change.kept[index] if index in change.kept else payload(stored, name)
        for index, stored in enumerate(change.items)
    ]
    return guard([*list.__iter__(before), *added], name)


def overlay(
    values: dict[str, Value], changes: dict[tuple[str, str], Change], collection: str
) -> dict[str, Value]:
    """Return the records of a collection with the changes that are not durable yet, in key order."""
    out = dict(values)
    for (of, key), change in changes.items():
        if of == collection and change.kind == DELETE:
            out.pop(key, None)
        elif of == collection:
            out[key] = _changed_value(change)
    return {key: out[key] for key in sorted(out)}


def _changed_value(change: Change) -> Value:
    if change.secret is not NOTHING:
        return Value(change.secret, marks(change.secret), 0)
    if change.value is not NOTHING and change.collection == "step":
        return Value(change.value, [], 0)
    where = f"{change.collection}/{change.key}"
    if change.stored[:1] == BLOB:
        return Value(blob_about(change.stored, where), [], 0)
    return Value(payload(change.stored, where), holes(change.stored), 0)


class ProcessSecrets:
    """The secrets that this process set: the store has a mark in their place, this process still reads the value.

    For each record there are two values: as it is stored, and as it was set. While the store returns the first, this
    process sees the second.
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[Any, Any]] = {}

    def has(self, variable: str) -> bool:
        return ("variable", variable) in self.kept

    def keep(self, change: Change) -> None:
        """Remember the secrets of a change, and forget those of an earlier change of the same record."""
        if change.secret is not NOTHING:
            clean = change.spread.values if change.spread is not None else payload(change.stored, change.key)
            self.kept[change.collection, change.key] = (clean, change.secret)
        elif self.kept:
            self.kept.pop((change.collection, change.key), None)

    def keep_list(self, variable: str, before: Any) -> None:
        """Prepare for a secret that is being appended to a list."""
        self.kept.setdefault(("variable", variable), (thaw(before), before))

    def appended(self, changes: ChangeSet) -> None:
        """Extend the lists that have secrets by the entries that became durable."""
        for address, change in changes.changes.items():
            clean, secret = self.kept.get(address, (None, None))
            if change.kind == APPEND and isinstance(clean, list):
                stored = [payload(s, change.key) if s[:1] != BLOB else None for s in change.items]
                self.kept[address] = ([*clean, *stored], with_appended(change.key, secret, change))

    def reveal(
        self, collection: str, key: str, plain: Any, holes: list[list[Any]]
    ) -> tuple[Any, list[list[Any]]]:
        """Return a value and its redacted places, with the secrets of this process filled in."""
        clean, secret = self.kept.get((collection, key), (NOTHING, None)) if holes else (NOTHING, None)
        return (secret, marks(secret)) if clean == plain else (plain, holes)

    def reveal_all(self, collection: str, values: dict[str, Value]) -> dict[str, Value]:
        """Do the same for a whole collection, in place."""
        for key, value in values.items() if self.kept else ():
            if not isinstance(value, Lost):
                value.plain, value.holes = self.reveal(collection, key, value.plain, value.holes)
        return values
