"""leftoff under a crowd: threads that commit, someone who prunes, someone who reads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import leftoff
from bench import work


def until(at: float, seconds: float, job: Callable[[], None]) -> None:
    """Wait for the common start, then do `job` over and over until the time is up."""
    time.sleep(max(0.0, at - time.time()))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        job()


class Writers:
    """A process with some threads, each of which commits to a run of its own."""

    def __init__(self, folder: str, path: str) -> None:
        self._store = leftoff.open(path)
        self._runs = 0

    def write(self, threads: int, at: float, seconds: float) -> list[float]:
        """Seconds of every commit of every thread; a thread that fails fails the whole."""
        taken: list[list[float]] = [[] for _ in range(threads)]
        failures: list[BaseException] = []
        jobs = [self._writer(times) for times in taken]
        workers = [threading.Thread(target=self._guard, args=(failures, at, seconds, job)) for job in jobs]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]
        return [one for times in taken for one in times]

    def _guard(
        self, failures: list[BaseException], at: float, seconds: float, job: Callable[[], None]
    ) -> None:
        try:
            until(at, seconds, job)
        except BaseException as error:
            failures.append(error)

    def _writer(self, taken: list[float]) -> Callable[[], None]:
        self._runs += 1
        run = self._store.start("crowd", run_id=f"writer-{os.getpid()}-{self._runs}")
        run.variables.update(**work.variables())
        run.commit()

        def commit() -> None:
            changed = work.change(len(taken) + 1)
            began = time.perf_counter()
            run.variables.update(**changed)
            run.commit()
            taken.append(time.perf_counter() - began)

        return commit


class Pruner:
    """Makes checkpoints and drops every other one, for as long as it is told."""

    def __init__(self, folder: str, path: str) -> None:
        self._store = leftoff.open(path)
        self._run = self._store.start("crowd", run_id="pruned")
        self._n = 0
        self._dropped = 0

    def prune(self, at: float, seconds: float) -> int:
        """How many checkpoints were dropped."""
        until(at, seconds, self._cycle)
        return self._dropped

    def _cycle(self) -> None:
        ids = []
        for _ in range(40):
            self._n += 1
            self._run.variables.update(
                {f"key-{key}": f"{key} at {self._n} " + "x" * 200 for key in range(20)}
            )
            ids.append(str(self._run.checkpoint(trigger="manual", note="crowd").id))
        self._store.prune("pruned", drop=ids[:-1:2])
        self._dropped += len(ids[:-1:2])


class Reader:
    """Lists all runs and loads one after another."""

    def __init__(self, folder: str, path: str) -> None:
        self._store = leftoff.open(path)
        self._reads = 0

    def read(self, at: float, seconds: float) -> int:
        """How many reads were made."""
        until(at, seconds, self._cycle)
        return self._reads

    def _cycle(self) -> None:
        for summary in self._store.list():
            dict(self._store.get(summary.id).variables)
            self._reads += 1
            time.sleep(0.005)
