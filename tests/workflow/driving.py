"""A workflow in a folder of its own, driven by the real command: watched, signalled, killed, and looked into.

A step of these workflows waits for a file where a test must have it in flight (``WAIT``), and writes down that it
started (``mark``), so that nothing here depends on how fast a machine is.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from leftoff.host import started as start_time
from tests.cli.command import LEFTOFF, Called, call, start
from tests.crash import faults

PATIENCE = 240.0  # seconds until a test gives up: a limit, never a measure
LOOK = 0.01


def wait(gate: str = "gate") -> str:
    """Shell: go on when there is such a file."""
    return f"until test -e {gate}; do sleep 0.05; done"


def mark(name: str) -> str:
    """Shell: one more line in the file that says how often a step was started."""
    return f"echo $LEFTOFF_ATTEMPT >> starts.{name}"


def until(found: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Whatever it gives, once that is something."""
    end = time.monotonic() + patience
    while not (got := found()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(LOOK)
    return got


class Driver:
    """One call of `run` or `resume` that goes on while the test looks at it."""

    def __init__(self, flow: Flow, words: tuple[str, ...], **more: Any) -> None:
        self.flow = flow
        self.words = words
        flow.calls += 1
        self._out = flow.talk / f".out-{flow.calls}"
        self._err = flow.talk / f".err-{flow.calls}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = start(words, flow.folder, stdout=more.pop("stdout", out), stderr=err, **more)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def events(self) -> list[dict[str, Any]]:
        """Those that were told so far, whole lines only."""
        lines = self._out.read_text("utf-8").split("\n")[:-1]
        return [json.loads(line) for line in lines]

    @property
    def said(self) -> str:
        return self._err.read_text("utf-8", "replace")

    def of(self, event: str, **facts: Any) -> list[dict[str, Any]]:
        """The events of a kind, with these facts."""
        wanted = {"event": event, **facts}.items()
        return [told for told in self.events if wanted <= {**told}.items()]

    def until(self, event: str, **facts: Any) -> dict[str, Any]:
        """Wait for an event."""

        def look() -> Any:
            over = self.process.poll() is not None
            found = self.of(event, **facts)
            assert found or not over, f"it ended without {event} {facts}: {self}"
            return found

        return until(look, f"{event} {facts} of {self.words}")[0]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL for the driver alone: its steps live on."""
        faults.made("kills")
        self.process.kill()
        self.process.wait()

    def kill_all(self) -> None:
        """SIGKILL for the driver and for everything that it started, those first that could tell."""
        faults.made("kills")
        self.signal(signal.SIGSTOP)
        victims = self.flow.processes()
        self.process.kill()
        for pid in victims:
            kill(pid)
        self.process.wait()
        until(lambda: not self.flow.processes(), "the end of what was killed")

    def end(self, code: int | None = None) -> int:
        """Wait until it has ended; with ``code``, as it must."""
        got = self.process.wait(PATIENCE)
        if code is not None:
            assert code == got, str(self)
        return got

    @property
    def run(self) -> dict[str, Any]:
        """The run, as the last event has it."""
        found = self.of("end")
        assert found, str(self)
        return dict(found[-1]["run"])

    def plan(self) -> dict[str, tuple[str, str]]:
        """What it said it would do about each step, and why."""
        plan = self.of("plan")[0]["plan"]
        return {entry["step"]: (entry["action"], entry["why"]) for entry in plan}

    def __str__(self) -> str:
        shown = "\n".join(json.dumps(event) for event in self.events)
        return f"$ leftoff {' '.join(self.words)}\nexit {self.process.poll()}\n{shown}\n{self.said}"


class Flow:
    """A project with a workflow file; ``close`` ends whatever a test left running, and says so."""

    leftoff = str(LEFTOFF)

    def __init__(self, folder: Path, talk: Path | None = None) -> None:
        self.folder = folder
        self.talk = talk or folder  # where what is said is kept
        self.calls = 0
        self._drivers: list[Driver] = []

    def write(self, text: str, name: str = "flow.yaml") -> None:
        (self.folder / name).write_text(text, "utf-8")

    def file(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text("utf-8").splitlines() if path.exists() else []

    # -- driving

    def drive(self, *words: str, **more: Any) -> Driver:
        driver = Driver(self, ("--json", *words), **more)
        self._drivers.append(driver)
        return driver

    def run(self, *words: str, **more: Any) -> Driver:
        return self.drive("run", "flow.yaml", "--run-id", "r", *words, **more)

    def resume(self, *words: str, **more: Any) -> Driver:
        return self.drive("resume", "r", *words, **more)

    def call(self, *words: str, **more: Any) -> Called:
        return call(*words, cwd=self.folder, timeout=PATIENCE, **more)

    def succeed(self, *words: str, **more: Any) -> Called:
        done = self.call(*words, **more)
        assert 0 == done.code, str(done)
        return done

    # -- looking

    def show(self, run: str = "r") -> dict[str, Any]:
        return dict(self.succeed("show", run, "--json").json)

    def steps(self, run: str = "r") -> dict[str, dict[str, Any]]:
        return {record["step"]: record for record in self.show(run)["step_records"]}

    def status(self, step: str, run: str = "r") -> str:
        return str(self.steps(run)[step]["status"])

    def statuses(self, names: str, run: str = "r") -> list[str]:
        """Of steps with names of one letter."""
        steps = self.steps(run)
        return [str(steps[name]["status"]) for name in names]

    def triggers(self, run: str = "r") -> list[str]:
        """Of its checkpoints, the oldest first."""
        found = self.succeed("log", run, "--json").json["checkpoints"]
        return [str(checkpoint["trigger"]) for checkpoint in reversed(found)]

    def starts(self, name: str) -> list[str]:
        """The attempts of a step that really started, as ``mark`` noted them."""
        path = self.folder / f"starts.{name}"
        return path.read_text("ascii").split() if path.exists() else []

    def started(self, name: str, times: int = 1) -> None:
        until(lambda: len(self.starts(name)) >= times, f"{name} to start {times} times")

    def attempt(self, name: str, number: int = -1) -> Path:
        """The folder of an attempt that started."""
        token = self.starts(name)[number]
        return next((self.folder / ".leftoff" / "attempts").glob(f"*/{token}"))

    def processes(self) -> list[int]:
        """The processes of steps, the leaders of their sessions first."""
        mark = f"LEFTOFF_PROJECT={self.folder}".encode()
        found: dict[int, None] = {}
        others = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found[os.getsid(int(name))] = None
                    others.append(int(name))
            except OSError:
                continue
        return list(dict.fromkeys([*found, *others]))

    def gone(self, before: Iterable[int] = ()) -> None:
        """Wait until nothing of a step runs any more, nor any of those processes, which may end after their step."""
        until(lambda: not self.processes(), "the end of the processes of steps")
        until(lambda: not any(start_time(pid) for pid in before), "the end of what started the steps")

    def close(self) -> list[int]:
        """End what is left; the processes that were."""
        for driver in self._drivers:
            if driver.process.poll() is None:
                driver.process.kill()
                driver.process.wait()
        left = self.processes()
        for pid in left:
            kill(pid)
        return left


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
