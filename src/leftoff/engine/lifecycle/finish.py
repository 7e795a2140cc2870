"""The end of the work on a run, for now or for good. Not while somebody else drives it."""

from __future__ import annotations

from typing import NamedTuple

from leftoff.engine.config.git_head import git_head
from leftoff.engine.lifecycle.opening import status_changes
from leftoff.engine.lifecycle.turns import close
from leftoff.engine.workspace.git import dirty_paths, remember_git
from leftoff.engine.write.commit import Seal, Terms
from leftoff.engine.write.lease import refuse_driven, release
from leftoff.engine.write.report import report
from leftoff.model.words import FINISHED, STEP_ENDED, STEP_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.write.report import Find
    from leftoff.model.changes import ChangeSet, Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import RunRow

_SHOWN = 5


class EndedWork(NamedTuple):
    """The run as it was found, whether anything changed, and the steps that are left."""

    row: RunRow
    changed: bool
    left: list[str]
    more: bool


class Ending(NamedTuple):
    """How the work on a run ends, in which folder (whose git is remembered), and by which session."""

    status: str
    folder: str
    session: str | None = None
    note: str | None = None
    summary: str | None = None


def end_work(store: Store, find: Find, ending: Ending, terms: Terms, scrubber: Scrubber | None) -> EndedWork:
    """Pause or finish a run: its status, a `session_end` checkpoint, its lease freed. A finished run is not paused."""
    left: list[str] = []
    head, dirty = git_head(ending.folder), dirty_paths(ending.folder)
    status, note, summary, at = ending.status, ending.note, ending.summary, terms.at

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        lease = refuse_driven(tx, row.run, row.run_id, at, ending.session)
        left[:] = left_steps(tx, row.run)
        same = row.status == status and summary is None and note is None
        if same or (status == "paused" and row.status in FINISHED):
            return None
        status_changes(changes, status, at, summary=summary)
        if status == "completed":
            close(row, changes)
        remember_git(head, row, changes, dirty)
        release(tx, row.run, lease)
        return Seal("session_end", note=note or summary)

    done = report(store, find, make, terms, scrubber)
    return EndedWork(done.row, done.version is not None, left[:_SHOWN], len(left) > _SHOWN)


def left_steps(view: View, run: int) -> list[str]:
    """The first leaf steps that are neither completed nor skipped, one more than is shown."""
    out: list[str] = []
    for status in STEP_STATUS:
        if status not in STEP_ENDED:
            out += view.leaves(run, status, _SHOWN + 1)
    return out[: _SHOWN + 1]
