"""A run at one of its versions, as a dialect sees it; and the version that a document was written from."""

from __future__ import annotations

from leftoff.dialects.core.base import read, write
from leftoff.dialects.core.draft import State
from leftoff.dialects.core.repairs import Repairs
from leftoff.engine.lifecycle.opening import find
from leftoff.engine.read.state import Reader
from leftoff.errors import NoCheckpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import Decoded, Records, Source
    from leftoff.engine.write.report import Find
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View
    from leftoff.store.rows import RunRow

IMPORTED = "imported"  # the run record that says where a run came from
MOST_VERSIONS = 500  # that are looked through for the one a file was written from


def run_named(run_id: str) -> Find:
    """How a report finds its run: by the id."""
    return lambda view: find(view, run_id)


def state_at(store: Store, view: View, row: RunRow, dialect: Dialect, seq: int | None = None) -> State:
    """A run at a version (``None``: its head) as the dialect sees it."""
    version = view.version(row.run, row.seq if seq is None else seq)
    lease = view.lease(row.run)
    beat = lease.beat if lease is not None and seq is None else None
    records = _records_at(store, view, row, seq)
    at = version.at if version is not None else row.updated_at
    alias = own_alias(dialect, version)
    if version is not None and version.checkpoint is None:  # it goes by the checkpoint before it
        sealed = view.versions(row.run, sealed=True, before=version.seq, limit=1)
        alias = own_alias(dialect, sealed[0]) if sealed else None
    trigger, step = (version.trigger, version.step) if version is not None else (None, None)
    return State(row.run_id, records, at, alias=alias, trigger=trigger, step=step, beat=beat)


def own_alias(dialect: Dialect, version: Version | None) -> str | None:
    """The protocol's own id of a version, the longest where there are several forms of it."""
    if version is None:
        return None
    return max((name for name in version.aliases if dialect.is_own_id(name)), key=len, default=None)


def own_id(dialect: Dialect, theirs: Decoded) -> str | None:
    """The protocol's own id in a document."""
    return next((name for name in theirs.aliases if dialect.is_own_id(name)), None)


def as_said(dialect: Dialect, state: State, source: Source, known: State) -> Records:
    """The records of a state, as far as the dialect's document says them."""
    return read(dialect, write(dialect, state), source, Repairs(), known).records


def base_of(store: Store, view: View, row: RunRow, dialect: Dialect, theirs: Decoded) -> State | None:
    """The version that a document was written from: by the id it carries, or its time, or the last one taken in."""
    own = own_id(dialect, theirs) if dialect.id_names_version else None
    named = view.aliased(own, row.run) if own is not None else None
    if named is not None:
        return state_at(store, view, row, dialect, named[1].seq)
    if own is not None:  # a new one: whoever wrote it had the last one before it
        sealed = view.versions(row.run, sealed=True, limit=MOST_VERSIONS)
        before = next((version for version in sealed if version.at <= theirs.at), None)
        return state_at(store, view, row, dialect, before.seq) if before is not None else None
    record = view.record(row.run, "run", IMPORTED)
    seq = record.seq if record is not None else 0
    for version in view.versions(row.run, sealed=False, limit=MOST_VERSIONS):
        if version.at == theirs.at:
            seq = max(seq, version.seq)
            break
    try:
        return state_at(store, view, row, dialect, seq) if seq else None
    except NoCheckpoint:  # pruned
        return None


def _records_at(store: Store, view: View, row: RunRow, seq: int | None = None) -> Records:
    """Every record of a run at a version, as plain values."""
    reader = Reader(store, view, row.run, row.run_id, seq)
    names = [name for name in reader.collections() if name != "item"]
    return {(name, key): value for name in names for key, value in reader.plain(name).items()}
