"""Is a bundle what it claims to be? Everything is checked before anything is written.

Every byte of content is covered by a hash, every record by the digest of a kept version that sees it, every
checkpoint's id by its digest; and what is stored must be such as a commit could have stored. So a bundle that passes
is some run's true history, or one that somebody made up as carefully: a digest is no signature.
"""

from __future__ import annotations

import os
from bisect import bisect_left

from leftoff.errors import BadData, Corrupt, Unsupported
from leftoff.model.changes import check_address, step_facts
from leftoff.model.codec import BLOB, DICT, JSON, LIST, REDACTED, decode, holes, payload
from leftoff.model.derived import Leaves, up_to
from leftoff.model.digest import MASK, is_checkpoint_id, term, to_bytes
from leftoff.model.ids import check_key, check_run_id
from leftoff.model.values import blob_about, index_key, item_prefix
from leftoff.model.versions import Version
from leftoff.model.words import RUN_STATUS, STEP_STATUS, TRIGGERS
from leftoff.store.bundle.read import AGAIN, BundleReader, Sum, sniff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


FACTS = {
    "run_id",
    "created_at",
    "seq",
    "digest",
    "versions",
    "records",
    "values",
    "blobs",
    "written_by",
    "sum",
}
LATEST = 253_402_300_799_999  # the last millisecond of the year 9999
MOST_TEXT = 1 << 20


class Bundle:
    """A bundle that was checked: whose run it is, and its versions, oldest first."""

    def __init__(self, reader: BundleReader) -> None:
        self.reader = reader
        self.path = reader.path
        self.run_id = ""
        self.created_at = 0
        self.versions: list[Version] = []
        self.blobs: dict[bytes, tuple[int, int]] = {}  # size and pieces, by hash
        self.steps: dict[str, tuple[str, int]] = {}  # status and order of the newest version's steps

    @property
    def head(self) -> Version:
        return self.versions[-1]

    def whole(self, stored: bytes) -> bytes:
        """Stored bytes; those that are a blob themselves are read from it."""
        if stored[:1] == BLOB and len(stored) == 33:
            return b"".join(self.reader.content(stored[1:], *self.blobs[stored[1:]]))
        return stored

    def facts_of(self, collection: str, key: str, stored: bytes) -> tuple[str, int] | None:
        """What the store keeps beside a step."""
        if collection != "step":
            return None
        return step_facts(key, payload(self.whole(stored), f"step/{key}"))

    def close(self) -> None:
        self.reader.close()


def open_bundle(path: str) -> Bundle:
    """A bundle, checked from end to end. Close it."""
    reader = BundleReader(path)
    try:
        with reader.guard():
            return Check(reader).check()
    except BaseException:
        reader.close()
        raise


class Check:
    """One pass over everything in a bundle."""

    def __init__(self, reader: BundleReader) -> None:
        self.reader = reader
        self.bad = reader.bad
        self.bundle = Bundle(reader)
        self.deltas: dict[int, int] = {}  # what each version adds to the digest
        self.values: set[int] = set()
        self.blobs: set[bytes] = set()
        self.heads: dict[str, bytes] = {}  # the spread variables of the newest version
        self.items: list[str] = []
        self.sum = Sum()

    def check(self) -> Bundle:
        facts, totals = self.reader.facts(), self.reader.totals()
        self._facts(facts, totals)
        self._versions(facts)
        self._aliases()
        self._blobs()
        self._records()
        if len(self.values) != totals["values"] or self.blobs != set(self.bundle.blobs):
            raise self.bad("it has content that no record refers to.")
        self._digests()
        self._entries()
        self._leaves()
        if self.sum.facts(facts) != facts["sum"]:
            raise self.bad("its checksum does not match.")
        return self.bundle

    def _facts(self, facts: dict[str, str], totals: dict[str, int]) -> None:
        if set(facts) != FACTS:
            raise self.bad("it does not say whose it is.")
        for name in ("versions", "records", "values", "blobs"):
            if facts[name] != str(totals[name]):
                raise self.bad(f"it says that it has {facts[name]} {name}, and has {totals[name]}.")
        if totals["pieces"] != totals["pieces_declared"]:
            raise self.bad("it has pieces of no file.")
        self.bundle.run_id = self._named(check_run_id, facts["run_id"])
        created = facts["created_at"]
        if not created.isascii() or not created.isdigit() or int(created[:20]) > LATEST:
            raise self.bad("it does not say when the run was made.")
        self.bundle.created_at = int(created)

    def _named(self, check: Any, *words: Any) -> Any:
        """What a check of the model gives back; its complaint becomes one about this file."""
        try:
            return check(*words)
        except Unsupported:
            raise
        except (BadData, ValueError, TypeError, KeyError) as error:
            raise self.bad(getattr(error, "message", None) or f"{words[0]!r}: {error}") from error

    # -- versions

    def _versions(self, facts: dict[str, str]) -> None:
        before = 0
        for row in self.reader.rows("versions"):
            named = dict(zip(("counts", "checkpoint", "trigger", "step", "note"), row[3:], strict=True))
            version = Version(self.bundle.run_id, *row[:3], **named)
            self._version(version, before)
            before = version.seq
            self.bundle.versions.append(version)
        if not self.bundle.versions:
            raise self.bad("it has no version.")
        head = self.bundle.head
        if (facts["seq"], facts["digest"]) != (str(head.seq), head.digest.hex()):
            raise self.bad("its newest version is not the one that it names.")

    def _version(self, version: Version, before: int) -> None:
        where = f"version {version.seq}"
        if version.seq <= before or len(version.digest) != 32 or not 0 <= version.at <= LATEST:
            raise self.bad(f"{where} has an impossible number, digest or time.")
        self._counts(version.counts, where)
        if len(version.note or "") > MOST_TEXT:
            raise self.bad(f"the note of {where} is absurdly long.")
        if version.checkpoint is None:
            if version.trigger or version.step or version.note:
                raise self.bad(f"{where} is not sealed, and says why it was.")
            return
        if not is_checkpoint_id(version.checkpoint, version.run_id, version.seq, version.digest):
            raise self.bad(f"the id of {where} does not follow from it.")
        if version.trigger not in TRIGGERS:
            raise self.bad(f"{where} has the unknown trigger {version.trigger!r}.")
        if version.step is not None:
            self._named(check_key, version.step, "step")

    def _counts(self, counts: str, where: str) -> None:
        found: Any = self._named(decode, counts) if len(counts) < 1000 else None
        fits = isinstance(found, list) and len(found) == len(STEP_STATUS)
        if not fits or not all(type(number) is int and number >= 0 for number in found):
            raise self.bad(f"{where} has impossible counters.")

    def _aliases(self) -> None:
        sealed = {version.seq: version for version in self.bundle.versions if version.checkpoint is not None}
        for seq, name in self.reader.rows("aliases"):
            self._named(check_key, name, "alias")
            if seq not in sealed or "\n" in name:
                raise self.bad(f"{name!r} names no checkpoint.")
            sealed[seq].aliases += (name,)
        for version in self.bundle.versions:
            self.sum.add_version(version)

    # -- content

    def _blobs(self) -> None:
        for hash, size, pieces in self.reader.rows("blobs"):
            if len(hash) != 32 or size < 0 or pieces < 0:
                raise self.bad("it has a file with an impossible hash or size.")
            for _ in self.reader.content(hash, size, pieces):
                pass
            self.bundle.blobs[hash] = (size, pieces)

    def _records(self) -> None:
        for collection, key in self.reader.rows("overlap"):
            raise self.bad(f"{collection}/{key} has two values at once.")
        kept = [version.seq for version in self.bundle.versions]
        for collection, key, seq, until, value in self.reader.rows("records"):
            self._named(check_address, collection, key)
            self._span(f"{collection}/{key}", seq, until, kept)
            hash, stored = self.reader.stored(value)
            self.values.add(value)
            self._named(self._content, collection, key, stored)
            facts = self._named(self.bundle.facts_of, collection, key, stored)
            self.sum.add(collection, key, seq, until, hash)
            amount = term(collection, key, hash)
            self.deltas[seq] = self.deltas.get(seq, 0) + amount
            if until is not None:
                self.deltas[until] = self.deltas.get(until, 0) - amount
            else:
                self._live(collection, key, stored, facts)

    def _live(self, collection: str, key: str, stored: bytes, facts: tuple[str, int] | None) -> None:
        if facts is not None:
            self.bundle.steps[key] = facts
        elif collection == "item":
            self.items.append(key)
        elif collection == "variable" and stored in (LIST, DICT):
            self.heads[key] = stored

    def _span(self, name: str, seq: int, until: int | None, kept: list[int]) -> None:
        """From one version to another, and a kept one in between: otherwise no digest covers the record."""
        at = bisect_left(kept, seq)
        ends = kept[-1] + 1 if until is None else until
        if seq < 1 or ends <= seq or ends > kept[-1] + 1 or at == len(kept) or kept[at] >= ends:
            raise self.bad(f"{name} is seen by no version.")
        if until is not None and until > kept[-1]:
            raise self.bad(f"{name} ends after the newest version.")

    def _content(self, collection: str, key: str, stored: bytes) -> None:
        """Whether these bytes could have been stored under this name."""
        where, tag = f"{collection}/{key}", stored[:1]
        if tag in (LIST, DICT):
            if collection != "variable" or len(stored) != 1:
                raise Corrupt(f"{where} is the head of nothing.")
            return
        if tag == BLOB:
            value = self._referring(where, stored)
        elif tag in (JSON, REDACTED):
            value = payload(stored, where)
            if not all(isinstance(path, list) for path in holes(stored)):
                raise Corrupt(f"{where} has redacted places that are none.")
        else:
            raise Corrupt(f"{where} has the unknown tag {tag!r}.")
        self._meaning(collection, key, value)

    def _referring(self, where: str, stored: bytes) -> Any:
        about = blob_about(stored, where)
        if stored[1:33] not in self.bundle.blobs:
            raise Corrupt(f"{where} refers to a file that is not there.")
        self.blobs.add(stored[1:33])
        return about

    def _meaning(self, collection: str, key: str, value: Any) -> None:
        if collection == "run" and key == "status" and value not in RUN_STATUS:
            raise Corrupt(f"the run has the status {value!r}, which is none.")
        elif collection in ("artifact", "file"):
            path = value.get("path") if isinstance(value, dict) else None
            for name in (path, key if collection == "file" else None):
                if isinstance(name, str) and climbs(name):
                    raise Corrupt(
                        f"{collection}/{key} has the path {name!r}, which climbs out of the project."
                    )

    # -- what it adds up to

    def _digests(self) -> None:
        total, versions = 0, self.bundle.versions
        news_of = up_to([version.seq for version in versions], sorted(self.deltas.items()))
        for version, news in zip(versions, news_of, strict=True):
            total += sum(delta for _, delta in news)
            if to_bytes(total & MASK) != version.digest:
                raise self.bad(f"the records of version {version.seq} are not those that were committed.")

    def _entries(self) -> None:
        """The entries of the newest version's large lists and dicts: of a variable each, and none missing."""
        lengths = dict.fromkeys((item_prefix(name) for name in self.heads), 0)
        lists = {item_prefix(name) for name, head in self.heads.items() if head == LIST}
        for key in sorted(self.items):
            prefix = key.partition("/")[0] + "/"
            if prefix not in lengths or (prefix in lists and key != index_key(prefix, lengths[prefix])):
                raise self.bad(f"item {key} has no place.")
            lengths[prefix] += 1

    def _leaves(self) -> None:
        """The counters of the newest version, which listings show."""
        leaves = Leaves()
        for key, (status, _) in self.bundle.steps.items():
            leaves.add(key, status)
        if leaves.packed() != self.bundle.head.counts:
            raise self.bad("its newest version has wrong counters.")


def climbs(path: str) -> bool:
    """Whether a relative path leads out of where it starts."""
    return not os.path.isabs(path) and os.path.normpath(path).split(os.sep)[0] == os.pardir


__all__ = ["AGAIN", "Bundle", "climbs", "open_bundle", "sniff"]
