"""A driver's desk for tests: jobs with real processes, in this process or in one that can be killed.

Whatever a test starts carries a mark in its environment, so that at its end nothing of it may be left.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leftoff.engine.settings import Redaction, Settings
from leftoff.host import Process, scope, started
from leftoff.workflow.attempt_folder import AttemptFolder, Exit, Job
from leftoff.workflow.shim_client import Ended, Launcher, LostJob, Ready

ROOT = Path(__file__).parents[2]
MARK = "LEFTOFF_OF_TEST"
PATIENCE = 240.0  # nothing takes that long, however busy the machine; a test that waits longer has failed


def wait_for(done: Callable[[], object], what: str) -> None:
    """Until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.005)


def marked(mark: str) -> list[int]:
    """Every process, zombies included, that was started with this mark; this one not."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit() and int(name) != os.getpid():
            try:
                environ = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in environ.split(b"\0"):
                found.append(int(name))
    return found


def show(pids: list[int]) -> str:
    words = ["ps", "-o", "pid,ppid,pgid,sess,stat,args", "-p", ",".join(map(str, pids))]
    return subprocess.run(words, capture_output=True, text=True).stdout


@contextmanager
def nothing_left(mark: str) -> Iterator[None]:
    """What was started inside is gone at the end, by itself, and leaves no child of this process behind."""
    os.environ[MARK] = mark
    try:
        yield
        deadline = time.monotonic() + PATIENCE
        while marked(mark):
            assert time.monotonic() < deadline, show(marked(mark))
            time.sleep(0.01)
    finally:
        del os.environ[MARK]
        for pid in marked(mark):
            os.kill(pid, 9)


class Desk:
    """Starts jobs and waits for them."""

    def __init__(self, folder: Path, redaction: Redaction | None = None) -> None:
        self.store = folder
        self.launcher = Launcher(redaction or Settings().redaction)
        self.processes: dict[str, Process] = {}
        self._count = 0
        self._heard: list[Ready | Ended | LostJob] = []

    def folder(self, token: str) -> AttemptFolder:
        return AttemptFolder.of(str(self.store), "run-1", token)

    def start(
        self, *argv: str, cwd: str | None = None, env: dict[str, str] | None = None, **more: object
    ) -> str:
        """A job whose shim is to be made; its token."""
        self._count += 1
        token = f"t{self._count}"
        self.folder(token).make()
        whole = {**os.environ, **(env or {})}
        job = Job(token, self.folder(token).path, argv, whole, cwd or str(self.store), **more)  # type: ignore[arg-type]
        self.launcher.start(job)
        return token

    def ready(self, token: str) -> Process:
        """Its process, once it waits to be told."""
        found = self.next(token)
        assert isinstance(found, Ready), found
        self.processes[token] = found.process
        return found.process

    def go(self, *argv: str, **more: object) -> str:
        """A job that runs; its token."""
        token = self.start(*argv, **more)  # type: ignore[arg-type]
        self.ready(token)
        self.launcher.go(token)
        return token

    def next(self, token: str) -> Ready | Ended | LostJob:
        """What happened next to a job; what happened to others is kept for whoever asks."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for event in self._heard:
                if event.token == token:
                    self._heard.remove(event)
                    return event
            assert time.monotonic() < deadline, f"nothing was heard of {token}"
            self._heard += self.launcher.events(0.5)

    def end(self, token: str) -> Exit:
        found = self.next(token)
        assert isinstance(found, Ended), getattr(found, "why", found)
        return found.exit

    def run(self, *argv: str, **more: object) -> tuple[Exit, str]:
        """How a job ended, and its log."""
        token = self.go(*argv, **more)
        exit = self.end(token)
        assert exit == self.folder(token).exit()
        return exit, self.log(token)

    def sh(self, script: str, **more: object) -> tuple[Exit, str]:
        return self.run("/bin/sh", "-c", script, **more)

    def log(self, token: str) -> str:
        """Its log; empty where there is none yet."""
        path = Path(self.folder(token).file("log"))
        return path.read_text(errors="surrogateescape") if path.exists() else ""

    def close(self) -> None:
        self.launcher.close()


_DRIVER = """
import os, sys
from pathlib import Path
from tests.workflow.desk import Desk
desk = Desk(Path(sys.argv[1]))

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Driver:
    """A driver in a process of its own, which leads its process group: it can be killed, alone or with its group."""

    def __init__(self, script: str, store: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER + script, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> list[str]:
        """The words of the next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def hear_process(self) -> Process:
        """A process that it says the pid of."""
        (pid,) = self.hear()
        return Process(scope(), int(pid), started(int(pid)))

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def driver(script: str, store: Path) -> Iterator[Driver]:
    """A process that runs ``script``, which finds ``desk``, ``say`` and ``hear`` ready."""
    made = Driver(script, store)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def desk_in(folder: Path) -> Iterator[Desk]:
    """A desk, of whose processes none is left at the end."""
    with nothing_left(os.urandom(6).hex()):
        made = Desk(folder)
        try:
            yield made
        finally:
            made.close()
