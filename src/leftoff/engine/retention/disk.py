"""How much room things take, measured on disk."""

from __future__ import annotations

import os

from leftoff.store.rows import ATTEMPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from leftoff.store.base import Store
    from leftoff.store.rows import RunRow

BLOCK = 512  # the unit of `st_blocks`


def disk_use(path: str) -> int:
    """The bytes that a file, or all files below a folder, occupy; 0 where there is none."""
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
    """The bytes that a store takes, here and elsewhere."""
    return disk_use(store.folder) + (int(store.about().get("bytes", 0)) if store.shared else 0)


def given_back(store: Store, before: int, counted: int) -> int:
    """The bytes that some work on a store gave back: measured in its folder, where all of it lies; else as it counted,
    for a server keeps the room of what is gone for what comes. ``before``: what the folder took then."""
    return counted if store.shared else max(0, before - disk_use(store.folder))


def attempts_folder(store: Store, run_id: str) -> str:
    """Where a run's attempts leave their logs and exit codes."""
    return os.path.join(store.folder, ATTEMPTS, run_id)


def run_size(store: Store, row: RunRow) -> int:
    """The bytes that a run takes: its records, the copies of its files, what its steps printed. What it shares with
    other runs counts in full."""
    return store.read(lambda view: view.size(row.run)) + disk_use(attempts_folder(store, row.run_id))
