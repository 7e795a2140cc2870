"""Durable functions against DBOS on SQLite: steps per second, and how soon a killed workflow is back at work."""

from __future__ import annotations

import math
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.registry import Context, Row, case
from bench.remote import ROOT, SideFailed, side
from bench.rounds import Comparison, interleave

SIDES = ("functions_ours", "functions_durable")


def script(name: str, mode: str, folder: Path, count: int, kill: int) -> subprocess.CompletedProcess[str]:
    """Run one of the two programs in a process of its own."""
    command = [sys.executable, "-m", f"bench.sides.{name}", mode, str(folder), str(count), str(kill)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def seed(name: str, folder: Path, count: int, kill: int) -> Path:
    """What a process leaves behind that was killed in a step."""
    folder.mkdir()
    done = script(name, "seed", folder, count, kill)
    if done.returncode != -signal.SIGKILL:
        raise SideFailed(f"{name} seed ended with {done.returncode}: {done.stderr[-2000:]}")
    return folder


def resume(name: str, seeded: Path, scratch: Path, count: int, kill: int) -> float:
    """Seconds from before the process is started to its first new step: both clocks are the system's monotonic one."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(seeded, scratch)
    began = time.perf_counter()
    done = script(name, "resume", scratch, count, kill)
    if done.returncode != 0 or not done.stdout:
        raise SideFailed(f"{name} resume ended with {done.returncode}: {done.stderr[-2000:]}")
    taken = float(done.stdout) - began
    if math.isnan(taken):
        raise SideFailed(f"{name}: a finished step ran again")
    return taken


@case("functions", "durable functions: 1,000 trivial steps, and killed at 900")
def functions(context: Context) -> Iterator[Row]:
    """`@leftoff.step` in `@leftoff.workflow` against `@DBOS.step` in `@DBOS.workflow`."""
    count, kill = context.pick(1_000, 200), context.pick(900, 180)
    with (
        context.folder("disk") as folder,
        side("bench.sides.functions_ours:Steps", folder) as ours,
        side("bench.sides.durable:Steps", folder) as peer,
    ):
        steps = Comparison(*interleave([ours, peer], context.rounds(7), count))
        facts = {f"dbos_{key}": value for key, value in peer.call("facts").items()}
    raw = steps.rates("dbos") | facts
    yield Row("durable functions / DBOS on SQLite, steps per second", steps.speed, at_least=5, aim=8, raw=raw)
    yield resuming(context, count, kill)


def resuming(context: Context, count: int, kill: int) -> Row:
    """Both from process start, imports and all; the sides take turns."""
    taken: dict[str, list[float]] = {name: [] for name in SIDES}
    with context.folder("disk") as folder:
        seeded = {name: seed(name, folder / name, count, kill) for name in SIDES}
        for _ in range(context.rounds(7, 2)):
            for name, times in taken.items():
                times.append(resume(name, seeded[name], folder / "scratch", count, kill))
    ours, dbos = taken.values()
    return Row(
        f"DBOS's time / leftoff's, from process start to the first new step, killed at {kill}",
        statistics.median(b / a for a, b in zip(ours, dbos, strict=True)),
        at_least=5,
        raw={
            "leftoff_ms": round(statistics.median(ours) * 1e3, 1),
            "dbos_ms": round(statistics.median(dbos) * 1e3, 1),
        },
    )
