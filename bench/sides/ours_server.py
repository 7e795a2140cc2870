"""leftoff on a server that holds many runs: listing them, and what one works with in one of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

import leftoff
from bench.sides.ours_crowd import Writers
from leftoff.store.server_connection import Link
from leftoff.store.server_location import ServerPlace


class Drivers(Writers):
    """Writers that may be far from the server: they hear of each answer so much later than it came."""

    def __init__(self, folder: str, path: str, delay_s: float) -> None:
        ask = Link.ask

        def later(link: Link, statements: Any) -> Any:
            found = ask(link, statements)
            time.sleep(delay_s)
            return found

        if delay_s:
            Link.ask = later  # type: ignore[method-assign, assignment]
        super().__init__(folder, path)


class Listing:
    """All runs by the public API."""

    def __init__(self, folder: str, url: str) -> None:
        self._store = leftoff.open(url)

    def round(self, size: int) -> float:
        """Seconds for listing all runs `size` times."""
        began = time.perf_counter()
        for _ in range(size):
            list(self._store.list())
        return time.perf_counter() - began


class Plain:
    """The run table by plain SQL."""

    def __init__(self, folder: str, url: str) -> None:
        place = ServerPlace(url)
        self._conn = psycopg.connect(place.conninfo, options=f"-c search_path={place.quoted}")

    def round(self, size: int) -> float:
        """Seconds for fetching the whole table `size` times."""
        began = time.perf_counter()
        for _ in range(size):
            self._conn.execute("SELECT * FROM run ORDER BY n DESC").fetchall()
        return time.perf_counter() - began


class Work:
    """What people and drivers do every day, in a store with however many runs."""

    def __init__(self, folder: str, url: str, label: str) -> None:
        self._url = url
        self._label = label
        self._store = leftoff.open(url)
        self._rounds = 0
        self._run = self._store.start("driven", run_id=f"driven-{label}", steps=["a"])

    def time(self, what: str, size: int) -> float:
        """Seconds of one `what`: the least of `size` of them, as what others do on the machine only adds to it."""
        job: Callable[[], None] = getattr(self, f"_{what}")
        taken = []
        for _ in range(size):
            began = time.perf_counter()
            job()
            taken.append(time.perf_counter() - began)
        return min(taken)

    def _commit(self) -> None:
        self._rounds += 1
        self._run.variables.update(n=self._rounds, other=f"value {self._rounds}")
        self._run.commit()

    def _resume(self) -> None:
        """As a process does that was just started, of a run that somebody left."""
        with closing(leftoff.open(self._url)) as store:
            run = store.resume(f"open-{self._rounds % 50}")
            run.pause()
        self._rounds += 1

    def _ls(self) -> None:
        for run in self._store.list(limit=50):
            assert run.health

    def _show(self) -> None:
        """All that a run knows, and its checkpoints."""
        self._rounds += 1
        run = self._store.get(f"run-{30 + self._rounds % 500}")
        assert dict(run.variables) and run.steps and run.history()

    def _prune(self) -> None:
        """All but the newest checkpoint of one run after another, and what only they saw."""
        self._rounds += 1
        name = f"run-{600 + self._rounds % 400}"
        self._store.prune(name, drop=[str(point.id) for point in self._store.get(name).history()[1:]])
