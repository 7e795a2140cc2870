"""The hand that brings files back: it commits to a run as a report does, if nobody else drives that run."""

from __future__ import annotations

from leftoff.engine.read.find import Target
from leftoff.engine.read.state import need_version
from leftoff.engine.resume.continue_run import go_back
from leftoff.engine.write.commit import NO_GUARD, Seal, Terms
from leftoff.engine.write.head import need_run
from leftoff.engine.write.lease import refuse_driven
from leftoff.engine.write.report import report_in
from leftoff.engine.write.unmoved import need_unmoved
from leftoff.model.changes import ChangeSet
from leftoff.model.fields import Fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.engine.workspace.tracking import Found
    from leftoff.engine.write.commit import Guard
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow


class ReportHand(Fields):
    """For a run that nobody drives, or whose session or driver this is."""

    store: Store
    target: Target
    now: Callable[[], int]
    session: str | None = None
    guard: Guard = NO_GUARD
    version: Version | None = None  # the checkpoint that it went back by
    decided: RunRow | None = None  # the run as it was looked at, and as our own commits have left it

    def look(self) -> None:
        """What is decided from here on is about the run as it is now. Raises where somebody else drives it."""
        self.decided = self.store.read(self._free)

    def _unmoved(self, view: View) -> RunRow:
        """The run, if it is still so, and nobody else drives it."""
        if self.decided is not None:
            need_unmoved(view, self.decided)
        return self._free(view)

    def _free(self, view: View) -> RunRow:
        row = need_run(view, self.target.row.run, self.target.row.run_id)
        if self.guard.epoch is None:  # else it is our own, and the commit looks whether it still is
            refuse_driven(view, row.run, row.run_id, self.now(), self.session)
        return row

    def seal(self, found: Found, trigger: str, note: str) -> int:
        """A checkpoint with these files in it; its seq."""
        at = self.now()

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
            found.put(changes, row.seq + 1)
            return Seal(trigger, note=note)

        def work(tx: Tx) -> RunRow:
            row = self._unmoved(tx)
            report_in(self.store, tx, row, make, Terms(at, self.guard, blobs=found.blobs), ChangeSet())
            return need_run(tx, row.run, row.run_id)

        self.decided = self.store.write(work)
        return int(self.decided.seq)

    def back(self, seq: int) -> None:
        """The records as they were at a version, as a new checkpoint."""
        row = self.target.row
        version = self.store.read(lambda view: need_version(view, row.run, row.run_id, seq))
        back = Target(row, version)
        self.version = go_back(
            self.store, back, self.now(), session=self.session, guard=self.guard, decided=self.decided
        )
