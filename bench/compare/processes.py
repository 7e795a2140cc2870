"""The processes of a player: its driver, and the server that it may need."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.compare.job import Job

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0
BESIDE = Path(sys.executable).parent  # programs of this environment, such as Temporal's


class PlayerFailed(Exception):
    """A player did not do what the scene needs; the text has its last words."""


@dataclass(frozen=True)
class Player:
    """A tool as the parent sees it."""

    name: str  # of the module in bench.compare.players
    title: str
    choose: str  # what the README says it is for
    server: bool = False

    def missing(self) -> str:
        """Why it cannot play here, or nothing."""
        if self.server and shutil.which("temporal", path=path()) is None:
            return "not measured here: its server could not be downloaded"
        return ""


PLAYERS = [
    Player("ours", "leftoff", "scripts, shell steps and coding agents on one machine"),
    Player("langgraph_default", "LangGraph, default", "agents as graphs, and the tools around them"),
    Player("langgraph_sync", "LangGraph, `sync`", "the same, if no step may be lost"),
    Player("dbos_sqlite", "DBOS, SQLite", "services with queues and schedules, on PostgreSQL"),
    Player("temporal_dev", "Temporal, development server", "large systems in many languages", server=True),
    Player("json_file", "JSON file, `write_text`", "work that you can repeat"),
    Player("json_careful", "JSON file, `fsync` and `rename`", "few steps and one process"),
]


def path() -> str:
    return f"{BESIDE}{os.pathsep}{os.environ.get('PATH', '')}"


def environment() -> dict[str, str]:
    """The parent's, without what leftoff or an agent may have set for it."""
    kept = {name: val for name, val in os.environ.items() if not name.startswith(("LEFTOFF_", "LANGSMITH_"))}
    return {
        **kept,
        "PATH": path(),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "LANGSMITH_TRACING": "false",
    }


@dataclass
class Entry:
    """A line of a job's log."""

    word: str
    number: int
    at: float


class Process:
    """A process of a player, in its own process group."""

    def __init__(self, player: Player, mode: str, job: Job) -> None:
        self.job = job
        self.began = time.monotonic()
        self.output = Path(f"{job.log}.{mode}.out")
        with self.output.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.compare.play", player.name, mode, job.text()],
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> list[Entry]:
        """What the job's processes have logged; a last line that is not complete yet is left out."""
        try:
            text = Path(self.job.log).read_text()
        except FileNotFoundError:
            return []
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [Entry(word, int(number), float(at)) for word, number, at in map(str.split, lines)]

    def running(self) -> bool:
        return self._process.poll() is None

    def until_step(self, number: int = -1) -> bool:
        """Wait until this process has called a step, at least `number`; False if it ended before."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            ended = not self.running()
            if any(e.word == "begin" and e.at > self.began and e.number >= number for e in self.log()):
                return True
            if ended:
                return False
            time.sleep(0.002)
        raise PlayerFailed(f"no step began within {PATIENCE:.0f} s: {self.said()}")

    def kill(self) -> bool:
        """`kill -9`; True if it was still running."""
        alive = self.running()
        self._process.kill()
        self._process.wait()
        return alive

    def wait(self) -> str:
        """Wait for its end and return what it printed; any other end than success is a failure."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PlayerFailed(f"it hangs: {self.said()}") from None
        if code != 0:
            raise PlayerFailed(f"it ended with {code}: {self.said()}")
        return self.said()

    def said(self) -> str:
        return self.output.read_text(errors="replace")[-4000:]


def call(player: Player, mode: str, job: Job) -> str:
    """Run a player's process to its end and return what it printed."""
    return Process(player, mode, job).wait()


def found(player: Player, job: Job) -> int:
    """The number of steps that a store records as finished."""
    return int(call(player, "found", job).split()[-1])


def report(player: Player, mode: str, job: Job) -> Any:
    """What a process prints as JSON."""
    return json.loads(call(player, mode, job).splitlines()[-1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def served(player: Player, job: Job) -> Iterator[tuple[Job, int | None]]:
    """The job with the port of a server on its folder, and the server's pid, for a player that needs one."""
    if not player.server:
        yield job, None
        return
    port = free_port()
    command = ["temporal", "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--db-filename", f"{job.folder}/temporal.db", "--log-level", "error"]
    with open(f"{job.log}.server", "w") as out:
        process = subprocess.Popen(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 30
        while not listening(port):
            if process.poll() is not None or time.monotonic() > end:
                raise PlayerFailed(
                    f"the server does not start: {Path(f'{job.log}.server').read_text()[-400:]}"
                )
            time.sleep(0.05)
        time.sleep(0.5)  # it listens a moment before its namespace is there
        yield Job(**{**job.__dict__, "port": port}), process.pid
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def freeze(pid: int) -> None:
    """SIGSTOP, and wait until the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
        if time.monotonic() > end:
            raise PlayerFailed("a process cannot be stopped")
        time.sleep(0.001)


def thaw(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
