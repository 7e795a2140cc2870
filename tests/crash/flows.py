"""Workflows whose steps witness what happens to them, and a driver that is killed again and again.

Each step appends to a plain file that it started and that it ended, and holds an flock meanwhile: a second process of
the same step would find it taken and say so. What the store says of the run is compared with that at the end.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leftoff.store.base import View
from leftoff.store.sqlite import SqliteStore
from tests.crash import faults
from tests.crash.harness import ROOT
from tests.crash.verdict import check

MOST = 4  # steps at once
PATIENCE = 240.0
STEP = (
    "exec 9>locks/${{LEFTOFF_STEP//\\//-}}; flock -n 9 || echo $LEFTOFF_STEP >> overlaps; "
    "echo $LEFTOFF_STEP $LEFTOFF_ATTEMPT >> starts; sleep {seconds}; {more}echo $LEFTOFF_STEP >> ends"
)


def script(seconds: float, more: str = "") -> str:
    """The script of a witnessed step, as a YAML value."""
    return json.dumps(STEP.format(seconds=seconds, more=more))


def definition(steps: int, seconds: float, *, most: int = MOST, width: int = 5) -> str:
    """A graph of batches: each step needs all steps of the batch before."""
    lines = ["name: witnessed", f"max_parallel: {most}", "steps:"]
    for number in range(steps):
        batch = number // width
        before = [f"s{n}" for n in range((batch - 1) * width, batch * width)] if batch else []
        lines += [f"  - id: s{number}", f"    needs: [{', '.join(before)}]"]
        lines += [f"    run: {script(seconds)}"]
    return "\n".join(lines) + "\n"


def mixed(items: int, seconds: float) -> tuple[str, list[str]]:
    """A workflow of every kind of step that a process does, and the paths of its attempts."""
    found = script(seconds, f"seq {items}; ")
    text = f"""
name: witnessed
max_parallel: {MOST}
steps:
  - id: first
    steps:
      - {{id: a, run: {script(seconds)}}}
      - {{id: b, needs: [], run: {script(seconds)}}}
      - id: each
        foreach: {{command: {found}}}
        max_parallel: {MOST - 1}
        run: {script(seconds, "echo {{ item }} > out-{{ item }}; ")}
        outputs: ["out-{{{{ item }}}}"]
        checks: ["test -s out-{{{{ item }}}}", "sleep {seconds}"]
  - id: last
    steps:
      - id: listed
        foreach: {json.dumps([f"x{number}" for number in range(items)])}
        run: {script(seconds)}
      - {{id: c, needs: [], run: {script(seconds)}}}
  - {{id: end, run: {script(seconds)}}}
"""
    paths = ["first/a", "first/b", "first/each", "last/c", "end"]
    paths += [f"first/each/{number + 1}" for number in range(items)]
    return text, paths + [f"last/listed/x{number}" for number in range(items)]


class Flow:
    """A run of a witnessed workflow in a folder of its own. ``broken`` names a deliberately broken driver."""

    def __init__(
        self, folder: Path, text: str, seed: int, *, broken: str = "", paths: list[str] | None = None
    ) -> None:
        self.folder = folder
        self.out = folder / "said"  # what the present driver says
        self.random = random.Random(seed)
        self.broken = broken
        self.paths = paths or [f"s{number}" for number in range(text.count("- id: "))]  # what must be done
        self.under: list[str] = []  # a command that starts the command: strace
        self.kills = self.with_children = 0
        self.done_at: dict[
            str, int
        ] = {}  # how often a step had been started when its exit code 0 was on disk
        (folder / "flow.yaml").write_text(text, encoding="utf-8")
        (folder / "locks").mkdir()

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        """A call of the command, or of its broken variant; under ``self.under``, where that is set."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("LEFTOFF_")}
        module = ["tests.crash.broken", self.broken] if self.broken else ["leftoff"]
        with self.out.open("wb") as out:
            return subprocess.Popen(
                [*self.under, sys.executable, "-m", *module, *words],
                cwd=self.folder,
                env={**env, "PYTHONPATH": str(ROOT)},
                stdout=out,
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
        self._note_exits()
        if self._run() is None:
            return self.command("run", "flow.yaml", "--run-id", "r")
        return self.command("resume", "r")

    def kill(self, driver: subprocess.Popen[bytes], *, children: bool) -> None:
        """SIGKILL for the driver; or for it and for everything that it started, all at once."""
        victims = [driver.pid, *(self.of_steps() if children else [])]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        driver.communicate()
        faults.made("kills")
        self.kills += 1
        self.with_children += children

    def of_steps(self) -> list[int]:
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

    def _note_exits(self) -> None:
        """Steps whose exit code 0 is on disk by now, and how often each was started."""
        starts = self.starts()
        step_of = {token: step for step, tokens in starts.items() for token in tokens}
        for path in (self.folder / ".leftoff" / "attempts").glob("*/*/exit"):
            try:
                code = json.loads(path.read_bytes())["code"]
            except (OSError, ValueError):
                continue
            step = step_of.get(path.parent.name)
            if code == 0 and step is not None:
                self.done_at.setdefault(step, len(starts[step]))

    def until_done(
        self, kills: int, longest: float, *, children: bool | None = None, rest: float = 0.3
    ) -> None:
        """Kill the driver at so many random moments, then let it end. ``children`` None: its steps too, or not.

        ``rest``: how often the next driver comes only when the steps that outlived the last one have ended.
        """
        for _ in range(kills):
            driver = self.go()
            self._let(driver, longest)
            if driver.poll() is not None:
                break
            with_children = self.random.random() < 0.5 if children is None else children
            self.kill(driver, children=with_children)
            if self.random.random() < rest:
                self._until(None, lambda: not self.of_steps(), PATIENCE)
        else:
            driver = self.go()
        _, said = driver.communicate(timeout=PATIENCE)
        check(driver.returncode == 0, f"the run ended with {driver.returncode}: {said.decode()}")

    def _let(self, driver: subprocess.Popen[bytes], longest: float) -> None:
        """Let it live for a random time, from its birth or, most often, from its first word."""
        if self.random.random() < 0.8:
            self._until(driver, lambda: self.out.stat().st_size > 0, PATIENCE)
        self._until(driver, lambda: False, self.random.uniform(0.0, longest))

    def _until(
        self, driver: subprocess.Popen[bytes] | None, found: Callable[[], bool], seconds: float
    ) -> None:
        deadline = time.monotonic() + seconds
        while (driver is None or driver.poll() is None) and not found() and time.monotonic() < deadline:
            time.sleep(0.002)

    def close(self) -> None:
        """Nothing runs on, whatever happened."""
        for pid in self.of_steps():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

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

    # -- what the store says

    def attempts(self) -> dict[str, list[tuple[str, int | None]]]:
        """The attempts on record, by step: token and exit code, the oldest first."""
        out: dict[str, list[tuple[str, int | None]]] = {}
        for attempt in self._run() or []:
            out.setdefault(attempt.step, []).append((attempt.token, attempt.exit_code))
        return out

    def _run(self) -> list[Any] | None:
        """The attempts of the run; ``None`` where there is no run yet."""
        if not (self.folder / ".leftoff" / "store.db").exists():
            return None
        store = SqliteStore(str(self.folder / ".leftoff"))

        def look(view: View) -> list[Any] | None:
            row = view.find_run("r")
            return None if row is None else view.attempts(row.run)

        try:
            return store.read(look) if store.exists() else None
        finally:
            store.close()


def verify(flow: Flow, most: int = MOST) -> None:
    """Everything that must hold of a run that was killed so often, and is done."""
    starts, attempts = flow.starts(), flow.attempts()
    missing = set(flow.paths) - set(flow.lines("ends"))
    check(not missing, f"steps that never ended: {missing}")
    check(not flow.lines("overlaps"), f"steps that ran twice at once: {flow.lines('overlaps')}")
    started = [token for tokens in starts.values() for token in tokens]
    recorded = [token for known in attempts.values() for token, _ in known]
    check(len(started) == len(set(started)), "an attempt started twice")
    check(set(started) <= set(recorded), f"started, and not on record: {set(started) - set(recorded)}")
    unstarted = len(recorded) - len(started)
    check(
        unstarted <= flow.with_children * most,
        f"{unstarted} attempts are on record and never started; {flow.with_children} kills took children",
    )
    verify_successes(flow, starts, attempts)
    extra = len(started) - len(flow.paths)
    check(extra <= flow.with_children * most, f"{extra} extra starts for {flow.with_children} kills")
    verify_records(flow, attempts)


def verify_successes(
    flow: Flow, starts: dict[str, list[str]], attempts: dict[str, list[tuple[str, int | None]]]
) -> None:
    """Nothing was started again once its exit code 0 was written, in the store or beside it."""
    early = [step for step, known in attempts.items() if any(code == 0 for _, code in known[:-1])]
    check(not early, f"started after a recorded exit 0: {early}")
    again = [step for step, count in flow.done_at.items() if len(starts[step]) > count]
    check(not again, f"started after exit 0 was on disk: {again}")


def verify_records(flow: Flow, attempts: dict[str, list[tuple[str, int | None]]]) -> None:
    """The run's records agree with it, and the store is in order."""
    shown = flow.json("show", "r")
    check(shown["status"] == "completed", f"the run is {shown['status']}")
    known = {record["step"]: (record["status"], record["attempt"]) for record in shown["step_records"]}
    expected = {step: ("completed", len(attempts[step]) if step in attempts else None) for step in known}
    check(attempts.keys() == set(flow.paths), f"attempts at {attempts.keys() ^ set(flow.paths)}")
    wrong = {step: (known[step], expected[step]) for step in known}
    wrong = {step: pair for step, pair in wrong.items() if pair[0] != pair[1]}
    check(not wrong, f"records that are not what happened: {wrong}")
    report = flow.json("fsck")
    check(report["ok"], f"fsck found damage: {report}")
