"""Who drives a run. A live driver is never pushed aside; one that died is followed under a new epoch."""

from __future__ import annotations

from leftoff.clock import iso
from leftoff.errors import LeaseHeld, NotFound, StaleEpoch
from leftoff.host import ALIVE, GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.host import Process
    from leftoff.store.base import Store, Tx
    from leftoff.store.rows import Lease

LIMIT_MS = (
    600_000  # without a beat, a driver whose process cannot be seen from here may be followed by a person
)


def describe(lease: Lease) -> str:
    """Who, where, since when."""
    who = lease.who or "a process"
    where = f" ({lease.process})" if lease.process is not None else ""
    since = f", since {iso(lease.since)}" if lease.since is not None else ""
    return f"{who}{where}{since}"


def state(lease: Lease | None, now: int) -> str:
    """``free``, ``alive``, ``gone``, ``unknown`` (not to be seen, beating) or ``silent`` (not to be seen, quiet)."""
    if lease is None or not lease.held:
        return "free"
    seen = lease.process.state() if lease.process is not None else "unknown"
    if seen in (ALIVE, GONE):
        return seen
    quiet = now - (lease.beat or lease.since or 0) > LIMIT_MS
    return "silent" if quiet else "unknown"


def take(
    tx: Tx,
    run: int,
    run_id: str,
    process: Process,
    now: int,
    *,
    who: str,
    kind: str = "process",
    take_over: bool = False,
) -> int:
    """Become the driver; the epoch that fences off whoever drove before. Call it inside a transaction."""
    lease = tx.lease(run)
    if lease is not None and lease.held and lease.process == process:
        return lease.epoch
    now_state = state(lease, now)
    if now_state in (ALIVE, "unknown") or (now_state == "silent" and not take_over):
        assert lease is not None
        hint = ""
        if now_state == "silent":
            hint = "It has been silent for over 10 minutes and cannot be seen from here; take_over=True follows it."
        raise LeaseHeld(f"Run {run_id} is driven by {describe(lease)}.", hint=hint)
    epoch = (lease.epoch if lease is not None else 0) + 1
    tx.put_lease(run, epoch, kind, process, None, who, now)
    return epoch


def free(tx: Tx, run: int, epoch: int) -> None:
    """Stop driving; nothing where somebody else drives by now."""
    lease = tx.lease(run)
    if lease is not None and lease.held and lease.epoch == epoch:
        tx.put_lease(run, epoch, None, None, None, None, None)


def beat(store: Store, run: int, run_id: str, epoch: int, now: int) -> None:
    """Still here. A beat touches the lease, never the version."""

    def work(tx: Tx) -> None:
        if not tx.beat(run, epoch, now):
            lease = tx.lease(run)
            if lease is None:
                raise NotFound(f"Run {run_id} is gone.")
            if lease.held or lease.epoch != epoch:
                raise StaleEpoch(f"Run {run_id} is driven by {describe(lease)} now.")

    store.write(work)
