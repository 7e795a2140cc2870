"""Starting a run that whoever asks for it reports on, without driving it from a process that stays.

Always a new run, unless asked to go on with an unfinished one: both in one transaction, so that of two who ask at once
to go on, the second goes on with what the first has started.
"""

from __future__ import annotations

from typing import NamedTuple

from leftoff.engine.lifecycle.opening import asked_id, newest_of, opening_changes, start_in
from leftoff.engine.lifecycle.turns import drop_talk, move_turn
from leftoff.engine.read.state import Reader
from leftoff.engine.resume.open_again import put_back
from leftoff.engine.steps import lifecycle
from leftoff.engine.write.commit import Terms, save_blobs
from leftoff.engine.write.lease import let_go, refuse_driven, take_session
from leftoff.engine.write.report import report_in
from leftoff.errors import Conflict
from leftoff.model.changes import ChangeSet
from leftoff.model.words import UNFINISHED
from leftoff.store.rows import Holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from leftoff.engine.lifecycle.opening import Opening
    from leftoff.engine.write.commit import Seal
    from leftoff.host import Process
    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.follower import Follower
    from leftoff.store.rows import RunRow


class Session(NamedTuple):
    """An agent's session that takes the run's lease; its process, where that is known."""

    id: str
    who: str
    process: Process | None = None


class Started(NamedTuple):
    """The run, whether it was there before, and the unfinished one that a new run has beside it."""

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
    session: Session | None = None,
) -> Started:
    """A new run; or the unfinished one of that id, or of that workflow, branch, title and issue, where ``resume`` does
    not raise, which is asked in the transaction."""
    changes = opening_changes(opening, at, scrubber)
    changes, blobs = save_blobs(store, changes)

    moved: list[RunRow] = []

    def work(tx: Tx) -> Started:
        twin, there = opening.twin(tx), unfinished(tx, tx.follower, opening, at)
        if resume is not None and there is not None:
            _refuse_other(there, opening)
            resume(tx, there)
            _go_on(store, tx, there, opening, at, scrubber)
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
    """The run that would be gone on with: of the id that is asked for, else of the same work."""
    named = asked_id(follower, opening, at)
    return _of_id(view, named) if named else opening.twin(view)


def _of_id(view: View, run_id: str) -> RunRow | None:
    """The run of that id, or the newest of those that took its place once it was finished."""
    row = newest_of(view, run_id)
    return row if row is not None and row.status in UNFINISHED else None


def _refuse_other(row: RunRow, opening: Opening) -> None:
    """An id that is asked for may be that of something else altogether."""
    if row.workflow != opening.workflow:
        raise Conflict(
            f"Run {row.run_id} is a run of {row.workflow}, not of {opening.workflow}.",
            hint=f"Nothing was changed. `leftoff resume {row.run_id}` continues it; or choose another id.",
        )


def _go_on(store: Store, tx: Tx, row: RunRow, opening: Opening, at: int, scrubber: Scrubber | None) -> None:
    """The run is running again, with whatever it did not have yet."""
    bound = opening.facts.get("session_id")
    let_go(tx, row.run, refuse_driven(tx, row.run, row.run_id, at, bound), bound)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(store, tx, row.run, row.run_id)
        put_back(reader, changes, at)
        lifecycle.Steps(reader, changes, at).declare(opening.steps)
        _add(tx, row.run, opening, changes)
        return None

    report_in(store, tx, row, make, Terms(at), ChangeSet(scrubber))


def _add(view: View, run: int, opening: Opening, changes: ChangeSet) -> None:
    """Variables and facts that the run does not have; none that it has is changed."""
    for key, value in opening.variables.items():
        if view.row(run, "variable", key) is None:
            changes.put("variable", key, value)
    for key in ("agent", "session_id", "total"):
        if opening.facts.get(key) is not None:
            changes.put("run", key, opening.facts[key])
