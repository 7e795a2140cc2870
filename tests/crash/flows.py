"""Workflows whose steps witness what happens to them, and a driver that is killed again and again.

Each step appends to a plain file that it started and that it ended, and holds an flock meanwhile: a second process of
the same step would find it taken and say so.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STEP = (
    "exec 9>locks/{id}; flock -n 9 || echo {id} >> overlaps; "
    'echo "{id} $LEFTOFF_ATTEMPT" >> starts; sleep {seconds}; echo {id} >> ends'
)


def definition(steps: int, seconds: float, *, most: int = 4, width: int = 5) -> str:
    """A graph of batches: each step needs all steps of the batch before."""
    lines = ["name: witnessed", f"max_parallel: {most}", "steps:"]
    for number in range(steps):
        batch = number // width
        before = [f"s{n}" for n in range((batch - 1) * width, batch * width)] if batch else []
        lines += [f"  - id: s{number}", f"    needs: [{', '.join(before)}]"]
        lines += [f"    run: {json.dumps(STEP.format(id=f's{number}', seconds=seconds))}"]
    return "\n".join(lines) + "\n"


class Flow:
    """A run of a witnessed workflow in a folder of its own."""

    def __init__(self, folder: Path, text: str, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.kills = 0
        (folder / "flow.yaml").write_text(text, encoding="utf-8")
        (folder / "locks").mkdir()

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
        return subprocess.Popen(
            [sys.executable, "-m", "leftoff", *words],
            cwd=self.folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def json(self, *words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "leftoff", "--json", *words],
            cwd=self.folder,
            capture_output=True,
            check=False,
        )
        return json.loads(done.stdout)

    def go(self) -> subprocess.Popen[bytes]:
        """Start the run, or go on with it."""
        return self.command("run", "flow.yaml", "--resume")

    def kill(self, driver: subprocess.Popen[bytes], *, children: bool) -> None:
        """SIGKILL for the driver; or for it and for everything that it started, all at once."""
        victims = [driver.pid, *(self._of_steps() if children else [])]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        driver.communicate()
        self.kills += 1

    def _of_steps(self) -> list[int]:
        """The processes of steps, and those that they belong to: each is the leader of its steps' session."""
        mark = f"LEFTOFF_PROJECT={self.folder}".encode()
        found: set[int] = set()
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found |= {int(name), os.getsid(int(name))}
            except OSError:
                continue
        return sorted(found)

    def until_done(self, kills: int, longest: float, *, children: bool | None = None) -> int:
        """Kill the driver at so many random moments, then let it end; its exit code."""
        for _ in range(kills):
            driver = self.go()
            deadline = time.monotonic() + self.random.uniform(0.05, longest)
            while driver.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            if driver.poll() is not None:
                _, said = driver.communicate()
                assert driver.returncode == 0, said.decode()
                return driver.returncode
            with_children = self.random.random() < 0.5 if children is None else children
            self.kill(driver, children=with_children)
        driver = self.go()
        _, said = driver.communicate(timeout=240)
        assert driver.returncode == 0, said.decode()
        return driver.returncode

    # -- what the steps say

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text(encoding="ascii").split("\n")[:-1] if path.exists() else []

    def starts(self) -> dict[str, list[str]]:
        """The attempts that really started, by step."""
        out: dict[str, list[str]] = {}
        for line in self.lines("starts"):
            step, _, token = line.partition(" ")
            out.setdefault(step, []).append(token)
        return out
