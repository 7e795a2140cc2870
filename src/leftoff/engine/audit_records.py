"""Record in a run's history who decided what about it, and through which face (the page, its API)."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.hints import Any, Mapping, NamedTuple
from leftoff.host import user
from leftoff.model.changes import ChangeSet

AUDIT = "audit"  # the collection


class Audit(NamedTuple):
    """An action, the face through which it came, and the fields that were given with it."""

    action: str
    via: str
    said: Mapping[str, Any]

    def put(self, changes: ChangeSet, at: int, **more: Any) -> None:
        """Add the record to the changes that carry the action out. more: fields that are known only then."""
        about = {
            "action": self.action,
            "by": user(),
            "at": iso(at),
            "via": self.via,
            "said": {**self.said, **more},
        }
        changes.put(AUDIT, f"{about['at']} {self.action}", about)
