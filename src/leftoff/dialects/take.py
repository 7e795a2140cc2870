"""One changed document into a run that is here: merged against the version it was written from, as a checkpoint."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.dialects.base import Source, State, read, write
from leftoff.dialects.merge import GONE, merge
from leftoff.dialects.report import Repairs
from leftoff.dialects.residue import is_residue
from leftoff.engine.commit import Seal
from leftoff.engine.takein import records_at
from leftoff.errors import NoCheckpoint, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from leftoff.dialects.base import Decoded, Dialect, Records
    from leftoff.dialects.merge import Edits
    from leftoff.model.changes import ChangeSet
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

    Made = tuple[Edits, Decoded]

IMPORTED = "imported"  # the run record that says where a run came from
MOST_VERSIONS = 500  # that are looked through for the one a file was written from


def state_at(store: Store, view: View, row: RunRow, dialect: Dialect, seq: int | None = None) -> State:
    """A run at a version (``None``: its head) as the dialect sees it."""
    version = view.version(row.run, row.seq if seq is None else seq)
    lease = view.lease(row.run)
    beat = lease.beat if lease is not None and seq is None else None
    records = records_at(store, view, row, seq)
    at = version.at if version is not None else row.updated_at
    alias = own_alias(dialect, version)
    if (
        version is not None and version.checkpoint is None
    ):  # what is only committed goes by the checkpoint before it
        sealed = view.versions(row.run, sealed=True, before=version.seq, limit=1)
        alias = own_alias(dialect, sealed[0]) if sealed else None
    trigger = version.trigger if version is not None else None
    return State(row.run_id, records, at, alias=alias, trigger=trigger, beat=beat)


def own_alias(dialect: Dialect, version: Version | None) -> str | None:
    """The protocol's own id of a version."""
    if version is None:
        return None
    return next((name for name in version.aliases if dialect.is_own_id(name)), None)


def as_said(dialect: Dialect, state: State, source: Source, known: State) -> Records:
    """The records of a state, as far as the dialect's document says them."""
    return read(dialect, write(dialect, state), source, Repairs(), known).records


def base_of(store: Store, view: View, row: RunRow, dialect: Dialect, theirs: Decoded) -> State | None:
    """The version that a document was written from: by the id it carries, or its time, or the last one taken in."""
    own = next((name for name in theirs.aliases if dialect.is_own_id(name)), None)
    named = view.aliased(own, row.run) if own is not None and dialect.id_names_version else None
    if named is not None:
        return state_at(store, view, row, dialect, named[1].seq)
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


def taking(
    store: Store,
    dialect: Dialect,
    document: dict[str, Any],
    source: Source,
    repairs: Repairs,
    *,
    base: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
    run_id: str | None = None,
    told: Callable[[Made], None] | None = None,
) -> Callable[[Tx, RunRow, ChangeSet], Seal | None]:
    """What a report does to take a document in. ``base``: the document it was changed from, where that is known.

    ``run_id``: ``NotFound`` where the document is of another run.
    ``facts``: put with it, if there is anything to take in. ``told``: is told what it came to.
    """

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        head = state_at(store, tx, row, dialect)
        theirs = read(dialect, document, source, repairs, head)
        if run_id is not None and theirs.run_id != dialect.same_run(run_id):
            raise NotFound(f"{source.path} is of another run: {theirs.run_id}.")
        from_version = base_of(store, tx, row, dialect, theirs)
        if from_version is not None:
            before = as_said(dialect, from_version, source, head)
        elif base is not None:
            before = read(dialect, base, source, Repairs(), head).records
        else:
            before = as_said(dialect, head, source, head)
        edits = merge(before, as_said(dialect, head, source, head), theirs.records)
        if told is not None:
            told((edits, theirs))
        if not edits:
            return None
        _apply(edits, head.records, changes)
        _tell(edits, dialect, source, theirs.at, changes)
        for key, value in (facts or {}).items():
            changes.put("run", key, value)
        names = tuple(
            name for name in theirs.aliases if tx.aliased(name, row.run) is None or dialect.is_own_id(name)
        )
        return Seal("external", note=_note(edits, source), aliases=names)

    return make


def _apply(edits: Edits, stored: Records, changes: ChangeSet) -> None:
    for address, value in edits.records.items():
        if value is not GONE:
            changes.put(*address, value)
        elif address in stored:
            changes.delete(*address)
    for address in edits.fields:
        changes.put(*address, edits.apply(address, stored.get(address)))


def _tell(edits: Edits, dialect: Dialect, source: Source, at: int, changes: ChangeSet) -> None:
    """Where both sides changed the same, the store's value stays and a `conflict` record tells."""
    for both in edits.contradictions:
        about = {
            "kind": "mirror",
            "status": "open",
            "record": both.name,
            "kept": both.ours,
            "refused": both.theirs,
            "path": source.path,
            "at": iso(at),
        }
        changes.put("conflict", f"{dialect.name}:{both.name}"[:1000], about)


def _note(edits: Edits, source: Source) -> str:
    own = [address for address in edits.records if not is_residue(address[1])]
    number = len(own) + len(edits.fields)
    note = f"{source.name} was changed: {number} record{'' if number == 1 else 's'}"
    return note + (f", {len(edits.contradictions)} in conflict" if edits.contradictions else "")
