"""What a run has lost, and is known to have: copies of files, and values that lay in files of their own."""

from __future__ import annotations

from leftoff.model.fields import Fields
from leftoff.model.values import blob_about, blob_of
from leftoff.store.lost import lost_blobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from leftoff.store.base import View

MOST_TOLD = 5


class LostPart(Fields):
    """A record whose file, or whose value, is lost; the version since which it is there."""

    collection: str
    key: str
    seq: int
    hash: bytes
    path: str | None  # None: it is the value itself that is lost

    def __str__(self) -> str:
        what = f"{self.collection}/{self.key}" if self.path is None else f"the copy of {self.path}"
        return f"{what} (@{self.seq})"

    def to_json(self) -> dict[str, Any]:
        place = {"collection": self.collection, "key": self.key, "seq": self.seq}
        return {**place, "path": self.path, "hash": f"sha256:{self.hash.hex()}"}


def lost_part(collection: str, key: str, seq: int, stored: bytes) -> LostPart:
    """What is lost with the blob that a record refers to."""
    about = blob_about(stored, f"{collection}/{key}")
    path = str(about.get("path") or key) if isinstance(about, dict) else None
    return LostPart(collection, key, seq, stored[1:33], path)


def lost_parts(view: View, run: int) -> list[LostPart]:
    """All of them, of every kept version. One whose content was saved again since is lost no more."""
    noted = lost_blobs(view)
    if not noted:
        return []
    found = [
        lost_part(record.collection, record.key, record.seq, record.stored)
        for record, _ in view.history(run)
        if blob_of(record.stored) in noted
    ]
    return [part for part in found if view.blob(part.hash) is None]


def told(run_id: str, parts: Sequence[LostPart]) -> str:
    """A sentence for whoever hands such a run on, or takes one in."""
    names = ", ".join(str(part) for part in parts[:MOST_TOLD])
    more = f" and {len(parts) - MOST_TOLD} more" if len(parts) > MOST_TOLD else ""
    return f"Run {run_id} is without what was lost before: {names}{more}."
