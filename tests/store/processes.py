"""Real processes for tests: a piece of Python that says things line by line, and hears when to go on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
OPENING = """
import os, sys, threading, time
from leftoff.engine.lease import take
from leftoff.host import Process, this_process
from leftoff.store.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()

def add(name):
    def work(tx):
        run = tx.add_run(name, 1, workflow="w", branch="main", status="running")
        tx.hide(run, name)
        return run
    return work
"""


class Child:
    """One process, ended when the test is over."""

    def __init__(self, script: str, store: Path | str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OPENING + script, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin"},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        """The next line it says; empty when it is gone."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def finish(self) -> int:
        """Its exit code, once it ends by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def child(script: str, store: Path | str) -> Iterator[Child]:
    """A process that runs `script`, which finds `store`, `say`, `hear` and `add` ready."""
    started = Child(script, store)
    try:
        yield started
    finally:
        started.close()
