"""Sessions of agents, and the runs they work on.

A session is bound to a run by the run's `session_id`, and drives it under a lease that names the agent's process. While
that lives, no other session sees the run. A session gets its own run, of the workflow ``session``, with the first
event that is work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from leftoff.engine.agent_turns import ListItem, drop_talk, put_list
from leftoff.engine.commit import Reported, Seal, Terms, report_in
from leftoff.engine.continue_run import cut_turn, put_back_open_steps
from leftoff.engine.find import CLAUDE_WORKFLOW, SESSION, Moved, is_own_session, is_spent, need_unmoved, twins
from leftoff.engine.lease import epoch_of, idle, refuse_driven
from leftoff.engine.lease import state as lease_state
from leftoff.engine.opening import Opening, opening_changes, run_again, start_in, status_changes
from leftoff.engine.run_reader import Reader
from leftoff.engine.step_lifecycle import steps_in
from leftoff.errors import LeaseHeld
from leftoff.host import ALIVE, GONE, Process, debug
from leftoff.model.changes import ChangeSet
from leftoff.model.codec import sha256
from leftoff.model.words import UNFINISHED
from leftoff.store.base import Tx, View
from leftoff.store.rows import LIMIT_MS, BlobRow, Holder, Lease, RunRow

if TYPE_CHECKING:
    from leftoff.engine.commit import Make
    from leftoff.engine.project import Project
    from leftoff.engine.transcript import WorkflowRun

_MOST = 200  # unfinished runs that are read for one to offer
_MOST_WORKFLOWS = 50  # workflow runs that are recorded at once


class Who(NamedTuple):
    """An active agent: its session, its name, and its process if that is known.

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


def _bound_runs(view: View, who: Who) -> list[RunRow]:
    """Return all unfinished runs of a session: first the one it was started for, then the newest."""
    rows = view.list_runs({"session": who.session, "status": UNFINISHED})
    given = view.find_run(who.run) if who.run else None
    if given is not None and given.status in UNFINISHED and not given.is_archived:
        rows = [given, *(row for row in rows if row.run != given.run)]
    return rows


def bound_run(view: View, who: Who) -> RunRow | None:
    """Return the unfinished run that a session's events are recorded in: the one it was started for, else its automatic
    one, else one that its agent started by a command."""
    rows = _bound_runs(view, who)
    own = [row for row in rows if row.run_id == who.run or is_own_session(row, who.session)]
    return next(iter(own or rows), None)


def told_run(view: View, who: Who) -> RunRow | None:
    """Return the run that a session is briefed on: one that its agent started goes before the automatic one."""
    rows = _bound_runs(view, who)
    planned = [row for row in rows if row.run_id == who.run or row.workflow != SESSION]
    return next(iter(planned or rows), None)


def free_runs(view: View, branch: str, now: int) -> Iterator[RunRow]:
    """Yield the unfinished runs of a branch with work left that no process drives, newest first."""
    rows = view.list_runs({"branch": branch, "status": UNFINISHED}, _MOST)
    return (row for row in rows if _is_free(view, row, now))


def _is_free(view: View, row: RunRow, now: int) -> bool:
    """Return whether a run has something left to do and neither its driver nor its session lives. Another run of the
    session may show that it lives."""
    lease = view.lease(row.run)
    if is_spent(row) or lease_state(lease, now) in (ALIVE, "unknown"):
        return False
    if not row.session or row.status == "paused":
        return True
    others = view.list_runs({"session": row.session, "status": UNFINISHED}, _MOST)
    if any(lease_state(view.lease(one.run), now) == ALIVE for one in others):
        return False
    return (lease is not None and lease.held) or idle(row, lease, now) >= LIMIT_MS


# -- taking, working on, leaving


def hold(tx: Tx, row: RunRow, who: Who, at: int) -> bool:
    """Give the lease of a run to the session. Return whether it has it: a live driver of another kind keeps it."""
    try:
        lease = refuse_driven(tx, row.run, row.run_id, at, who.session)
    except LeaseHeld:
        return False
    if lease is not None and lease.session == who.session:
        # A late event of a process that is gone does not end the lease of the session's new process.
        is_orphan = lease.process is not None and who.process is not None and not who.process.pid
        if lease.process == who.process or is_orphan or _lives_elsewhere(lease, who):
            tx.beat(row.run, lease.epoch, at)
            return True
    epoch = epoch_of(tx.lease(row.run)) + 1
    debug("session %s drives %s, epoch %d", who.session, row.run_id, epoch)
    tx.put_lease(row.run, epoch, Holder("session", who.process, who.session, who.agent, at))
    return True


def _lives_elsewhere(lease: Lease, who: Who) -> bool:
    """Return whether an event comes from a process of the session that is gone, while the session lives in another."""
    if lease.process is None or lease.process == who.process or lease.process.state() != ALIVE:
        return False
    return who.process is None or who.process.state() == GONE


def take_run(
    project: Project, who: Who, *, offered: RunRow | None = None, again: bool = False
) -> RunRow | None:
    """Give a session its run, running and driven by it. ``offered``: a free run, as it was judged. It becomes the
    session's if it has not moved. ``again``: the session has a new process, so its open turn was interrupted."""
    store, at = project.store, project.at

    def work(tx: Tx) -> RunRow | None:
        row = own = told_run(tx, who)
        if offered is not None and (own is None or is_spent(own)):
            need_unmoved(tx, offered)
            if not _is_free(tx, offered, at):
                raise Moved(f"Somebody works on run {offered.run_id} by now.")
            row = offered
        if row is None or not hold(tx, row, who, at):
            return None
        is_taken = own is None or own.run != row.run

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            reader = Reader(store, tx, row.run, row.run_id)
            if is_taken:  # what was in flight or failed is to be done again
                put_back_open_steps(reader, changes, at)
            elif again:
                cut_turn(reader, changes, at)
            if not is_taken and row.status == "paused":
                status_changes(changes, "running", 0)
            if row.session != who.session:
                changes.put("run", "session_id", who.session)
                changes.put("run", "agent", who.agent)

        report_in(store, tx, row, make, Terms(at), ChangeSet(project.redactor))
        return tx.run_row(row.run)

    return store.write(work) if store.exists() else None


def report_session(
    project: Project, who: Who, make: Make, opening: Opening | None, blobs: list[BlobRow], what: str = ""
) -> Reported | None:
    """Commit to the run of a session, once. If it has none, start the one of ``opening``, or do nothing.

    ``what``: which commit of its event this is. A run that was paused or completed is running again.
    """
    store, at, scrubber, token = project.store, project.at, project.redactor, who.token(what)
    if opening is None and not (store.exists() and store.read(lambda view: bound_run(view, who))):
        return None

    def awake(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal | None:
        if row.status in ("paused", "completed"):
            run_again(changes, row.status, at, "its session works on it again")
        return make(tx, row, changes)

    def work(tx: Tx) -> Reported | None:
        row = bound_run(tx, who)
        if row is None and opening is not None:
            wanted = {"session": who.session, "workflow": SESSION, "status": ["completed"]}
            row = next(iter(tx.list_runs(wanted, 1)), None)  # the session continues, and so does its run
            if row is None:
                head, _, _ = start_in(tx, opening, opening_changes(opening, at, scrubber), [], at, None)
                row = tx.run_row(head.run)
        if row is None or (token and tx.applied(row.run, 0, token) is not None):
            return None
        hold(tx, row, who, at)
        terms = Terms(at, token=token, blobs=blobs)
        return report_in(store, tx, row, awake, terms, ChangeSet(scrubber))

    return store.write(work)


def session_opening(who: Who, branch: str, title: str | None, facts: dict[str, Any]) -> Opening:
    """Return the automatic run of a session, before it starts."""
    about = {"session_id": who.session, "agent": who.agent, **facts}
    return Opening(SESSION, title=title, branch=branch, facts=about)


def end_session(project: Project, who: Who, why: str, last: Make, blobs: list[BlobRow]) -> None:
    """End a session: its runs are completed if nothing is open, else paused, and their leases end. ``last``: puts
    what is still to be recorded into the change set of the run that it works on."""
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
        for row in _bound_runs(tx, who):
            lease, newest = tx.lease(row.run), tx.version(row.run, row.seq)
            if lease is not None and lease.held:
                if lease.kind != "session" or _lives_elsewhere(lease, who):
                    continue  # the session did a step for a runner, or continues in another process
                tx.put_lease(row.run, lease.epoch + 1)
            elif newest is not None and newest.trigger == "session_end":
                continue  # it has ended before
            changes, terms = ChangeSet(scrubber), Terms(at)
            if own is not None and own.run == row.run:
                last(tx, row, changes)
                terms = Terms(at, blobs=blobs)
            report_in(store, tx, row, make, terms, changes)
            done.append(row)
        return done

    drop_talk(store, store.write(work))


def finish_spent(project: Project, branch: str) -> int:
    """Complete the runs of sessions that died with nothing open. Return how many there were."""
    store, at = project.store, project.at

    def spent(view: View) -> list[RunRow]:
        found = [row for row in twins(view, SESSION, branch, limit=_MOST) if is_spent(row)]
        return [row for row in found if lease_state(view.lease(row.run), at) not in (ALIVE, "unknown")]

    def make(tx: Tx, row: RunRow, changes: ChangeSet) -> Seal:
        status_changes(changes, "completed", at)
        return Seal("session_end", note="its session is gone, and nothing was open")

    def work(tx: Tx) -> list[RunRow]:
        found = spent(tx)
        for row in found:
            report_in(store, tx, row, make, Terms(at), ChangeSet())
        return found

    if not store.exists() or not store.read(spent):
        return 0
    done = store.write(work)
    drop_talk(store, done)
    return len(done)


# -- workflow runs of Claude Code


def record_workflows(project: Project, agent: str, found: list[WorkflowRun]) -> None:
    """Record workflow runs of an agent as runs that are over: completed, or abandoned if their session died."""
    store, at, scrubber = project.store, project.at, project.redactor

    def is_new(view: View, one: WorkflowRun) -> bool:
        if view.find_run(one.run_id, hidden=True) is not None:
            return False
        rows = view.list_runs({"session": one.session})
        lives = any(lease_state(view.lease(row.run), at) in (ALIVE, "unknown") for row in rows)
        return one.ended or (bool(rows) and not lives)

    def record(tx: Tx, one: WorkflowRun) -> None:
        name = scrubber.mask(one.name)
        facts = {"agent": agent, "why": "a workflow of Claude Code"}
        opening = Opening(CLAUDE_WORKFLOW, title=name, run_id=one.run_id, facts=facts)
        head, _, _ = start_in(tx, opening, opening_changes(opening, at, scrubber), [], at, None)
        row = tx.run_row(head.run)
        assert row is not None
        items = [ListItem(scrubber.mask(text), "completed") for text in one.finished]
        items += [ListItem(scrubber.mask(text)) for text in one.others]

        def make(tx: Tx, row: RunRow, changes: ChangeSet) -> None:
            put_list(steps_in(store, tx, row, changes, at), items, one.session)
            cut_off = "Its session died. A new workflow run repeats the agents that have finished."
            end = "completed" if one.ended else "abandoned"
            status_changes(changes, end, at, summary=None if one.ended else cut_off)

        report_in(store, tx, row, make, Terms(at), ChangeSet(scrubber))

    def new_in(view: View) -> list[WorkflowRun]:
        return [one for one in found if is_new(view, one)][:_MOST_WORKFLOWS]

    def work(tx: Tx) -> None:
        for one in new_in(tx):
            record(tx, one)

    if found and store.exists() and store.read(new_in):
        store.write(work)
