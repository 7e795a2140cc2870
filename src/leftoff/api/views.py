"""What a run shows: variables, steps and records, as mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from leftoff.api.values import restored
from leftoff.engine.read.state import Reader
from leftoff.errors import Corrupt, Redacted
from leftoff.model.changes import check_address
from leftoff.model.frozen import freeze_holed

if TYPE_CHECKING:
    from leftoff.api.buffer import Buffer
    from leftoff.engine.read.state import Value
    from leftoff.model.versions import Version
    from leftoff.store.base import Store


class Variables(MutableMapping[str, Any]):
    """A run's variables. Assignments are buffered until the next commit.

    What is read is frozen where it is JSON. Tuples, sets, dates, dataclasses, arrays and what `leftoff.register` knows
    come back as what they were, as a copy of your own: assign it again to keep what you changed.
    """

    __slots__ = ("_buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def __getitem__(self, name: str) -> Any:
        return self._buffer.variable(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._buffer.assign(name, value)

    def __delitem__(self, name: str) -> None:
        self._buffer.unassign(name)

    def update(self, *others: Any, **named: Any) -> None:
        """Like ``dict.update``."""
        for other in others:
            named = {**dict(other), **named}
        for name, value in named.items():
            self._buffer.assign(name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._buffer.variable_names())

    def __len__(self) -> int:
        return len(self._buffer.variable_names())

    def __contains__(self, name: object) -> bool:
        return name in self._buffer.variable_names()

    def __repr__(self) -> str:
        return _shown(self)


def _shown(mapping: Mapping[str, Any]) -> str:
    """Like a dict, with redacted entries shown as such instead of raising."""
    parts = []
    for key in mapping:
        try:
            parts.append(f"{key!r}: {mapping[key]!r}")
        except Redacted:
            parts.append(f"{key!r}: <redacted>")
        except Corrupt:
            parts.append(f"{key!r}: <damaged>")
    return "{" + ", ".join(parts) + "}"


class Values(Mapping[str, Any]):
    """A read-only collection of records, decoded when they are looked at."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: dict[str, Value]) -> None:
        self._name = name
        self._values = values

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if self._name == "variable":
            return restored(freeze_holed(value.plain, value.holes, key), key)
        return freeze_holed(value.plain, value.holes, f"{self._name}/{key}")

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return _shown(self)


class Collections(Mapping[str, Mapping[str, Any]]):
    """``run.records["knowledge"]``: any collection by its name."""

    __slots__ = ("_load", "_names")

    def __init__(self, names: Any, load: Any) -> None:
        self._names = names
        self._load = load

    def __getitem__(self, collection: str) -> Mapping[str, Any]:
        check_address(collection, "any")
        return self._load(collection)  # type: ignore[no-any-return]

    def __contains__(self, collection: object) -> bool:
        return collection in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<records: {', '.join(self)}>"


class Readable:
    """What is read of a run, whether by its newest state or by one version of it."""

    if TYPE_CHECKING:

        def _read(self, collection: str) -> Mapping[str, Any]: ...
        def _names(self) -> list[str]: ...

    @property
    def variables(self) -> Mapping[str, Any]:
        return self._read("variable")

    @property
    def steps(self) -> Mapping[str, Any]:
        """Steps by path: ``run.steps["collect"]["status"]``."""
        return self._read("step")

    @property
    def artifacts(self) -> Mapping[str, Any]:
        return self._read("artifact")

    @property
    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """Any collection: ``run.records["knowledge"]["KE-1"]``."""
        return Collections(self._names, self._read)


class Snapshot(Readable):
    """A run at one version: read-only, whatever happens to the run meanwhile."""

    def __init__(self, store: Store, run: int, version: Version) -> None:
        self._store = store
        self._number = run
        self.version = version

    @property
    def run_id(self) -> str:
        return self.version.run_id

    @property
    def seq(self) -> int:
        return self.version.seq

    def _read(self, collection: str) -> Values:
        reader = (self._number, self.run_id, self.seq)
        values = self._store.read(lambda view: Reader(self._store, view, *reader).values(collection))
        return Values(collection, values)

    def _names(self) -> list[str]:
        def look(view: Any) -> list[str]:
            reader = Reader(self._store, view, self._number, self.run_id, self.seq)
            return [name for name in reader.collections() if reader.raw(name)]

        return self._store.read(look)

    @property
    def status(self) -> str:
        return str(self._read("run")["status"])

    def __repr__(self) -> str:
        return f"<{self.run_id} at version {self.seq}>"
