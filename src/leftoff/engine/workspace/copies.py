"""The copies of files that the records of a version name."""

from __future__ import annotations

from leftoff.engine.read.state import Reader
from leftoff.errors import Corrupt
from leftoff.model.values import blob_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from leftoff.store.base import Store
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

    One that a record names and the store does not know is damage. It is not taken for a file of which none was kept.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._named: set[bytes] | None = None

    def of(self, about: Mapping[str, Any]) -> BlobRow | None:
        """The copy that a record tells of; None where none was kept."""
        hash = about.get("hash")
        if not isinstance(hash, str):
            return None
        digest = digest_of(hash)
        row = self._reader.view.blob(digest)
        if row is None and about.get("captured") is True and digest in self._names():
            message = f"The store does not know the copy of {about.get('path')} any more."
            raise Corrupt(message, where=f"blob {digest.hex()}")
        return row

    def _names(self) -> set[bytes]:
        if self._named is None:
            raw = (record for name in _NAMING for record in self._reader.raw(name).values())
            self._named = {blob for record in raw if (blob := blob_of(record.stored)) is not None}
        return self._named


class CopiesThen:
    """The same, each looked for when somebody wants to read it: ``at`` is a run's number, its id and a version, None
    for the newest."""

    def __init__(self, store: Store, at: tuple[int, str, int | None]) -> None:
        self.store = store
        self._at = at

    def read(self, about: Mapping[str, Any]) -> bytes | None:
        """All of a copy; None where there is none."""
        row = self.store.read(lambda view: Copies(Reader(self.store, view, *self._at)).of(about))
        return b"".join(self.store.load_blob(row.hash, row)) if row is not None else None
