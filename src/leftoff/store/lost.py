"""Blobs that are lost: records name them, and it is noted that their bytes are gone for good.

A blob is known before any record names it, and as long as one does. So one that is named is known; or it is noted as
lost, by a repair or by whoever took in a run that had lost it before; or it is damage. Whoever reads one asks here.
"""

from __future__ import annotations

from leftoff.errors import Corrupt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.base import View
    from leftoff.store.rows import BlobRow

LOST_BLOB = (
    "lost blob "  # starts the name of a fact in `meta`, whose value says since when; `know_blob` has it, too
)


def lost_blobs(view: View) -> dict[bytes, str]:
    """The blobs that are noted as lost, and since when. One that comes back is noted no more: if its row is lost later,
    that is damage."""
    start = len(LOST_BLOB)
    return {bytes.fromhex(name[start:]): at for name, at in view.notes(LOST_BLOB)}


def named_blob(view: View, hash: bytes, what: str) -> BlobRow | None:
    """A blob that a record names: its row, or ``None`` where it is noted as lost. ``what``: what it is of."""
    row = view.blob(hash)
    if row is None and hash not in lost_blobs(view):
        raise Corrupt(f"The store does not know {what} any more.", where=f"blob {hash.hex()}")
    return row
