"""One run of one thread of the program that crashes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

import leftoff
from leftoff.errors import LeftoffError, NoCheckpoint, NotFound
from tests.crash import model
from tests.crash.channel import Channel
from tests.crash.settings import Settings

T = TypeVar("T")


def sabotage() -> None:
    """THE DELIBERATE BREAKAGE of the power-cut test: every open connection stops syncing.

    apsw lists them all, whoever opened them. Called before each operation, since connections come and go.
    """
    for connection in apsw.connections():
        connection.pragma("synchronous", 0)


class Worker:
    """Makes operations on a run and acknowledges each one after it is durable."""

    def __init__(self, settings: Settings, channel: Channel, store: leftoff.Store, run_id: str) -> None:
        self.settings = settings
        self.channel = channel
        self.store = store
        self.run_id = run_id
        self.run = self.surely(0, self._open)
        self.n = int(self.run.variables.get("a", 0))
        self._sealed: list[str] = []
        if model.kind(self.n, settings.plan) == "do":  # begun by a process that died, and perhaps not ended
            self.surely(self.n, lambda: self._durable("do", self.n))
        channel.say(run=run_id, found=self.n)

    def work(self, count: int | None) -> None:
        """Make operations: so many, or until killed."""
        end = None if count is None else self.n + count
        while end is None or self.n < end:
            self.operation(self.n + 1)

    def operation(self, n: int) -> None:
        """Prepare, make durable, acknowledge. Only in a broken variant in another order."""
        broken = self.settings.broken
        if broken == "sync-off":
            sabotage()
        kind = model.kind(n, self.settings.plan)
        if broken == "ack-early":
            self.channel.say(run=self.run_id, n=n)
        self.run.variables.update(a=n, b=n)
        self.surely(n, lambda: self._prepare(kind, n))
        sealed = self.surely(n, lambda: self._durable(kind, n))
        self.n = n
        if broken != "ack-early":
            self.channel.say(run=self.run_id, n=n, checkpoint=sealed)

    def surely(self, n: int, action: Callable[[], T]) -> T:
        """Do it, again after each typed failure: what failed changed nothing, and the next try may succeed."""
        for _ in range(self.settings.tries):
            try:
                return action()
            except LeftoffError as error:
                self._failed(n, error)
        self.channel.say(stuck=n, run=self.run_id)
        os._exit(4)

    def _failed(self, n: int, error: LeftoffError) -> None:
        self.channel.say(run=self.run_id, failed=n, error=type(error).__name__, text=str(error))
        if self.settings.broken == "swallow":
            self.channel.say(run=self.run_id, n=n)
            os._exit(0)
        time.sleep(self.settings.pause)

    def _open(self) -> leftoff.Run:
        """The run as an earlier process left it, or a new one."""
        try:
            return self.store.resume(self.run_id)
        except NotFound:
            return self.store.start("crash", run_id=self.run_id)

    def _prepare(self, kind: str, n: int) -> None:
        if kind == "append":
            self.run.append("x", model.item(n))
        elif kind == "big":
            self.run.variables["big"] = model.big(n)
        elif kind == "artifact":
            path = Path(self.settings.files, f"{self.run_id}-{n}.bin")
            if not path.exists():  # a rehearsal made it, before any fault
                path.write_bytes(model.artifact(n))
            self.run.artifact(path)
        elif kind == "prune":
            self._prune()

    def _durable(self, kind: str, n: int) -> str | None:
        if kind == "do":
            self.run.do(model.step(n), lambda: n)
        elif kind == "checkpoint":
            sealed = str(self.run.checkpoint(trigger="manual", note=f"operation {n}").id)
            self._sealed.append(sealed)
            return sealed
        else:
            self.run.commit()
        return None

    def _prune(self) -> None:
        """Drop the oldest checkpoint made here, saying so first: it may be gone before we can."""
        if self._sealed:
            self.channel.say(dropping=self._sealed[0])
            try:
                self.store.prune(self.run_id, drop=self._sealed[:1])
            except NoCheckpoint:  # prune works in batches: a try that failed later may have dropped it
                self.channel.say(
                    run=self.run_id, failed=self.n + 1, error="NoCheckpoint", text="already gone"
                )
            del self._sealed[0]
