"""Going on with a run that nobody drives: from its head, from an older version, from a step, or afresh.

Going back never erases: the present is sealed if it was not, and a `rollback` checkpoint follows it. Everything is one
transaction, in which it is also looked at once more whether somebody else drives the run by now.
"""

from __future__ import annotations

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.agent_turns import drop_talk, move_turn
from leftoff.engine.commit import NO_GUARD, Head, Seal, Terms, save_blobs
from leftoff.engine.lease import let_go, refuse_driven
from leftoff.engine.open_again import put_back
from leftoff.engine.optimistic_check import need_run, need_unmoved
from leftoff.engine.report_commit import report_in
from leftoff.engine.rewind import is_back_at, rollback_in, save_present
from leftoff.engine.run_reader import Reader, need_version
from leftoff.model.changes import ChangeSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.engine.commit import Guard
    from leftoff.engine.find import Target
    from leftoff.engine.resume_request import ResumeRequest
    from leftoff.model.changes import Scrubber
    from leftoff.model.versions import Version
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import Lease, RunRow


def driver_of(store: Store, target: Target, now: int, session: str | None) -> Lease | None:
    """Raise where somebody else drives the run; the lease of one who cannot be seen is returned."""
    return store.read(lambda view: refuse_driven(view, target.row.run, target.row.run_id, now, session))


def continue_run(
    store: Store,
    request: ResumeRequest,
    terms: Terms,
    *,
    decided: RunRow,
    scrubber: Scrubber | None,
    session: str | None = None,
) -> ChangeSet:
    """Make the run running again; what was in flight or failed is to be done. Return the variables that were set.

    ``decided``: the run as it was judged: ``Moved`` if it is not at that version any more.
    """
    at, guard, given = terms.at, terms.guard, ChangeSet(scrubber)
    for key, value in request.variables.items():
        given.put("variable", key, value)
    ready, blobs = save_blobs(store, given)
    moved: list[RunRow] = []

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(store, tx, row.run, row.run_id)
        put_back(reader, changes, at)
        if row.card.get("program") is not None:  # nobody is at work before it is started again
            changes.put("run", "status", "paused")
        if session is not None and session != row.session:
            changes.put("run", "session_id", session)
        steps = lifecycle.Steps(reader, changes, at)
        steps.declare(request.adds.items())
        seal = request.seal()
        if seal is not None:  # a step and the later ones, or single ones, are to be done again
            known = steps.all()
            for path in request.repeated(known):
                steps.move(path, lifecycle.redo(known[path]))
        return seal

    def work(tx: Tx) -> None:
        row = _row(tx, request.target)
        need_unmoved(tx, decided)
        lease = refuse_driven(tx, row.run, row.run_id, at, session)
        if request.seq is not None:
            rollback_in(store, tx, Head.of(row), request.seq, at, guard)
        elif request.from_step is not None or request.repeat:
            save_present(tx, Head.of(row), at, guard)
        changes = ChangeSet(scrubber)
        changes.changes.update(ready.changes)
        report_in(store, tx, _row(tx, request.target), make, Terms(at, guard, blobs=blobs), changes)
        let_go(tx, row.run, lease, session)
        moved[:] = move_turn(store, tx, session, row.run, at) if session else []

    store.write(work)
    drop_talk(store, moved)
    return given


def go_back(
    store: Store,
    target: Target,
    at: int,
    *,
    session: str | None = None,
    guard: Guard = NO_GUARD,
    decided: RunRow | None = None,
) -> Version:
    """`rollback`: the run's records are what they were, and nobody else drives it. Where it is there already,
    nothing is changed. ``decided``: the run as it was when that was agreed to."""

    def nothing(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        return None

    def work(tx: Tx) -> Version:
        row = _row(tx, target)
        if decided is not None:
            need_unmoved(tx, decided)
        ours = guard.epoch is not None
        lease = None if ours else refuse_driven(tx, row.run, row.run_id, at, session)
        if is_back_at(tx, row, target.seq):
            return need_version(tx, row.run, row.run_id, target.seq)
        version = rollback_in(store, tx, Head.of(row), target.seq, at, guard)
        # Into the current schema.
        report_in(store, tx, _row(tx, target), nothing, Terms(at, guard), ChangeSet())
        let_go(tx, row.run, lease, session)
        return version

    return store.write(work)


def _row(view: View, target: Target) -> RunRow:
    return need_run(view, target.row.run, target.row.run_id)
