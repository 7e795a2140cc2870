"""Several machines with one store: processes behind proxies, or in network namespaces, which needs root."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import leftoff
from leftoff.store.base import SqlStore, View
from tests.crash.verdict import check
from tests.postgres.machine import HOLD
from tests.postgres.proxy import Proxy

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0
_BRIDGE = "leftoff{}"


class Line(Protocol):
    """How a machine reaches the server."""

    url: str
    prefix: list[str]  # what goes before its command

    def cut(self) -> None: ...

    def mend(self) -> None: ...


class ProxyLine:
    """A proxy that can fall silent."""

    prefix: list[str] = []

    def __init__(self, proxy: Proxy, project: str) -> None:
        self._proxy = proxy
        self.url = proxy.url(project)

    def cut(self) -> None:
        self._proxy.go_silent()

    def mend(self) -> None:
        self._proxy.go_silent(False)


class Network:
    """Namespaces of their own for some machines, on a bridge that the server listens on.

    ``addresses``: those of this network, which nobody else has: its bridge is called by its number.
    """

    def __init__(self, machines: int) -> None:
        number = _free_bridge()
        self.name = _BRIDGE.format(number)
        self._names = [f"{self.name}n{n}" for n in range(machines)]
        self._prefix = f"10.213.{number}."
        self.address, self.addresses = f"{self._prefix}1", f"{self._prefix}0/24"
        _ip("addr", "add", f"{self.address}/24", "dev", self.name)
        _ip("link", "set", self.name, "up")
        for number, name in enumerate(self._names):
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", self.name, "up")
            _ip("-n", name, "addr", "add", f"{self._prefix}{number + 10}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")

    def line(self, number: int, project: str) -> NamespaceLine:
        url = f"postgresql://leftoff@{self.address}/postgres?sslmode=disable&project={project}"
        return NamespaceLine(self._names[number], url)

    def close(self) -> None:
        for name in self._names:  # the line first: the kernel takes its time with what is left in a namespace
            subprocess.run(["ip", "link", "delete", name], check=False)
            subprocess.run(["ip", "netns", "delete", name], check=False)
        subprocess.run(["ip", "link", "delete", self.name], check=False)


def _free_bridge() -> int:
    """The number of a bridge that is made here: of two who try the same one, the second fails."""
    for number in range(256):
        with suppress(subprocess.CalledProcessError):
            _ip("link", "add", _BRIDGE.format(number), "type", "bridge")
            return number
    raise AssertionError("No bridge can be made: `ip link add leftoff0 type bridge` says why.")


class NamespaceLine:
    """A network interface that can be taken down."""

    def __init__(self, name: str, url: str) -> None:
        self._name, self.url = name, url
        self.prefix = ["ip", "netns", "exec", name]

    def cut(self) -> None:
        _ip("link", "set", self._name, "down")

    def mend(self) -> None:
        _ip("link", "set", self._name, "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Machine:
    """A process with a folder of its own; what it says is heard by a thread."""

    def __init__(self, line: Line, folder: Path, number: int, *words: str, holds: bool = False) -> None:
        self.line, self.number, self.hold = line, number, folder / HOLD
        folder.mkdir()
        if holds:
            self.hold.touch()
        (folder / "leftoff.toml").write_text("[heartbeat]\ninterval = 0.3\n")
        command = [
            *line.prefix,
            sys.executable,
            "-m",
            "tests.postgres.machine",
            line.url,
            str(number),
            *words,
        ]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state")}
        with open(folder / "stderr", "w") as errors:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._errors = folder / "stderr"
        self.said: list[list[str]] = []
        self._hearing = threading.Thread(target=self._hear)
        self._hearing.start()

    def _hear(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.split())

    def found(self, doing: str) -> str | None:
        """The run that it `drives` or `holds`, as far as it said."""
        last = self.said[-1] if self.said else [""]
        return last[1] if last[0] == doing else None

    def wait_for(self, found: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + PATIENCE_S
        while not (got := found()):
            last = f"{self.said[-3:]} {self._errors.read_text()[-2000:]}"
            assert time.monotonic() < end and self.process.poll() is None, (
                f"machine {self.number}: {what}: {last}"
            )
            time.sleep(0.02)
        return got

    def held(self) -> str:
        """The run in whose step it stops, while it is told to."""
        run_id: str = self.wait_for(lambda: self.found("holds"), "it ends no step")
        return run_id

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        self.process.wait(timeout=PATIENCE_S)
        self._hearing.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        if not kill:
            assert ["over"] == self.said[-1], self._errors.read_text()[-2000:]


def cut_off(machine: Machine, store: SqlStore) -> str:
    """Cut a machine off at the end of a step, and let it come back when somebody else has done that step: the commit
    that it makes then is too late for certain. The run that it was."""
    machine.hold.touch()
    run_id = machine.held()
    machine.line.cut()
    mine = steps_of(store, run_id)
    try:
        machine.wait_for(lambda: len(steps_of(store, run_id)) > len(mine), f"nobody took {run_id} over")
    finally:
        machine.line.mend()
        machine.hold.unlink()
    return run_id


def steps_of(store: SqlStore, run_id: str) -> list[tuple[str | None, int]]:
    """The steps of a run as they were committed, and at which epoch it was by then."""

    def look(view: View) -> list[tuple[str | None, int]]:
        row = view.find_run(run_id)
        assert row is not None
        found = [
            (v.step, v.epoch) for v in view.versions(row.run, sealed=True) if v.trigger == "step_complete"
        ]
        return found[::-1]

    return store.read(look)


def judge(location: str, runs: int, steps: int) -> None:
    """Every run is finished, each step was committed once, by whoever drove the run just then; fsck is clean."""
    store = leftoff.open(location)
    try:
        for info in store.list():
            done = store.get(info.id).variables["done"]
            told = [(f"s{one['step']}", one["epoch"]) for one in done]
            committed = steps_of(store._store, info.id)
            check(told == committed, f"{info.id}, an old epoch: told {told}, committed {committed}")
            check(
                [f"s{step}" for step in range(steps)] == [step for step, _ in told],
                f"{info.id}, twice: {told}",
            )
        left = [info.id for info in store.list() if info.status != "completed"]
        check(not left and len(store.list()) == runs, f"not finished: {left}")
        found = store.fsck()
        check(found.ok, f"damaged: {found.problems}")
    finally:
        store.close()
