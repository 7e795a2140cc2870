"""Check a store, sweep what crashes and prunes left in it, and measure what it takes on disk."""

from __future__ import annotations

import os

from leftoff.engine.find import version_of
from leftoff.engine.opening import find
from leftoff.engine.optimistic_check import need_store
from leftoff.hints import Any, Iterable, NamedTuple
from leftoff.model.ids import of_run, parse_ref
from leftoff.store.base import Store, Tx, View
from leftoff.store.rows import ATTEMPTS, PYTHON_LOGS, RunRow

BLOCK = 512  # the unit of `st_blocks`
_HEX, _TOKEN = frozenset("0123456789abcdef"), 16  # the name of an attempt's folder, and how long it is


# -- check


class FsckReport(NamedTuple):
    """What was checked, what is wrong, what was set aside. ``salvaged``: run by run, what could not be proved."""

    checked: dict[str, int]
    problems: list[dict[str, Any]]
    quarantined: list[str]
    repaired: list[dict[str, Any]]
    salvaged: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **{name: getattr(self, name) for name in self._fields}}

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return "<fsck: clean>" if self.ok else f"<fsck: {len(self.problems)} problem(s): {self.problems[:3]}>"


def fsck(store: Store, *, repair: bool = False) -> FsckReport:
    """Check a store. ``repair``: set what is damaged aside. A run that lost versions asks before it resumes."""
    found = store.check(repair=repair)
    checked, problems, aside = found["checked"], found["problems"], found["quarantined"]
    return FsckReport(checked, problems, aside, found.get("repaired", []), found.get("salvaged", []))


# -- measure


def disk_use(path: str) -> int:
    """Return the bytes that a file, or all files below a folder, occupy; 0 if there is none."""
    total = _use(path)
    for parent, folders, names in os.walk(path):
        total += sum(_use(os.path.join(parent, name)) for name in (*folders, *names))
    return total


def _use(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * BLOCK
    except OSError:
        return 0


def store_size(store: Store) -> int:
    """Return the bytes that a store takes, here and elsewhere."""
    return disk_use(store.folder) + (int(store.about().get("bytes", 0)) if store.shared else 0)


def given_back(store: Store, before: int, counted: int) -> int:
    """Return the bytes that some work on a store gave back: measured in its folder if it is all there; else as the work
    counted, because a server keeps the room. ``before``: what the folder took then."""
    return counted if store.shared else max(0, before - disk_use(store.folder))


def attempts_folder(store: Store, run_id: str) -> str:
    """Return where a run's attempts leave their logs and exit codes."""
    return os.path.join(store.folder, ATTEMPTS, run_id)


def run_size(store: Store, row: RunRow) -> int:
    """Return the bytes that a run takes: its records, the copies of its files, what its steps printed. What it shares
    with other runs counts in full."""
    return store.read(lambda view: view.size(row.run)) + disk_use(attempts_folder(store, row.run_id))


# -- prune and sweep


def drop_checkpoints(store: Store, run_id: str, drop: Iterable[str]) -> int:
    """Drop these checkpoints (by id, seq or another name), and what no kept one can see. Return the bytes given
    back."""
    wanted = list(drop)
    need_store(store, run_id)

    def look(view: View) -> tuple[int, list[int]]:
        row = find(view, run_id)
        return row.run, [version_of(view, row, parse_ref(of_run(run_id, each))).seq for each in wanted]

    run, seqs = store.read(look)
    return store.prune(run, seqs)


def sweep_store(store: Store, *, thorough: bool = True, at_once: bool = False) -> int:
    """Drop what crashes left, and what was removed once its grace period is over. Return the bytes given back. See
    ``Store.sweep``."""
    if not store.exists():
        return 0
    freed = store.sweep(thorough=thorough, at_once=at_once)
    # A process may have died after it removed a run, and before it deleted the folder of its attempts.
    folder = os.path.join(store.folder, ATTEMPTS)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    names = [name for name in names if _is_of_attempts(os.path.join(folder, name))]
    gone = store.read(lambda view: [name for name in names if view.find_run(name, hidden=True) is None])
    return freed + sum(remove_attempts(store, name) for name in gone)


def _is_of_attempts(folder: str) -> bool:
    """Return whether a folder has what attempts leave, and nothing else: others may use the store's folder, too."""
    inside = os.listdir(folder) if os.path.isdir(folder) else [""]
    return all(name == PYTHON_LOGS or (len(name) == _TOKEN and not set(name) - _HEX) for name in inside)


def remove_attempts(store: Store, run_id: str) -> int:
    """Delete the folder in which the attempts of a run that is gone left their logs. Return the bytes given back."""
    from shutil import rmtree

    folder = attempts_folder(store, run_id)
    if not os.path.isdir(folder):
        return 0
    aside = os.path.join(os.path.dirname(folder), f"{os.urandom(6).hex()} removed")  # part of no valid run id

    def work(tx: Tx) -> None:
        # Another run may have got the id meanwhile: then the attempts are that run's.
        if tx.find_run(run_id, hidden=True) is None and os.path.isdir(folder):
            os.rename(folder, aside)

    store.write(work)
    size = disk_use(aside)
    rmtree(aside, ignore_errors=True)
    return size
