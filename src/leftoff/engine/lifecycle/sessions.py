"""Sessions of agents, and the runs they work on.

A session is bound to a run by the run's `session_id`, and drives it under a lease that names the agent's process: while
that lives, the run is nobody else's to see. A session that nobody told of leftoff gets a run of its own, of the
workflow ``session``, with the first thing that is worth keeping.

Everything here is one transaction, so that of ten hooks that come at once only one starts the run.
"""

from __future__ import annotations

from leftoff import log
from leftoff.engine.lifecycle.opening import Opening, opening_changes, start_in, status_changes
from leftoff.engine.lifecycle.turns import drop_talk
from leftoff.engine.read.state import Reader
from leftoff.engine.read.which import SESSION, is_own, is_spent, twins
from leftoff.engine.resume.open_again import cut_turn, put_back
from leftoff.engine.write.commit import Seal, Terms
from leftoff.engine.write.lease import NOBODY, idle, refuse_driven
from leftoff.engine.write.lease import state as lease_state
from leftoff.engine.write.report import report_in
from leftoff.errors import LeaseHeld
from leftoff.host import ALIVE, GONE
from leftoff.model.changes import ChangeSet
from leftoff.model.fields import Fields
from leftoff.model.hashing import sha256
from leftoff.model.words import UNFINISHED
from leftoff.store.rows import LIMIT_MS, Holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from leftoff.engine.config.project import Project
    from leftoff.engine.write.report import Make, Reported
    from leftoff.host import Process
    from leftoff.model.changes import Scrubber
    from leftoff.store.base import Store, Tx, View
    from leftoff.store.rows import BlobRow, Lease, RunRow

_LOOKED_AT = 200  # unfinished runs, for one that may be offered


class Who(Fields):
    """An agent at work: its session, its name, and its process where that is known.

    ``run``: the run that it was started for. ``event``: the name of its hook event in the spool, which is unique.
    """

    session: str
    agent: str
    process: Process | None
    run: str | None = None
    event: str = ""

    def token(self, what: str) -> bytes:
        """Return the idempotency token of a commit of its event. ``what``: which one, if the event makes several."""
        return sha256(f"{self.event}\n{what}".encode()).digest()[:16] if self.event else b""


# -- which run


def bound_run(view: View, who: Who) -> RunRow | None:
    """The unfinished run that a session's files and lists are kept in: the one it was started for, else its own.

    One that the agent started by a command is the session's, too; but what began in the automatic one goes on there.
    """
    rows = bound_runs(view, who)
    return next((row for row in rows if row.run_id == who.run or is_own(row, who.session)), None) or (
        rows[0] if rows else None
    )


def bound_runs(view: View, who: Who) -> list[RunRow]:
    """All unfinished runs of a session: first the one it was started for, then the latest."""
    rows = view.list_runs({"session": who.session, "status": UNFINISHED})
    given = view.find_run(who.run) if who.run else None
    if given is not None and given.status in UNFINISHED:
        rows = [given, *(row for row in rows if row.run != given.run)]
    return rows


def told_run(view: View, who: Who) -> RunRow | None:
    """The run that a session must know of: one that the agent started goes before the automatic one."""
    rows = bound_runs(view, who)
    planned = [row for row in rows if row.run_id == who.run or row.workflow != SESSION]
    return next(iter(planned or rows), None)


def offered_run(view: View, branch: str, now: int, without: Container[str | None]) -> RunRow | None:
    """The latest unfinished run of a branch that nobody works on, if there is something left to do; of some sessions,
    none."""
    for row in view.list_runs({"branch": branch, "status": UNFINISHED}, _LOOKED_AT):
        if row.session not in without and _is_free(view, row, now):
            return row
    return None


def _is_free(view: View, row: RunRow, now: int) -> bool:
    return not is_spent(row) and not _at_work(view, row, now)


def _at_work(view: View, row: RunRow, now: int) -> bool:
    """Whether somebody works on a run: its driver; or its session, which may be known only by another run it has."""
    lease = view.lease(row.run)
    if lease_state(lease, now) in (ALIVE, "unknown"):
        return True
    if not row.session or row.status == "paused":
        return False
    others = view.list_runs({"session": row.session, "status": UNFINISHED}, _LOOKED_AT)
    if any(lease_state(view.lease(one.run), now) == ALIVE for one in others):
        return True
    return (lease is None or not lease.held) and idle(row, lease, now) < LIMIT_MS


def session_of(view: View, process: Process | None) -> str | None:
    """The session of an agent that is known by its process; ``None`` where it drives nothing yet."""
    found = [lease for _, lease in view.leases() if lease.kind == "session" and lease.process == process]
    return found[-1].session if found and process is not None else None


# -- taking, working on, leaving


def hold(tx: Tx, row: RunRow, who: Who, at: int) -> bool:
    """The session drives the run from now on; whether it does. A live driver of another kind keeps it."""
    try:
        lease = refuse_driven(tx, row.run, row.run_id, at, who.session)
    except LeaseHeld:
        return False
    if lease is not None and lease.session == who.session and _keeps(lease, who):
        tx.beat(row.run, lease.epoch, at)
        return True
    epoch = (tx.lease(row.run) or NOBODY).epoch + 1
    log.debug("session %s drives %s, epoch %d", who.session, row.run_id, epoch)
    tx.put_lease(row.run, epoch, Holder("session", who.process, who.session, who.agent, at))
    return True


def _keeps(lease: Lease, who: Who) -> bool:
    """Whether the process of a session is still the one that is known, whoever tells something of it now."""
    orphaned = lease.process is not None and who.process is not None and not who.process.pid
    return lease.process == who.process or orphaned or _lives_elsewhere(lease, who)


def _lives_elsewhere(lease: Lease, who: Who) -> bool:
    """Whether what is told comes from a process of the session that is gone, and another one lives."""
    if lease.process is None or lease.process == who.process or lease.process.state() != ALIVE:
        return False
    return who.process is None or who.process.state() == GONE


def take_run(
    project: Project, who: Who, *, offered: RunRow | None = None, again: bool = False
) -> RunRow | None:
    """The run of a session, running and driven by it. ``offered``: one that nobody works on, and that was judged as it
    was then; it becomes the session's, if it is still so.

    ``again``: the session begins anew, so that nothing it did before can be in flight.
    """
    store, at = project.store, project.at

    def work(tx: Tx) -> RunRow | None:
        row = own = told_run(tx, who)
        if offered is not None and (own is None or is_spent(own)):
            row = _still_offered(tx, offered, at)
        if row is None or not hold(tx, row, who, at):
            return None
        make = _going_on(store, who, at, taken=own is None or own.run != row.run, again=again)
        report_in(store, tx, row, make, Terms(at), ChangeSet(project.redactor))
        return tx.run_row(row.run)

    return store.write(work) if store.exists() else None


def _still_offered(tx: Tx, row: RunRow, at: int) -> RunRow:
    """The run that was judged, if it is as it was, and nobody works on it."""
    from leftoff.engine.write.unmoved import Moved, need_unmoved

    need_unmoved(tx, row)
    if not _is_free(tx, row, at):
        raise Moved(f"Somebody works on run {row.run_id} by now.")
    return row


def _going_on(store: Store, who: Who, at: int, *, taken: bool, again: bool) -> Make:
    """The run is the session's. One that it has ``taken`` from nobody: what was in flight or failed is to be done."""

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        reader = Reader(store, tx, row.run, row.run_id)
        if taken:
            put_back(reader, changes, at)
        elif again:
            cut_turn(reader, changes, at)
        if not taken and row.status == "paused":
            status_changes(changes, "running", 0)
        if row.session != who.session:
            changes.put("run", "session_id", who.session)
            changes.put("run", "agent", who.agent)
        return None

    return make


def report_session(
    project: Project, who: Who, make: Make, opening: Opening | None, blobs: list[BlobRow], what: str = ""
) -> Reported | None:
    """Commit to the run of a session. Where it has none: with ``opening`` one is started, else nothing is done.

    ``what``: which of the commits of its event this is, which is made once.
    """
    store, at, scrubber, token = project.store, project.at, project.redactor, who.token(what)
    if opening is None and not (store.exists() and store.read(lambda view: bound_run(view, who))):
        return None

    def work(tx: Tx) -> Reported | None:
        row = bound_run(tx, who)
        if row is None and opening is not None:
            row = _again(tx, who) or _started(store, tx, opening, at, scrubber)
        if row is None or (token and tx.applied(row.run, 0, token) is not None):
            return None
        hold(tx, row, who, at)
        terms = Terms(at, token=token, blobs=blobs)
        return report_in(store, tx, row, _awake(make, at), terms, ChangeSet(scrubber))

    return store.write(work)


def session_opening(who: Who, branch: str, title: str | None, facts: dict[str, Any]) -> Opening:
    """The run that a session gets when it does the first thing worth keeping."""
    about = {"session_id": who.session, "agent": who.agent, **facts}
    return Opening(SESSION, title=title, branch=branch, facts=about)


def _again(view: View, who: Who) -> RunRow | None:
    """The session's own run that had nothing open and was finished: the session goes on, so does the run."""
    rows = view.list_runs({"session": who.session, "workflow": SESSION, "status": ["completed"]}, 1)
    return rows[0] if rows else None


def _started(store: Store, tx: Tx, opening: Opening, at: int, scrubber: Scrubber | None) -> RunRow:
    head, _, _ = start_in(tx, opening, opening_changes(opening, at, scrubber), [], at, None)
    row = tx.run_row(head.run)
    assert row is not None
    return row


def _awake(make: Make, at: int) -> Make:
    """Whoever reports works: a run that was left is running again, unless the report itself says otherwise."""

    def awake(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.status in ("paused", "completed"):
            status_changes(changes, "running", at)
        return make(tx, row, changes)

    return awake


def end_session(project: Project, who: Who, why: str, last: Make, blobs: list[BlobRow]) -> None:
    """The session ends: its runs are completed where nothing is open, else paused; nobody drives them.

    ``last``: what is still to be kept in the run that it works on.
    """
    store, at, scrubber = project.store, project.at, project.redactor
    if not (store.exists() and store.read(lambda view: bound_run(view, who))):
        return

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if is_spent(row):
            status_changes(changes, "completed", at)
        elif row.status == "running":
            status_changes(changes, "paused", at)
        return Seal("session_end", note=why)

    def work(tx: Tx) -> list[RunRow]:
        own, done = bound_run(tx, who), []
        for row in bound_runs(tx, who):
            lease = tx.lease(row.run)
            if lease is not None and lease.held and (lease.kind != "session" or _lives_elsewhere(lease, who)):
                continue  # a runner drives it, and what ended is one of its steps; or the session was taken up again
            if lease is not None and lease.held:
                tx.put_lease(row.run, lease.epoch + 1)
            elif _has_ended(tx, row):
                continue
            changes, terms = ChangeSet(scrubber), Terms(at)
            if own is not None and own.run == row.run:
                last(tx, row, changes)
                terms = Terms(at, blobs=blobs)
            report_in(store, tx, row, make, terms, changes)
            done.append(row)
        return done

    drop_talk(store, store.write(work))


def _has_ended(view: View, row: RunRow) -> bool:
    """Whether the end of its session is the last that a run was told."""
    last = view.version(row.run, row.seq)
    return last is not None and last.trigger == "session_end"


def finish_spent(project: Project, branch: str) -> int:
    """Sessions that died with nothing open leave nothing to do: their runs are completed. How many there were."""
    store, at = project.store, project.at
    if not store.exists():
        return 0

    def spent(view: View) -> list[RunRow]:
        found = [row for row in twins(view, SESSION, branch, limit=_LOOKED_AT) if is_spent(row)]
        return [row for row in found if lease_state(view.lease(row.run), at) not in (ALIVE, "unknown")]

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        status_changes(changes, "completed", at)
        return Seal("session_end", note="its session is gone, and nothing was open")

    def work(tx: Tx) -> list[RunRow]:
        found = spent(tx)
        for row in found:
            report_in(store, tx, row, make, Terms(at), ChangeSet())
        return found

    if not store.read(spent):
        return 0
    done = store.write(work)
    drop_talk(store, done)
    return len(done)
