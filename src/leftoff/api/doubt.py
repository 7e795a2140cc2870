"""A commit that failed and may be durable all the same: Ctrl-C after the sync, a connection that broke too late.

Its changes go back to the buffer, and more may join them. Before the next commit the store is asked: what is durable
leaves the buffer, and only the rest is written. So nothing is lost, and nothing happens twice.
"""

from __future__ import annotations

from leftoff.errors import StoreUnavailable
from leftoff.model.changes import APPEND, ChangeSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.write.commit import Seal
    from leftoff.model.changes import Change
    from leftoff.model.versions import Version
    from leftoff.store.base import Store
    from leftoff.store.rows import BlobRow

UNKNOWN = (
    "Whether the commit before it was made is not known yet. The next one finds out; none is made twice."
)


class Doubt:
    """What was tried, on top of which version, under which token."""

    __slots__ = ("_changes", "_seal", "_since", "_token", "blobs")

    def __init__(
        self, token: bytes, since: int, changes: ChangeSet, seal: Seal | None, blobs: list[BlobRow]
    ) -> None:
        self._token = token
        self._since = since
        self._seal = seal
        self._changes = {a: (change, _appended(change)) for a, change in changes.changes.items()}
        self.blobs = blobs

    def ask(self, store: Store, run: int) -> Version | None:
        """The version that it became, if it did. A write, so that it comes after anything of ours still under way."""
        try:
            return store.write(lambda tx: tx.applied(run, self._since, self._token))
        except StoreUnavailable as error:
            error.hint = UNKNOWN
            raise

    def take_out(self, pending: ChangeSet) -> ChangeSet:
        """Take what is durable out of the buffer; what went as a whole is given back."""
        out = ChangeSet()
        for address, (change, appended) in self._changes.items():
            if pending.changes.get(address) is not change:
                continue  # changed again since: that is still to be written
            if _appended(change) > appended:
                change.items = change.items[appended:]
                change.kept = {i - appended: kept for i, kept in change.kept.items() if i >= appended}
            else:
                out.changes[address] = pending.changes.pop(address)
        return out

    def same(self, seal: Seal) -> bool:
        """Whether it was sealed just so."""
        mine = self._seal
        return mine is not None and all(getattr(mine, name) == getattr(seal, name) for name in seal.__slots__)


def _appended(change: Change) -> int:
    return len(change.items) if change.kind == APPEND else 0
