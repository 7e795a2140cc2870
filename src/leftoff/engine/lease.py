"""Who drives a run. A live driver is never pushed aside; one that died is followed under a new epoch."""

from __future__ import annotations

from leftoff.errors import LeaseHeld, NotFound, StaleEpoch
from leftoff.host import ALIVE, Process, debug, inside
from leftoff.store.base import SqlStore, Tx, View
from leftoff.store.rows import LIMIT_MS, Holder, Lease, RunRow

#: who a run's free lease names that was brought here by a bundle, and by when: whoever drove it did so elsewhere
ELSEWHERE = "whoever drove it elsewhere"


def epoch_of(lease: Lease | None) -> int:
    """Return the epoch of a lease; 0 for a run that was never driven."""
    return lease.epoch if lease is not None else 0


def gone(run_id: str) -> NotFound:
    """Return the error for a run that was there a moment ago."""
    return NotFound(f"Run {run_id} is gone.")


def state(lease: Lease | None, now: int) -> str:
    """``free``, ``alive``, ``gone``, ``unknown`` (not to be seen, beating) or ``silent`` (not to be seen, quiet)."""
    return lease.state(now) if lease is not None else "free"


def idle(row: RunRow, lease: Lease | None, now: int) -> int:
    """For how many milliseconds there was no sign of life. A time far ahead comes from a wrong clock."""
    return lease.idle(now, row.updated_at) if lease is not None else abs(now - row.updated_at)


def held(run_id: str, lease: Lease, now: int) -> LeaseHeld:
    """Return the error for a run that another process drives."""
    return LeaseHeld(f"Run {run_id} is driven by {lease}.", hint=unseen(lease, now))


def unseen(lease: Lease, now: int) -> str:
    """What to do about a driver that cannot be seen from here: it may have died with its container."""
    if lease.kind != "process" or state(lease, now) != "unknown":
        return ""
    minutes = (LIMIT_MS - lease.silence(now)) // 60_000 + 1
    return (
        "It cannot be seen from here: wait for it, or stop it on that machine or in that container. "
        f"If it is gone, its run can be taken over in {minutes} min, by `leftoff resume`."
    )


def take(
    tx: Tx, run: int, run_id: str, driver: tuple[Process, str], now: int, *, take_over: bool = False
) -> int:
    """Become the driver; return the epoch, which fences off the previous driver. Call it
    inside a transaction."""
    process, who = driver
    lease = need_free(tx, run, run_id, process, now, take_over=take_over)
    if lease is not None and lease.held and lease.process == process:
        return int(lease.epoch)
    epoch = epoch_of(lease) + 1
    debug("%s drives %s, epoch %d", who, run_id, epoch)
    tx.put_lease(run, epoch, Holder("process", process, None, who, now))
    return epoch


def need_free(
    view: View, run: int, run_id: str, process: Process, now: int, *, take_over: bool = False
) -> Lease | None:
    """Return the lease of a run that the process may drive. Raise `LeaseHeld` if another one does."""
    lease = view.lease(run)
    if lease is not None and lease.held and lease.process == process:
        return lease
    now_state = state(lease, now)
    if now_state in (ALIVE, "unknown") or (now_state == "silent" and not take_over):
        assert lease is not None
        error = held(run_id, lease, now)
        if now_state == "silent":
            error.hint = (
                "It has been silent for over 10 minutes and cannot be seen from here; take_over=True follows."
            )
        raise error
    return lease


def take_session(tx: Tx, run: int, run_id: str, now: int, holder: Holder) -> int:
    """Bind an agent that reports through commands: alive while its process is, where that is known, else by time."""
    lease = refuse_driven(tx, run, run_id, now, holder.session)
    if lease is not None and lease.kind == "session" and lease.session == holder.session:
        tx.beat(run, lease.epoch, now)
        return int(lease.epoch)
    epoch = epoch_of(tx.lease(run)) + 1
    debug("session %s drives %s, epoch %d", holder.session, run_id, epoch)
    tx.put_lease(run, epoch, holder)
    return epoch


def refuse_driven(view: View, run: int, run_id: str, now: int, session: str | None) -> Lease | None:
    """Raise if another driver has the run: a live process, or the session of another agent.

    Return the lease if it is free. A session that only time can judge blocks other sessions, but
    not a caller without a session: most often that is the agent itself, in its shell.
    """
    lease = view.lease(run)
    if lease is None or not lease.held:
        return None
    if stands_in_the_way(lease, now, session):
        raise held(run_id, lease, now)
    return lease


def stands_in_the_way(lease: Lease, now: int, session: str | None) -> bool:
    """Whether the holder of a lease is alive, and is another one."""
    if lease.kind == "session":
        if session and lease.session == session:
            return False
        if not session and (lease.process is None or inside(lease.process)):
            return False
    return state(lease, now) in (ALIVE, "unknown")


def release(tx: Tx, run: int, lease: Lease | None) -> None:
    """End the lease. A driver that was only out of sight is fenced off."""
    if lease is not None:
        tx.put_lease(run, lease.epoch + 1)


def let_go(tx: Tx, run: int, lease: Lease | None, session: str | None) -> None:
    """End the lease of a driver that has died. The caller's own session, or one that may be, keeps it."""
    if lease is not None and not (lease.kind == "session" and session in (None, lease.session)):
        release(tx, run, lease)


def sign_of_life(tx: Tx, run: int, now: int) -> None:
    """Somebody works on the run, lease or no lease."""
    epoch = epoch_of(tx.lease(run))
    if not tx.beat(run, epoch, now):
        tx.put_lease(run, epoch, Holder(since=now))


def free(tx: Tx, run: int, epoch: int) -> None:
    """Stop driving. Do nothing if another driver has the run."""
    lease = tx.lease(run)
    if lease is not None and lease.held and lease.epoch == epoch:
        tx.put_lease(run, epoch)


def renew_lease(store: SqlStore, run: int, run_id: str, epoch: int, now: int) -> None:
    """Still here. A beat touches the lease, never the version."""

    def work(tx: Tx) -> None:
        if not tx.beat(run, epoch, now):
            lease = tx.lease(run)
            if lease is None:
                raise gone(run_id)
            if lease.held or lease.epoch != epoch:
                raise StaleEpoch(f"Run {run_id} is driven by {lease} now.")

    store.write(work, durable=False)
