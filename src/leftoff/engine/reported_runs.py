"""Start and end the work on a run that is reported on, and not driven by a process that stays.

A start is always a new run, unless the user asks to continue an unfinished one. Both are one transaction: if two
processes ask at once to continue, the second one continues what the first one started. Work does not end while another
process drives the run.
"""

from __future__ import annotations

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.agent_turns import close_turn, drop_talk, move_turn
from leftoff.engine.commit import Seal, Terms, save_blobs
from leftoff.engine.git import dirty_paths, remember_git
from leftoff.engine.git_head import git_head
from leftoff.engine.lease import let_go, refuse_driven, release, take_session
from leftoff.engine.open_again import put_back
from leftoff.engine.opening import (
    Opening,
    asked_id,
    newest_of,
    opening_changes,
    start_in,
    status_changes,
)
from leftoff.engine.report_commit import report, report_in
from leftoff.engine.run_reader import Reader
from leftoff.errors import Conflict
from leftoff.hints import Callable, NamedTuple
from leftoff.host import Process
from leftoff.model.changes import ChangeSet
from leftoff.model.words import FINISHED, STEP_ENDED, STEP_STATUS, UNFINISHED
from leftoff.store.base import Store, Tx, View
from leftoff.store.follower import Follower
from leftoff.store.rows import Holder, RunRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.optimistic_check import Find
    from leftoff.model.changes import Scrubber

_SHOWN = 5


class SessionDriver(NamedTuple):
    """An agent's session that takes the run's lease; its process, if that is known."""

    id: str
    who: str
    process: Process | None = None


class Started(NamedTuple):
    """The run, whether it was there before, and the unfinished twin of a new run."""

    run: int
    run_id: str
    resumed: bool
    twin: RunRow | None


def start_run(
    store: Store,
    opening: Opening,
    at: int,
    *,
    scrubber: Scrubber | None,
    resume: Callable[[View, RunRow], None] | None = None,
    session: SessionDriver | None = None,
) -> Started:
    """Start a new run. With ``resume``, continue the unfinished one of that id, or of that workflow, branch, title and
    issue, unless ``resume`` raises, which is called in the transaction."""
    changes, blobs = save_blobs(store, opening_changes(opening, at, scrubber))
    moved: list[RunRow] = []

    def work(tx: Tx) -> Started:
        twin, there = opening.twin(tx), unfinished(tx, tx.follower, opening, at)
        if resume is not None and there is not None:
            if there.workflow != opening.workflow:  # an id may be that of other work
                hint = f"Nothing was changed. `leftoff resume {there.run_id}` continues it; or choose another id."
                told = f"Run {there.run_id} is a run of {there.workflow}, not of {opening.workflow}."
                raise Conflict(told, hint=hint)
            resume(tx, there)
            _continue(store, tx, there, opening, at, scrubber)
            started = Started(there.run, there.run_id, resumed=True, twin=None)
        else:
            head, _, _ = start_in(tx, opening, changes, blobs, at, None)
            started = Started(head.run, head.run_id, resumed=False, twin=twin)
        if session is not None:
            holder = Holder("session", session.process, session.id, session.who, at)
            take_session(tx, started.run, started.run_id, at, holder)
        bound = opening.facts.get("session_id")
        moved[:] = move_turn(store, tx, bound, started.run, at) if bound else []
        return started

    started = store.write(work)
    drop_talk(store, moved)
    return started


def unfinished(view: View, follower: Follower | None, opening: Opening, at: int) -> RunRow | None:
    """Return the run to continue: of the id that is asked for (or the newest with a suffix), else of the same work."""
    named = asked_id(follower, opening, at)
    if not named:
        return opening.twin(view)
    row = newest_of(view, named)
    return row if row is not None and row.status in UNFINISHED else None


def _continue(
    store: Store, tx: Tx, row: RunRow, opening: Opening, at: int, scrubber: Scrubber | None
) -> None:
    """Set the run running again, and add what it does not have yet; nothing that it has is changed."""
    bound = opening.facts.get("session_id")
    let_go(tx, row.run, refuse_driven(tx, row.run, row.run_id, at, bound), bound)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(store, tx, row.run, row.run_id)
        put_back(reader, changes, at)
        lifecycle.Steps(reader, changes, at).declare(opening.steps)
        for key, value in opening.variables.items():
            if tx.row(row.run, "variable", key) is None:
                changes.put("variable", key, value)
        for key in ("agent", "session_id", "total"):
            if opening.facts.get(key) is not None:
                changes.put("run", key, opening.facts[key])
        return None

    report_in(store, tx, row, make, Terms(at), ChangeSet(scrubber))


class EndedWork(NamedTuple):
    """The run as it was found, whether anything changed, and the first steps that are left."""

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
        open_ones = [one for one in STEP_STATUS if one not in STEP_ENDED]
        left[:] = [path for one in open_ones for path in tx.leaves(row.run, one, _SHOWN + 1)]
        same = row.status == status and summary is None and note is None
        if same or (status == "paused" and row.status in FINISHED):
            return None
        status_changes(changes, status, at, summary=summary)
        if status == "completed":
            close_turn(row, changes)
        remember_git(head, row, changes, dirty)
        release(tx, row.run, lease)
        return Seal("session_end", note=note or summary)

    done = report(store, find, make, terms, scrubber)
    return EndedWork(done.row, done.version is not None, left[:_SHOWN], len(left) > _SHOWN)
