"""Dropping checkpoints and runs. Which ones is for the caller to say; what follows from it is decided here."""

from __future__ import annotations

import os

from leftoff.engine.lifecycle.opening import find
from leftoff.engine.read.find import version_of
from leftoff.engine.retention.disk import attempts_folder, disk_use
from leftoff.engine.write.head import need_store
from leftoff.engine.write.lease import held, state
from leftoff.errors import LeaseHeld
from leftoff.host import ALIVE, UNKNOWN
from leftoff.model.ids import of_run, parse_ref, shown_step
from leftoff.store.rows import ATTEMPTS, PYTHON_LOGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from leftoff.store.base import Store, Tx, View

_HEX, _TOKEN = frozenset("0123456789abcdef"), 16  # the name of an attempt's folder, and how long it is


def prune(store: Store, run_id: str, drop: Iterable[str]) -> int:
    """Drop these checkpoints (by id, seq or another name), and whatever no kept one can see; bytes given back."""
    wanted = list(drop)
    need_store(store, run_id)

    def look(view: View) -> tuple[int, list[int]]:
        row = find(view, run_id)
        return row.run, [version_of(view, row, parse_ref(of_run(run_id, each))).seq for each in wanted]

    run, seqs = store.read(look)
    return store.prune(run, seqs)


def sweep(store: Store, *, thorough: bool = True, at_once: bool = False) -> int:
    """Drop what crashes left behind, and what was removed once its grace is over; bytes given back. See
    ``Store.sweep``."""
    if not store.exists():
        return 0
    return store.sweep(thorough=thorough, at_once=at_once) + _sweep_attempts(store)


def refuse_driven(view: View, run: int, run_id: str, now: int) -> None:
    """``LeaseHeld`` where somebody drives a run, or one of its steps still runs."""
    lease = view.lease(run)
    if lease is not None and state(lease, now) in (ALIVE, UNKNOWN):
        raise held(run_id, lease, now)
    for attempt in view.attempts(run):
        process = attempt.process
        if attempt.ended_at is None and process is not None and process.state() == ALIVE:
            raise LeaseHeld(
                f"Step {shown_step(attempt.step)} of run {run_id} is still running ({process}).",
                hint=f"`leftoff stop {run_id}` ends it.",
            )


# -- what the steps of a run printed, which is no part of its state


def remove_attempts(store: Store, run_id: str) -> int:
    """Delete the folder in which the attempts of a run that is gone left their logs; bytes given back."""
    folder = attempts_folder(store, run_id)
    if not os.path.isdir(folder):
        return 0
    aside = os.path.join(os.path.dirname(folder), f"{os.urandom(6).hex()} removed")  # no run is called so

    def work(tx: Tx) -> None:
        """Another run may have got the id by now: its attempts are none of ours."""
        if tx.find_run(run_id, hidden=True) is None and os.path.isdir(folder):
            os.rename(folder, aside)

    store.write(work)
    return _delete(aside)


def _sweep_attempts(store: Store) -> int:
    """Delete the folders of runs that are gone: whoever removed them died before it was done."""
    folder = os.path.join(store.folder, ATTEMPTS)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    names = [name for name in names if _is_of_attempts(os.path.join(folder, name))]
    gone = store.read(lambda view: [name for name in names if view.find_run(name, hidden=True) is None])
    return sum(remove_attempts(store, name) for name in gone)


def _is_of_attempts(folder: str) -> bool:
    """Whether a folder has what attempts leave, and nothing else: the store may be in a folder that others use, too."""
    inside = os.listdir(folder) if os.path.isdir(folder) else [""]
    return all(name == PYTHON_LOGS or (len(name) == _TOKEN and not set(name) - _HEX) for name in inside)


def _delete(folder: str) -> int:
    from shutil import rmtree

    size = disk_use(folder)
    rmtree(folder, ignore_errors=True)
    return size
