"""A run as somebody looks at it: nothing here takes a lease or writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leftoff.api.views import Readable, Snapshot, Values
from leftoff.engine.read import find
from leftoff.engine.read.diff import Diff, diff
from leftoff.engine.read.info import LIMITS, RunInfo, run_info
from leftoff.engine.read.state import need_version, read
from leftoff.engine.write.head import gone
from leftoff.errors import NotFound
from leftoff.model.ids import parse_ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leftoff.clock import Clock
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow


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
            if limit is None:
                view.need_all_checkpoints(self._number)
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

    def _row(self, view: Any) -> RunRow:
        row = view.run_row(self._number)
        if row is None or row.is_gone:
            raise gone(self.id)
        return row  # type: ignore[no-any-return]

    def _version(self, ref: Any) -> Version:
        """A version of this run, however it is named."""

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
