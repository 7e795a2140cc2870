"""Import a changed document into its run: a three-way merge of records, in one commit.

All three sides (the version that the file was written from, the store's present, the file) are compared as the document
says them, so a record that the protocol has no field for is never taken for a deletion. If both sides changed the same
field, the store's value stays and a `conflict` record says what was refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from leftoff.clock import iso
from leftoff.engine.commit import Reported, Seal, Terms, beat, report
from leftoff.engine.file_state import hash_file
from leftoff.engine.opening import redacted_records
from leftoff.errors import NotFound, StoreUnavailable
from leftoff.model.changes import ChangeSet, Scrubber
from leftoff.model.codec import same_json
from leftoff.model.words import AS_WRITTEN, decides_step
from leftoff.protocols.document_draft import Records, Source, State, note_text
from leftoff.protocols.loose_values import Repairs
from leftoff.protocols.protocol import (
    IMPORTED,
    Protocol,
    base_of,
    decode_document,
    need_known_fields,
    own_alias,
    own_id,
    renewed,
    respelt,
    state_at,
    write,
)
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import RunRow

Find = Callable[[View], RunRow]
Address = tuple[str, str]

MOST_AHEAD_MS = 60_000  # of another clock
MOST_HASHED = 8 << 20  # bytes of files that are read while others wait for the sync
HASHED = 64 << 20  # bytes of files that are read for one imported document
GONE: Any = object()  # there is no such record, or field


# -- merging records


@dataclass
class Contradiction:
    """A record, or one field of it, that both sides changed."""

    address: Address
    field: str | None
    ours: Any
    theirs: Any

    @property
    def name(self) -> str:
        name = "/".join(self.address)
        return f"{name}.{self.field}" if self.field is not None else name


@dataclass
class Edits:
    """What a merge changes, and what it refused."""

    records: dict[Address, Any] = field(default_factory=dict)  # GONE: delete it
    contradictions: list[Contradiction] = field(default_factory=list)


def merge(base: Records, ours: Records, theirs: Records, stored: Records) -> Edits:
    """Merge records as the protocol's documents say them. ``stored``: all fields that leftoff adds."""
    edits = Edits()
    for address in sorted({*base, *theirs}):
        before, mine, after = (side.get(address, GONE) for side in (base, ours, theirs))
        if same_json(before, after) or same_json(mine, after):
            continue
        form = address == ("extra", AS_WRITTEN)  # says how the file is written: the file's own counts
        if not form and isinstance(before, dict) and isinstance(mine, dict) and isinstance(after, dict):
            changed: dict[str, Any] = {}
            for name in sorted({*before, *after}):
                old, own, new = (side.get(name, GONE) for side in (before, mine, after))
                if same_json(old, new) or same_json(own, new):
                    continue
                if same_json(old, own):
                    changed[name] = new
                else:
                    edits.contradictions.append(Contradiction(address, name, own, new))
            if changed:
                known = stored.get(address)
                merged = {**known, **changed} if isinstance(known, dict) else changed
                edits.records[address] = {key: value for key, value in merged.items() if value is not GONE}
        elif form or same_json(before, mine):
            edits.records[address] = after
        else:
            edits.contradictions.append(Contradiction(address, None, mine, after))
    return edits


def undecided(edits: Edits, stored: Records) -> list[str]:
    """Drop the edits that would decide an approval, or change a decision. Return the steps."""
    found = []
    for address, given in list(edits.records.items()):
        collection, path = address
        if collection not in ("step", "approval"):
            continue
        said, step = (stored.get((name, path)) for name in ("approval", "step"))
        decides = collection == "approval" and isinstance(said, dict) and "status" in said
        if isinstance(step, dict) and step.get("kind") == "approval" and not decides_step(step):
            after = {**step, **given} if isinstance(given, dict) else {}
            decides = collection == "approval" or decides_step(after) or after.get("kind") != "approval"
        if decides:
            del edits.records[address]
            found.append(path)
    return list(dict.fromkeys(found))


# -- the commit


@dataclass
class DocumentEdit:
    """A changed document on its way into a run. ``project``: the folder of the files that it names.

    ``base``: the document that it was changed from; ``edited``: that another program wrote it. ``run_id``: the
    run that it must belong to. ``origin``: the `run` record about where it came from. After `report`, ``edits`` is the
    result of the merge, and ``redacted`` names the records with secrets.
    """

    store: SqlStore
    project: str
    scrubber: Scrubber | None
    protocol: Protocol
    document: dict[str, Any]
    source: Source
    repairs: Repairs
    base: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    run_id: str | None = None
    trigger: str = "external"
    edited: bool = False
    hashes: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    edits: Edits = field(default_factory=Edits, init=False)
    redacted: list[str] = field(default_factory=list, init=False)
    beat: int | None = field(default=None, init=False)

    def report(self, find: Find, at: int) -> Reported:
        """Merge the document into a run. Raise ``NotFound`` if it belongs to another one."""
        row = self.store.read(find)
        head = self.store.read(lambda view: state_at(self.store, view, row, self.protocol))
        known = [about.get("path") for about in head.of("artifact").values() if isinstance(about, dict)]
        new = {
            (collection, key): about
            for (collection, key), about in self._read(write(self.protocol, head), head).records.items()
            if collection == "artifact" and isinstance(about, dict) and about.get("path") not in known
        }
        self.hashes = hash_named_files(self.project, self.source, new, MOST_HASHED)
        done = report(self.store, find, self._make, Terms(at), scrubber=self.scrubber)
        take_beat(self.store, find, self.beat, at)
        return done

    def _make(self, tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        head = state_at(self.store, tx, row, self.protocol)
        present = write(self.protocol, head)
        theirs = self._read(present, head)
        ours = decode_document(self.protocol, present, self.source, Repairs(), head)
        # several runs of one task have the same id in their documents
        if self.run_id is not None and theirs.run_id != ours.run_id:
            raise NotFound(f"{self.source.path} is of another run: {theirs.run_id}.")
        self.beat = theirs.told
        theirs.records = masked(theirs.records, self.scrubber, self.repairs)
        before = self._before(tx, row, theirs, head)
        self.edits = edits = merge(
            ours.records if before is None else before, ours.records, theirs.records, head.records
        )
        stored = head.records
        for at, value in list(edits.records.items()):  # only the file has its secrets
            if stored.get(at, GONE) == self._scrubbed(at[1], value):
                del edits.records[at]
        for path in undecided(edits, stored):
            self.repairs.add(
                f"step {path} has a decision that only a person takes; a file does not decide it."
            )
        own = own_id(self.protocol, theirs)
        changed = edits.records or edits.contradictions
        if not changed and (own is None or tx.aliased(own, row.run) is not None):
            return None
        edits.records = with_hashes(edits.records, self.hashes, self.source.modified)
        self._apply(edits, stored, changes, self.source.modified or theirs.at)
        current = own_alias(self.protocol, next(iter(tx.versions(row.run, sealed=True, limit=1)), None))
        names = [name for name in theirs.aliases if name == current or tx.aliased(name, row.run) is None]
        self.redacted = redacted_records(changes)
        number = len([address for address in edits.records if address[1] != AS_WRITTEN])
        note = f"{self.source.name} was changed: {number} record{'' if number == 1 else 's'}"
        note += f", {len(edits.contradictions)} in conflict" if edits.contradictions else ""
        return Seal(self.trigger, note=note, aliases=tuple(names))

    def _apply(self, edits: Edits, stored: Records, changes: ChangeSet, at: int) -> None:
        for address, value in edits.records.items():
            if value is not GONE:
                changes.put(*address, value)
            elif address in stored:
                changes.delete(*address)
        for both in edits.contradictions:
            name = both.field or both.address[1]
            about = {
                "kind": "sync",
                "status": "open",
                "record": both.name,
                "kept": self._scrubbed(name, both.ours) if both.ours is not GONE else None,
                "refused": self._scrubbed(name, both.theirs) if both.theirs is not GONE else None,
                "path": self.source.path,
                "at": iso(at),
            }
            changes.put("conflict", f"{self.protocol.name}:{both.name}"[:1000], about)
        if self.origin is not None:
            changes.put("run", IMPORTED, self.origin)

    def _scrubbed(self, name: str, value: Any) -> Any:
        """Return a value as it is stored. Whether it is a secret depends on its own name."""
        if value is GONE or self.scrubber is None:
            return value
        return self.scrubber.scrub(name, value)[0]

    def _read(self, present: dict[str, Any], head: State) -> State:
        """Return the run of the document, with missing fields as they are and untouched computed fields renewed."""
        document = respelt(self.document, self.protocol.keys, self.repairs)
        need_known_fields(self.protocol, document, self.source)
        document = self.protocol.filled(document, present)
        theirs = decode_document(self.protocol, document, self.source, self.repairs, head)
        if self.protocol.derived and self.base is not None:
            computed = self.protocol.encode(theirs)
            document = renewed(document, self.base, computed, self.protocol.derived)
            theirs = decode_document(self.protocol, document, self.source, Repairs(), head)
        return theirs

    def _before(self, tx: Tx, row: RunRow, theirs: State, head: State) -> Records | None:
        """Return what the document was changed from: a stored version, else the base document."""
        base = None
        if self.base is not None:
            base = decode_document(self.protocol, self.base, self.source, Repairs(), head)
            base.records = masked(base.records, self.scrubber, Repairs())
            stamps_agree = (base.at, base.aliases) == (theirs.at, theirs.aliases)
            if self.edited and stamps_agree:
                return base.records  # a second edit of a file that has no new stamp of leftoff yet
        version = base_of(self.store, tx, row, self.protocol, theirs)
        if version is not None:
            return decode_document(
                self.protocol, write(self.protocol, version), self.source, Repairs(), head
            ).records
        return base.records if base is not None else None


def take_beat(store: SqlStore, find: Find, at: int | None, now: int) -> None:
    """Store the heartbeat of a document if it is later than the known one."""
    if at is None or at > now + MOST_AHEAD_MS:
        return
    row = store.read(find)
    lease = store.read(lambda view: view.lease(row.run))
    if at > row.updated_at and at > (lease.beat or 0 if lease is not None else 0):
        beat(store, find, at)


def masked(records: Records, scrubber: Scrubber | None, repairs: Repairs) -> Records:
    """Return records whose notes have their secrets masked. Only the secret is left out of a note, not the note."""
    if scrubber is None:
        return records
    out = dict(records)
    for (collection, key), value in records.items():
        text = note_text(value) if collection == "note" else ""
        if text and (clean := scrubber.mask(text)) != text:
            out[collection, key] = {**value, "text": clean} if isinstance(value, dict) else clean
            repairs.add(f"note/{key} holds what looks like a secret, which is not stored.")
    return out


# -- the files that a document names


def hash_named_files(
    project: str, source: Source, records: Records, most: int = HASHED
) -> dict[str, dict[str, Any]]:
    """Return hash and size of the files that artifacts name, if they are in the project and not too large together.

    A path starts at the project's folder or at the document. Never called in a transaction: that must not wait.
    """
    out: dict[str, dict[str, Any]] = {}
    root = os.path.join(os.path.realpath(project), "")
    for (collection, _), about in records.items():
        path = about.get("path") if collection == "artifact" and isinstance(about, dict) else None
        if not isinstance(path, str) or "\0" in path or path in out:
            continue
        for start in (project, os.path.join(project, os.path.dirname(source.path))):
            full = os.path.realpath(os.path.join(start, path))
            if os.path.isfile(full) and full.startswith(root):
                try:
                    if os.path.getsize(full) <= most:
                        digest, size = hash_file(full)
                        most -= size
                        out[path] = {"hash": f"sha256:{digest.hex()}", "size": size}
                except (OSError, StoreUnavailable):
                    pass
                break
    return out


def with_hashes(records: Records, hashes: dict[str, dict[str, Any]], now: int) -> Records:
    """Return the records, with the hashes of the files in their artifacts."""
    seen = {"captured": False, "captured_at": iso(now)}
    return {
        (collection, key): {**about, **hashes[about["path"]], **seen}
        if collection == "artifact" and isinstance(about, dict) and str(about.get("path")) in hashes
        else about
        for (collection, key), about in records.items()
    }
