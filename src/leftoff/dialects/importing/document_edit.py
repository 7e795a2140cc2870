"""A document that somebody changed, taken into its run: merged against the version it was written from, one commit."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.dialects.core.base import need_known, read, respelt, write
from leftoff.dialects.core.files import FileHashes
from leftoff.dialects.core.notes import masked
from leftoff.dialects.core.repairs import Repairs
from leftoff.dialects.core.residue import is_residue, renewed
from leftoff.dialects.core.versions import IMPORTED, as_said, base_of, own_alias, own_id, state_at
from leftoff.dialects.importing.merge import GONE, merge
from leftoff.engine.lifecycle.bulk_import import redacted
from leftoff.engine.write.commit import Seal, Terms
from leftoff.engine.write.records import decides_step
from leftoff.engine.write.report import beat, report
from leftoff.errors import LeftoffError, NotFound
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from leftoff.dialects.core.base import Dialect
    from leftoff.dialects.core.draft import Decoded, Records, Source, State
    from leftoff.dialects.importing.merge import Edits
    from leftoff.engine.write.report import Find, Reported
    from leftoff.model.changes import ChangeSet, Scrubber
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import RunRow

MOST_AHEAD_MS = 60_000  # of another clock
MOST_HASHED = 8 << 20  # bytes of files that are read while others wait for the mirror


class ChangedDocument(Fields):
    """What was found in a file, and what is known of it.

    ``base``: the document it was changed from, where that is known; ``edited``: which somebody else wrote. ``run_id``:
    the run it must be of. ``origin``: the `run` record of where it came from, put with it.
    """

    dialect: Dialect
    document: dict[str, Any]
    source: Source
    repairs: Repairs
    base: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    run_id: str | None = None
    trigger: str = "external"
    edited: bool = False


class DocumentEdit:
    """A changed document on its way into a run; ``project``: where the files are that it names.

    ``edits``: what it came to. ``redacted``: records in which a secret was left out.
    """

    def __init__(
        self, store: Store, project: str, scrubber: Scrubber | None, changed: ChangedDocument
    ) -> None:
        self.store = store
        self.scrubber = scrubber
        self.changed = changed
        self.dialect, self.source, self.repairs = changed.dialect, changed.source, changed.repairs
        self.hashes = FileHashes(project, changed.source, MOST_HASHED)
        self.edits: Edits | None = None
        self.redacted: list[str] = []
        self.beat: int | None = None

    def report(self, find: Find, at: int) -> Reported:
        """Merge it into the run that ``find`` finds. ``NotFound``: it is of another run."""
        done = self.hashes.reading(
            lambda: report(self.store, find, self._make, Terms(at), scrubber=self.scrubber)
        )
        take_beat(self.store, find, self.beat, at)
        return done

    def _make(self, tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        head = state_at(self.store, tx, row, self.dialect)
        present = write(self.dialect, head)
        theirs = self._read(present, head)
        if self.changed.run_id is not None and theirs.run_id != self._said_id(present, head):
            raise NotFound(f"{self.source.path} is of another run: {theirs.run_id}.")
        self.beat = theirs.beat
        theirs.records = masked(theirs.records, self.scrubber, self.repairs)
        ours = as_said(self.dialect, head, self.source, head)
        self.edits = edits = merge(self._before(tx, row, theirs, head, ours), ours, theirs.records)
        stored = head.records
        edits.records = {at: v for at, v in edits.records.items() if stored.get(at, GONE) != v}
        for path in undecided(edits, stored):
            self.repairs.add(
                f"step {path} is waiting for a decision that only a person takes; a file does not decide it."
            )
        if not edits and not self._is_new(tx, row, theirs):
            return None
        new = {address: value for address, value in edits.records.items() if address[0] == "artifact"}
        edits.records.update(self.hashes.put_in(new, self.source.modified))
        _apply(edits, head.records, changes)
        self._tell(edits, self.source.modified or theirs.at, changes)
        if self.changed.origin is not None:
            changes.put("run", IMPORTED, self.changed.origin)
        current = own_alias(self.dialect, next(iter(tx.versions(row.run, sealed=True, limit=1)), None))
        names = [name for name in theirs.aliases if name == current or tx.aliased(name, row.run) is None]
        self.redacted = redacted(changes)
        return Seal(self.changed.trigger, note=_note(edits, self.source), aliases=tuple(names))

    def _tell(self, edits: Edits, at: int, changes: ChangeSet) -> None:
        """Where both sides changed the same, the store's value stays and a `conflict` record tells."""
        for both in edits.contradictions:
            kept, refused = (self._shown(both.field or both.key, value) for value in (both.ours, both.theirs))
            about = {
                "kind": "mirror",
                "status": "open",
                "record": both.name,
                "kept": kept,
                "refused": refused,
            }
            about |= {"path": self.source.path, "at": iso(at)}
            changes.put("conflict", f"{self.dialect.name}:{both.name}"[:1000], about)

    def _shown(self, name: str, value: Any) -> Any:
        """A value under another name than its own: what is secret by its name is so still."""
        return self.scrubber.scrub(name, value)[0] if self.scrubber is not None else value

    def _is_new(self, tx: Tx, row: RunRow, theirs: Decoded) -> bool:
        """Whether it is a checkpoint of its own, that is not here yet, whatever it says."""
        own = own_id(self.dialect, theirs) if self.dialect.id_names_version else None
        return own is not None and tx.aliased(own, row.run) is None

    def _read(self, present: dict[str, Any], head: State) -> Decoded:
        """The document, what it does not say as it is, and what it was not changed in worked out anew."""
        document = respelt(self.changed.document, self.dialect.keys, self.repairs)
        need_known(self.dialect, document, self.source)
        document = self.dialect.filled(document, present)
        theirs = read(self.dialect, document, self.source, self.repairs, head)
        if self.dialect.derived and self.changed.base is not None:
            document = renewed(
                document, self.changed.base, self.dialect.encode(theirs.state()), self.dialect.derived
            )
        return read(self.dialect, document, self.source, Repairs(), head)

    def _said_id(self, present: dict[str, Any], head: State) -> str:
        """The id that a document of this run says: of several runs of one task, all say the same."""
        base = self.changed.base if self.changed.base is not None else present
        try:
            return read(self.dialect, base, self.source, Repairs(), head).run_id
        except LeftoffError:
            return read(self.dialect, present, self.source, Repairs(), head).run_id

    def _before(self, tx: Tx, row: RunRow, theirs: Decoded, head: State, ours: Records) -> Records:
        """What the document was changed from: a version of ours, the document itself, else the present."""
        base = None
        if self.changed.base is not None:
            base = read(self.dialect, self.changed.base, self.source, Repairs(), head)
            base.records = masked(base.records, self.scrubber, Repairs())
        same = base is not None and (base.at, base.aliases) == (theirs.at, theirs.aliases)
        if base is not None and self.changed.edited and same:
            return base.records  # somebody goes on with what was taken in, and has no stamp of ours yet
        version = base_of(self.store, tx, row, self.dialect, theirs)
        if version is not None:
            return as_said(self.dialect, version, self.source, head)
        return base.records if base is not None else ours


def undecided(edits: Edits, stored: Records) -> list[str]:
    """Steps that wait for an approval of ours, and that edits would decide: those edits are taken out."""
    found = []
    for collection, path in [*edits.records, *edits.fields]:
        step = stored.get(("step", path)) if collection in ("step", "approval") else None
        if not isinstance(step, dict) or step.get("kind") != "approval" or decides_step(step):
            continue
        given = edits.records.get((collection, path), edits.fields.get((collection, path)))
        after = {**step, **given} if isinstance(given, dict) else {}
        if collection == "approval" or decides_step(after) or after.get("kind") != "approval":
            edits.records.pop((collection, path), None)
            edits.fields.pop((collection, path), None)
            found.append(path)
    return list(dict.fromkeys(found))


def take_beat(store: Store, find: Find, at: int | None, now: int) -> None:
    """A sign of life that a document tells of, if it is later than what is known."""
    if at is None or at > now + MOST_AHEAD_MS:
        return
    row = store.read(find)
    lease = store.read(lambda view: view.lease(row.run))
    if at > row.updated_at and at > (lease.beat or 0 if lease is not None else 0):
        beat(store, find, at)


def _apply(edits: Edits, stored: Records, changes: ChangeSet) -> None:
    for address, value in edits.records.items():
        if value is not GONE:
            changes.put(*address, value)
        elif address in stored:
            changes.delete(*address)
    for address in edits.fields:
        changes.put(*address, edits.apply(address, stored.get(address)))


def _note(edits: Edits, source: Source) -> str:
    own = [address for address in edits.records if not is_residue(address[1])]
    number = len(own) + len(edits.fields)
    note = f"{source.name} was changed: {number} record{'' if number == 1 else 's'}"
    return note + (f", {len(edits.contradictions)} in conflict" if edits.contradictions else "")
