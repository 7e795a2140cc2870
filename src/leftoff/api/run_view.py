"""A run to be read: its newest state, its history, and any kept version of it. Nothing here takes a lease or writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leftoff.api.values import restored
from leftoff.clock import Clock
from leftoff.engine.read import find
from leftoff.engine.read.history import Diff, diff
from leftoff.engine.read.info import LIMITS, RunInfo, run_info
from leftoff.engine.read.state import Reader, Value, need_version, read
from leftoff.engine.write.head import gone
from leftoff.errors import Corrupt, NotFound, Redacted
from leftoff.model.changes import check_address
from leftoff.model.frozen import freeze_holed
from leftoff.model.ids import parse_ref
from leftoff.model.versions import Version
from leftoff.store.base import Store, View
from leftoff.store.rows import RunRow


def shown_mapping(mapping: Mapping[str, Any]) -> str:
    """Return a mapping as ``repr`` does, with redacted and damaged entries shown as such."""
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
        return shown_mapping(self)


class Collections(Mapping[str, Mapping[str, Any]]):
    """``run.records["knowledge"]``: any collection by its name."""

    __slots__ = ("_load", "_names")

    def __init__(self, names: Callable[[], list[str]], load: Callable[[str], Mapping[str, Any]]) -> None:
        self._names = names
        self._load = load

    def __getitem__(self, collection: str) -> Mapping[str, Any]:
        check_address(collection, "any")
        return self._load(collection)

    def __contains__(self, collection: object) -> bool:
        return collection in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return f"<records: {', '.join(self)}>"


class Readable:
    """The records of a run, at its newest state or at one version."""

    def _read(self, collection: str) -> Mapping[str, Any]:
        raise NotImplementedError

    def _names(self) -> list[str]:
        raise NotImplementedError

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

    def _reader(self, view: View) -> Reader:
        return Reader(self._store, view, self._number, self.run_id, self.seq)

    def _read(self, collection: str) -> Values:
        return Values(collection, self._store.read(lambda view: self._reader(view).values(collection)))

    def _names(self) -> list[str]:
        def look(view: View) -> list[str]:
            reader = self._reader(view)
            return [name for name in reader.collections() if reader.raw(name)]

        return self._store.read(look)

    @property
    def status(self) -> str:
        return str(self._read("run")["status"])

    def __repr__(self) -> str:
        return f"<{self.run_id} at version {self.seq}>"


class RunView(Readable):
    """A run to be read: its newest state (or the version it was asked for), its history, any kept version of it."""

    def __init__(
        self,
        store: Store,
        number: int,
        run_id: str,
        clock: Clock,
        *,
        version: Version | None = None,
        limits: tuple[int, int] = LIMITS,
    ) -> None:
        self._store = store
        self._number = number
        self._clock = clock
        self._limits = limits
        self._at = version.seq if version is not None else None
        self.id = run_id

    @property
    def info(self) -> RunInfo:
        """What a listing shows of it, as of now."""
        found = run_info(self._store, self._number, self._clock.now(), self._limits)
        if found is None:
            raise gone(self.id)
        return found

    @property
    def status(self) -> str:
        return self.info.status

    @property
    def title(self) -> str | None:
        return self.info.title

    @property
    def workflow(self) -> str:
        return self.info.workflow

    @property
    def branch(self) -> str:
        return self.info.branch

    def _read(self, collection: str) -> Mapping[str, Any]:
        return Values(collection, read(self._store, self._number, self.id, collection, self._at))

    def _names(self) -> list[str]:
        if self._at is not None:
            return self.at(self._at)._names()
        return self._store.read(lambda view: view.collections(self._number))

    def history(self, *, sealed: bool = True, limit: int | None = None) -> list[Version]:
        """Its checkpoints (``sealed=False``: every version that can be read), newest first."""

        def look(view: View) -> list[Version]:
            return view.versions(self._number, sealed=sealed, limit=limit)

        return self._store.read(look)

    def at(self, ref: str | int | Version) -> Snapshot:
        """The run at a version: a checkpoint id or prefix, ``~N``, or a seq."""
        return Snapshot(self._store, self._number, self._version(ref))

    def diff(self, old: str | int | Version, new: str | int | Version | None = None) -> Diff:
        """What changed from ``old`` to ``new`` (left out: to the newest version)."""
        left = self._version(old)
        newest = self._at or self._store.read(lambda view: self._row(view).seq)
        right = self._version(new).seq if new is not None else newest
        return diff(self._store, (self._number, self.id, left.seq), (self._number, self.id, right))

    def _row(self, view: View) -> RunRow:
        row = view.run_row(self._number)
        if row is None or row.is_gone:
            raise gone(self.id)
        return row

    def _version(self, ref: Any) -> Version:
        """Return the version of this run that a seq, a `Version` or a REF names."""

        def look(view: Any) -> Version:
            row = self._row(view)
            if isinstance(ref, int):
                return need_version(view, self._number, self.id, ref)
            if hasattr(ref, "seq"):
                if ref.run_id != self.id:
                    raise NotFound(f"{ref} is not a version of run {self.id}.")
                return need_version(view, self._number, self.id, ref.seq)
            text = str(ref)
            own = parse_ref(text if text.startswith(("~", "@", f"{self.id}@", f"{self.id}~")) else f"@{text}")
            if own.base not in ("@", self.id):
                raise NotFound(f"{text} is not a version of run {self.id}.")
            return find.version_of(view, row, own) if own.has_version else view.version(row.run, row.seq)

        return self._store.read(look)

    def __repr__(self) -> str:
        return repr(self.info)
