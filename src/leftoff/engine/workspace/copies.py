"""The copies of files that the records of a version name."""

from __future__ import annotations

from leftoff.errors import Corrupt
from leftoff.model.values import blob_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.engine.read.state import Reader
    from leftoff.store.rows import BlobRow

_NAMING = ("artifact", "file", "context")  # collections whose records may name a copy


def digest_of(tagged: str) -> bytes:
    """The bytes of a hash as records write it."""
    algorithm, _, digits = tagged.partition(":")
    try:
        return bytes.fromhex(digits) if algorithm == "sha256" else b""
    except ValueError:
        return b""


class Copies:
    """Which copies the store has of the files of a version, in its snapshot.

    A copy is known before any record names it, and as long as one does. So one that is named and not known is damage,
    unless a repair said that it is lost: it is not taken for a file of which none was kept.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._named: set[bytes] | None = None

    def of(self, about: Mapping[str, Any]) -> BlobRow | None:
        """The copy that a record tells of; None where none was kept, or where it is known to be lost."""
        hash = about.get("hash")
        if not isinstance(hash, str):
            return None
        digest = digest_of(hash)
        row = self._reader.view.blob(digest)
        if row is None and about.get("captured") is True:
            self._need_none(digest, str(about.get("path")))
        return row

    def _need_none(self, digest: bytes, path: str) -> None:
        from leftoff.store.fsck.check_run import LOST_BLOB

        if self._named is None:
            raw = [record for name in _NAMING for record in self._reader.raw(name).values()]
            lost = {
                name[len(LOST_BLOB) :] for name, _ in self._reader.view.notes() if name.startswith(LOST_BLOB)
            }
            named = {blob for record in raw if (blob := blob_of(record.stored)) is not None}
            self._named = {blob for blob in named if blob.hex() not in lost}
        if digest in self._named:
            where = f"blob {digest.hex()}"
            raise Corrupt(f"The store does not know the copy of {path} any more.", where=where)
