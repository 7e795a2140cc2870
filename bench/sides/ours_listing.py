"""leftoff with many runs, and the plain SQL that reads the same table."""

from __future__ import annotations

import os
import shutil
import time

import apsw

import leftoff


class Listing:
    """A store with `runs` finished runs of `steps` steps each."""

    def __init__(self, folder: str, runs: int, steps: int) -> None:
        self._path = f"{folder}/.leftoff"
        self._runs = runs
        store = leftoff.open(self._path)
        names = [f"step-{number:03}" for number in range(steps)]
        for number in range(runs):
            store.start("bench", run_id=f"run-{number:05}", title=f"Run {number}", steps=names).finish()
        store.close()
        self._store = leftoff.open(self._path)

    def round(self, size: int) -> float:
        """Seconds for listing all runs `size` times."""
        began = time.perf_counter()
        for _ in range(size):
            found = len(list(self._store.list()))
        taken = time.perf_counter() - began
        if found != self._runs:
            raise AssertionError(f"{found} runs were listed, {self._runs} exist")
        return taken

    def copy(self) -> str:
        """A copy of the database to ask by plain SQL: nobody writes, so the files belong together."""
        self._store.close()
        for name in ("store.db", "store.db-wal"):
            if os.path.exists(f"{self._path}/{name}"):
                shutil.copy(f"{self._path}/{name}", f"{self._path}/../{name}")
        self._store = leftoff.open(self._path)
        return os.path.realpath(f"{self._path}/../store.db")


class Plain:
    """The run table by plain SQL; reading needs no checksum shim."""

    def __init__(self, folder: str, path: str) -> None:
        self._db = apsw.Connection(path)

    def round(self, size: int) -> float:
        """Seconds for fetching the whole table `size` times."""
        began = time.perf_counter()
        for _ in range(size):
            self._db.execute("SELECT * FROM run ORDER BY 1 DESC").fetchall()
        return time.perf_counter() - began
