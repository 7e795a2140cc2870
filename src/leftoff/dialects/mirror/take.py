"""One changed document into a run that is here: merged against the version it was written from, as a checkpoint."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.dialects.core.base import need_known, read, respelt, write
from leftoff.dialects.core.draft import Source, State
from leftoff.dialects.core.files import FileHashes
from leftoff.dialects.core.notes import masked
from leftoff.dialects.core.residue import is_residue, renewed
from leftoff.dialects.importing.report import Repairs
from leftoff.dialects.mirror.merge import GONE, merge
from leftoff.engine.lifecycle.bulk_import import records_at, redacted
from leftoff.engine.write.commit import Seal
from leftoff.engine.write.report import report
from leftoff.errors import LeftoffError, NoCheckpoint, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import Decoded, Records
    from leftoff.dialects.mirror.merge import Edits
    from leftoff.engine.write.report import Find, Reported
    from leftoff.model.changes import ChangeSet, Scrubber
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow


IMPORTED = "imported"  # the run record that says where a run came from
MOST_HASHED = 8 << 20  # bytes of files that are read while others wait for the mirror
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


class Taking:
    """What a report does to take a changed document in.

    ``base``: the document it was changed from, where that is known. ``run_id``: ``NotFound`` where the document is of
    another run. ``project``: where the files are that it names. ``facts``: put with it, if there is anything to take
    in. ``edits``: what it came to.
    """

    def __init__(
        self,
        store: Store,
        dialect: Dialect,
        document: dict[str, Any],
        source: Source,
        repairs: Repairs,
        *,
        base: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
        run_id: str | None = None,
        trigger: str = "external",
        scrubber: Scrubber | None = None,
        project: str = "",
    ) -> None:
        self.hashes = FileHashes(project, source, MOST_HASHED)
        self.trigger = trigger
        self.scrubber = scrubber
        self.store = store
        self.dialect = dialect
        self.document = document
        self.source = source
        self.repairs = repairs
        self.base = base
        self.facts = facts or {}
        self.run_id = run_id
        self.edits: Edits | None = None
        self.redacted: list[str] = []  # records in which a secret was left out

    def report(self, find: Find, at: int) -> Reported:
        """Take it in, as a report on the run that ``find`` finds; no file is read while others wait for the store."""
        return self.hashes.reading(lambda: report(self.store, find, self._make, at, scrubber=self.scrubber))

    def _make(self, tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        head = state_at(self.store, tx, row, self.dialect)
        present = write(self.dialect, head)
        theirs = self._read(present, head)
        if self.run_id is not None and theirs.run_id != self._said_id(present, head):
            raise NotFound(f"{self.source.path} is of another run: {theirs.run_id}.")
        theirs.records = masked(theirs.records, self.scrubber, self.repairs)
        ours = as_said(self.dialect, head, self.source, head)
        self.edits = edits = merge(self._before(tx, row, theirs, head, ours), ours, theirs.records)
        if not edits and not self._is_new(tx, row, theirs):
            return None
        new = {address: value for address, value in edits.records.items() if address[0] == "artifact"}
        edits.records.update(self.hashes.put_in(new, self.source.modified))
        _apply(edits, head.records, changes)
        _tell(edits, self.dialect, self.source, self.source.modified or theirs.at, changes)
        for key, value in self.facts.items():
            changes.put("run", key, value)
        current = own_alias(self.dialect, next(iter(tx.versions(row.run, sealed=True, limit=1)), None))
        names = [name for name in theirs.aliases if name == current or tx.aliased(name, row.run) is None]
        self.redacted = redacted(changes)
        return Seal(self.trigger, note=_note(edits, self.source), aliases=tuple(names))

    def _is_new(self, tx: Tx, row: RunRow, theirs: Decoded) -> bool:
        """Whether it is a checkpoint of its own, that is not here yet, whatever it says."""
        own = own_id(self.dialect, theirs) if self.dialect.id_names_version else None
        return own is not None and tx.aliased(own, row.run) is None

    def _read(self, present: dict[str, Any], head: State) -> Decoded:
        """The document, what it does not say as it is, and what it was not changed in worked out anew."""
        document = respelt(self.document, self.dialect.keys, self.repairs)
        need_known(self.dialect, document, self.source)
        document = self.dialect.filled(document, present)
        theirs = read(self.dialect, document, self.source, self.repairs, head)
        if self.dialect.derived and self.base is not None:
            document = renewed(document, self.base, self.dialect.encode(theirs.state()), self.dialect.derived)
        return read(self.dialect, document, self.source, Repairs(), head)

    def _said_id(self, present: dict[str, Any], head: State) -> str:
        """The id that a document of this run says: of several runs of one task, all say the same."""
        base = self.base if self.base is not None else present
        try:
            return read(self.dialect, base, self.source, Repairs(), head).run_id
        except LeftoffError:
            return read(self.dialect, present, self.source, Repairs(), head).run_id

    def _before(self, tx: Tx, row: RunRow, theirs: Decoded, head: State, ours: Records) -> Records:
        """What the document was changed from: a version of ours, the document itself, else the present."""
        version = base_of(self.store, tx, row, self.dialect, theirs)
        if version is not None:
            return as_said(self.dialect, version, self.source, head)
        if self.base is not None:
            said = read(self.dialect, self.base, self.source, Repairs(), head).records
            return masked(said, self.scrubber, Repairs())
        return ours


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
