"""Continue a run that no process drives: from its head, from an older version, from a step, or from the beginning.

Going back never erases: the present is sealed if it was not, and a `rollback` checkpoint follows it. Everything is one
transaction, in which it is also looked at once more whether another process drives the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from leftoff.engine import step_lifecycle as lifecycle
from leftoff.engine.agent_turns import INTERRUPTED, AgentTurn, close_turn, drop_talk, move_turn
from leftoff.engine.commit import (
    NO_GUARD,
    Apply,
    Guard,
    Head,
    Seal,
    Terms,
    add_version,
    commit_in,
    report,
    report_in,
    save_blobs,
)
from leftoff.engine.find import OPEN_TURN, Find, Target, need_run, need_unmoved
from leftoff.engine.git import dirty_paths, git_head, remember_git
from leftoff.engine.lease import gone, let_go, need_free, refuse_driven, release, take, take_session
from leftoff.engine.opening import (
    Opening,
    asked_id,
    newest_of,
    opening_changes,
    run_again,
    start_in,
    status_changes,
)
from leftoff.engine.run_reader import DEFINITION, Reader, facts_of, need_version, proved_version
from leftoff.errors import Conflict
from leftoff.host import Process
from leftoff.model.changes import ChangeSet, Scrubber, Version
from leftoff.model.codec import sha256
from leftoff.model.codec import store as encoded
from leftoff.model.words import FINISHED, RESTORING, STEP_ENDED, STEP_STATUS, UNFINISHED
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.follower import Follower
from leftoff.store.rows import Holder, Record, RunRow

if TYPE_CHECKING:
    from leftoff.engine.resume_answers import ResumeRequest

_RUNNING, _PAUSED = encoded("running"), encoded("paused")
_SHOWN = 5


class Started(NamedTuple):
    """The run, whether it was there before, and the unfinished twin of a new run. ``redacted``: see ``Reported``."""

    run: int
    run_id: str
    resumed: bool
    twin: RunRow | None
    redacted: Sequence[str] = ()


def start_run(
    store: SqlStore,
    opening: Opening,
    at: int,
    *,
    scrubber: Scrubber | None,
    resume: Callable[[View, RunRow], None] | None = None,
    session: Holder | None = None,
) -> Started:
    """Start a new run. With ``resume``, continue the unfinished one of that id, or of that workflow, branch, title and
    issue, unless ``resume`` raises, which is called in the transaction. ``session``: takes the run's lease."""
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
            take_session(tx, started.run, started.run_id, at, session)
        bound = opening.facts.get("session_id")
        moved[:] = move_turn(store, tx, bound, started.run, at) if bound else []
        return started

    started = store.write(work)
    drop_talk(store, moved)
    return started._replace(redacted=[key for key in changes.redacted if key in opening.variables])


def unfinished(view: View, follower: Follower | None, opening: Opening, at: int) -> RunRow | None:
    """Return the run to continue: of the id that is asked for (or the newest with a suffix), else of the same work."""
    named = asked_id(follower, opening, at)
    if not named:
        return opening.twin(view)
    row = newest_of(view, named)
    return row if row is not None and row.status in UNFINISHED else None


def _continue(
    store: SqlStore, tx: Tx, row: RunRow, opening: Opening, at: int, scrubber: Scrubber | None
) -> None:
    """Set the run running again, and add what it does not have yet; nothing that it has is changed."""
    bound = opening.facts.get("session_id")
    let_go(tx, row.run, refuse_driven(tx, row.run, row.run_id, at, bound), bound)

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        reader = Reader(store, tx, row.run, row.run_id)
        put_back_open_steps(reader, changes, at)
        lifecycle.Steps(reader, changes, at).declare(opening.steps)
        for key, value in opening.variables.items():
            if tx.row(row.run, "variable", key) is None:
                changes.put("variable", key, value)
        for key in ("agent", "session_id", "total"):
            if opening.facts.get(key) is not None:
                changes.put("run", key, opening.facts[key])

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


def end_work(
    store: SqlStore, find: Find, ending: Ending, terms: Terms, scrubber: Scrubber | None
) -> EndedWork:
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


def run_or_start(
    store: SqlStore,
    opening: Opening,
    at: int,
    driver: tuple[Process, str],
    *,
    scrubber: Scrubber | None,
    take_over: bool = False,
) -> tuple[Head, int, bool] | None:
    """The latest unfinished run that fits, or a new one, and its lease: one transaction, so never two by accident.

    Return ``None`` if that run is not as it was checked (``opening.seen``): another process has changed it since then.
    """
    changes = opening_changes(opening, at, scrubber)
    changes, blobs = save_blobs(store, changes)

    def work(tx: Tx) -> tuple[Head, int, bool] | None:
        row, seen = opening.own_run(tx), opening.seen
        if (row and (row.run, row.seq)) != (seen and (seen.run, seen.seq)):
            if row is not None:
                need_free(tx, row.run, row.run_id, driver[0], at, take_over=take_over)
            return None
        if row is not None:
            epoch = take(tx, row.run, row.run_id, driver, at, take_over=take_over)
            return Head.of(row), epoch, True
        head, new_epoch, _ = start_in(tx, opening, changes, blobs, at, driver)
        assert new_epoch is not None
        return head, new_epoch, False

    return store.write(work)


def go_on(
    store: SqlStore, row: Find, terms: Terms, scrubber: Scrubber | None, opening: Opening | None
) -> None:
    """Make a run that was found ready to be driven: nothing is in flight any more. ``row``: finds it."""

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
        reader = Reader(store, tx, row.run, row.run_id)
        put_back_open_steps(reader, changes, terms.at)
        if opening is not None:
            steps = lifecycle.Steps(reader, changes, terms.at)
            steps.declare(opening.steps)
            steps.withdraw(opening.steps)

    report(store, row, make, terms, scrubber)


def put_back_open_steps(reader: Reader, changes: ChangeSet, at: int, why: str | None = None) -> None:
    """Put into a change set that the run is running, and that what was in flight or failed is to be done.

    A turn that an agent's session had not ended was interrupted. ``why``: why it continues, if the user said so.
    """
    status = reader.value("run", "status")
    before = "running" if status is None else str(status.plain)
    if before != "running" or reader.value("run", "program") is not None:
        run_again(changes, before, at, why)
    steps = lifecycle.Steps(reader, changes, at)
    for path in reader.view.open_steps(reader.run):
        record = steps.get_or_new(path)
        # How an attempt ended is for a runner to find out.
        cut_off = record["status"] == "running" and "kind" in record
        steps.move(path, lifecycle.put_back(record, steps.now if cut_off else None))
    cut_turn(reader, changes, at)


def cut_turn(reader: Reader, changes: ChangeSet, at: int) -> None:
    """Record in a change set that the open turn was interrupted: its process has ended."""
    row = reader.view.run_row(reader.run)
    if row is not None and row.card.get(OPEN_TURN):
        AgentTurn(reader, row, changes, at).end(INTERRUPTED, killed=True)


def continue_run(
    store: SqlStore,
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
        put_back_open_steps(reader, changes, at, request.why)
        if row.card.get("program") is not None:  # no process works on it before it is started again
            changes.put("run", "status", "paused")
        if session is not None and session != row.session:
            changes.put("run", "session_id", session)
        steps = lifecycle.Steps(reader, changes, at)
        steps.declare(request.adds.items())
        seal = request.seal()
        if seal is not None:  # a step and the later ones, or single ones, are to be done again
            known = steps.all()
            for path in request.repeated(known):
                steps.move(path, lifecycle.redo(known[path], request.why_again(path)))
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


# -- back to a version, in place


def rollback_to(store: SqlStore, head: Head, seq: int, at: int, *, guard: Guard = NO_GUARD) -> Version:
    """Make the run's records what they were at version ``seq``."""
    version = store.write(lambda tx: rollback_in(store, tx, head, seq, at, guard))
    head.adopt(-1, version.seq, int.from_bytes(version.digest, "big"), None)
    return version


def is_back_at(view: View, row: RunRow, seq: int) -> bool:
    """Return whether a run is at that version, and a rollback would change nothing: it pauses a run that needs a
    driver."""
    if row.seq != seq or RESTORING in row.card:
        return False
    if row.status != "running":
        return True
    return view.row(row.run, "context", DEFINITION) is None and row.card.get("program") is None


def rollback_in(store: SqlStore, tx: Tx, head: Head, seq: int, at: int, guard: Guard) -> Version:
    """Roll back inside a transaction."""
    target, wanted = proved_version(tx, head.run, head.run_id, seq)
    wanted.pop(("run", RESTORING), None)  # whatever restore was begun then, this one is complete
    save_present(tx, head, at, guard)
    now = tx.head(head.run)
    if now is None:
        raise gone(head.run_id)
    since, digest, counts, epoch, run_id = now
    status = wanted.get(("run", "status"))
    # A run that only a runner or its program continues has no driver now. Any other run takes reports as before.
    driven = ("context", DEFINITION) in wanted or ("run", "program") in wanted
    if guard.epoch is None and driven and status is not None and status.stored == _RUNNING:
        wanted["run", "status"] = Record("run", "status", status.seq, sha256(_PAUSED).digest(), _PAUSED)
    apply = Apply(tx, head, since, digest, counts)
    live: dict[tuple[str, str], bytes] = {}
    for collection in tx.collections(head.run):
        for key, hash in tx.hashes(head.run, collection).items():
            live[collection, key] = hash
    # Steps below go before the ones above them, and come after.
    for address in sorted(live.keys() - wanted.keys(), reverse=True):
        apply.drop_record(*address, live[address])
    for address in sorted(wanted):
        record = wanted[address]
        if live.get(address) != record.hash:
            apply.put_record(*address, record.stored, facts_of(store, tx, *address, record.stored))
    name = target.id or f"version {seq}"
    seal = Seal("rollback", note=f"back to {name}" + (f" ({target.note})" if target.note else ""))
    return add_version(tx, apply, run_id, epoch, Terms(at), seal)


def save_present(tx: Tx, head: Head, at: int, guard: Guard) -> None:
    """Seal the head if it is not a checkpoint yet, so that the rollback can be undone."""
    row = tx.run_row(head.run)
    if row is not None and row.checkpoint is None:
        seal = Seal("manual", note="before a rollback")
        commit_in(tx, head, ChangeSet(), Terms(at, guard, seal=seal))
    elif row is not None:
        current = tx.head(head.run)
        assert current is not None
        guard.check(tx, head, current[3])


def go_back(
    store: SqlStore,
    target: Target,
    at: int,
    *,
    session: str | None = None,
    guard: Guard = NO_GUARD,
    decided: RunRow | None = None,
) -> Version:
    """`rollback`: the run's records are what they were, and no other process drives it. Where it is there already,
    nothing is changed. ``decided``: the run as it was when that was agreed to."""

    def work(tx: Tx) -> Version:
        row = _row(tx, target)
        if decided is not None:
            need_unmoved(tx, decided)
        ours = guard.epoch is not None
        lease = None if ours else refuse_driven(tx, row.run, row.run_id, at, session)
        if is_back_at(tx, row, target.seq):
            return need_version(tx, row.run, row.run_id, target.seq)
        version = rollback_in(store, tx, Head.of(row), target.seq, at, guard)
        let_go(tx, row.run, lease, session)
        return version

    return store.write(work)


def _row(view: View, target: Target) -> RunRow:
    return need_run(view, target.row.run, target.row.run_id)
