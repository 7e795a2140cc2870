"""The last known good state: the newest checkpoint at which nothing had failed and every criterion was met."""

from __future__ import annotations

from leftoff.engine.read.find import Target
from leftoff.engine.read.state import Reader, met
from leftoff.errors import NoCheckpoint
from leftoff.model.versions import counts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, View


def last_good(store: Store, target: Target) -> Target:
    """The newest good checkpoint of a run, up to the version that the target names."""
    found = store.read(lambda view: _newest(store, view, target))
    if found is None:
        raise NoCheckpoint(
            f"Run {target.row.run_id} has no checkpoint without a failed step or an unmet criterion.",
            hint=f"`leftoff log {target.row.run_id}` lists its checkpoints; choose one.",
        )
    return Target(target.row, found)


def _newest(store: Store, view: View, target: Target) -> Version | None:
    before = None if target.version is None else target.version.seq + 1
    for version in view.versions(target.row.run, sealed=True, before=before):
        if counts_of(version.counts)["failed"] == 0 and _met(store, view, target, version.seq):
            return version
    return None


def _met(store: Store, view: View, target: Target, seq: int) -> bool:
    criteria = Reader(store, view, target.row.run, target.row.run_id, seq).plain("criterion")
    return all(met(about) is True for about in criteria.values())
