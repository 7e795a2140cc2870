"""Starting the program that crashes, hearing what it says, and ending it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash import faults
from tests.crash.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0  # only who hangs is waited for so long, however slow the machine


@dataclass
class Heard:
    """What a program acknowledged, run by run, and whatever else it said."""

    last: dict[str, int] = field(default_factory=dict)
    sealed: dict[str, tuple[str, int]] = field(default_factory=dict)  # checkpoint id -> run, operation
    dropped: set[str] = field(default_factory=set)
    failures: list[dict[str, Any]] = field(default_factory=list)
    fatal: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: int = 0
    done: bool = False

    def take(self, message: dict[str, Any]) -> None:
        """Sort one message in."""
        if "failed" in message:
            self.failures.append(message)
        elif "foreign" in message or "stuck" in message:
            self.fatal.append(message)
        elif "dropping" in message:
            self.dropped.add(message["dropping"])
        elif "found" in message:  # what a later process has seen must not go away again either
            self.last[message["run"]] = max(message["found"], self.last.get(message["run"], 0))
        elif "done" in message:
            self.done = True
        elif "n" in message:
            self.acknowledged += 1
            self.last[message["run"]] = message["n"]
            if message.get("checkpoint"):
                self.sealed[message["checkpoint"]] = (message["run"], message["n"])


class Program:
    """The child process, with its acknowledgements collected in `heard`."""

    def __init__(self, settings: Settings, heard: Heard) -> None:
        """Start it and wait until it is ready to begin."""
        self.heard = heard
        self._ours, theirs = socket.socketpair()
        self._ours.settimeout(PATIENCE)
        self._rest = b""
        command = [sys.executable, "-m", "tests.crash.child", str(theirs.fileno()), settings.text()]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed by kill()
        with theirs:
            self._process = subprocess.Popen(
                command, cwd=ROOT, pass_fds=[theirs.fileno()], stderr=self._errors, stdin=subprocess.DEVNULL
            )
        try:
            self.until(lambda message: "ready" in message, "the program never became ready")
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def go(self) -> None:
        """Let it begin."""
        self._ours.sendall(b"g")

    def messages(self) -> Iterator[dict[str, Any]]:
        """Everything it says, as it says it, until it is gone."""
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                message = json.loads(line)
                self.heard.take(message)
                yield message
            if not (received := self._receive()):
                return
            self._rest += received

    def until(self, found: Callable[[dict[str, Any]], bool], otherwise: str) -> dict[str, Any]:
        """The first message that fits; that there is none is a failure."""
        for message in self.messages():
            if found(message):
                return message
        said = [*self.heard.failures[-1:], *self.heard.fatal]
        raise AssertionError(f"{otherwise}: {said or self.last_words()}")

    def acknowledge(self, more: int) -> None:
        """Wait for so many more acknowledgements."""
        goal = self.heard.acknowledged + more
        if more > 0:
            self.until(lambda _: self.heard.acknowledged >= goal, "the program ended by itself")

    def freeze(self) -> None:
        """SIGSTOP, wait until it stands still, and hear what it had said by then."""
        self._process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + PATIENCE
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < end, "the program cannot be stopped"
            time.sleep(0.001)
        self._ours.settimeout(0.2)
        try:
            for _ in self.messages():
                pass
        except TimeoutError:
            pass
        finally:
            self._ours.settimeout(PATIENCE)

    def thaw(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def finish(self) -> int:
        """Hear it out and give its exit code."""
        for _ in self.messages():
            pass
        return self._process.wait(timeout=PATIENCE)

    def kill(self) -> None:
        """kill -9; what it had said before is still heard."""
        faults.made("kills", self._process.poll() is None)
        self._process.kill()
        for _ in self.messages():
            pass
        self._process.wait()
        self._ours.close()
        self._errors.close()

    def last_words(self) -> str:
        """The end of its stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-6000:]

    def _receive(self) -> bytes:
        try:
            return self._ours.recv(65536)
        except ConnectionResetError:
            return b""
        except TimeoutError:
            if self._ours.gettimeout() != PATIENCE:
                raise
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
            self._process.kill()
            raise AssertionError(f"the program hangs; its stderr: {self.last_words()}") from None


@contextmanager
def program(settings: Settings, heard: Heard) -> Iterator[Program]:
    """A program that is gone afterwards, whatever happens."""
    started = Program(settings, heard)
    try:
        yield started
    finally:
        started.kill()


def pause(seconds: float) -> None:
    """Sleep as precisely as the machine can: a kill must be able to hit anything."""
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        time.sleep(left if left > 0.002 else 0)


def require_root() -> None:
    """The full matrix mounts file systems; a missing right is a failure, never a reason to skip."""
    if os.geteuid() != 0:
        raise AssertionError("this test mounts file systems and needs root: run `make crash` as root")
